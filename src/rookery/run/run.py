"""`Run`: the state of a training, with its policies, learners, environments and counts."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict
from functools import partial
from secrets import randbits
from typing import Any, ClassVar, Protocol

import torch

from rookery.algorithms.algorithm import Algorithm, Row
from rookery.algorithms.ranked import join_ranks, total_demand
from rookery.cluster.ranks import Ranks
from rookery.core.batch import Rollout, flat
from rookery.core.config import Resolved
from rookery.core.device import staging_to
from rookery.core.native import kernel_threads
from rookery.core.process.interrupt import Interrupt, Interrupted
from rookery.core.process.torch_modes import torch_threads
from rookery.core.seeding import Streams
from rookery.core.settings.hints import ForeignNames
from rookery.core.settings.starting_folder import started_in, starting_folder
from rookery.core.settings.trust import CodeKind
from rookery.core.state import Stateful
from rookery.core.timers import Clock, Timers
from rookery.envs.base import Kind, VectorEnv, is_only_one
from rookery.envs.remote_env_stub import RemoteEnvStub
from rookery.envs.samplers import is_number
from rookery.envs.vector.closing import close_env
from rookery.policies.policy import Policy
from rookery.replay.replay import Replay
from rookery.report.results import WINDOW
from rookery.report.shown import ShownAsFacts
from rookery.rollout.device_pool import make_local_pool
from rookery.rollout.goal_success import success_listeners
from rookery.rollout.hooks import UNNAMED, EpisodeListener, EpisodeListeners, EpisodeResult, moments_of
from rookery.rollout.mapping import PolicyMapping
from rookery.rollout.pool import WorkerPool
from rookery.rollout.regret import Regret
from rookery.rollout.remote.ranked_pool import RankedPool
from rookery.rollout.remote.shares import LaneShare, ShareMapping
from rookery.rollout.worker import RolloutWorker, Sample
from rookery.run.checkpoint.path_folders import as_typed
from rookery.run.checkpoint.replays import load_sources
from rookery.run.checks.memory_check import note_memory
from rookery.run.compute import acting_threads, learning_threads
from rookery.run.games import connect_env
from rookery.run.lessons.curriculum import Curriculum
from rookery.run.lessons.parameters import check_parameters, training_plan
from rookery.run.opponents.rating_games import RatingGames
from rookery.run.opponents.self_play import SelfPlay
from rookery.run.parts import Parts
from rookery.run.prepare import check_learner, kinds_of, make_copies, make_policy
from rookery.run.ranks.learners import check_copies
from rookery.run.ranks.run_workers import WorkerRecipe, start_remote_workers
from rookery.run.settings import RunConfig
from rookery.run.stopping import criteria_of, horizon_of

ALGORITHM = CodeKind("an algorithm (a class of rookery.extend.Algorithm)", lambda found: issubclass(found, Algorithm))


class Measured(Protocol):
    """Episodes of an evaluation."""

    def standing(self) -> str:
        """Returns the progress of the evaluation as text; may be called from another thread."""
        ...


class Round(Stateful):
    """Learning after one `sample` call, or without sampling.

    Args:
        names: Policies that learn, in this order.
        rollouts: Rollouts of these policies by name; None = they learn from replay only.
        env_steps: Environment steps that learning from replay only belongs to; None = those of one `sample` call.

    Attributes:
        alone: Whether they learn from replay only.
        left: Gradient steps on replay that are left for the first policy; None = not begun.
    """

    saved = ("names", "left", "env_steps", "alone")
    fixed = ("rollouts", "all_names")

    def __init__(
        self, names: Iterable[str] = (), rollouts: Mapping[str, Rollout] | None = None, env_steps: int | None = None
    ) -> None:
        self.names = list(names)
        self.all_names = tuple(self.names)
        self.rollouts = dict(rollouts or {})
        self.alone = rollouts is None
        self.env_steps = env_steps
        self.left: int | None = None

    def each(self, check: Callable[[], None]) -> Iterator[str]:
        """Yields the policies that still have to learn; each must have learned when the next is requested.

        Args:
            check: Called between two policies; raises if the run is to stop.
        """
        while self.names:
            yield self.names[0]
            self.names, self.left = self.names[1:], None
            if self.names:
                check()

    def keep(self) -> None:
        """Copies the rollouts, whose memory is overwritten by further sampling."""
        self.rollouts = {name: rollout.map(lambda _, tensor: tensor.clone()) for name, rollout in self.rollouts.items()}

    def state_dict(self) -> dict[str, Any]:
        """Returns the whole state, rollouts included."""
        rollouts = {
            name: vars(rollout.map(lambda _, tensor: tensor.to("cpu", copy=True)))
            for name, rollout in self.rollouts.items()
        }
        return {**super().state_dict(), "rollouts": rollouts, "all_names": list(self.all_names)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores the result of `state_dict`."""
        state = dict(state)
        self.rollouts = {name: Rollout(**fields) for name, fields in state.pop("rollouts").items()}
        self.all_names = tuple(state.pop("all_names"))
        super().load_state_dict(state)


class Progress(Stateful):
    """Progress of the current iteration.

    Args:
        env_steps: Environment steps of the run when it began.
        lane_steps: These and those in which environments rested.
        seconds: Seconds of training when it began.
        gradient_steps: Gradient steps of each policy with replay when it began.
    """

    state_version = 2
    saved = ("env_steps", "lane_steps", "seconds", "gradient_steps", "unplayed", "learned", "sizes", "round")

    def __init__(self, env_steps: int, lane_steps: int, seconds: float, gradient_steps: Mapping[str, int]) -> None:
        self.env_steps = env_steps
        self.lane_steps = lane_steps
        self.seconds = seconds
        self.gradient_steps = dict(gradient_steps)
        self.unplayed = 0
        """Env steps for which policies learned without sampling, because it is paused."""
        self.learned: dict[str, list[dict[str, Any]]] = {}
        """Metrics of each policy's updates."""
        self.sizes: dict[str, tuple[int, int]] = {}
        """Decisions and cut fragments of each policy's last rollout."""
        self.round: Round | None = None
        """The current learning; None while sampling."""

    def upgrade(self, state: dict[str, Any], version: int) -> dict[str, Any]:
        """Adds an empty round to states of version 1, which were never stopped while learning."""
        return {"round": None, **state}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores the result of `state_dict`."""
        self.round = None if state.get("round") is None else Round()
        super().load_state_dict(state)

    def note(self, name: str, row: dict[str, Any], rollout: Rollout) -> None:
        """Records an update of a policy."""
        self.learned.setdefault(name, []).append(row)
        self.sizes[name] = (rollout.num_decisions, rollout.num_cut)

    def pass_over(self, env_steps: int, lane_steps: int) -> None:
        """Leaves out steps that another iteration made meanwhile."""
        self.env_steps += env_steps
        self.lane_steps += lane_steps


class Windows(Stateful):
    """Windows of the last finished episodes, for running means."""

    saved = ("episodes", "agent_episodes", "totals", "lengths", "agents", "policies", "metrics", "histograms",
             "parameters", "groups", "sources")  # fmt: skip
    fixed = ("reported", "kept", "absent")
    state_version = 2

    def __init__(self) -> None:
        self.episodes = 0
        self.agent_episodes: dict[str, int] = {}
        self.totals: deque[float] = deque(maxlen=WINDOW)
        self.lengths: deque[int] = deque(maxlen=WINDOW)
        self.agents: dict[str, deque[float]] = {}
        self.policies: dict[str, deque[float]] = {}
        self.metrics: dict[str, deque[float]] = {}
        self.histograms: dict[str, list[float]] = {}
        """Histograms of the episodes that ended in the latest iteration."""
        self.parameters: dict[str, deque[float]] = {}
        self.groups: dict[str, deque[float]] = {}
        self.reported: dict[str, tuple[str, list[float]]] = {}
        """Values that the environment reported in the latest iteration."""
        self.kept: list[EpisodeResult] | None = None
        """Single episodes, for a caller that sets a list here and empties it."""
        self.sources: dict[str, str] = {}
        """Name of the callback of each metric."""
        self.absent: frozenset[str] = frozenset()
        """Names of callbacks that a loaded run had and does not have now; their metrics are outdated."""

    def upgrade(self, state: dict[str, Any], version: int) -> dict[str, Any]:
        """Adds the callbacks of metrics to states of version 1, where they are unknown."""
        return {**state, "sources": {}}

    @property
    def current_metrics(self) -> dict[str, deque[float]]:
        """The metrics of present callbacks."""
        return {name: v for name, v in self.metrics.items() if self.sources.get(name, UNNAMED) not in self.absent}

    def add(self, finished: Iterable[EpisodeResult], env: VectorEnv | None = None) -> None:
        """Adds the finished episodes of an iteration in the order of their ends, and the environment's reports."""
        self.histograms = {}
        reported = getattr(env, "reported", None)
        self.reported = {} if reported is None else reported.take()
        for episode in finished:
            self.episodes += 1
            if self.kept is not None:
                self.kept.append(episode)
            self.totals.append(episode.total)
            self.lengths.append(episode.length)
            self.sources.update(episode.sources or {})
            for name, number in episode.metrics.items():
                self.metrics.setdefault(name, deque(maxlen=WINDOW)).append(float(number))
            for name, numbers in episode.histograms.items():
                self.histograms.setdefault(name, []).extend(float(number) for number in numbers)
            for name, drawn in episode.parameters.items():
                if is_number(drawn):
                    self.parameters.setdefault(name, deque(maxlen=WINDOW)).append(float(drawn))
            for group, value in episode.groups.items():
                self.groups.setdefault(group, deque(maxlen=WINDOW)).append(value)
            for agent, value in episode.agents.items():
                policy = episode.policies[agent]
                self.agents.setdefault(agent, deque(maxlen=WINDOW)).append(value)
                self.policies.setdefault(policy, deque(maxlen=WINDOW)).append(value)
                self.agent_episodes[policy] = self.agent_episodes.get(policy, 0) + 1


class Run(ShownAsFacts, ForeignNames, Stateful):
    """State of a training, without the training loop.

    Args:
        resolved: Settings of the run.
        env: The vectorized environments.
        mapping: Policy of each agent.
        listeners: Listeners of episodes, in the order of their calls.
        note: Called with a line that a user should read once.
        ranks: The learners of the run, one of which is this one.

    Attributes:
        _folder: Folder in which the run was started in this process, for relative paths.
        _pool: Samples experience.
        policies: The policies by name.
        learners: The algorithm of each policy that learns.
        _frozen: Names of policies that do not learn.
        env_steps: Environment steps so far.
        _lane_steps: These, and those in which environments rested.
        _resting: Whether all environments rest.
        _running_length: Mean length of the running episodes.
        _counters: Counts of experience that could not be used as intended.
        _finished: Episodes that ended in the current iteration.
        _windows: The last finished episodes before that.
        _threads: Threads of each learner's steps, chosen at the start of the run and kept when it is resumed.
        iteration: Iterations so far.
        _seconds: Seconds of training so far: wall time, with checkpoints, evaluations and callbacks.
        _decisions: Decisions that each policy has learned from.
        _retired: Policies that have reached their `max_decisions`.
        _last_learning: Metrics of the algorithms in the last iteration in which they learned.
        _paused: Whether iterations learn from replay only.
        _progress: The current iteration, so that a run can be stopped and resumed in the middle of it.
        _apart: The same for an iteration of `learn` or `collect`, by the name of the call.
        _measured: The current evaluation, or None.
        _criteria: Criteria of the last training.
        _curriculum: Lessons of environment parameters, and their progress.
        _self_play: Opponents of policies in self-play.
        _draws: Samplers of environment parameters.
        _parts: Features that take part in iterations; a trainer makes them.
        _check_request: Raises `Interrupted` if the run is to stop, on all ranks at the same point.
        _horizon: Environment step at which schedules without their own length end (`run/horizon.py`); None = not known
            yet, infinity = they stay constant.
        _score: Score of the best checkpoint: the last evaluation's mean return, or else that of training.
    """

    # learners after policies: new settings of how a policy acts take precedence
    state_version = 3
    saved: ClassVar[tuple[str, ...]] = (
        "_pool", "policies", "learners", "_windows", "timers", "iteration", "_seconds", "_decisions", "_last_learning",
        "_frozen", "_threads", "_horizon", "_criteria", "_progress", "_score", "_paused", "env_steps", "_lane_steps",
        "_resting", "_running_length", "_counters", "_finished", "_curriculum", "_self_play", "_apart",
    )  # fmt: skip
    fixed: ClassVar[tuple[str, ...]] = (
        "resolved",
        "config",
        "seed",
        "_streams",
        "env",
        "_mapping",
        "_staging",
        "_interrupt",
        "_clock",
        "_note",
        "_draws",
        "_match",
        "_retired",
        "_ranks",
        "_measured",
        "_folder",
        "_parts",
        "_check_request",
    )

    def __init__(
        self,
        resolved: Resolved[RunConfig],
        env: VectorEnv,
        mapping: PolicyMapping,
        listeners: Sequence[EpisodeListener],
        note: Callable[[str], None],
        ranks: Ranks,
    ) -> None:
        self._ranks = ranks
        self._folder = starting_folder()
        check_copies(env, ranks)
        self.resolved = resolved
        self.config = resolved.config
        self.env = env
        self._mapping = mapping
        self._note = note
        self.seed: int = ranks.first(randbits(31) if self.config.seed is None else self.config.seed)
        self._streams = Streams(self.seed)
        self.timers = Timers()
        self._interrupt = Interrupt()
        self._check_request: Callable[[], None] = (
            partial(ranks.check, self._interrupt) if ranks.size > 1 else self._interrupt.check
        )
        self._parts = Parts()
        self._clock = Clock()
        self._staging = staging_to(torch.device(self.config.device))
        self.policies: dict[str, Policy] = {}
        self.learners: dict[str, Algorithm[Any]] = {}
        self._frozen: list[str] = []
        self._threads: dict[str, int] = {}
        self._windows = Windows()
        self._finished: list[EpisodeResult] = []
        self.env_steps = self._lane_steps = 0
        self._resting = False
        self._running_length = 0.0
        self._counters: dict[str, int] = {}
        self.iteration = 0
        self._seconds = 0.0
        self._decisions: dict[str, int] = {}
        self._retired: set[str] = set()
        self._last_learning: dict[str, Row] = {}
        self._paused = False
        self._progress: Progress | None = None
        self._apart: dict[str, Progress] = {}
        self._measured: Measured | None = None
        self._criteria: dict[str, float] = {}
        self._score: float | None = None
        self._horizon: float | None = horizon_of(self.config.stop)
        self._draws = check_parameters(resolved, env)
        self._curriculum = Curriculum(self.config.curriculum)
        self._self_play = SelfPlay(resolved, env, mapping, self._streams)
        self._match = RatingGames(self.config, self._draws, self._streams, mapping, self._copies)
        bandits = any(entry.algorithm.capabilities.learns_single_decisions for entry in self.config.policies.values())
        built_in = [*success_listeners(env), *([Regret()] if bandits else [])]
        self._pool = self._make_pool([*listeners, *built_in])
        self._counters = self._pool.counters()
        self._introduce(self._self_play.with_exploiters(kinds_of(env, mapping)))

    def _make_pool(self, listeners: Sequence[EpisodeListener]) -> WorkerPool:
        """Returns a worker in this process, or remote workers."""
        if isinstance(self.env, RemoteEnvStub):
            recipe = WorkerRecipe(
                as_typed(self.resolved), self._mapping, self._streams, self._draws, tuple(listeners), make_copies
            )
            return start_remote_workers(recipe, self.env, self.timers, self._interrupt, self._note)
        sampling, several = self.config.sampling, self._ranks.size > 1
        share = LaneShare(self._ranks.rank, *self._ranks.share(sampling.num_envs), (0,) * self.env.num_lanes)
        seeds = training_plan(self._draws, self._streams, share.place if several else None)
        mapping = ShareMapping(self._mapping, share) if several else self._self_play.mapping
        interrupt = None if several else self._interrupt  # several learners stop together, after a round
        worker = RolloutWorker(self.env, mapping, self._streams, seeds, self.timers, interrupt=interrupt)
        worker.lanes_in_run = sampling.num_envs
        if any(map(moments_of, listeners)):
            worker.listeners = EpisodeListeners(self.env, listeners, seeds)
        if several:
            return RankedPool(worker, share, self._ranks, sampling.staleness, sampling.inference_batch_envs)
        return make_local_pool(worker, sampling.staleness, sampling.inference_batch_envs, self._note)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Refuses to pickle or copy a run, which holds processes, files and environments."""
        raise TypeError(
            f"a {type(self).__name__} holds environments, processes and open files, and cannot be pickled or copied: "
            "save it with trainer.save(path), and load another one with Trainer.load(path)"
        )

    def _facts(self) -> dict[str, object]:
        totals = self._windows.totals
        learned = {name: type(one).__name__ for name, one in self.learners.items()}
        return {
            "env": self.env.name,
            **{f"policy {name}": learned.get(name, "frozen") for name in self.policies},
            "seed": str(self.seed),
            "iteration": self.iteration,
            "env steps": self.env_steps,
            "return": sum(totals) / len(totals) if totals else None,
            "seconds": self._seconds,
        }

    @property
    def replays(self) -> dict[str, Replay]:
        """The replay of each policy whose algorithm learns from one."""
        return {name: one.replay for name, one in self.learners.items() if one.replay is not None}

    @property
    def _under_way(self) -> Progress | None:
        """The current iteration, or the last interrupted one."""
        return next(iter(list(self._apart.values())), self._progress)

    @property
    def _current_criteria(self) -> dict[str, float]:
        """Criteria of a training without given criteria: those of the last call, or else those of settings."""
        return self._criteria or criteria_of(self.config.stop)

    def _check_stop(self) -> None:
        """Raises `Interrupted` if the run is to stop, on all ranks; keeps unused rollouts."""
        try:
            self._check_request()
        except Interrupted:
            if self._progress is not None and self._progress.round is not None:
                self._progress.round.keep()
            raise

    def _introduce(self, kinds: Mapping[str, Kind]) -> None:
        """Makes policies and their algorithms.

        Args:
            kinds: The kind of agents of each policy, by its name.
        """
        for name, kind in kinds.items():
            entry = self.config.policies[name]
            note_memory(name, entry, kind, self._note)
            with started_in(self._folder):
                policy = self.policies[name] = make_policy(name, kind, self.config, self._streams, self.env)
            if entry.frozen:
                self._frozen.append(name)
                self._pool.add_policy(name, policy.requires_grad_(False), None)
                continue
            make: type[Algorithm[Any]] = ALGORITHM.find(entry.algorithm.algorithm, type(entry.algorithm))
            learner = self.learners[name] = join_ranks(make(policy, entry.algorithm, self._streams, name), self._ranks)
            learner.staleness = self.config.sampling.lag
            check_learner(learner, self.resolved)
            load_sources(name, learner, self._note)
            connect_env(learner, self.env, self._make_copies)
            self._threads[name] = self.config.threads or learning_threads(learner, self.env.num_lanes)
            self._pool.add_policy(name, learner.behaviour, total_demand(learner, self._ranks))
            self._self_play.introduce(name, learner, self._pool)
        self._pool.threads = acting_threads(self.learners, self._threads)

    @contextmanager
    def _copies(self, lanes: int, *, render: bool = False) -> Iterator[VectorEnv]:
        """Context with vectorized environments for use outside the training.

        If only one process can have the environments, the run lends its own: its running episodes are abandoned, and
        the next ones begin.

        Args:
            lanes: Number of environments; ignored if the run lends its own.
            render: Whether they can render images.
        """
        if is_only_one(self.env):
            with self._pool.lent() as env:
                yield env
        else:
            env = self._make_copies(lanes, render=render)
            try:
                yield env
            finally:
                close_env(env, env.name)

    def _make_copies(self, lanes: int, *, render: bool = False) -> VectorEnv:
        """Returns further environments, made in the folder in which the run was started.

        Args:
            lanes: Number of environments.
            render: Whether they can render images.
        """
        with started_in(self._folder):
            return make_copies(self.config, lanes, render=render)

    def _begin_iteration(self) -> Progress:
        """Returns an iteration that begins now."""
        made = {name: replay.gradient_steps for name, replay in self.replays.items()}
        return Progress(self.env_steps, self._lane_steps, self._seconds, made)

    def _count_played(self, sample: Sample) -> None:
        """Takes the counts of a sample, and makes missing policies."""
        self.env_steps, self._lane_steps = sample.env_steps, sample.lane_steps
        self._resting, self._running_length, self._counters = sample.resting, sample.running_length, sample.counters
        self._finished += sample.finished
        for take in self._parts.after_sample:
            take(sample)
        if sample.newcomers:
            self._introduce(sample.newcomers)

    def _set_clock(self, name: str, rollout: Rollout) -> None:
        """Sets the env steps, horizon and decisions of a learner before it takes a rollout."""
        learner = self.learners[name]
        learner.env_steps, learner.horizon = self.env_steps, self._horizon
        learner.decisions = self._decisions.get(name, 0) + self._pool.delivered(name, rollout)

    def _threads_of(self, name: str) -> AbstractContextManager[None]:
        """Context in which a learner computes with its threads, of kernels or of torch: with kernels, torch has too
        little work for a second thread.
        """
        number = self._threads[name]
        return kernel_threads(number) if number > 1 and self.learners[name].on_kernels else torch_threads(number)

    def _count_learned(self, name: str, rollout: Rollout) -> None:
        """Updates observation statistics and the count of decisions after a learner has taken a rollout.

        Args:
            name: The policy's name.
            rollout: The rollout.
        """
        normalizer = self.policies[name].normalizer
        if normalizer is not None and not self.learners[name].cfg.capabilities.offline:
            rows = rollout.valid_rows()
            normalizer.update({path: flat(leaf, rows) for path, leaf in rollout.obs.items()})
        self._decisions[name] = self._decisions.get(name, 0) + self._pool.delivered(name, rollout)
        for take in self._parts.after_update:
            take(name)

    def _end_round(self, this: Round, progress: Progress) -> None:
        """Distributes the weights after a round; while all environments rest, a round of replay follows.

        Raises:
            Interrupted: If the run is to stop.
        """
        progress.unplayed += this.env_steps or 0
        self._pool.set_weights({name: self.learners[name].behaviour for name in this.all_names})
        progress.round = Round(self.replays) if self._resting and not this.alone else None
        self._check_request()

    def _is_learning(self, name: str) -> bool:
        """Returns whether a policy learns from current samples."""
        return all(learns(name) for learns in self._parts.is_learning)

    def _retire(self, name: str) -> None:
        """Ends the learning of a policy that has reached its `max_decisions`; it continues to act."""
        limit = self.config.policies[name].max_decisions
        if limit is not None and self._decisions.get(name, 0) >= limit and name not in self._retired:
            self._retired.add(name)
            self._self_play.retired.append(name)
            self._pool.retire(name)

    @classmethod
    def _key_of(cls, name: str) -> str:
        """Returns the name without its first underscore: stored runs keep `pool`, which is `_pool` in code."""
        return name.removeprefix("_")

    def upgrade(self, state: dict[str, Any], version: int) -> dict[str, Any]:
        """Adds missing parts to states of version 1, and to those of version 2 that no iteration of `learn` or
        `collect` was interrupted.
        """
        added = {"curriculum": self._curriculum.state_dict(), "self_play": self._self_play.state_dict(), "apart": {}}
        return {**added, **state}

    def state_dict(self) -> dict[str, Any]:
        """Returns the state of the run."""
        state = super().state_dict()
        return {**state, "finished": [asdict(episode) for episode in self._finished]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores the result of `state_dict`, including environments in the middle of episodes."""
        self._introduce(self._pool.load_env(state["pool"]))
        state = self._upgraded(state)
        self._progress = None if state["progress"] is None else self._begin_iteration()
        self._apart = {call: self._begin_iteration() for call in state["apart"]}
        super().load_state_dict({**state, "finished": []})
        for name, learner in self.learners.items():
            learner.decisions = self._decisions.get(name, 0)
            self._retire(name)
        self._self_play.skip_retired(self._pool)  # limits may have changed since the turn was given
        self._finished = [EpisodeResult(**episode) for episode in state["finished"]]
        if self.config.threads is not None:
            self._threads = dict.fromkeys(self._threads, self.config.threads)
        self._pool.threads = acting_threads(self.learners, self._threads)
