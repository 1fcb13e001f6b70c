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
"""Where in a file these settings stand."""


@dataclass(frozen=True)
class TuneConfig(Settings):
    """What is tried, how it is judged, and where it runs."""

    metric: Label | tuple[Label, ...] = "return_mean"
    """What trials are judged by: a column of `metrics.jsonl`. Several, for a search of many aims; schedulers go by the
    first.
    """
    mode: Literal["max", "min"] | tuple[Literal["max", "min"], ...] = "max"
    """Whether more is better, or less; for each metric, if there are several."""
    scope: Literal["last", "best", "mean", "last-5", "last-10"] = "last"
    """Which of a trial's rows count in the end: the last with a number, the best, all, the last 5 or 10."""
    num_samples: Rows = 1
    """How often the search is asked; where there is a grid, so many times the whole grid."""
    repeats: Few = 1
    """Seeds that each suggestion is tried with; the search is told their mean."""
    points: tuple[Annotated[dict[str, Any], ARGUMENTS], ...] = ()
    """Suggestions to try first, as parameters by path; what one leaves out is drawn."""
    search: Annotated[Any, Polymorphic("random"), CODE] = field(default_factory=RandomConfig)
    """What suggests parameters; its key ``name`` chooses which."""
    scheduler: Annotated[Any, Polymorphic("fifo"), CODE] = field(default_factory=FIFOConfig)
    """What pauses, stops and clones trials; its key ``name`` chooses which."""
    place: Literal["auto", "here", "processes", "ray"] = "auto"
    """Where trials run: in this process, in local ones that share its cores, on Ray. ``auto``: here if one trial runs
    at a time, else in processes.
    """
    cpus: PositiveFloat | None = None
    """Cores a trial; none = as its settings say, one for most."""
    gpus: NonNegative = 0.0
    """GPUs a trial."""
    max_concurrent: Processes | None = None
    """Trials at the same time, at most; none = as many as there is room for."""
    max_failures: CountFromZero = 0
    """How often a trial that raises may go on from its last checkpoint before it counts as failed."""
    max_losses: CountFromZero = 3
    """How often a trial whose process or machine is lost may."""
    save_every: CountFromZero = 10
    """Iterations between checkpoints of trials that are classes; 0 = only at the end. (Trainings have
    `checkpoint.every`.)
    """
    seconds: PositiveFloat | None = None
    """Time after which no iteration is begun, in this start of the experiment."""
    seed: CountFromZero | None = None
    """Names all random streams of search, scheduler and trials; none = drawn once and noted."""
    console: Literal["auto", "live", "plain", "quiet", "json"] = "auto"
    """Progress: a live table, plain lines, nothing; ``auto`` = live at a terminal, else plain."""

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
                raise ValueError(f"{name} = {given}: is no {name}; there are {', '.join(known)}")


@dataclass(frozen=True)
class ExperimentFile(Settings):
    """What a file says of an experiment beside its training."""

    tune: TuneConfig = field(default_factory=TuneConfig)
    """What is tried, how it is judged, and where it runs."""
