"""Evaluation workers for functions of scripts: each runs whole episodes in its own environments.

They run a trainer's policies in this process, one after the other; ``.remote`` works too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from rookery.face import BoundedEpisodes, Callback, Episode, Role, Streams, make_copies
from rookery_rllib.base import ray_core
from rookery_rllib.batch.sample_batch import MultiAgentBatch, SampleBatch
from rookery_rllib.config.defaults import merge_trainer_configs
from rookery_rllib.env.making import with_settings
from rookery_rllib.policy.callbacks import EpisodeBook
from rookery_rllib.policy.episodes import MultiAgentEpisode
from rookery_rllib.trainer import workers


class Recorder(Callback):
    """Records steps as rows by policy."""

    def __init__(self, book: EpisodeBook) -> None:
        self.book = book
        self.rows: dict[str, list[dict[str, Any]]] = {}
        self._seen: dict[int, dict[Any, Any]] = {}
        self._running: dict[int, list[dict[str, Any]]] = {}

    def on_episode_start(self, episode: Episode) -> None:
        known = self.book.of(episode)
        self._seen[episode.lane] = {agent: known.last_observation_for(agent) for agent in known.get_agents()}
        self._running[episode.lane] = []

    def on_episode_step(self, episode: Episode) -> None:
        known = self.book.of(episode)
        seen = self._seen[episode.lane]
        for number, agent in enumerate(known.get_agents()):
            after = known.last_observation_for(agent)
            if agent in seen and known.last_action_for(agent) is not None:
                self._running[episode.lane].append(self._row(known, number, agent, seen[agent], after))
            seen[agent] = after

    def _row(self, known: MultiAgentEpisode, number: int, agent: Any, before: Any, after: Any) -> dict[str, Any]:
        return {
            "policy": known.policy_for(agent), "obs": before, "new_obs": after,
            "actions": known.last_action_for(agent), "rewards": known.prev_reward_for(agent), "dones": False,
            "infos": known.last_info_for(agent), "eps_id": known.episode_id, "agent_index": number,
            "t": known.length - 1,
        }  # fmt: skip

    def on_episode_end(self, episode: Episode) -> None:
        rows = self._running.pop(episode.lane, [])
        last = {row["agent_index"]: row for row in rows}
        for row in last.values():
            row["dones"] = True
        for row in rows:
            self.rows.setdefault(row.pop("policy"), []).append(row)

    def batch(self, env_steps: int) -> Any:
        """Returns the rows of all episodes that have ended, agent by agent: a `SampleBatch`, or a `MultiAgentBatch`."""
        found = {}
        for name, rows in self.rows.items():
            ordered = sorted(rows, key=lambda row: (row["eps_id"], row["agent_index"]))
            found[name] = SampleBatch({key: column(key, [row[key] for row in ordered]) for key in ordered[0]})
        return MultiAgentBatch.wrap_as_needed(found, env_steps)


def column(key: str, values: list[Any]) -> Any:
    """Returns the values of all rows as an array; infos and composite actions stay objects."""
    if key == "infos" or isinstance(values[0], Mapping | tuple):
        whole = np.empty(len(values), dtype=object)
        whole[:] = values
        return whole
    return np.stack([np.asarray(value) for value in values])


class EvaluationWorker(workers.RolloutWorker):
    """Runs a trainer's policies in its own environments, made with ``evaluation_config``."""

    def __init__(self, trainer: Any, worker_index: int, num_workers: int) -> None:
        super().__init__(trainer)
        evaluation = trainer.translation.evaluation
        self.worker_index = worker_index
        self._config = merge_trainer_configs(
            trainer.config, {**evaluation["config"], "num_workers": num_workers, "in_evaluation": True}, True
        )
        self._maker = trainer.env_maker.another(evaluation["config"].get("env_config"))
        self._maker.worker_index, self._maker.num_workers = worker_index, num_workers
        run = trainer.rookery.config
        bare = replace(run, env=replace(run.env, config={}, implementation="serial"))
        self._env = make_copies(with_settings(bare, self._maker, None), int(self._config["num_envs_per_worker"]))
        self._book = EpisodeBook(trainer.callbacks, trainer)
        self._ended: list[Any] = []
        self._samples = 0

    @property
    def _envs(self) -> list[Any]:
        found: list[Any] = self._maker.played(self._env)
        return found

    @property
    def env(self) -> Any:
        return self._envs[0]

    @property
    def num_workers(self) -> int:
        return int(self._maker.num_workers)

    @property
    def policy_config(self) -> dict[str, Any]:
        return self._config

    def foreach_env_with_context(self, func: Callable[[Any, Any], Any]) -> list[Any]:
        return [func(env, self._maker.context(place)) for place, env in enumerate(self._envs)]

    def sample(self) -> Any:
        """Runs an episode in each environment; returns observations, actions and rewards, without postprocessing."""
        trainer, run, lanes = self._trainer, self._trainer.rookery, self._env.num_lanes
        self._samples += 1
        self._book.forget()
        recorder = Recorder(self._book)
        played = BoundedEpisodes(
            self._env, run.policies, run._mapping,
            Streams(run._streams.integer(Role.EVALUATION, self.worker_index, self._samples)),
            deterministic=not trainer.translation.evaluation["explore"], episodes=lanes,
            limit=run.config.evaluation.max_episode_steps, listeners=[recorder, *self._book.listeners()],
        )  # fmt: skip
        with trainer._played_in(self._maker, self._env):
            played.play()
        self._ended += trainer._evaluation.episodes(played, self._book)
        return recorder.batch(sum(each.length for each in played.finished))

    def get_metrics(self) -> list[Any]:
        ended, self._ended = self._ended, []
        return ended

    def stop(self) -> None:
        self._env.close()


class EvaluationWorkers(workers.WorkerSet):
    """The evaluation workers: a local one, and ``evaluation_num_workers`` others."""

    def __init__(self, trainer: Any) -> None:
        count = int(trainer.config["evaluation_num_workers"])
        self._trainer, self._count = trainer, count
        self._made: EvaluationWorker | None = None
        self._others = [EvaluationWorker(trainer, number, count) for number in range(1, count + 1)]
        self._remote = [ray_core.wrap_as_actor(worker) for worker in self._others]

    def local_worker(self) -> EvaluationWorker:
        """Returns the local worker; its environments are made now."""
        if self._made is None:
            self._made = EvaluationWorker(self._trainer, 0, self._count)
        return self._made

    def remote_workers(self) -> list[Any]:
        return list(self._remote)

    def _here(self) -> list[Any]:
        return [self.local_worker(), *self._others]

    def stop(self) -> None:
        for worker in [*self._others, *([self._made] if self._made is not None else [])]:
            worker.stop()
