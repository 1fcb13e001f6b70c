"""Trainers of 2021: PPOTrainer and its like, whose ``train()`` is an iteration of an ordinary `rookery.Trainer`.

`Trainer.setup` makes that trainer from the configuration; `Trainer.step` is the iteration. What algorithms differ in is
a line of `ALGORITHMS`.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from math import isclose
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np

import rookery
from rookery.compat.rllib.batches import LearnHook
from rookery.compat.rllib.callbacks import DefaultCallbacks, EpisodeBook, overrides
from rookery.compat.rllib.catalog import ModelCatalog, custom_model, network_factory
from rookery.compat.rllib.config import translated
from rookery.compat.rllib.custom_loss import add_custom_loss
from rookery.compat.rllib.defaults import COMMON_CONFIG, DEFAULT_CONFIGS, DEFAULT_POLICY_ID, merge_trainer_configs
from rookery.compat.rllib.envs import EnvContext
from rookery.compat.rllib.gym_registry import make as make_gym
from rookery.compat.rllib.gym_registry import registry as gym_registry
from rookery.compat.rllib.model_v2 import ModelV2, ScriptNetwork
from rookery.compat.rllib.notices import say_once
from rookery.compat.rllib.old_envs import adapted, speaks_in_dicts
from rookery.compat.rllib.old_ids import Todays, todays
from rookery.compat.rllib.policies import LearnedPolicy, Policy, as_arrays
from rookery.compat.rllib.preprocessors import get_preprocessor
from rookery.compat.rllib.results import (
    EndedEpisode,
    EpisodeWindow,
    Stopwatch,
    counters,
    learner_stats,
    performance,
    summarized,
)
from rookery.compat.rllib.script_policies import ScriptPolicyConfig
from rookery.compat.rllib.trainable import Trainable
from rookery.compat.rllib.tuning.registry import registered_env
from rookery.compat.rllib.workers import WorkerSet
from rookery.core.errors import ConfigError, nearest
from rookery.core.layers import Layer
from rookery.report.results import IterationResult
from rookery.rollout.hooks import EpisodeResult
from rookery.training.checkpoint import read_checkpoint
from rookery.training.endless import BoundedEpisodes
from rookery.training.evaluation import bounded
from rookery.training.prepare import make_copies

STATE = "rookery.json"
"""Text of the file ``checkpoint-31``, whose directory is a checkpoint of ours."""

PLANS = {
    "on policy": (
        "play: rollout fragments of all copies until train_batch_size (rollout/worker.py:RolloutWorker.sample)",
        "targets: advantages and value targets (algorithms/ppo.py:PPO.targets)",
        "learn: num_sgd_iter passes in minibatches (algorithms/ppo.py:PPO.training_step)",
        "hand out weights (rollout/pool.py:LocalPool.set_weights)",
        "report (training/results.py:result_of)",
    ),
    "replay": (
        "play: rollout_fragment_length steps of all copies (rollout/worker.py:RolloutWorker.sample)",
        "store in replay (replay/replay.py:Replay.store)",
        "learn from replay as much as is due (algorithms/dqn.py:DQN.learn)",
        "target network follows (core/optim.py:track)",
        "hand out weights (rollout/pool.py:LocalPool.set_weights)",
        "report (training/results.py:result_of)",
    ),
}
"""Steps of the loop, with the functions that make them."""


class Trainer(Trainable):
    """Trains policies as a configuration of 2021 says. Subclasses name the algorithm.

    Args:
        config: Keys that differ from the defaults.
        env: An environment: a class, a registered name, or an id of gym; None = the key ``env``.
        logger_creator: As of `Trainable`.

    Raises:
        ConfigError: For keys that are unknown or cannot be.
    """

    _name: ClassVar[str] = ""
    _default_config: ClassVar[dict[str, Any]] = COMMON_CONFIG
    _policy_class: ClassVar[Any] = None
    _allow_unknown_configs: ClassVar[bool] = False

    def __init__(
        self,
        config: dict[str, Any] | None = None,
        env: Any = None,
        logger_creator: Callable[[dict[str, Any]], Any] | None = None,
    ) -> None:
        config = dict(config or {})
        if env is not None:
            config["env"] = env
        self._env_id = env_name(config.get("env"))
        super().__init__(config, logger_creator)

    def _directory_prefix(self, config: dict[str, Any]) -> str:
        return f"{self}_{self._env_id}"

    # --- making the trainer -------------------------------------------------------------------------------------------

    @property
    def algorithm(self) -> str:
        """Name of the algorithm, of which a script's own trainer is a variant."""
        return next(str(name) for cls in type(self).__mro__ if (name := vars(cls).get("_algorithm")))

    def setup(self, config: dict[str, Any]) -> None:
        """Makes the environments, policies and algorithms."""
        self.raw_user_config = config
        own = differing(self._default_config, DEFAULT_CONFIGS[self.algorithm])
        self._envs: list[Any] = []
        self.assigned: dict[int, dict[int, dict[Any, str]]] = {}
        given = {**own, **config}
        env, context = given.get("env"), given.get("env_config") or {}
        if env is None:
            raise ConfigError(f"{self}: env is missing: PPOTrainer(config={{'env': MyEnv}}), or env=...")
        self._known = self._todays(env)
        first = None if self._known is not None else self._make(env, context)
        agents = list(first.reset(seed=0)[0]) if first is not None and speaks_in_dicts(self._envs[0]) else None
        self.translation = translated(self.algorithm, given, agents=agents)
        self.config = self.translation.config
        self.config["env"] = env
        self.validate_config(self.config)
        for line in self.translation.notes:
            say_once(f"{self}: {line}")
        self.callbacks = self._make_callbacks(self.translation.callbacks)
        self.book = EpisodeBook(self.callbacks, self)
        self.policy_facades: dict[str, Policy] = {}
        self.workers = WorkerSet(self)
        self.rookery = self._make_rookery(first)
        self._make_facades()
        for name, learner in self.rookery.learners.items():
            add_custom_loss(learner)
            if any(overrides(self.callbacks, moment) for moment in LearnHook.MOMENTS):
                learner.hooks.append(LearnHook(self, name))
        self._window = EpisodeWindow(self.config["metrics_smoothing_episodes"])
        self._stopwatch = Stopwatch(self.rookery.timers)
        self._steps_before = self._decisions_before = 0
        self._init(self.config, self.env_creator)

    def _init(self, config: dict[str, Any], env_creator: Callable[..., Any]) -> None:
        """Does whatever a subclass wants to do at the end of `setup`."""

    def validate_config(self, config: dict[str, Any]) -> None:
        """Checks a configuration; subclasses may write it."""

    def _make_callbacks(self, given: Any) -> DefaultCallbacks:
        if isinstance(given, Mapping):
            return DefaultCallbacks(given)
        if given is not None and not callable(given):
            raise ConfigError(f"callbacks = {given!r}: must be a class derived from DefaultCallbacks")
        made: DefaultCallbacks = DefaultCallbacks() if given is None else given()
        if not isinstance(made, DefaultCallbacks):
            raise ConfigError(f"callbacks = {given!r}: must be a class derived from DefaultCallbacks")
        return made

    def _todays(self, env: Any) -> Todays | None:
        """What Gymnasium's environment of an id is, which Rookery makes itself; None of the script's own."""
        if not isinstance(env, str) or registered_env(env) is not None or env in gym_registry.own:
            return None
        found = todays(env)
        if found.line:
            say_once(f"gym id {env} is {found} today: {found.line}")
        return found if found.id in gymnasium.registry else None

    @property
    def env_creator(self) -> Callable[[Any], Any]:
        """Makes an environment of the script from its settings."""
        env = self.raw_user_config.get("env") or self.config.get("env")
        return creator_of(env)

    def _make(self, env: Any, context: Any) -> Any:
        """Makes a copy of the environment, in the form that Rookery takes; remembers the script's own object."""
        made = creator_of(env)(EnvContext(context, worker_index=0, vector_index=len(self._envs), num_workers=0))
        self._envs.append(made)
        return adapted(made, self._spaces_of_agent)

    def _spaces_of_agent(self, agent: Any) -> Any:
        """Spaces of an agent that its environment does not tell: those of its policy."""
        mapping = self.translation.policy_mapping
        entry = self.translation.policies.get(DEFAULT_POLICY_ID if mapping is None else mapping(agent, None))
        return None if entry is None else (entry.observation_space, entry.action_space)

    def _make_rookery(self, first: Any) -> rookery.Trainer:
        """Makes the trainer of Rookery that does the work."""
        told = self.translation
        spare = [] if first is None else [first]

        def make() -> Any:
            return spare.pop() if spare else self._make(told.env, told.env_config)

        make.__name__ = self._env_id
        env: Any = make
        layers = list(told.layers)
        if self._known is not None:
            env, limit = self._known.id, self._known.max_episode_steps
            steps = {} if limit is None else {"max_episode_steps": limit}
            layers.append(
                Layer("rllib config: env_config", {"env.config": {**self._known.kwargs, **told.env_config, **steps}})
            )
        policies: dict[str, Any] = {}
        for name, entry in told.policies.items():
            policies[name] = {} if entry.trained else {"frozen": True}
            layers += self._policy_layers(name, entry)
        return rookery.Trainer(
            env,
            config=[*layers, Layer("trainer", {"logging.console": "quiet"})],
            policies=policies,
            policy_mapping=None if told.policy_mapping is None else self._note_mapping,
            callbacks=self.book.listeners(),
        )

    def _policy_layers(self, name: str, entry: Any) -> list[Layer]:
        """What a policy has that is more than values: a model, or an algorithm of the script's."""
        cls = entry.policy_class or self._policy_class
        layers, own = [], {**self.config, **entry.config}
        options = merge_trainer_configs(self.config["model"], entry.config.get("model") or {}, True)
        learned = None if cls is None else getattr(cls, "algorithm", None)
        if cls is not None and learned is None:
            config = ScriptPolicyConfig(policy_class=cls, config=own, fragment_length=own["rollout_fragment_length"])
            return [Layer(f"policy {name}", {f"policies.{name}": config})]
        if learned is not None and learned != self.algorithm:
            keys = DEFAULT_CONFIGS[learned]
            shared = {key: value for key, value in self.raw_user_config.items() if key in keys and key != "multiagent"}
            other = translated(learned, {**shared, **entry.config})
            values = {
                f"policies.{name}.{path.removeprefix('algorithm.')}": value
                for path, value in other.settings.items()
                if path.startswith("algorithm.")
            }
            layers.append(Layer(f"policy {name}: {learned}", values))
        if custom_model(options) is not None:
            values = {
                f"policies.{name}.model.module": ScriptNetwork,
                f"policies.{name}.model.gives": "outputs",
                f"policies.{name}.model.hidden": (),
                f"policies.{name}.model.module_config": {"make": network_factory(options), "options": options},
            }
            layers.append(Layer(f"policy {name}: custom_model", values))
        return layers

    def _note_mapping(self, agent: Any, episode: Any) -> str:
        """Which policy plays an agent, kept so that callbacks can be told."""
        mapping = self.translation.policy_mapping
        assert mapping is not None
        policy = mapping(agent, episode)
        by_index = self.assigned.setdefault(episode.lane, {})
        if episode.index not in by_index:
            for old in [index for index in by_index if index < episode.index - 1]:
                del by_index[old]
            by_index[episode.index] = {}
        by_index[episode.index][agent] = policy
        return policy

    def policy_of(self, lane: int, index: int, agent: Any) -> str:
        """Returns the policy that plays an agent in an episode of a copy."""
        known = self.assigned.get(lane, {}).get(index, {}).get(agent)
        if known is not None:
            return known
        names = list(self.translation.policies)
        return agent if agent in names else names[0]

    def _make_facades(self) -> None:
        for name in self.translation.policies:
            if name not in self.policy_facades and name in self.rookery.policies:
                actor = self.rookery.policies[name]
                own = getattr(actor, "script_policy", None)
                config = {**self.config, **self.translation.policies[name].config}
                cls = self.translation.policies[name].policy_class or self._policy_class or LearnedPolicy
                self.policy_facades[name] = own if own is not None else cls(self.rookery, name, config)

    # --- an iteration -------------------------------------------------------------------------------------------------

    def step(self) -> dict[str, Any]:
        """Plays and learns for one iteration; returns the result of 2021."""
        found = self.rookery.train_iteration()
        self._make_facades()
        every = self.translation.evaluation["interval"]
        result = self._result(found)
        if every and (self.iteration + 1) % every == 0:
            result |= self.evaluate()
        self._steps_before = found.env_steps
        if overrides(self.callbacks, "on_train_result"):
            self.callbacks.on_train_result(trainer=self, result=result)
        return result

    def _result(self, found: IterationResult) -> dict[str, Any]:
        ended = self.take_episodes()
        told = summarized(self._window.with_earlier(ended), len(ended))
        counted = counters(found, self._steps_before, self.decisions)
        counted["num_healthy_workers"] = int(self.config["num_workers"])
        info = counted.pop("info")
        info["learner"] = {}
        for name, learner in self.rookery.learners.items():
            model = getattr(self.policy_facades.get(name), "model", None)
            measured = as_arrays(model.metrics()) if isinstance(model, ModelV2) else {}
            stats = learner_stats(found.policies[name].learning, learner.now(), measured)
            reported = next((hook.reported for hook in learner.hooks if isinstance(hook, LearnHook)), {})
            more = {"custom_metrics": dict(reported)} if reported else {}
            info["learner"][name] = {"learner_stats": stats, **learner_extras(stats), **more}
        spent = performance(self._stopwatch.since(), counted["timesteps_this_iter"])
        return {**told, **counted, "info": info, **spent}

    @property
    def decisions(self) -> int:
        """Decisions of all agents so far."""
        playing = self.rookery.pool.worker.policies.values()
        return self._decisions_before + sum(policy.acted for policy in playing)

    def take_episodes(self) -> list[EndedEpisode]:
        """Returns the episodes that have ended since the last call."""
        return [ended_episode(episode) for episode in self.book.take()]

    def evaluate(self, episodes_left_fn: Any = None) -> dict[str, Any]:
        """Plays episodes to measure, exploring unless ``evaluation_config`` says otherwise; nothing is learned."""
        told = self.translation.evaluation
        if told["custom_function"] is not None:
            return {"evaluation": told["custom_function"](self, self.workers)}
        count = int(told["episodes"])
        book = EpisodeBook(self.callbacks, self)
        known = self._envs, self.assigned  # of the copies that are learned from
        self._envs, self.assigned = [], {}
        try:
            played = self._measured(book, count, not told["explore"])
        finally:
            self._envs, self.assigned = known
        of_lane: dict[int, list[Any]] = {}
        for each in book.take():
            of_lane.setdefault(each.env_id, []).append(each)
        episodes = [
            as_measured(each, of_lane.get(each.lane, []))
            for each in sorted(played.finished, key=lambda each: each.index * played.env.num_lanes + each.lane)
        ]
        steps = sum(each.length for each in episodes)
        spent = performance({}, steps)["sampler_perf"]
        return {
            "evaluation": {**summarized(episodes, len(episodes)), "sampler_perf": spent, "timesteps_this_iter": steps}
        }

    def _measured(self, book: EpisodeBook, count: int, deterministic: bool) -> BoundedEpisodes:
        """Plays so many episodes in copies of their own, of which callbacks are told as of others."""
        run = self.rookery
        with closing(make_copies(run.config, min(count, run.config.evaluation.num_envs))) as env:
            played = bounded(run, env, count, deterministic, listeners=book.listeners())
            played.play()
        return played

    # --- acting -------------------------------------------------------------------------------------------------------

    def compute_single_action(
        self,
        observation: Any = None,
        state: Any = None,
        prev_action: Any = None,
        prev_reward: Any = None,
        info: Any = None,
        policy_id: str = DEFAULT_POLICY_ID,
        full_fetch: bool = False,
        explore: bool | None = None,
        unsquash_actions: bool | None = None,
        clip_actions: bool | None = None,
        **kwargs: Any,
    ) -> Any:
        """Computes an action of an observation, both as the environment has them.

        Returns:
            The action; with a state or `full_fetch` the action, the state after, and what else there is to say.
        """
        state = state or []
        actions, states, extra = self._actions([observation], [np.asarray(part)[None] for part in state], policy_id,
                                               explore)  # fmt: skip
        if not (state or full_fetch):
            return actions[0]
        return actions[0], [part[0] for part in states], {name: value[0] for name, value in extra.items()}

    compute_action = compute_single_action

    def compute_actions(
        self,
        observations: Any,
        state: Any = None,
        prev_action: Any = None,
        prev_reward: Any = None,
        info: Any = None,
        policy_id: str = DEFAULT_POLICY_ID,
        full_fetch: bool = False,
        explore: bool | None = None,
        **kwargs: Any,
    ) -> Any:
        """Computes the actions of several agents of one policy, by agent; see `compute_single_action`."""
        names = list(observations)
        states = [np.stack([np.asarray(state[name][i]) for name in names]) for i in range(len(state[names[0]]))] \
            if state else []  # fmt: skip
        actions, after, extra = self._actions([observations[name] for name in names], states, policy_id, explore)
        by_name = dict(zip(names, actions, strict=True))
        if not (state or full_fetch):
            return by_name
        return by_name, after, extra

    def _actions(self, observations: Sequence[Any], state: Any, policy_id: str, explore: bool | None) -> Any:
        policy = self.get_policy(policy_id)
        if isinstance(policy, LearnedPolicy):
            return policy.act_on(observations, state, explore)
        rows = np.stack([self.workers.local_worker().preprocessors[policy_id].transform(obs) for obs in observations])
        return policy.compute_actions(rows, state, explore=explore)

    # --- looking inside -----------------------------------------------------------------------------------------------

    def get_policy(self, policy_id: str = DEFAULT_POLICY_ID) -> Any:
        """Returns the face of a policy; None if there is none of this name."""
        return self.policy_facades.get(policy_id)

    def get_weights(self, policies: Sequence[str] | None = None) -> dict[str, Any]:
        """Returns the weights of policies by name."""
        return {name: self.policy_facades[name].get_weights() for name in policies or self.policy_facades}

    def set_weights(self, weights: Mapping[str, Any]) -> None:
        """Takes over weights of policies by name."""
        for name, values in weights.items():
            if name not in self.policy_facades:
                raise ConfigError(
                    f"set_weights: there is no policy {name!r}; there are {', '.join(self.policy_facades)}"
                )
            self.policy_facades[name].set_weights(values)

    @property
    def execution_plan(self) -> list[str]:
        """The steps of the loop, in order, with the functions that make them."""
        kind = "replay" if self.rookery.replays else "on policy"
        return list(PLANS[kind])

    @property
    def local_replay_buffer(self) -> Any:
        """The replay memories by policy: their `save` writes one, and ``replay.start_from`` reads it."""
        return self.rookery.replays or None

    def export_policy_model(self, export_dir: str, policy_id: str = DEFAULT_POLICY_ID, onnx: int | None = None) -> None:
        """Writes a policy; ``rookery.load_policy`` reads the directory."""
        self.get_policy(policy_id).export_model(export_dir)

    def export_policy_checkpoint(self, export_dir: str, filename_prefix: str = "model", policy_id: str = "") -> None:
        """Writes a checkpoint of the trainer, which holds the policy."""
        self.rookery.save(export_dir)

    def collect_metrics(self, selected_workers: Any = None) -> dict[str, Any]:
        """Returns what is known of the episodes that have ended since the last result."""
        ended = self.take_episodes()
        return summarized(self._window.with_earlier(ended), len(ended))

    # --- saving -------------------------------------------------------------------------------------------------------

    def save_checkpoint(self, tmp_checkpoint_dir: str) -> str:
        """Writes a checkpoint of Rookery into the directory, and the file that stands for it."""
        folder = Path(tmp_checkpoint_dir)
        made = self.rookery.save(folder.with_name(folder.name + ".new"))
        for part in made.iterdir():
            os.replace(part, folder / part.name)
        made.rmdir()
        path = folder / f"checkpoint-{self.iteration}"
        told = {"trainer": str(self), "env": self._env_id, "decisions": self.decisions}
        path.write_text(json.dumps(told) + "\n", encoding="utf-8")
        return str(path)

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Takes over the state of a checkpoint; the settings stay those of this trainer."""
        saved = read_checkpoint(Path(checkpoint).parent)
        told = json.loads(Path(checkpoint).read_text(encoding="utf-8"))
        self.rookery.load_state_dict(saved.state)
        self.rookery.saved_replays.restore(saved, self.rookery.replays, lambda line: say_once(f"{self}: {line}"))
        self.rookery.pool.set_weights({name: each.behaviour for name, each in self.rookery.learners.items()})
        self._steps_before = self.rookery.env_steps
        self._decisions_before += int(told.get("decisions", 0)) - self.decisions

    def cleanup(self) -> None:
        """Frees the environments."""
        if hasattr(self, "rookery"):
            self.rookery.close()

    # --- of 2021 ------------------------------------------------------------------------------------------------------

    @classmethod
    def merge_trainer_configs(cls, config1: Any, config2: Any, _allow_unknown_configs: bool | None = None) -> Any:
        """Merges two configurations; the second wins."""
        return merge_trainer_configs(config1, config2, _allow_unknown_configs)

    @classmethod
    def with_updates(cls, **overrides: Any) -> type[Trainer]:
        """Returns a class with other arguments of `build_trainer`."""
        return build_trainer(**{"name": cls._name, "base": cls, **overrides})

    def __repr__(self) -> str:
        return self._name or type(self).__name__

    __str__ = __repr__


def creator_of(env: Any) -> Callable[[Any], Any]:
    """Returns what makes environments from their settings: of a registered name, a class, or an id of gym."""
    if isinstance(env, str):
        registered = registered_env(env)
        if registered is not None:
            return registered
        return lambda context: make_gym(env, **context)
    if not callable(env):
        raise ConfigError(f"env = {env!r}: must be a class, a name given to register_env, or an id of gym")
    return lambda context: env(context)


def env_name(env: Any) -> str:
    """Returns what directories call an environment."""
    return env if isinstance(env, str) else getattr(env, "__name__", str(env))


def differing(config: Mapping[str, Any], base: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the keys of a configuration whose values are not those of another."""
    found = {}
    for key, value in config.items():
        if key not in base or not (value is base[key] or value == base[key]):
            found[key] = value
    return found


def ended_episode(episode: Any) -> EndedEpisode:
    """Returns an episode as results count it."""
    return EndedEpisode(
        episode.total_reward,
        episode.length,
        episode.agent_rewards,
        episode.custom_metrics,
        episode.hist_data,
        episode.media,
    )


def as_measured(result: EpisodeResult, noted: list[Any]) -> EndedEpisode:
    """Returns a finished episode with what callbacks have noted of it.

    Args:
        result: The episode.
        noted: Those that ended in its copy and have not been asked for yet, in the order of time.
    """
    for place, episode in enumerate(noted):
        if episode.length == result.length and isclose(episode.total_reward, result.total, abs_tol=1e-6):
            return ended_episode(noted.pop(place))
    rewards = {(agent, result.policies[agent]): value for agent, value in result.agents.items()}
    return EndedEpisode(result.total, result.length, rewards)


def learner_extras(stats: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what stands beside ``learner_stats`` for algorithms with replay."""
    return {name: stats[name] for name in ("mean_td_error",) if name in stats}


# --- the algorithms ---------------------------------------------------------------------------------------------------


def build_trainer(
    name: str,
    *,
    default_config: Mapping[str, Any] | None = None,
    validate_config: Callable[..., Any] | None = None,
    default_policy: Any = None,
    get_policy_class: Callable[[Any], Any] | None = None,
    validate_env: Callable[..., Any] | None = None,
    before_init: Callable[..., Any] | None = None,
    after_init: Callable[..., Any] | None = None,
    before_evaluate_fn: Callable[..., Any] | None = None,
    mixins: Sequence[type] | None = None,
    execution_plan: Any = None,
    allow_unknown_configs: bool = False,
    base: type[Trainer] | None = None,
    **further: Any,
) -> type[Trainer]:
    """Makes a trainer class, an ordinary one that can be opened and derived from.

    Args:
        name: What it prints as.
        default_config: Its defaults; None = those of the common configuration.
        validate_config: Function of the configuration, called before anything is made.
        default_policy: Class of the policies.
        get_policy_class: Function of the configuration that gives it.
        validate_env: Function of environment and settings.
        before_init: Function of the trainer, called first.
        after_init: Function of the trainer, called last.
        before_evaluate_fn: Function of the trainer, called before it evaluates.
        mixins: Further bases.
        execution_plan: Must not be given: the loop is Rookery's.
        allow_unknown_configs: Whether unknown keys are fine.
        base: Class to derive from; None = that of the policy's algorithm.

    Raises:
        ConfigError: For an execution plan, and for a policy that no algorithm here learns.
    """
    if execution_plan is not None and not getattr(execution_plan, "is_ours", False):
        raise ConfigError(
            f"build_trainer: {name}: execution_plan: the loop is Rookery's (trainer.execution_plan lists its steps); "
            "put what you add into callbacks, a policy's learn_on_batch, or a rookery.extend.Algorithm of your own"
        )
    if further:
        raise ConfigError(f"build_trainer: {name}: {', '.join(further)}: no such argument")
    policy = default_policy
    parent = base
    if parent is None:
        learned = getattr(policy, "algorithm", None)
        parent = TRAINERS[learned] if learned in TRAINERS else TRAINERS["PG"]
    members: dict[str, Any] = {"_name": name, "__module__": __name__, "__doc__": f"Trains by {name}."}
    if default_config is not None:
        members["_default_config"] = dict(default_config)
    if policy is not None:
        members["_policy_class"] = policy

    def setup(self: Any, config: dict[str, Any]) -> None:
        if before_init is not None:
            before_init(self)
        if get_policy_class is not None:
            merged = merge_trainer_configs(self._default_config, config, True)
            self._policy_class = get_policy_class(merged) or policy
        super(made, self).setup(config)
        if validate_env is not None and self._envs:
            validate_env(self._envs[0], EnvContext(self.config["env_config"]))
        if after_init is not None:
            after_init(self)

    def checked(self: Any, config: dict[str, Any]) -> None:
        if validate_config is not None:
            validate_config(config)

    def evaluate(self: Any, episodes_left_fn: Any = None) -> dict[str, Any]:
        if before_evaluate_fn is not None:
            before_evaluate_fn(self)
        found: dict[str, Any] = super(made, self).evaluate(episodes_left_fn)
        return found

    members |= {"setup": setup, "validate_config": checked, "evaluate": evaluate}
    made: type[Trainer] = type(name, (*(mixins or ()), parent), members)
    return made


ALGORITHMS = ("PPO", "DQN", "SimpleQ", "SAC", "TD3", "DDPG", "A2C", "A3C", "DDPPO", "PG", "R2D2")
"""Trainers by name. Another one is a word here, its defaults in `defaults.py` and its rows in `config_table.py`."""

TRAINERS: dict[str, type[Trainer]] = {}

for _algorithm in ALGORITHMS:
    TRAINERS[_algorithm] = type(
        f"{_algorithm}Trainer",
        (Trainer,),
        {
            "_name": _algorithm,
            "_algorithm": _algorithm,
            "_default_config": DEFAULT_CONFIGS[_algorithm],
            "__module__": __name__,
            "__doc__": f"Trains by {_algorithm} as of 2021.",
        },
    )

PPOTrainer, DQNTrainer, SimpleQTrainer, SACTrainer = (TRAINERS[name] for name in ("PPO", "DQN", "SimpleQ", "SAC"))
TD3Trainer, DDPGTrainer, A2CTrainer, A3CTrainer = (TRAINERS[name] for name in ("TD3", "DDPG", "A2C", "A3C"))
DDPPOTrainer, PGTrainer, R2D2Trainer = (TRAINERS[name] for name in ("DDPPO", "PG", "R2D2"))
GenericOffPolicyTrainer = DQNTrainer
"""What off-policy trainers were made of by ``with_updates``."""

NOT_HERE = {
    "ES": "evolution strategies", "ARS": "augmented random search", "DREAMER": "Dreamer", "MAML": "MAML",
    "MBMPO": "MBMPO", "SlateQ": "SlateQ", "contrib/AlphaZero": "AlphaZero", "contrib/LinTS": "linear bandits",
    "contrib/LinUCB": "linear bandits", "IMPALA": "IMPALA (PPO with sampling.staleness=1 overlaps play and learning)",
    "APPO": "APPO (PPO with sampling.staleness=1 overlaps play and learning)", "APEX": "Ape-X (use DQN)",
    "APEX_DDPG": "Ape-X (use DDPG)", "QMIX": "QMIX", "contrib/MADDPG": "MADDPG", "MARWIL": "MARWIL", "BC": "BC",
    "CQL": "CQL", "contrib/RandomAgent": "the random agent (use a Policy that draws from its action space)",
}  # fmt: skip
"""Trainers of 2021 that are not here, and what they were."""


def get_trainer_class(alg: str) -> type[Trainer]:
    """Returns the trainer of a name, ``PPO``.

    Raises:
        ConfigError: If there is none; says what it was.
    """
    if alg in TRAINERS:
        return TRAINERS[alg]
    if alg in NOT_HERE:
        raise ConfigError(f"{alg}: {NOT_HERE[alg]} is not here; there are {', '.join(ALGORITHMS)}")
    raise ConfigError(f"{alg}: there is no such trainer{nearest(alg, ALGORITHMS)}; there are {', '.join(ALGORITHMS)}")


def with_base_config(base_config: Mapping[str, Any], extra_config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a copy of a configuration with other values."""
    return {**copy.deepcopy(dict(base_config)), **extra_config}


__all__ = [
    "ALGORITHMS",
    "TRAINERS",
    "ModelCatalog",
    "Trainer",
    "build_trainer",
    "get_preprocessor",
    "get_trainer_class",
]
