"""Median stopping: a trial whose best score so far is below what half of the others had on average by then is stopped.

Golovin et al. 2017, Google Vizier: A Service for Black-Box Optimization, section 3.1.2. As in Tune, a trial is compared
with all others that have come as far as it, whether they run or are over, and means are taken from `grace` on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any, ClassVar

from rookery.core.seeding import Streams
from rookery.core.settings.fields import PositiveFloat
from rookery.core.settings.reach import Count
from rookery.tune.scheduler import Action, Actions, Scheduler, SchedulerConfig


@dataclass(frozen=True)
class MedianConfig(SchedulerConfig):
    """Stops trials that are worse than the median of the others."""

    scheduler: ClassVar[str] = "rookery.tune.schedulers.median:Median"

    grace: PositiveFloat = 1.0
    """Age before which nobody is stopped and no score counts, in units of `time`."""
    min_samples: Count = 3
    """So many others must have come as far, with a score, for their median to mean something."""
    hard_stop: bool = True
    """False: pause instead; who was paused goes on to its end when nothing else is left to run."""


class Median(Scheduler[MedianConfig]):
    """Compares each trial's best score with the running means of the others."""

    def __init__(self, cfg: MedianConfig, space: Mapping[str, Any], streams: Streams) -> None:
        super().__init__(cfg, space, streams)
        self.results: dict[str, list[tuple[float, float]]] = {}
        """(age, score) of each trial since `grace`, oldest first."""
        self.spared: set[str] = set()
        """Trials that were paused once, and are not compared any more."""

    def add(self, trial: str, params: Mapping[str, Any]) -> None:
        """Begins its results."""
        self.results[trial] = []

    def on_result(self, trial: str, time: float, score: float) -> Actions:
        """Stops it if its best score is below the median, which a trial without any score always is."""
        if time < self.cfg.grace:
            return {}
        self.results[trial].append((time, score))
        if trial in self.spared:
            return {}
        best = max(score for _, score in self.results[trial])
        means = [
            fmean(known)
            for name, results in self.results.items()
            if name != trial and results and results[-1][0] >= time
            if (known := [score for age, score in results if age <= time and score > -math.inf])
        ]
        if len(means) < self.cfg.min_samples or best >= median(means):
            return {}
        if self.cfg.hard_stop:
            return {trial: Action.STOP}
        self.spared.add(trial)
        return {trial: Action.PAUSE}
