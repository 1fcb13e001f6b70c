"""The settings of a run: the sections of a configuration file, and how the layers of one run are put together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from rookery.algorithms.algorithm import AlgorithmConfig
from rookery.algorithms.names import ALGORITHMS
from rookery.algorithms.on_policy.ppo import PPOConfig
from rookery.cluster.address import problem_with
from rookery.core.config import Polymorphic
from rookery.core.settings.fields import (
    AtStart,
    FormerName,
    NonNegative,
    NonNegativeInt,
    PositiveFloat,
    Settings,
    Structural,
    fields_of,
    former_names,
    object_name,
)
from rookery.core.settings.reach import (
    ARGUMENTS,
    CODE,
    NAME,
    Count,
    CountFromZero,
    Few,
    Label,
    Length,
    Processes,
    ProcessesFromZero,
    Reaches,
    Rows,
    Within,
)
from rookery.run.lessons.curriculum import CourseConfig
from rookery.run.opponents.self_play import SelfPlayConfig


@dataclass(frozen=True)
class EnvConfig(Settings):
    """Which environment, and how it is built."""

    name: Annotated[Any, CODE] = None
    """A Gymnasium id, an import path ``my.module:MyEnv``, or (in code) a class or function."""
    config: Annotated[dict[str, Any], ARGUMENTS] = field(default_factory=dict)
    """Arguments of its constructor."""
    parameters: Annotated[dict[str, Any], ARGUMENTS] = field(default_factory=dict)
    """Parameters of its episodes by name: a value, or a sampler, ``{sampler: uniform, low: 0.5, high: 2}``, from which
    each episode draws (docs/how-to/randomize.md).
    """
    wrappers: tuple[Annotated[Any, CODE], ...] = ()
    """Wrappers, the innermost first: functions or classes, or their import paths."""
    implementation: Literal["auto", "c", "batched", "serial", "processes", "threads"] = "auto"
    """``c``: all copies step in one call of a twin in C; ``batched``: in one of a twin in Python, or the environment's
    own vector form; ``serial``: a loop over copies; ``processes``, ``threads``: helpers step shares of them at the same
    time; ``auto``: the first of both twins that there is, else what is measured to be fastest.
    """
    max_entities: Length = 32
    """Room for the elements of a ``Sequence`` in an observation (docs/how-to/entities.md)."""
    on_error: Literal["stop", "restart"] = "stop"
    """An environment that raises: ``stop`` ends the run and shows where; ``restart`` gives up the episode of that copy,
    up to 3 times in a row and 100 times in a million steps.
    """


@dataclass(frozen=True)
class SamplingConfig(Settings):
    """How experience is made."""

    num_envs: Structural[Length] = 8
    """Copies of the environment."""
    env_processes: Annotated[ProcessesFromZero | None, FormerName("helpers")] = None
    """Processes or threads that step environments beside this one; 0 = none; null = a short measurement chooses the
    number. Changes nothing but speed.
    """
    max_restarts: CountFromZero = 100
    """How many environment processes that died or hung may be replaced before the run stops."""
    step_timeout_seconds: PositiveFloat = 60.0
    """How long helper processes, and workers on Ray, may take for a step of all copies before they count as hung."""
    reset_timeout_seconds: PositiveFloat = 300.0
    """How long they may take to build the copies, or for a step in which copies are reset."""
    iteration_steps: Count | None = None
    """Environment steps of an iteration; none = until every learning policy has been updated once."""
    warmup_steps: Structural[Annotated[NonNegativeInt, Within(16_777_216)]] = 512
    """Random decisions on throwaway copies that observation normalizers start from, and by which pictures of codes are
    told from those of pixels (`model.categorical_images`).
    """
    workers: Structural[ProcessesFromZero] = 0
    """Workers on Ray that each play a share of the copies, with their own processes and perhaps machines; 0 = this
    process plays all of them (docs/how-to/workers.md).
    """
    asynchronous: bool = False
    """Whether workers play on while their rollouts are learned from, with the weights they have."""
    in_flight: Few = 2
    """Fragments that each worker is asked for ahead, where playing is asynchronous."""
    max_lag: CountFromZero | None = None
    """Updates that a fragment may be behind when it comes, where playing is asynchronous; older ones are left out and
    counted. None = any.
    """
    lane_group: Structural[Count | None] = None
    """Copies whose agents decide in one pass where torch computes a policy; none = all of a process. With it, runs have
    the same weights however many workers play; kernels need it not.
    """
    staleness: Literal[0, 1] = 0
    """1: overlap sampling and learning; policies lag by one update (docs/how-to/asynchronous-sampling.md)."""

    @property
    def lag(self) -> int:
        """1 if learners get what older weights than theirs have played, else 0."""
        return int(self.staleness > 0 or (self.asynchronous and self.workers > 0))


@dataclass(frozen=True)
class ClusterConfig(Settings):
    """How many learn together; where workers are, and what they get (how many there are says `sampling.workers`)."""

    learners: Structural[Processes] = 1
    """Learners, each with an equal share of the copies and with minibatches of its own, which agree on every gradient
    step (docs/how-to/several-learners.md).
    """
    ray: Annotated[str, Reaches("an address", default_will_do=True, but=("auto", "local", "here"))] = "auto"
    """Cluster of Ray: an address, as ``10.0.0.1:6379``; ``local`` begins one on this machine, for this run; ``auto`` is
    the one that ``RAY_ADDRESS`` names or that runs on this machine, else ``local``; ``here`` plays all workers in this
    process, one after the other, for debuggers. Learners are on it where it is named or ``local``, else on this
    machine.
    """
    worker_cpus: PositiveFloat = 1.0
    """Cores that a worker gets, or each learner on Ray but the first."""
    worker_gpus: NonNegative = 0.0
    """GPUs that a worker gets, or each learner on Ray but the first."""
    workers_per_process: Few = 1
    """Workers that share a process, each in a thread of its own: for environments that wait more than they compute, and
    of which several can be stepped at once in one process.
    """
    placement: Literal["pack", "spread"] = "pack"
    """``pack``: few machines have many workers; ``spread``: each machine has as many as the others."""
    environment: Annotated[dict[str, str], Reaches("environment variables of processes", default_will_do=True)] = field(
        default_factory=dict
    )
    """Environment variables of the workers' processes."""
    working_directory: Annotated[str, Reaches("a path", default_will_do=True)] | None = None
    """Folder that is sent to all machines, in which workers find modules and files; none = what is there already."""

    def __post_init__(self) -> None:
        if wrong := problem_with(self.ray):
            raise ValueError(f"ray = {self.ray!r}: {wrong}")


@dataclass(frozen=True)
class EvaluationConfig(Settings):
    """Measuring while training."""

    every: CountFromZero = 0
    """Iterations between evaluations; 0 = none."""
    episodes: Rows = 20
    """Episodes an evaluation."""
    num_envs: Length = 10
    """Copies of the environment to evaluate in, at most."""
    workers: ProcessesFromZero = 0
    """Workers on Ray (`cluster.ray`) that evaluate beside training, what an iteration begins with while it is made,
    each in a share of these copies; 0 = this process, at the end of an iteration.
    """
    max_episode_steps: Count = 27_000
    """Environment steps after which an episode that is evaluated or recorded counts as truncated, so that one that
    never ends cannot hold everything up.
    """
    deterministic: bool = True
    """Play the most likely actions."""
    lesson: Literal["last", "current"] = "last"
    """Which lesson of a curriculum is played: the last, which is what the run is for, or that of training."""


@dataclass(frozen=True)
class CheckpointConfig(Settings):
    """When the state of the run is kept; there is always a checkpoint at the end, if there is a run directory."""

    every: CountFromZero | None = None
    """Iterations between checkpoints; 0 = only at the end; none = as time goes by: every 5 seconds at most, and so
    seldom that writing them takes at most a twentieth of the time, unless `every_seconds` says otherwise.
    """
    every_seconds: PositiveFloat | None = None
    """Seconds between checkpoints, beside those that `every` asks for; none = only those. One is written when the
    iteration under way is over.
    """
    keep_last: Count = 3
    """How many of the latest stay; the best and pinned ones stay besides."""


@dataclass(frozen=True)
class LoggingConfig(Settings):
    """What is shown and kept."""

    tensorboard: bool = True
    """Whether a run directory gets event files for TensorBoard."""
    console: Literal["auto", "live", "plain", "quiet", "json"] = "quiet"
    """Progress: a live line, plain lines, nothing; ``auto`` = live at a terminal, else plain."""
    loggers: tuple[Label, ...] = ()
    """Further loggers, by the names that installed packages give them (docs/how-to/plug-in.md)."""


@dataclass(frozen=True)
class PolicyEntry(Settings):
    """One policy: the settings of its algorithm, and what becomes of it."""

    algorithm: AlgorithmConfig = field(default_factory=PPOConfig)
    """Settings of its algorithm; in a file its keys stand beside `frozen`."""
    frozen: Structural[bool] = False
    """Plays and does not learn; nothing it does is kept."""
    max_decisions: Count | None = None
    """Decisions that the policy learns from; then it plays on as it is, and nothing of it is kept. None = it learns
    until the run ends; a run that is to end when all of them have learned has `stop.finished_share=1`.
    """
    init_from: AtStart[Annotated[str, Reaches("a path")] | None] = None
    """A run or checkpoint whose weights and normalizer it starts with, ``runs/x`` or ``runs/x:policy``."""


WHO_PLAYS = "which agents a policy plays is said in policy_mapping, as in policy_mapping: {agent: policy}"
"""What is to be written instead of something that is no settings of a policy."""


@dataclass(frozen=True)
class RunConfig(Settings):
    """Everything that decides a run."""

    env: Structural[EnvConfig] = field(default_factory=EnvConfig)
    """Which environment, and how it is built."""
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    """How experience is made."""
    cluster: ClusterConfig = field(default_factory=ClusterConfig)
    """How many learn together; where workers are, and what they get."""
    algorithm: Annotated[AlgorithmConfig, Polymorphic("ppo")] = field(default_factory=PPOConfig)
    """Settings of the algorithm that every policy starts from; its key ``name`` chooses which."""
    policies: Annotated[
        dict[Label, PolicyEntry], Polymorphic(inherits="algorithm", entry=PolicyEntry, advice=WHO_PLAYS)
    ] = field(default_factory=dict)
    """Policies by name: settings of their own algorithm, and ``frozen``."""
    curriculum: Structural[dict[Label, CourseConfig]] = field(default_factory=dict)
    """Lessons of environment parameters, by name (docs/how-to/curriculum.md)."""
    self_play: Structural[dict[Label, SelfPlayConfig]] = field(default_factory=dict)
    """Policies that play against themselves or each other, by name (docs/how-to/self-play.md)."""
    teams: Structural[dict[Label, tuple[Label, ...]]] = field(default_factory=dict)
    """Agents that see, act and earn as one, by the name of their team, ``{blue: [a, b]}`` (docs/how-to/teams.md)."""
    policy_mapping: Structural[Annotated[Any, NAME]] = None
    """Agent to policy: a dict, or (in code) a function ``(agent, episode) -> policy``."""
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    """Measuring while training."""
    stop: dict[Label, float | None] = field(default_factory=dict)
    """Criteria, any of which ends training: env_steps, iterations, seconds, minutes, episodes, or a metric that must
    reach a value; none takes one away. Criteria are checked between iterations: a long iteration overshoots any of
    them, seconds too.
    """
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    """When the state of the run is kept."""
    logging: LoggingConfig = field(default_factory=LoggingConfig)
    """What is shown and kept."""
    seed: Structural[CountFromZero | None] = None
    """Names all random streams; none = drawn once and noted."""
    device: Structural[Literal["cpu", "cuda"]] = "cpu"
    """Where networks act and learn; environments step on the processor."""
    threads: Processes | None = None
    """Threads while learning; none = one, half of the cores where torch learns from pictures or with large layers, and
    up to all of them where kernels have enough to do. Acting has one, or as many where it is on pictures.
    """


SHORTHANDS = {
    **{name: f"sampling.{name}" for name in (*fields_of(SamplingConfig), *former_names(SamplingConfig))},
    "env_config": "env.config",
    "wrappers": "env.wrappers",
    "max_entities": "env.max_entities",
    "parameters": "env.parameters",
    "model": "algorithm.model",
    "console": "logging.console",
    "evaluation_every": "evaluation.every",
    "evaluation_episodes": "evaluation.episodes",
    "checkpoint_every": "checkpoint.every",
}
"""Keywords of `Trainer` that stand for a path."""

SECTIONS = (
    "sampling",
    "cluster",
    "curriculum",
    "self_play",
    "teams",
    "evaluation",
    "checkpoint",
    "stop",
    "logging",
    "device",
    "threads",
)
"""Settings and sections of settings that `Trainer` takes as keywords."""


def algorithm_name(cfg: Settings) -> str:
    """The short name of a settings object's class, or its import path if it has none."""
    path = object_name(type(cfg))
    return next((name for name, known in ALGORITHMS.items() if known == path), path)


def algorithm_family(cfg: Settings) -> str:
    """The short name of the algorithm whose settings these are, or extend; empty if it is none of ours."""
    ours = {path: name for name, path in ALGORITHMS.own.items()}
    return next((ours[path] for cls in type(cfg).__mro__ if (path := object_name(cls)) in ours), "")


def settings_of(config: RunConfig, policy: str) -> AlgorithmConfig:
    """Returns the settings of the algorithm of a policy, which need not have an entry of its own yet."""
    entry = config.policies.get(policy)
    return config.algorithm if entry is None else entry.algorithm


def has_own_class(config: RunConfig) -> bool:
    """Says whether a policy's settings are of another class than the section `algorithm`, and take nothing of it."""
    return any(type(entry.algorithm) is not type(config.algorithm) for entry in config.policies.values())
