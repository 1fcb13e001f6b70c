"""Everything that changes while a run trains: who plays, who learns, and how far both have come."""

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
from rookery.rollout.device_pool import make_local_pool
from rookery.rollout.hooks import UNNAMED, EpisodeListener, EpisodeListeners, EpisodeResult, moments_of
from rookery.rollout.mapping import PolicyMapping
from rookery.rollout.pool import WorkerPool
from rookery.rollout.remote.ranked_pool import RankedPool
from rookery.rollout.remote.shares import LaneShare, ShareMapping
from rookery.rollout.worker import RolloutWorker, Sample
from rookery.run.checkpoint.path_folders import as_typed
from rookery.run.checkpoint.replays import load_sources
from rookery.run.checks.memory_check import note_memory
from rookery.run.compute import acting_threads, learning_threads
from rookery.run.lessons.curriculum import Curriculum
from rookery.run.lessons.parameters import check_parameters, training_plan
from rookery.run.opponents.rating_games import RatingGames
from rookery.run.opponents.self_play import SelfPlay
from rookery.run.parts import Parts
from rookery.run.prepare import check_learner, kinds_of, make_copies, make_policy
from rookery.run.ranks.learners import check_copies
from rookery.run.ranks.run_workers import WorkerRecipe, workers_elsewhere
from rookery.run.settings import RunConfig
from rookery.run.stopping import criteria_of, horizon_of

ALGORITHM = CodeKind("an algorithm (a class of rookery.extend.Algorithm)", lambda found: issubclass(found, Algorithm))


class Measured(Protocol):
    """Episodes of an evaluation."""

    def standing(self) -> str:
        """Returns their progress as text; may be called from another thread."""
        ...


class Round(Stateful):
    """Learning that follows one call of playing, or that takes place while nothing is played.

    Args:
        names: Policies that learn, in this order.
        rollouts: Rollouts of these policies by name; None = they learn from replay alone.
        env_steps: Environment steps that learning from replay alone is for; None = those of one call of playing.

    Attributes:
        alone: Whether they learn from replay alone.
        left: Gradient steps on replay that the first policy still has to make; None = not begun.
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
        """Copies the rollouts, whose memory is overwritten by further playing."""
        self.rollouts = {name: rollout.map(lambda _, tensor: tensor.clone()) for name, rollout in self.rollouts.items()}

    def state_dict(self) -> dict[str, Any]:
        """Returns the whole state, rollouts included."""
        rollouts = {
            name: vars(rollout.map(lambda _, tensor: tensor.to("cpu", copy=True)))
            for name, rollout in self.rollouts.items()
        }
        return {**super().state_dict(), "rollouts": rollouts, "all_names": list(self.all_names)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes over what `state_dict` gave."""
        state = dict(state)
        self.rollouts = {name: Rollout(**fields) for name, fields in state.pop("rollouts").items()}
        self.all_names = tuple(state.pop("all_names"))
        super().load_state_dict(state)


class Progress(Stateful):
    """An iteration under way.

    Args:
        env_steps: Environment steps of the run when it began.
        lane_steps: These and those in which copies rested.
        seconds: Seconds of training when it began.
        gradient_steps: Those of each policy with replay when it began.
    """

    state_version = 2
    saved = ("env_steps", "lane_steps", "seconds", "gradient_steps", "unplayed", "learned", "sizes", "round")

    def __init__(self, env_steps: int, lane_steps: int, seconds: float, gradient_steps: Mapping[str, int]) -> None:
        self.env_steps = env_steps
        self.lane_steps = lane_steps
        self.seconds = seconds
        self.gradient_steps = dict(gradient_steps)
        self.unplayed = 0
        """Env steps that were learned for and not played, because sampling is paused."""
        self.learned: dict[str, list[dict[str, Any]]] = {}
        """What each policy's updates reported."""
        self.sizes: dict[str, tuple[int, int]] = {}
        """Decisions and cut fragments of each policy's last rollout."""
        self.round: Round | None = None
        """The learning under way; None while playing."""

    def upgrade(self, state: dict[str, Any], version: int) -> dict[str, Any]:
        """Adds to states of version 1, which were never stopped while learning, that no learning is under way."""
        return {"round": None, **state}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes over what `state_dict` gave."""
        self.round = None if state.get("round") is None else Round()
        super().load_state_dict(state)

    def note(self, name: str, row: dict[str, Any], rollout: Rollout) -> None:
        """Takes down an update of a policy."""
        self.learned.setdefault(name, []).append(row)
        self.sizes[name] = (rollout.num_decisions, rollout.num_cut)

    def pass_over(self, env_steps: int, lane_steps: int) -> None:
        """Leaves out what was played meanwhile in another iteration."""
        self.env_steps += env_steps
        self.lane_steps += lane_steps


class Windows(Stateful):
    """The last finished episodes, for the running means."""

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
        """Of the episodes that ended in the latest iteration."""
        self.parameters: dict[str, deque[float]] = {}
        self.groups: dict[str, deque[float]] = {}
        self.reported: dict[str, tuple[str, list[float]]] = {}
        """What the environment reported in the latest iteration."""
        self.kept: list[EpisodeResult] | None = None
        """Episodes one by one, for whoever puts a list here, and empties it."""
        self.sources: dict[str, str] = {}
        """Name of the callback that measured each metric."""
        self.absent: frozenset[str] = frozenset()
        """Names of callbacks that a loaded run had and was not given; their metrics are not current."""

    def upgrade(self, state: dict[str, Any], version: int) -> dict[str, Any]:
        """Adds to states of version 1 who measured each metric, which is not known."""
        return {**state, "sources": {}}

    @property
    def current_metrics(self) -> dict[str, deque[float]]:
        """The metrics of present callbacks."""
        return {name: v for name, v in self.metrics.items() if self.sources.get(name, UNNAMED) not in self.absent}

    def add(self, finished: Iterable[EpisodeResult], env: VectorEnv | None = None) -> None:
        """Takes the finished episodes of an iteration in the order they ended, and what the environment reported."""
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


class Run(Stateful):
    """The state of a training, without the loop that moves it on.

    Args:
        resolved: Settings of the run.
        env: The copies of the environment.
        mapping: Which policy plays which agent.
        listeners: Objects that want to hear of episodes, in the order in which they are told.
        note: Function that is given a line which a user should read once.
        ranks: The learners of the run, of which this is one.

    Attributes:
        folder: Folder in which the run was started in this process, where relative paths begin.
        pool: Plays.
        policies: By name.
        learners: The algorithm of each policy that learns.
        frozen: Names of those that do not learn.
        env_steps: Environment steps so far.
        lane_steps: These, and those in which copies rested.
        resting: Whether all copies rest.
        running_length: Mean length of the episodes that are running.
        counters: What could not be learned from as it should, so far.
        finished: Episodes that ended in the iteration under way.
        windows: The last finished episodes before that.
        threads: Threads that each learner's steps are worth; as they were at the start of the run, wherever it goes on.
        iteration: Iterations so far.
        seconds: Seconds of training so far: wall time, with checkpoints, evaluations and callbacks.
        decisions: Decisions that each policy has learned from.
        retired: Policies that have learned from all the decisions that they are to learn from, `max_decisions`.
        last_learning: What the algorithms reported of the last iteration in which they learned.
        paused: Whether iterations learn from replay alone.
        progress: The iteration that is under way, so that a run can be stopped and taken up in the middle of it.
        apart: The same for an iteration of learning alone or of playing alone, by the name of the call.
        measured: The evaluation under way, or None.
        criteria: What last ended a training, or was to end it.
        curriculum: Lessons of environment parameters, and how far they have come.
        self_play: Who plays whom, where policies play against themselves.
        draws: What is drawn for environment parameters.
        parts: Features that take part in iterations; a trainer makes them.
        check_request: Raises `Interrupted` if the run was asked to stop, on all ranks in the same moment.
        horizon: Environment step at which schedules without a length of their own end (`run/horizon.py`); None =
            not known yet, infinity = they stay constant.
        score: What the best checkpoint is chosen by: the last evaluation's mean return, or else that of training.
    """

    # learners after policies: what settings say anew of how a policy acts holds
    state_version = 3
    saved: ClassVar[tuple[str, ...]] = (
        "pool", "policies", "learners", "windows", "timers", "iteration", "seconds", "decisions", "last_learning",
        "frozen", "threads", "horizon", "criteria", "progress", "score", "paused", "env_steps", "lane_steps",
        "resting", "running_length", "counters", "finished", "curriculum", "self_play", "apart",
    )  # fmt: skip
    fixed: ClassVar[tuple[str, ...]] = (
        "resolved",
        "config",
        "seed",
        "streams",
        "env",
        "mapping",
        "staging",
        "interrupt",
        "clock",
        "note",
        "draws",
        "match",
        "retired",
        "ranks",
        "measured",
        "folder",
        "parts",
        "check_request",
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
        self.ranks = ranks
        self.folder = starting_folder()
        check_copies(env, ranks)
        self.resolved = resolved
        self.config = resolved.config
        self.env = env
        self.mapping = mapping
        self.note = note
        self.seed: int = ranks.first(randbits(31) if self.config.seed is None else self.config.seed)
        self.streams = Streams(self.seed)
        self.timers = Timers()
        self.interrupt = Interrupt()
        self.check_request: Callable[[], None] = (
            partial(ranks.check, self.interrupt) if ranks.size > 1 else self.interrupt.check
        )
        self.parts = Parts()
        self.clock = Clock()
        self.staging = staging_to(torch.device(self.config.device))
        self.policies: dict[str, Policy] = {}
        self.learners: dict[str, Algorithm[Any]] = {}
        self.frozen: list[str] = []
        self.threads: dict[str, int] = {}
        self.windows = Windows()
        self.finished: list[EpisodeResult] = []
        self.env_steps = self.lane_steps = 0
        self.resting = False
        self.running_length = 0.0
        self.counters: dict[str, int] = {}
        self.iteration = 0
        self.seconds = 0.0
        self.decisions: dict[str, int] = {}
        self.retired: set[str] = set()
        self.last_learning: dict[str, Row] = {}
        self.paused = False
        self.progress: Progress | None = None
        self.apart: dict[str, Progress] = {}
        self.measured: Measured | None = None
        self.criteria: dict[str, float] = {}
        self.score: float | None = None
        self.horizon: float | None = horizon_of(self.config.stop)
        self.draws = check_parameters(resolved, env)
        self.curriculum = Curriculum(self.config.curriculum)
        self.self_play = SelfPlay(resolved, env, mapping, self.streams)
        self.match = RatingGames(self.config, self.draws, self.streams, mapping, self.copies)
        self.pool = self._make_pool(listeners)
        self.counters = self.pool.counters()
        self.introduce(self.self_play.with_exploiters(kinds_of(env, mapping)))

    def _make_pool(self, listeners: Sequence[EpisodeListener]) -> WorkerPool:
        """Makes what plays: a worker in this process, or workers elsewhere."""
        if isinstance(self.env, RemoteEnvStub):
            recipe = WorkerRecipe(
                as_typed(self.resolved), self.mapping, self.streams, self.draws, tuple(listeners), make_copies
            )
            return workers_elsewhere(recipe, self.env, self.timers, self.interrupt, self.note)
        sampling, several = self.config.sampling, self.ranks.size > 1
        share = LaneShare(self.ranks.rank, *self.ranks.share(sampling.num_envs), (0,) * self.env.num_lanes)
        seeds = training_plan(self.draws, self.streams, share.place if several else None)
        mapping = ShareMapping(self.mapping, share) if several else self.self_play.mapping
        interrupt = None if several else self.interrupt  # several stop together, after a round
        worker = RolloutWorker(self.env, mapping, self.streams, seeds, self.timers, interrupt=interrupt)
        worker.lanes_in_run = sampling.num_envs
        if any(map(moments_of, listeners)):
            worker.listeners = EpisodeListeners(self.env, listeners, seeds)
        if several:
            return RankedPool(worker, share, self.ranks, sampling.staleness, sampling.lane_group)
        return make_local_pool(worker, sampling.staleness, sampling.lane_group, self.note)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Refuses to pickle or copy a run, which holds processes, files and environments."""
        raise TypeError(
            f"a {type(self).__name__} holds environments, processes and open files, and cannot be pickled or copied: "
            "save it with trainer.save(path), and make another one of it with Trainer.load(path)"
        )

    @property
    def replays(self) -> dict[str, Replay]:
        """The replay of each policy whose algorithm learns from one."""
        return {name: one.replay for name, one in self.learners.items() if one.replay is not None}

    @property
    def under_way(self) -> Progress | None:
        """The iteration that is under way, or was stopped last."""
        return next(iter(list(self.apart.values())), self.progress)

    @property
    def standing_criteria(self) -> dict[str, float]:
        """What ends a training that is given no criteria: those that it was last given, or else those of settings."""
        return self.criteria or criteria_of(self.config.stop)

    def check_stop(self) -> None:
        """Raises `Interrupted` if the run is to stop, on all ranks; keeps rollouts that no update has used yet."""
        try:
            self.check_request()
        except Interrupted:
            if self.progress is not None and self.progress.round is not None:
                self.progress.round.keep()
            raise

    def introduce(self, kinds: Mapping[str, Kind]) -> None:
        """Makes policies, and the algorithms that learn them.

        Args:
            kinds: The kind of agents that each of them plays, by the policy's name.
        """
        for name, kind in kinds.items():
            entry = self.config.policies[name]
            note_memory(name, entry, kind, self.note)
            with started_in(self.folder):
                policy = self.policies[name] = make_policy(name, kind, self.config, self.streams, self.env)
            if entry.frozen:
                policy.requires_grad_(False)
                self.frozen.append(name)
                self.pool.add_policy(name, policy, None)
                continue
            make: type[Algorithm[Any]] = ALGORITHM.find(entry.algorithm.algorithm)
            learner = self.learners[name] = join_ranks(make(policy, entry.algorithm, self.streams, name), self.ranks)
            learner.staleness = self.config.sampling.lag
            check_learner(learner, self.resolved)
            load_sources(name, learner, self.note)
            self.threads[name] = self.config.threads or learning_threads(learner, self.env.num_lanes)
            self.pool.add_policy(name, learner.behaviour, total_demand(learner, self.ranks))
            self.self_play.introduce(name, learner, self.pool)
        self.pool.threads = acting_threads(self.learners, self.threads)

    @contextmanager
    def copies(self, lanes: int, *, render: bool = False) -> Iterator[VectorEnv]:
        """Gives copies of the environment to play in beside the training, until this ends.

        Where the run has the only ones, it lends them: its running episodes are given up, and the next ones begin.

        Args:
            lanes: How many; of the only ones there are as many as there are.
            render: Whether they can be asked for pictures.
        """
        if is_only_one(self.env):
            with self.pool.lent() as env:
                yield env
        else:
            env = self.make_copies(lanes, render=render)
            try:
                yield env
            finally:
                close_env(env, env.name)

    def make_copies(self, lanes: int, *, render: bool = False) -> VectorEnv:
        """Makes copies of the environment beside those that the run trains in, in the folder in which it was started.

        Args:
            lanes: How many.
            render: Whether they can be asked for pictures.
        """
        with started_in(self.folder):
            return make_copies(self.config, lanes, render=render)

    def begin_iteration(self) -> Progress:
        """An iteration that begins now."""
        made = {name: replay.gradient_steps for name, replay in self.replays.items()}
        return Progress(self.env_steps, self.lane_steps, self.seconds, made)

    def count_played(self, sample: Sample) -> None:
        """Takes over the counts of playing, and makes missing policies."""
        self.env_steps, self.lane_steps = sample.env_steps, sample.lane_steps
        self.resting, self.running_length, self.counters = sample.resting, sample.running_length, sample.counters
        self.finished += sample.finished
        for take in self.parts.after_sample:
            take(sample)
        if sample.newcomers:
            self.introduce(sample.newcomers)

    def tell_time(self, name: str, rollout: Rollout) -> None:
        """Tells a learner how far the run is, and how far its policy is with a rollout that it takes now."""
        learner = self.learners[name]
        learner.env_steps, learner.horizon = self.env_steps, self.horizon
        learner.decisions = self.decisions.get(name, 0) + self.pool.delivered(name, rollout)

    def threads_of(self, name: str) -> AbstractContextManager[None]:
        """Lets a learner compute with its threads inside, of kernels or of torch: beside kernels, torch has too little
        work for a second thread.
        """
        number = self.threads[name]
        return kernel_threads(number) if number > 1 and self.learners[name].on_kernels else torch_threads(number)

    def count_learned(self, name: str, rollout: Rollout) -> None:
        """Updates observation statistics and the count of decisions by a rollout that a learner has taken.

        Args:
            name: The policy's name.
            rollout: What it has learned from, or stored.
        """
        normalizer = self.policies[name].normalizer
        if normalizer is not None and not self.learners[name].cfg.capabilities.offline:
            rows = rollout.valid_rows()
            normalizer.update({path: flat(leaf, rows) for path, leaf in rollout.obs.items()})
        self.decisions[name] = self.decisions.get(name, 0) + self.pool.delivered(name, rollout)
        for take in self.parts.after_update:
            take(name)

    def end_round(self, this: Round, progress: Progress) -> None:
        """Distributes the weights after a round; while all environments rest, a round of learning from replay follows.

        Raises:
            Interrupted: If the run is to stop.
        """
        progress.unplayed += this.env_steps or 0
        self.pool.set_weights({name: self.learners[name].behaviour for name in this.all_names})
        progress.round = Round(self.replays) if self.resting and not this.alone else None
        self.check_request()

    def is_learning(self, name: str) -> bool:
        """Whether a policy learns from what is played now."""
        return all(learns(name) for learns in self.parts.is_learning)

    def retire(self, name: str) -> None:
        """Lets a policy play on without learning, if it has learned all it is to."""
        limit = self.config.policies[name].max_decisions
        if limit is not None and self.decisions.get(name, 0) >= limit and name not in self.retired:
            self.retired.add(name)
            self.self_play.retired.append(name)
            self.pool.retire(name)

    def upgrade(self, state: dict[str, Any], version: int) -> dict[str, Any]:
        """Adds to states of version 1 the parts that the first runs did not have, and to those of version 2 that no
        iteration of learning alone or of playing alone was stopped in its middle.
        """
        added = {"curriculum": self.curriculum.state_dict(), "self_play": self.self_play.state_dict(), "apart": {}}
        return {**added, **state}

    def state_dict(self) -> dict[str, Any]:
        """Everything that changes."""
        state = super().state_dict()
        return {**state, "finished": [asdict(episode) for episode in self.finished]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes over what `state_dict` gave, environments in the middle of their episodes included."""
        self.introduce(self.pool.load_env(state["pool"]))
        state = self.upgraded(state)
        self.progress = None if state["progress"] is None else self.begin_iteration()
        self.apart = {call: self.begin_iteration() for call in state["apart"]}
        super().load_state_dict({**state, "finished": []})
        for name, learner in self.learners.items():
            learner.decisions = self.decisions.get(name, 0)
            self.retire(name)
        self.self_play.skip_retired(self.pool)  # limits may be others than when the turn was given
        self.finished = [EpisodeResult(**episode) for episode in state["finished"]]
        if self.config.threads is not None:
            self.threads = dict.fromkeys(self.threads, self.config.threads)
        self.pool.threads = acting_threads(self.learners, self.threads)
