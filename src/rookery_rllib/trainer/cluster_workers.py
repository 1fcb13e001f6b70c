"""Workers of a trainer of 2021 on a joined cluster: whether that is possible (`why_local`), the trainer that callbacks
get there (`RemoteTrainerView`), and evaluation (`RemoteEvaluation`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import CodeType, SimpleNamespace
from typing import Any

import numpy as np
from gymnasium import Space

from rookery.face import ConfigError, EpisodeResult, EvaluationTask, EvaluationWorkers, LaneShare, VectorEnv, unsendable
from rookery_rllib.config.exploration_keys import own_exploration
from rookery_rllib.env.agent_mapping import episode_number
from rookery_rllib.env.external_env import ExternalEnv
from rookery_rllib.env.making import with_settings
from rookery_rllib.policy.callbacks import DefaultCallbacks, EpisodeBook, overrides
from rookery_rllib.policy.episodes import MultiAgentEpisode
from rookery_rllib.trainer import workers

EPISODE_MOMENTS = ("on_episode_start", "on_episode_step", "on_episode_end")
"""Hooks that are called in the process of the environment."""

REACHING = {"workers", "foreach_worker", "foreach_worker_with_index", "foreach_env", "foreach_env_with_context"}
"""Names by which a function accesses the environments of a trainer."""


def has_episode_hooks(callbacks: DefaultCallbacks) -> bool:
    """Returns whether callbacks override an episode hook."""
    return any(overrides(callbacks, moment) for moment in EPISODE_MOMENTS)


def why_local(trainer: Any) -> str:
    """Returns the reason to keep workers in the trainer's process; empty if they can be on a cluster."""
    config, maker, callbacks = trainer.config, trainer.env_maker, trainer.callbacks
    if trainer.has_clients or any(isinstance(env, ExternalEnv) for env in maker.made):
        return "clients or external environments need the trainer's process"
    if maker.copies is not None:
        return "a VectorEnv is one object with all its environments"
    for key, given in (("env_task_fn", config["env_task_fn"]), ("observation_fn", maker.rewritten)):
        if given:
            return f"{key} needs the environments in the trainer's process"
    if maker.filtered:
        return "observation_filter of the script sees the observations of all environments"
    for moment in ("on_postprocess_trajectory", "on_sample_end"):
        if overrides(callbacks, moment):
            return f"callbacks have {moment}, which reads running episodes"
    if overrides(callbacks, "on_train_result") and REACHING & names_in(callbacks):
        return "on_train_result of the callbacks uses the trainer's workers, and so its environments"
    if trainer.scripted_policies:
        return f"policy {trainer.scripted_policies[0]!r} is the script's own, and acts in the trainer's process"
    if any(map(own_exploration, trainer.policy_configs.values())):
        return "an exploration of the script's own acts in the trainer's process"
    there = RemoteTrainerView(trainer)
    parts = {
        "env": maker.creator,
        "env_config": maker.config,
        "policy_mapping_fn": there.mapping,
        "callbacks": callbacks,
        "config": there.config,
    }
    for path, part in parts.items():
        found = unsendable(part, path)
        if found is not None:
            return f"{found[0]} cannot be sent ({type(found[1]).__name__}: {found[1]})"
    return ""


def names_in(callbacks: DefaultCallbacks) -> set[str]:
    """Returns the names that the functions for ``on_train_result`` use, also in functions inside them."""
    own = vars(callbacks).get("on_train_result")
    hooks = list(own.args[0]) if isinstance(own, functools.partial) else [type(callbacks).on_train_result]
    hooks.append(callbacks.legacy_callbacks.get("on_train_result"))
    found: set[str] = set()
    codes = [code for each in hooks if isinstance(code := getattr(each, "__code__", None), CodeType)]
    while codes:
        code = codes.pop()
        found |= set(code.co_names) | {each for each in code.co_consts if isinstance(each, str)}
        codes += [each for each in code.co_consts if isinstance(each, CodeType)]
    return found


class RemotePolicies(Mapping[str, Any]):
    """The policies for callbacks in a worker on a cluster: their spaces alone."""

    def __init__(self, trainer: RemoteTrainerView) -> None:
        self._trainer = trainer

    def __getitem__(self, name: str) -> Any:
        if name not in self._trainer.names:
            raise KeyError(name)
        return RemotePolicy(name, self._trainer.space_of(name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._trainer.names)

    def __len__(self) -> int:
        return len(self._trainer.names)


class RemotePolicy:
    """A policy for callbacks in a worker on a cluster."""

    def __init__(self, name: str, space: Space[Any]) -> None:
        self._name, self.raw_observation_space = name, space

    def __getattr__(self, name: str) -> Any:
        raise ConfigError(
            f"callbacks: policies[{self._name!r}].{name}: policies act for callbacks in the trainer's process only, "
            "and workers are on a cluster; use it in on_learn_on_batch or on_train_result, or set num_workers to 0"
        )


class RemoteWorkerView(workers.RolloutWorker):
    @property
    def worker_index(self) -> int:  # type: ignore[override]
        return int(self._trainer.env_maker.worker_index or 0)

    @property
    def _envs(self) -> list[Any]:
        found: list[Any] = self._trainer.env_maker.made
        return found

    def foreach_env_with_context(self, func: Callable[[Any, Any], Any]) -> list[Any]:
        return [func(env, self._trainer.env_maker.context(place)) for place, env in enumerate(self._envs)]


class RemoteTrainerView:
    """View of a trainer in the processes of its workers on a cluster; it can be sent.

    Args:
        trainer: The trainer, as of 2021.

    Attributes:
        names: Names of the policies.
        mapping: Agent to policy; None if there is one policy, or policies are named like agents.
    """

    assigned: Mapping[int, Any] = {}
    explorers: Mapping[str, Any] = {}
    policy_configs: Mapping[str, Any] = {}

    def __init__(self, trainer: Any) -> None:
        self.env_maker, self.callbacks, self.agent_ids = trainer.env_maker, trainer.callbacks, trainer.agent_ids
        self.is_multi_agent, self.names = trainer.is_multi_agent, list(trainer.translation.policies)
        self.mapping = trainer.recorded_mapping
        self.config = {key: value for key, value in trainer.config.items() if key not in ("callbacks", "logger_config")}
        self.policy_facades = RemotePolicies(self)
        self.workers = SimpleNamespace(local_worker=functools.partial(RemoteWorkerView, self))
        self._kinds: list[tuple[tuple[str, ...], Space[Any]]] = []

    @property
    def _envs(self) -> list[Any]:
        found: list[Any] = self.env_maker.made
        return found

    def set_share(self, share: LaneShare, env: VectorEnv) -> None:
        self._kinds = [(kind.agents, kind.obs.space) for kind in env.kinds]

    def _place(self, lane: int, index: int) -> tuple[int, int]:
        """Returns the environment and the number of an episode in the whole run."""
        share = self.env_maker.share
        return (lane, index) if share is None else share.place(lane, index)

    def mapped_number(self, lane: int, index: int) -> int | None:
        """Returns the id of an episode that the mapping function of the script gets; None without such a function."""
        return None if self.mapping is None else episode_number(*self._place(lane, index))

    def policy_of(self, lane: int, index: int, agent: Any) -> str:
        known = None if self.mapping is None else self.mapping.recorded(*self._place(lane, index), agent)
        return known or (str(agent) if str(agent) in self.names else self.names[0])

    def space_of(self, policy: str) -> Space[Any]:
        played = (self.mapping.players(policy) if self.mapping is not None else set()) | {policy}
        return next((space for agents, space in self._kinds if played & set(agents)), self._kinds[0][1])


class RemoteEpisodes(EpisodeBook):
    """Stores the episodes of a worker on a cluster; metrics of callbacks are sent with each."""

    def __init__(self, trainer: RemoteTrainerView) -> None:
        super().__init__(trainer.callbacks, trainer)

    def set_share(self, share: LaneShare, env: VectorEnv) -> None:
        self.trainer.set_share(share, env)

    def end(self, episode: MultiAgentEpisode) -> None:
        """Removes a running episode, and stores its metrics for sending."""
        super().end(episode)
        self.ended.clear()
        played = episode.played
        for name, value in episode.custom_metrics.items():
            if np.ndim(value) == 0 and np.isfinite(float(value)):
                played.metrics[name] = float(value)
        for name, values in episode.hist_data.items():
            played.histograms[name] = [float(value) for value in values]


class RemoteEvaluation:
    """The workers on a cluster that evaluate a trainer's policies, each with a share of the environments."""

    def __init__(self, trainer: Any) -> None:
        run, evaluation = trainer.rookery, trainer.translation.evaluation
        env_config = evaluation["config"].get("env_config")
        maker = trainer.env_maker.another(env_config) if trainer.makes_environments else None
        config = with_settings(run.config, maker, env_config)
        episodes = int(evaluation["episodes"])
        lanes = max(min(episodes, config.evaluation.num_envs), min(episodes, evaluation["workers"]))
        config = replace(config, evaluation=replace(config.evaluation, num_envs=lanes))
        self._run, self._episodes, self._deterministic = run, episodes, not evaluation["explore"]
        self._workers = EvaluationWorkers(config, run._streams, run._draws, run._interrupt, run._note)

    def ask(self) -> None:
        """Starts an evaluation of the current policies."""
        run = self._run
        limit = run.config.evaluation.max_episode_steps
        task = EvaluationTask(run.policies, run._mapping, {}, self._episodes, self._deterministic, limit)
        self._workers.ask(task, run.env_steps)

    def answer(self) -> list[EpisodeResult]:
        """Returns the episodes of the evaluation, in their order; starts one if none is under way."""
        if not self._workers.under_way:
            self.ask()
        played, _ = self._workers.answer()
        return sorted(played.finished, key=lambda each: each.index * played.lanes + each.lane)

    def close(self) -> None:
        self._workers.close()
