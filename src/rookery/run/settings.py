"""Settings of a run: the sections of a configuration file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from rookery.algorithms.algorithm import AlgorithmConfig
from rookery.algorithms.names import ALGORITHMS
from rookery.algorithms.on_policy.ppo import PPOConfig
from rookery.cluster.address import problem_with
from rookery.core.config import Polymorphic
from rookery.core.errors import nearest
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
from rookery.run.findings.catalog import RULES
from rookery.run.lessons.curriculum import CourseConfig
from rookery.run.opponents.self_play import SelfPlayConfig


@dataclass(frozen=True)
class EnvConfig(Settings):
    """The environment and its construction."""

    name: Annotated[Any, CODE] = None
    """A Gymnasium id, an import path ``my.module:MyEnv``, or (in code) a class or function."""
    config: Annotated[dict[str, Any], ARGUMENTS] = field(default_factory=dict)
    """Keyword arguments of its constructor."""
    parameters: Annotated[dict[str, Any], ARGUMENTS] = field(default_factory=dict)
    """Parameters of its episodes by name: a value, or a sampler, ``{sampler: uniform, low: 0.5, high: 2}``, for domain
    randomization: each episode draws a value (docs/how-to/randomize.md).
    """
    wrappers: tuple[Annotated[Any, CODE], ...] = ()
    """Wrappers, innermost first: functions or classes, or their import paths."""
    implementation: Literal["auto", "c", "batched", "serial", "processes", "threads"] = "auto"
    """Vectorization: ``c``: a built-in C version steps all environments in one call; ``batched``: a built-in vectorized
    version in Python, or the environment's own vector form; ``serial``: a loop; ``processes``, ``threads``: several
    processes or threads step them in parallel; ``auto``: the first built-in version that exists, else the measured
    fastest.
    """
    max_entities: Length = 32
    """Maximum number of elements of a ``Sequence`` in an observation (docs/how-to/entities.md)."""
    on_error: Literal["stop", "restart"] = "stop"
    """If an environment raises: ``stop`` ends the run and shows the place; ``restart`` abandons the episode of that
    environment, up to 3 times in a row and 100 times in a million steps.
    """


@dataclass(frozen=True)
class SamplingConfig(Settings):
    """Sampling of experience."""

    num_envs: Structural[Length] = 8
    """Number of environments."""
    env_processes: Annotated[ProcessesFromZero | None, FormerName("helpers")] = None
    """Processes or threads that step environments in addition to this one; 0 = none; null = a short measurement chooses
    the number. Changes nothing but speed.
    """
    max_restarts: CountFromZero = 100
    """Maximum number of replacements of environment processes that died or hung, before the run stops."""
    step_timeout_seconds: PositiveFloat = 60.0
    """Seconds that environment processes, and workers on Ray, may take for a step before they count as hung."""
    reset_timeout_seconds: PositiveFloat = 300.0
    """Seconds that they may take to build environments, or for a step with resets."""
    iteration_steps: Count | None = None
    """Environment steps of an iteration; none = until every learning policy has been updated once."""
    warmup_steps: Structural[Annotated[NonNegativeInt, Within(16_777_216)]] = 512
    """Random decisions in throwaway environments that initialize observation normalizers, and detect categorical images
    (`model.categorical_images`) and observations far from 1 (`model.normalize_obs`).
    """
    workers: Structural[ProcessesFromZero] = 0
    """Workers on Ray that each sample a share of the environments, in their own processes and possibly on other
    machines; 0 = this process samples alone (docs/how-to/workers.md).
    """
    asynchronous: bool = False
    """Whether workers continue to sample during updates, with the weights they have."""
    max_requests_in_flight: Annotated[Few, FormerName("in_flight")] = 2
    """Fragments requested ahead from each worker, if sampling is asynchronous."""
    max_policy_lag: Annotated[CountFromZero | None, FormerName("max_lag")] = None
    """Maximum number of updates by which a fragment's weights may be behind, if sampling is asynchronous; older
    fragments are left out and counted. None = no limit.
    """
    inference_batch_envs: Annotated[Structural[Count | None], FormerName("lane_group")] = None
    """Environments whose agents decide in one forward pass of torch; none = all of a process. If set, weights do not
    depend on the number of workers; kernels do not need it.
    """
    staleness: Literal[0, 1] = 0
    """1: overlap sampling and learning; policies lag by one update (docs/how-to/asynchronous-sampling.md)."""

    @property
    def lag(self) -> int:
        """1 if learners receive rollouts of older weights than their own, else 0."""
        return int(self.staleness > 0 or (self.asynchronous and self.workers > 0))


@dataclass(frozen=True)
class ClusterConfig(Settings):
    """Learners, and the Ray cluster and resources of workers (their number is `sampling.workers`)."""

    learners: Structural[Processes] = 1
    """Number of learners, each with an equal share of the environments and its own minibatches, which agree on every
    gradient step (docs/how-to/several-learners.md).
    """
    ray: Annotated[str, Reaches("an address", default_will_do=True, but=("auto", "local", "here"))] = "auto"
    """Ray cluster: an address such as ``10.0.0.1:6379``; ``local`` starts one on this machine, for this run; ``auto``
    is the one that ``RAY_ADDRESS`` names or that runs on this machine, else ``local``; ``here`` runs all workers in
    this process, one after the other, for debuggers. Learners are on the cluster if it is an address or ``local``, else
    on this machine.
    """
    worker_cpus: PositiveFloat = 1.0
    """CPU cores of a worker, or of each learner on Ray except the first."""
    worker_gpus: NonNegative = 0.0
    """GPUs of a worker, or of each learner on Ray except the first."""
    workers_per_process: Few = 1
    """Workers that share a process, each in its own thread: for environments that wait more than they compute, and that
    can be stepped in several threads of a process.
    """
    placement: Literal["pack", "spread"] = "pack"
    """``pack``: many workers on few machines; ``spread``: equally many on each machine."""
    environment: Annotated[dict[str, str], Reaches("environment variables of processes", default_will_do=True)] = field(
        default_factory=dict
    )
    """Environment variables of the workers' processes."""
    working_directory: Annotated[str, Reaches("a path", default_will_do=True)] | None = None
    """Folder with modules and files for workers, sent to all machines; none = nothing is sent."""

    def __post_init__(self) -> None:
        if wrong := problem_with(self.ray):
            raise ValueError(f"ray = {self.ray!r}: {wrong}")


@dataclass(frozen=True)
class EvaluationConfig(Settings):
    """Evaluation during training."""

    every: CountFromZero = 0
    """Iterations between evaluations; 0 = none."""
    episodes: Rows = 20
    """Episodes per evaluation."""
    num_envs: Length = 10
    """Maximum number of environments of an evaluation."""
    workers: ProcessesFromZero = 0
    """Workers on Ray (`cluster.ray`) that evaluate the weights at the start of an iteration while it runs, each in a
    share of these environments; 0 = this process evaluates at the end of an iteration.
    """
    max_episode_steps: Count = 27_000
    """Environment steps after which an evaluated or recorded episode counts as truncated, so that an endless one does
    not block the run.
    """
    deterministic: bool = True
    """Whether to play the most likely actions."""
    lesson: Literal["last", "current"] = "last"
    """Lesson of a curriculum in evaluations: the last one, which is the goal of the run, or that of training."""


@dataclass(frozen=True)
class CheckpointConfig(Settings):
    """Checkpoints; a run with a run directory always writes one at its end."""

    every: CountFromZero | None = None
    """Iterations between checkpoints; 0 = only at the end; none = by time: at most every 5 seconds, and writing them
    takes at most a twentieth of the time, unless `every_seconds` is set.
    """
    every_seconds: PositiveFloat | None = None
    """Seconds between checkpoints, in addition to those of `every`; none = only those. They are written at the end of
    an iteration.
    """
    keep_last: Count = 3
    """Number of latest checkpoints to keep, in addition to the best and pinned ones."""


@dataclass(frozen=True)
class LoggingConfig(Settings):
    """Console output and metric files."""

    tensorboard: bool = True
    """Whether to write event files for TensorBoard into the run directory."""
    console: Literal["auto", "live", "plain", "quiet", "json"] = "quiet"
    """Progress: a live line, plain lines, nothing or JSON; ``auto`` = live at a terminal, else plain."""
    loggers: tuple[Label, ...] = ()
    """Further loggers, by the names of installed packages' plug-ins (docs/how-to/plug-in.md)."""


@dataclass(frozen=True)
class DoctorConfig(Settings):
    """Search for reasons why a run does not learn, in its metrics (docs/how-to/diagnose.md)."""

    enabled: bool = True
    """Whether each iteration looks for such reasons: they are shown in the live panel and written to
    `metrics.jsonl`. Changes nothing else.
    """
    ignore: tuple[Label, ...] = ()
    """Rules that are left out, by name (docs/troubleshooting.md)."""

    def __post_init__(self) -> None:
        for name in self.ignore:
            if name not in RULES:
                raise ValueError(f"ignore: {name!r} is not a rule{nearest(name, list(RULES))}")


@dataclass(frozen=True)
class PolicyEntry(Settings):
    """One policy: the settings of its algorithm, and how long it learns."""

    algorithm: AlgorithmConfig = field(default_factory=PPOConfig)
    """Settings of the policy's algorithm; in a file, its keys are on the same level as `frozen`."""
    frozen: Structural[bool] = False
    """Whether the policy acts without learning; its experience is not kept."""
    max_decisions: Count | None = None
    """Decisions that the policy learns from; then it acts without learning. None = it learns until the run ends. With
    `stop.finished_share=1` a run ends when all policies have reached their limit.
    """
    init_from: AtStart[Annotated[str, Reaches("a path")] | None] = None
    """Run or checkpoint whose weights and normalizer the policy starts with, ``runs/x`` or ``runs/x:policy``."""


AGENTS_ADVICE = "the agents of a policy are set in policy_mapping, as in policy_mapping: {agent: policy}"
"""Advice for a value that is not settings of a policy."""


@dataclass(frozen=True)
class RunConfig(Settings):
    """All settings of a run."""

    env: Structural[EnvConfig] = field(default_factory=EnvConfig)
    """The environment and its construction."""
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    """Sampling of experience."""
    cluster: ClusterConfig = field(default_factory=ClusterConfig)
    """Learners, and the Ray cluster and resources of workers."""
    algorithm: Annotated[AlgorithmConfig, Polymorphic("ppo")] = field(default_factory=PPOConfig)
    """Settings of the algorithm, inherited by every policy; the key ``name`` chooses the algorithm."""
    policies: Annotated[
        dict[Label, PolicyEntry], Polymorphic(inherits="algorithm", entry=PolicyEntry, advice=AGENTS_ADVICE)
    ] = field(default_factory=dict)
    """Policies by name: settings of their algorithms, and ``frozen``."""
    curriculum: Structural[dict[Label, CourseConfig]] = field(default_factory=dict)
    """Lessons of environment parameters, by name (docs/how-to/curriculum.md)."""
    self_play: Structural[dict[Label, SelfPlayConfig]] = field(default_factory=dict)
    """Policies that play against themselves or each other, by name (docs/how-to/self-play.md)."""
    teams: Structural[dict[Label, tuple[Label, ...]]] = field(default_factory=dict)
    """Agents that act as one agent, by the name of their team, ``{blue: [a, b]}`` (docs/how-to/teams.md)."""
    policy_mapping: Structural[Annotated[Any, NAME]] = None
    """Agent to policy: a dict, or (in code) a function ``(agent, episode) -> policy``."""
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    """Evaluation during training."""
    stop: dict[Label, float | None] = field(default_factory=dict)
    """Criteria, any of which ends training: env_steps, iterations, seconds, minutes, episodes, or the threshold of a
    metric; none removes a criterion. Criteria are checked between iterations: a long iteration overshoots any of them,
    seconds too.
    """
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    """Checkpoints."""
    logging: LoggingConfig = field(default_factory=LoggingConfig)
    """Console output and metric files."""
    doctor: DoctorConfig = field(default_factory=DoctorConfig)
    """Search for reasons why a run does not learn."""
    seed: Structural[CountFromZero | None] = None
    """Random seed of the run; none = drawn once and stored."""
    device: Structural[Label] = "cpu"
    """Device of the networks: ``cpu``, ``cuda``, ``cuda:N``, ``mps``, or ``auto`` for the first of CUDA, MPS and the
    CPU; environments step on the CPU.
    """
    threads: Processes | None = None
    """Threads for learning; none = one; half of the cores where torch learns from images or with large layers; up to
    all cores for large updates with kernels. Inference uses one thread, except for image policies.
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
    "doctor",
    "device",
    "threads",
)
"""Settings and sections of settings that `Trainer` takes as keywords."""


def algorithm_name(cfg: Settings) -> str:
    """Returns the short name of a settings object's class, or its import path if it has none."""
    path = object_name(type(cfg))
    return next((name for name, known in ALGORITHMS.items() if known == path), path)


def algorithm_family(cfg: Settings) -> str:
    """Returns the short name of the built-in algorithm whose settings these are, or extend; empty if there is none."""
    names = {path: name for name, path in ALGORITHMS.own.items()}
    return next((names[path] for cls in type(cfg).__mro__ if (path := object_name(cls)) in names), "")


def settings_of(config: RunConfig, policy: str) -> AlgorithmConfig:
    """Returns the settings of the algorithm of a policy, which may not have an entry yet."""
    entry = config.policies.get(policy)
    return config.algorithm if entry is None else entry.algorithm


def has_own_class(config: RunConfig) -> bool:
    """Returns whether a policy's settings are of another class than the section `algorithm`, and inherit nothing."""
    return any(type(entry.algorithm) is not type(config.algorithm) for entry in config.policies.values())
