"""The settings of an experiment: section ``tune`` of a file, keywords of `tune.run`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from rookery.core.config import Polymorphic
from rookery.core.settings.fields import NonNegative, PositiveFloat, Settings, show
from rookery.core.settings.reach import ARGUMENTS, CODE, CountFromZero, Few, Label, Processes, Rows
from rookery.tune.names import SCHEDULERS, SEARCHES
from rookery.tune.scheduler import FIFOConfig, SchedulerConfig
from rookery.tune.search import RandomConfig, SearchConfig

SECTION = "tune"
"""Section of these settings in a file."""


@dataclass(frozen=True)
class TuneConfig(Settings):
    """Settings of an experiment: search, scheduler, metric and resources."""

    metric: Label | tuple[Label, ...] = "return_mean"
    """Column of `metrics.jsonl` that trials are scored by. Several, for a multi-objective search; schedulers use the
    first.
    """
    mode: Literal["max", "min"] | tuple[Literal["max", "min"], ...] = "max"
    """Whether to maximize or minimize the metric; one for each metric, if there are several."""
    scope: Literal["last", "best", "mean", "last-5", "last-10"] = "last"
    """Rows that enter a trial's final score: the last with a number, the best, all, the last 5 or 10."""
    num_samples: Rows = 1
    """Number of suggestions of the search; with a grid, repetitions of the whole grid."""
    repeats: Few = 1
    """Seeds that each suggestion is tried with; the search receives the mean score."""
    points: tuple[Annotated[dict[str, Any], ARGUMENTS], ...] = ()
    """Suggestions to try first, as parameters by path; missing parameters are drawn."""
    search: Annotated[Any, Polymorphic("random"), CODE] = field(default_factory=RandomConfig)
    """Search that suggests parameters, chosen by its key ``name``."""
    scheduler: Annotated[Any, Polymorphic("fifo"), CODE] = field(default_factory=FIFOConfig)
    """Scheduler that pauses, stops and clones trials, chosen by its key ``name``."""
    place: Literal["auto", "here", "processes", "ray"] = "auto"
    """Where trials run: in this process, in local ones that share its cores, on Ray. ``auto``: here if one trial runs
    at a time, else in processes.
    """
    cpus: PositiveFloat | None = None
    """Cores for each trial; none = derived from its settings, usually one."""
    gpus: NonNegative = 0.0
    """GPUs for each trial."""
    max_concurrent: Processes | None = None
    """Maximum number of trials at the same time; none = as many as resources allow."""
    max_failures: CountFromZero = 0
    """Number of times that a trial that raises is resumed from its last checkpoint before it counts as failed."""
    max_losses: CountFromZero = 3
    """Number of times that a trial whose process or machine is lost is resumed from its last checkpoint."""
    save_every: CountFromZero = 10
    """Iterations between checkpoints of trials that are classes; 0 = only at the end. (Trainings have
    `checkpoint.every`.)
    """
    seconds: PositiveFloat | None = None
    """Time limit of this start of the experiment; no iteration begins after it."""
    seed: CountFromZero | None = None
    """Random seed of search, scheduler and trials; none = drawn once and recorded."""
    console: Literal["auto", "live", "plain", "quiet", "json"] = "auto"
    """Progress: a live table, plain lines, nothing, or JSON lines; ``auto`` = live at a terminal, else plain."""

    def __post_init__(self) -> None:
        metrics = (self.metric,) if isinstance(self.metric, str) else self.metric
        if not metrics or not all(metrics):
            raise ValueError(f"metric = {show(self.metric)}: must name a column that trials report, say return_mean")
        if len(set(metrics)) < len(metrics):
            raise ValueError(f"metric = {show(self.metric)}: names a column twice; leave one out")
        if not isinstance(self.mode, str) and len(self.mode) not in (1, len(metrics)):
            raise ValueError(f"mode = {show(self.mode)}: must be one, or one for each of the {len(metrics)} metrics")
        for name, kind, known in (("search", SearchConfig, SEARCHES), ("scheduler", SchedulerConfig, SCHEDULERS)):
            if not isinstance(getattr(self, name), kind):
                given = type(getattr(self, name)).__name__
                raise ValueError(f"{name} = {given}: this is not a {name}; there are {', '.join(known)}")


@dataclass(frozen=True)
class ExperimentFile(Settings):
    """Sections of an experiment's file beside those of its training."""

    tune: TuneConfig = field(default_factory=TuneConfig)
    """Settings of the experiment: search, scheduler, metric and resources."""
