"""Median stopping: stops a trial if its best score so far is below the median of the running means of the others.

Golovin et al. 2017, Google Vizier: A Service for Black-Box Optimization, section 3.1.2. As in Tune, a trial is compared
with all others that have reached its age, running or over, and means are taken from `grace` on.
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
    """Age before which no trial is stopped and no score counts, in units of `time`."""
    min_samples: Count = 3
    """Number of other trials that must have reached the same age, with a score, before the median is used."""
    hard_stop: bool = True
    """Whether trials are stopped. False = they are paused, and run to their end when no other trial is left."""


class Median(Scheduler[MedianConfig]):
    """Compares each trial's best score with the running means of the others."""

    def __init__(self, cfg: MedianConfig, space: Mapping[str, Any], streams: Streams) -> None:
        super().__init__(cfg, space, streams)
        self.results: dict[str, list[tuple[float, float]]] = {}
        """(age, score) of each trial since `grace`, oldest first."""
        self.spared: set[str] = set()
        """Trials that were paused once, and are no longer compared."""

    def add(self, trial: str, params: Mapping[str, Any]) -> None:
        """Adds a trial without results."""
        self.results[trial] = []

    def on_result(self, trial: str, time: float, score: float) -> Actions:
        """Stops the trial if its best score is below the median; a trial without a score always is."""
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
