"""Base of trainers of 2021: ``train()`` is an iteration of an ordinary `rookery.Trainer`.

`BaseTrainer.setup` makes that trainer from the configuration; `BaseTrainer.step` is the iteration. The classes
for scripts, one per algorithm, are in `trainers`.
"""

from __future__ import annotations

import copy
import functools
import inspect
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import rookery
from rookery.face import (
    ConfigError,
    EpisodeResult,
    IterationResult,
    RemoteEnvStub,
    nearest,
)
from rookery_rllib.base.notices import say_once
from rookery_rllib.base.ray_client import address
from rookery_rllib.batch.numpy_functions import as_arrays
from rookery_rllib.config.algorithms import DEFAULT_POLICY_ID, OFFLINE, ON_POLICY
from rookery_rllib.config.defaults import COMMON_CONFIG, DEFAULT_CONFIGS, merge_trainer_configs
from rookery_rllib.config.on_policy_keys import VALUE_CLIP_IGNORED
from rookery_rllib.config.sampling_keys import WHOLE_EPISODES
from rookery_rllib.config.translation import Translation, translated
from rookery_rllib.env.agent_mapping import AgentIds, RecordedMapping, episode_number
from rookery_rllib.env.envs import EnvContext, same_task
from rookery_rllib.env.making import EnvMaker, creator_of, current_id_of, env_name
from rookery_rllib.env.teams import TEAM_KIND, action_spaces_of, as_members, teams_of
from rookery_rllib.execution.counters import LEARNER_INFO
from rookery_rllib.execution.iterators import LocalIterator, next_result
from rookery_rllib.execution.trainer_replay import TrainerReplayBuffer
from rookery_rllib.model.model_v2 import ModelV2
from rookery_rllib.model.preparation import preparation_of
from rookery_rllib.model.shared_weights import Shared, put_together, remember
from rookery_rllib.policy.batches import ClippedRewards, LearnHook
from rookery_rllib.policy.callbacks import DefaultCallbacks, EpisodeBook, overrides
from rookery_rllib.policy.custom_loss import add_custom_loss
from rookery_rllib.policy.episodes import SINGLE, rewriting
from rookery_rllib.policy.explorations import ExplorationHook, explorer_of
from rookery_rllib.policy.learned_policy import LearnedPolicy, hand_out
from rookery_rllib.policy.learner_stats import learner_stats
from rookery_rllib.policy.q_losses import learn_by_parts
from rookery_rllib.policy.script_policies import ScriptLearning, settings_of
from rookery_rllib.policy.templates import kind_of
from rookery_rllib.policy.torch_policy import TorchPolicy
from rookery_rllib.trainer.cluster_workers import (
    RemoteEpisodes,
    RemoteTrainerView,
    has_episode_hooks,
    why_local,
)
from rookery_rllib.trainer.evaluating import TrainerEvaluation
from rookery_rllib.trainer.evaluation_workers import EvaluationWorkers
from rookery_rllib.trainer.policy_server import PolicyServerInput, agents_of, served
from rookery_rllib.trainer.recorded_estimates import RecordedEstimates
from rookery_rllib.trainer.recorded_input import replay_of
from rookery_rllib.trainer.recording import Recorder, writer_of
from rookery_rllib.trainer.restoring import restore_checkpoint, write_checkpoint
from rookery_rllib.trainer.results import (
    EndedEpisode,
    EpisodeWindow,
    Stopwatch,
    counters,
    ended_episode,
    learner_extras,
    performance,
    summarized,
)
from rookery_rllib.trainer.trainer_layers import class_of, trainer_layers
from rookery_rllib.trainer.trial.resources import PlacementGroupFactory
from rookery_rllib.trainer.trial.trainable import Trainable
from rookery_rllib.trainer.workers import WorkerSet

PLANS = {
    "on policy": (
        "sample: rollout fragments of all environments until train_batch_size (rollout/worker.py:RolloutWorker.sample)",
        "targets: advantages and value targets (algorithms/on_policy/ppo.py:PPO.targets)",
        "learn: num_sgd_iter epochs of minibatches (algorithms/on_policy/ppo.py:PPO.training_step)",
        "broadcast weights (rollout/pool.py:LocalPool.set_weights)",
        "report (run/results.py:result_of)",
    ),
    "replay": (
        "sample: rollout_fragment_length steps of all environments (rollout/worker.py:RolloutWorker.sample)",
        "store in replay (replay/replay.py:Replay.store)",
        "learn from replay at the configured rate (algorithms/off_policy/dqn.py:DQN.learn)",
        "update the target network (core/optim.py:track)",
        "broadcast weights (rollout/pool.py:LocalPool.set_weights)",
        "report (run/results.py:result_of)",
    ),
}
"""Steps of the loop, with their functions."""


class BaseTrainer(Trainable):
    """Trains policies by a configuration of 2021; raises a ConfigError for unknown or impossible keys."""

    _name: ClassVar[str] = ""
    _default_config: ClassVar[dict[str, Any]] = COMMON_CONFIG
    _policy_class: ClassVar[Any] = None
    _allow_unknown_configs: ClassVar[bool] = False
    _beyond: ClassVar[dict[str, Any]] = {}
    """Keys for policies of scripts only."""

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

    @classmethod
    def default_resource_request(cls, config: dict[str, Any]) -> PlacementGroupFactory:
        gpus = {"GPU": float(config["num_gpus"])} if config.get("num_gpus") else {}
        return PlacementGroupFactory([{"CPU": 1.0, **gpus}])

    @classmethod
    def cores_beside(cls, config: Mapping[str, Any]) -> float:
        """Returns the cores of a trial's workers on a cluster; for keys without a value yet, of their defaults."""
        known = {key: value for key, value in config.items() if isinstance(value, int | float)}
        whole = {**cls._default_config, **known}
        return float(whole["num_cpus_per_worker"] * (whole["num_workers"] + whole["evaluation_num_workers"]))

    # --- making the trainer -------------------------------------------------------------------------------------------

    @property
    def algorithm(self) -> str:
        """Name of the algorithm; a script's own trainer is a variant of it."""
        return next(str(name) for cls in type(self).__mro__ if (name := vars(cls).get("_algorithm")))

    def setup(self, config: dict[str, Any]) -> None:
        self.raw_user_config = config
        own = differing(self._default_config, DEFAULT_CONFIGS[self.algorithm])
        given = {**own, **config}
        clients = served(given)  # clients that step environments, if configured
        env, env_config = given.get("env"), given.get("env_config") or {}
        if env is None and clients is not None:
            env = PolicyServerInput
        if env is None:
            raise ConfigError(f"{self}: env is missing: PPOTrainer(config={{'env': MyEnv}}), or env=...")
        own_filter = given["observation_filter"] if callable(given.get("observation_filter")) else None
        self._known = clients or (current_id_of(env) if own_filter is None else None)
        observe = (given.get("multiagent") or {}).get("observation_fn")
        self.env_maker = EnvMaker(env, env_config, int(given.get("num_workers") or 0), observe is not None)
        self.env_maker.filtered = own_filter is not None
        self.env_maker.prepare = functools.partial(
            preparation_of, options=given.get("model") or {}, make_filter=own_filter
        )
        if self.algorithm in TEAM_KIND:
            acts = action_spaces_of(given.get("multiagent") or {})
            self.env_maker.members = functools.partial(as_members, self.algorithm, agents_spaces=acts)
        self._stage: tuple[EnvMaker, Any] = self.env_maker, None  # environments of training, or of an evaluation
        first = None if self._known is not None else self.env_maker.first()
        self.is_multi_agent = first is not None and self.env_maker.is_multi_agent
        if self.env_maker.copies is not None:
            given["num_envs_per_worker"] = self.env_maker.copies
        agents = list(first.reset(seed=0)[0]) if first is not None and self.is_multi_agent else agents_of(clients)
        self.is_multi_agent = agents is not None
        self.agent_ids = AgentIds(agents or ())
        self.teams: dict[str, list[str]] = {}
        if self.algorithm in TEAM_KIND:
            groups = teams_of(self.algorithm, self.env_maker.made[0], agents or ())
            self.teams = {} if given.get("mixer", "") is None else groups
            given = {key: value for key, value in given.items() if key != "multiagent"}
            agents = list(groups)
        self.has_clients = clients is not None
        self._translate(given, agents, env)
        self.validate_config(self.config)
        self._print_notes()
        self.book = EpisodeBook(self.callbacks, self)
        self._evaluation = TrainerEvaluation(self)
        self.policy_facades: dict[str, Any] = {}
        self._hooked: list[str] = []
        self._writer = writer_of(self.config, self.logdir)
        self.workers = WorkerSet(self)
        self._estimates: RecordedEstimates | None = None
        self.recorded = self._recorded()
        if observe is not None:
            self.env_maker.rewrite = rewriting(self, observe)
        self.rookery = self._make_rookery()
        self.agent_ids.env = self.rookery.env
        self._stage = self.env_maker, self.rookery.env
        self._make_facades()
        self._listen()
        self._away: list[EpisodeResult] = []  # episodes of cluster workers that are not reported yet
        if self.rookery.config.sampling.workers:
            self.rookery._windows.kept = self._away
        self._window = EpisodeWindow(self.config["metrics_smoothing_episodes"])
        self._stopwatch = Stopwatch(self.rookery.timers)
        self._steps_before = self._decisions_before = 0
        self._replay_buffer = TrainerReplayBuffer()
        self.train_exec_impl = self._planned()
        self._init(self.config, self.env_creator)

    def _print_notes(self) -> None:
        """Prints the notes of the translation."""
        classes = [entry.policy_class or self._policy_class for entry in self.translation.policies.values()]
        kinds = {None if cls is None else kind_of(getattr(cls, "algorithm", None) or "") for cls in classes}
        others = not kinds & {None, kind_of(self.algorithm)}  # no policy learns by this trainer's own algorithm
        for line in self.translation.notes:
            if not (others and line.startswith((WHOLE_EPISODES, VALUE_CLIP_IGNORED))):
                say_once(f"{self}: {line}")
        if not self.config["explore"] and self.algorithm in (*ON_POLICY, "PG"):
            say_once(f"{self}: explore = False: compute_action returns the most likely actions; training samples "
                     "all the same")  # fmt: skip

    @functools.cached_property
    def _spaces(self) -> tuple[Any, Any]:
        """Observation and action space of the environment."""
        env = self.env_maker.made[0] if self.makes_environments else self.env_creator(dict(self.config["env_config"]))
        spaces = env.observation_space, env.action_space
        if not self.makes_environments:
            env.close()
        return spaces

    @property
    def action_space(self) -> Any:
        """Action space of the environment."""
        return self._spaces[1]

    def _recorded(self) -> str:
        """Returns the directory of recorded experience that it learns from; empty for algorithms that sample.

        Prepares off-policy estimates from it.

        Raises:
            ConfigError: If `input` is wrong for the algorithm, or the environment has several agents.
        """
        source = self.config["input"]
        if self.algorithm not in OFFLINE:
            if source != "sampler":
                raise ConfigError(
                    f"rllib config: input = {source!r}: {self} samples: set 'sampler', or a function that returns a "
                    f"PolicyServerInput; {', '.join(OFFLINE)} learn from recorded experience"
                )
            return ""
        if self.is_multi_agent or self.has_clients:
            raise ConfigError(f"{self}: env: recorded experience of one agent is learned from, in an environment of it")
        place, files = replay_of(self.config, self.logdir, self._spaces)
        methods, gamma = self.config["input_evaluation"], float(self.config["gamma"])
        rows = int(self.config["train_batch_size"])
        self._estimates = RecordedEstimates(methods, files, self.get_policy, gamma, rows)
        return place

    def _translate(self, given: dict[str, Any], agents: list[Any] | None, env: Any) -> None:
        """Translates the configuration, for workers on a joined cluster if possible."""
        cluster = address()
        script_keys = {*self._default_config, *(given if self._allow_unknown_configs else ())}
        script_keys -= set(DEFAULT_CONFIGS[self.algorithm])
        asks = cluster and any(
            {**DEFAULT_CONFIGS[self.algorithm], **given}[key] for key in ("num_workers", "evaluation_num_workers")
        )
        make = functools.partial(
            translated, self.algorithm, given, agents=agents, script_keys=script_keys, **self._named_defaults()
        )
        self.translation = make(cluster=cluster if asks else "")
        self.callbacks = self._make_callbacks(self.translation.callbacks)
        self._take_over_translation(env)
        why = why_local(self) if asks else ""
        if asks and not why and self.translation.settings["device"] != "cpu" and not self.config["num_gpus_per_worker"]:
            why = "policies act on the learner's GPU, and workers have none; set num_gpus_per_worker"
        if why:
            say_once(f"{self}: num_workers: environments run in this process, not in workers on the cluster: {why}")
            self.translation = make()
            self._take_over_translation(env)

    def _named_defaults(self) -> dict[str, Any]:
        """Returns the arguments of `translated` for the defaults of another release; none for those of 2021."""
        return {}

    def _take_over_translation(self, env: Any) -> None:
        translation = self.translation
        self.env_maker.spaces, self.env_maker.mapping = spaces_by_policy(translation), translation.policy_mapping
        self.config = translation.config
        self.config["env"] = env
        self.recorded_mapping: RecordedMapping | None = None
        if translation.policy_mapping is not None:
            self.recorded_mapping = RecordedMapping(
                translation.policy_mapping, self.agent_ids, spaces_by_policy(translation)
            )

    def _listen(self) -> None:
        """Adds callbacks of 2021, and hooks of models and policies of scripts, to the learning of new policies."""
        learners = self.rookery.learners
        scripted = any(isinstance(learner, ScriptLearning) for learner in learners.values())
        wanted = scripted or any(overrides(self.callbacks, moment) for moment in LearnHook.MOMENTS)
        self.book.waits = self.book.waits or scripted
        for name in [name for name in learners if name not in self._hooked]:
            learner = learners[name]
            self._hooked.append(name)
            if not isinstance(learner, ScriptLearning):
                add_custom_loss(learner)
                if parts := self.policy_facades[name].parts:
                    learn_by_parts(learner, self.policy_facades[name], parts)
            clip = {**self.config, **self.translation.policies[name].config}["clip_rewards"]
            if clip:
                learner.hooks.append(ClippedRewards(None if clip is True else float(clip)))
            explorer = explorer_of(learner.policy)
            if explorer is not None:
                learner.hooks.append(ExplorationHook(functools.partial(self.policy_facades.get, name), explorer))
            if self._writer is not None:
                learner.hooks.append(Recorder(self, name, self._writer))
            if wanted:
                batches = settings_of(self.config, self.translation.rows_per_step)
                learner.hooks.append(LearnHook(self, name, batches["cut_after"] if scripted else None))

    def _init(self, config: dict[str, Any], env_creator: Callable[..., Any]) -> None: ...

    def validate_config(self, config: dict[str, Any]) -> None: ...

    def _make_callbacks(self, given: Any) -> DefaultCallbacks:
        if isinstance(given, Mapping):
            return DefaultCallbacks(given)
        if given is not None and not callable(given):
            raise ConfigError(f"callbacks = {given!r}: must be a class derived from DefaultCallbacks")
        made: DefaultCallbacks = DefaultCallbacks() if given is None else given()
        if not isinstance(made, DefaultCallbacks):
            raise ConfigError(f"callbacks = {given!r}: must be a class derived from DefaultCallbacks")
        return made

    @property
    def env_creator(self) -> Callable[[Any], Any]:
        return creator_of(self.raw_user_config.get("env") or self.config.get("env"))

    @property
    def _envs(self) -> list[Any]:
        """The script's environments that this process steps."""
        maker, env = self._stage
        return maker.played(env)

    @contextmanager
    def _played_in(self, maker: EnvMaker, env: Any) -> Iterator[None]:
        """Makes workers expose other environments to the script inside the block."""
        known = self._stage
        try:
            self._stage = maker, env
            yield
        finally:
            self._stage = known

    def _make_rookery(self) -> rookery.Trainer:
        entries = self.translation.policies.items()
        return rookery.Trainer(
            self.env_maker.for_rookery() if self._known is None else self._known.id,
            config=trainer_layers(self),
            policies={name: {} if entry.trained else {"frozen": True} for name, entry in entries},
            policy_mapping=self.recorded_mapping,
            callbacks=self._listeners(),
        )

    def _listeners(self) -> list[Any]:
        """Returns the listeners of training episodes."""
        if not self.translation.settings.get("sampling.workers"):
            return list(self.book.listeners())
        if not has_episode_hooks(self.callbacks):
            return []
        return list(RemoteEpisodes(RemoteTrainerView(self)).listeners())

    @property
    def makes_environments(self) -> bool:
        """Whether environments are made by the script's maker, not by Gymnasium."""
        return self._known is None

    @property
    def plays_elsewhere(self) -> bool:
        """Whether the current environments are with workers on a cluster."""
        return isinstance(self._stage[1], RemoteEnvStub)

    def check_reach(self) -> None:
        """Raises a ConfigError if environments are with workers on a cluster, out of the script's reach."""
        if self.plays_elsewhere:
            raise ConfigError(
                f"{self}: its environments are with {self.config['num_workers']} workers on the cluster, out of the "
                "script's reach; callbacks' on_episode_... have them there; to have them here, set num_workers to 0, "
                "or give ray.init no address"
            )

    @property
    def scripted_policies(self) -> list[str]:
        """Names of the policies that are, or learn by, classes of the script."""
        return [name for name, entry in self.translation.policies.items() if class_of(self, entry) is not None]

    @property
    def policy_configs(self) -> dict[str, dict[str, Any]]:
        entries = self.translation.policies.items()
        return {name: merge_trainer_configs(self.config, entry.config, True) for name, entry in entries}

    @property
    def explorers(self) -> dict[str, Any]:
        """The explorations of the script by policy, for policies that Rookery trains."""
        found = {name: explorer_of(policy) for name, policy in self.rookery.policies.items()}
        return {name: each for name, each in found.items() if each is not None}

    @property
    def assigned(self) -> dict[int, dict[int, dict[str, str]]]:
        """Policies of the agents in the latest episodes, by environment and episode number."""
        return {} if self.recorded_mapping is None else self.recorded_mapping.latest

    @assigned.setter
    def assigned(self, known: dict[int, dict[int, dict[str, str]]]) -> None:
        if self.recorded_mapping is not None:
            self.recorded_mapping.latest = known

    def mapped_number(self, lane: int, index: int) -> int | None:
        """Returns the id of an episode that the mapping function of the script gets; None without such a function."""
        return None if self.recorded_mapping is None else episode_number(lane, index)

    def policy_of(self, lane: int, index: int, agent: Any) -> str:
        known = None if self.recorded_mapping is None else self.recorded_mapping.recorded(lane, index, agent)
        if known is not None:
            return known
        names = list(self.translation.policies)
        return agent if agent in names else names[0]

    def welcome(self) -> None:
        """Creates interfaces for new policies, and adds hooks to their learning."""
        self._make_facades()
        self._listen()

    def _make_facades(self) -> None:
        for name in self.translation.policies:
            if name not in self.policy_facades and name in self.rookery.policies:
                actor = self.rookery.policies[name]
                own = getattr(actor, "script_policy", None)
                config = {**self.config, **self.translation.policies[name].config}
                cls = self.translation.policies[name].policy_class or self._policy_class or LearnedPolicy
                self.policy_facades[name] = own if own is not None else cls(self.rookery, name, config)
                if isinstance(own, TorchPolicy):
                    own.callbacks = self.callbacks
                    own.handing_out = functools.partial(hand_out, self.rookery, name)

    # --- an iteration -------------------------------------------------------------------------------------------------

    def step(self) -> dict[str, Any]:
        due = self._evaluation.runs_after(self.iteration + 1)
        if due:
            self._evaluation.begin()
        result: dict[str, Any] = next_result(self.train_exec_impl)
        if due:
            result |= self.evaluate()
        if self.config["env_task_fn"] is not None:
            self._set_tasks(self.config["env_task_fn"], result)
        return result

    def _planned(self) -> LocalIterator:
        """Returns the stream of results: those of Rookery's own loop, whose steps `execution_plan` lists."""
        return LocalIterator(lambda: iter(self._loop, None), name="train_exec_impl")

    def _loop(self) -> dict[str, Any]:
        """Samples and learns for at least ``min_iter_time_s``; returns the result."""
        shared = self._shared_weights()
        ends = time.monotonic() + self.translation.trainer["min_iter_time_s"]
        found = self._iterate()
        while time.monotonic() < ends:
            found = self._iterate()
        if shared:
            put_together(shared)
            learners = self.rookery.learners.items()
            self.rookery._pool.set_weights({name: learner.behaviour for name, learner in learners})
        self.welcome()
        result = self._result(found)
        self._steps_before = self.timesteps
        counters = LocalIterator.get_metrics().counters
        counters.update({name: count for name, count in result["info"].items() if name != LEARNER_INFO})
        return result

    def _iterate(self) -> IterationResult:
        """Samples and learns, or learns from recorded experience."""
        if not self.recorded:
            return self.rookery.train_iteration()
        steps = self.rookery.config.sampling.iteration_steps or 1
        rows = 1 if self.algorithm == "CQL" else int(self.config["train_batch_size"])
        return self.rookery.learn(max(steps // rows, 1))

    def log_result(self, result: dict[str, Any]) -> None:
        """Passes a whole result, with counters and times, to the callbacks, which may add to it."""
        if overrides(self.callbacks, "on_train_result"):
            parameters = inspect.signature(self.callbacks.on_train_result).parameters
            caller = "algorithm" if "algorithm" in parameters else "trainer"  # RLlib 2 has the former
            self.callbacks.on_train_result(**{caller: self}, result=result)
        super().log_result(result)

    def _episode_of(self, result: EpisodeResult) -> EndedEpisode:
        """Returns an episode that a worker on a cluster has finished."""
        rewards = {(self._agent(agent), result.policies[agent]): value for agent, value in result.agents.items()}
        return EndedEpisode(result.total, result.length, rewards, result.metrics, result.histograms)

    def _agent(self, name: str) -> Any:
        return self.agent_ids(name) if self.is_multi_agent else SINGLE

    def _set_tasks(self, task_of: Callable[..., Any], result: dict[str, Any]) -> None:
        """Sets the task of each environment by the script's function; raises a ConfigError without tasks."""
        for env in self._envs or [None]:
            if not callable(getattr(env, "set_task", None)):
                raise ConfigError(f"env_task_fn: {self._env_id} has no set_task: derive it from TaskSettableEnv")
            task = task_of(result, env, EnvContext(self.config["env_config"]))
            if not same_task(env.get_task(), task):
                env.set_task(task)

    def _shared_weights(self) -> list[Shared]:
        learners = self.rookery.learners
        actors = self.rookery.policies.items()
        return remember({name: learners[name].policy if name in learners else actor for name, actor in actors})

    def _result(self, found: IterationResult) -> dict[str, Any]:
        ended = self.take_episodes()
        result = summarized(self._window.with_earlier(ended), len(ended))
        counted = counters(self.timesteps, self._steps_before, self.decisions, found)
        counted["num_healthy_workers"] = int(self.config["num_workers"])
        info = counted.pop("info")
        info["learner"] = {}
        for name, learner in self.rookery.learners.items():
            model = getattr(self.policy_facades.get(name), "model", None)
            if isinstance(learner, ScriptLearning):
                info["learner"][name] = copy.deepcopy(learner.fetched)
                continue
            measured = as_arrays(model.metrics()) if isinstance(model, ModelV2) else {}
            stats = learner_stats(found.policies[name].learning, learner.now(), measured)
            stats |= self.policy_facades[name].script_stats
            reported = next((hook.reported for hook in learner.hooks if isinstance(hook, LearnHook)), {})
            more = {"custom_metrics": dict(reported)} if reported else {}
            result["custom_metrics"] |= {name: dict(reported)} if reported else {}
            info["learner"][name] = {"learner_stats": stats, **learner_extras(stats), **more}
        if self._estimates is not None:
            result["off_policy_estimator"] = self._estimates.result()
        spent = performance(self._stopwatch.since(), counted["timesteps_this_iter"])
        return {**result, **counted, "info": info, **spent}

    @property
    def decisions(self) -> int:
        """Decisions of all agents so far."""
        return self._decisions_before + self.rookery._pool.acted()

    @property
    def timesteps(self) -> int:
        """Timesteps so far, as RLlib counts them: rows of agents if all have the default policy, else env steps; with
        recorded experience, rows that were learned from.
        """
        if self.recorded:
            batch = int(self.config["train_batch_size"])
            return batch * max(replay.gradient_steps for replay in self.rookery.replays.values())
        counts_rows = self.translation.counts_rows and self.algorithm not in TEAM_KIND
        return self.decisions if counts_rows else self.rookery.env_steps

    def take_episodes(self) -> list[EndedEpisode]:
        away = [self._episode_of(result) for result in self._away]
        self._away.clear()
        return [ended_episode(episode) for episode in self.book.take()] + away

    def evaluate(self, episodes_left_fn: Any = None) -> dict[str, Any]:
        """Runs evaluation episodes, with exploration unless ``evaluation_config`` turns it off; nothing is learned."""
        return {"evaluation": self._evaluation.result()}

    @functools.cached_property
    def evaluation_workers(self) -> EvaluationWorkers:
        """The evaluation workers, for functions of scripts; they are made on first use."""
        return EvaluationWorkers(self)

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
        names = list(observations)
        states = [np.stack([np.asarray(state[name][i]) for name in names]) for i in range(len(state[names[0]]))] \
            if state else []  # fmt: skip
        actions, after, extra = self._actions([observations[name] for name in names], states, policy_id, explore)
        by_name = dict(zip(names, actions, strict=True))
        if not (state or full_fetch):
            return by_name
        return by_name, after, extra

    def _actions(self, observations: Sequence[Any], state: Any, policy_id: str, explore: bool | None) -> Any:
        policy, prepare = self.get_policy(policy_id), self.env_maker.preparation
        if policy is None:
            raise ConfigError(
                f"policy_id = {policy_id!r}: no such policy; there are {', '.join(self.policy_facades)}"
                f"{nearest(policy_id, list(self.policy_facades))}"
            )
        if prepare is not None:
            observations = [prepare(observation, update=False) for observation in observations]
        if isinstance(policy, LearnedPolicy):
            return policy.act_on(observations, state, explore)
        actor: Any = self.rookery.policies[policy_id]
        rows = np.stack([self.workers.local_worker().preprocessors[policy_id].transform(obs) for obs in observations])
        actions, *beside = policy.compute_actions(rows, state, explore=explore)
        return actor.action_spec.to_env(actor.stored(actions)), *beside

    # --- inspection ---------------------------------------------------------------------------------------------------

    def get_policy(self, policy_id: str = DEFAULT_POLICY_ID) -> Any:
        return self.policy_facades.get(policy_id)

    def add_policy(self, *given: Any, **options: Any) -> Any:
        """Raises a ConfigError: the policies of a trainer are those of its configuration."""
        name = given[0] if given else options.get("policy_id", options.get("module_id"))
        raise ConfigError(
            f"{self}: policy {name!r} cannot be added during training: declare it in the policies of the "
            f"configuration, leave it out of policies_to_train, and call get_policy({name!r}).set_weights(...)"
        )

    add_module = add_policy

    def get_weights(self, policies: Sequence[str] | None = None) -> dict[str, Any]:
        return {name: self.policy_facades[name].get_weights() for name in policies or self.policy_facades}

    def set_weights(self, weights: Mapping[str, Any]) -> None:
        for name, values in weights.items():
            if name not in self.policy_facades:
                raise ConfigError(
                    f"set_weights: there is no policy {name!r}; there are {', '.join(self.policy_facades)}"
                )
            self.policy_facades[name].set_weights(values)

    @property
    def execution_plan(self) -> Any:
        """The steps of the loop, in order, with their functions; of a trainer of a script its own plan, a function."""
        kind = "replay" if self.rookery.replays else "on policy"
        return list(PLANS[kind])

    @property
    def local_replay_buffer(self) -> TrainerReplayBuffer | None:
        """The replay buffers of all policies; None without replay."""
        for name in self.rookery.replays:
            self._replay_buffer.show(name, self.rookery.learners[name], self.policy_facades[name].rows)
        return self._replay_buffer if self.rookery.replays else None

    def export_policy_model(self, export_dir: str, policy_id: str = DEFAULT_POLICY_ID, onnx: int | None = None) -> None:
        """Writes a policy; ``rookery.load_policy`` reads the directory."""
        self.get_policy(policy_id).export_model(export_dir)

    def export_policy_checkpoint(self, export_dir: str, filename_prefix: str = "model", policy_id: str = "") -> None:
        """Writes a checkpoint of the trainer, which holds the policy."""
        self.rookery.save(export_dir)

    def collect_metrics(self, selected_workers: Any = None) -> dict[str, Any]:
        ended = self.take_episodes()
        return summarized(self._window.with_earlier(ended), len(ended))

    # --- saving -------------------------------------------------------------------------------------------------------

    def save_checkpoint(self, tmp_checkpoint_dir: str) -> str:
        """Writes a checkpoint of Rookery into the directory, and RLlib's file for it."""
        counters = {name: int(count) for name, count in self.train_exec_impl.shared_metrics.get().counters.items()}
        extra = {"trainer": str(self), "env": self._env_id, "decisions": self.decisions, "counters": counters}
        return str(write_checkpoint(self, Path(tmp_checkpoint_dir), extra))

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Loads the state of a checkpoint; the settings remain those of this trainer."""
        extra = restore_checkpoint(self, Path(checkpoint))
        self._decisions_before += int(extra.get("decisions", 0)) - self.decisions
        self._steps_before = self.timesteps
        self.train_exec_impl.shared_metrics.get().counters.update(extra.get("counters", {}))

    def cleanup(self) -> None:
        if "evaluation_workers" in self.__dict__:
            self.evaluation_workers.stop()
        if hasattr(self, "_evaluation"):
            self._evaluation.close()
        if hasattr(self, "rookery"):
            self.rookery.close()

    # --- of 2021 ------------------------------------------------------------------------------------------------------

    @classmethod
    def merge_trainer_configs(cls, config1: Any, config2: Any, _allow_unknown_configs: bool | None = None) -> Any:
        return merge_trainer_configs(config1, config2, _allow_unknown_configs)

    def __repr__(self) -> str:
        return self._name or type(self).__name__

    __str__ = __repr__


def spaces_by_policy(translation: Translation) -> dict[str, tuple[Any, Any]]:
    """Returns observation and action space of each policy, None if the configuration does not have them."""
    return {name: (entry.observation_space, entry.action_space) for name, entry in translation.policies.items()}


def differing(config: Mapping[str, Any], base: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the keys of a configuration whose values differ from those of another."""
    found = {}
    for key, value in config.items():
        if key not in base or not (value is base[key] or value == base[key]):
            found[key] = value
    return found
