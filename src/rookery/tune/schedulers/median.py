"""Median stopping: a trial whose best score so far is below what half of the others had on average by then is stopped.

Golovin et al. 2017, Google Vizier: A Service for Black-Box Optimization, section 3.1.2. As in Tune, a trial is compared
with all others that have come as far as it, whether they run or are over, and means are taken from `grace` on.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any, ClassVar

from rookery.core.seeding import Streams
from rookery.core.settings import PositiveFloat, PositiveInt
from rookery.tune.scheduler import Action, Actions, Scheduler, SchedulerConfig


@dataclass(frozen=True)
class MedianConfig(SchedulerConfig):
    """Stops trials that are worse than the median of the others."""

    scheduler: ClassVar[str] = "rookery.tune.schedulers.median:Median"

    grace: PositiveFloat = 1.0
    """Age before which nobody is stopped and no score counts, in units of `time`."""
    min_samples: PositiveInt = 3
    """So many others must have come as far, with a score, for their median to mean something."""
    hard_stop: bool = True
    """False: pause instead; who was paused goes on to its end when nothing else is left to run."""


class Median(Scheduler[MedianConfig]):
    """Compares each trial's best score with the running means of the others."""

    def __init__(self, cfg: MedianConfig, space: Mapping[str, Any], streams: Streams) -> None:
        super().__init__(cfg, space, streams)
        self.tracks: dict[str, Track] = {}
        self.spared: set[str] = set()
        """Trials that were paused once, and are not compared any more."""

    def add(self, trial: str, params: Mapping[str, Any]) -> None:
        """Begins its track."""
        self.tracks[trial] = Track()

    def on_result(self, trial: str, time: float, score: float) -> Actions:
        """Stops it if its best score is below the median, which a trial without any score always is."""
        if time < self.cfg.grace:
            return {}
        own = self.tracks[trial]
        own.add(time, score)
        if trial in self.spared:
            return {}
        others = (track.mean(time) for name, track in self.tracks.items() if name != trial)
        means = [mean for mean in others if mean is not None]
        if len(means) < self.cfg.min_samples or own.best >= median(means):
            return {}
        if self.cfg.hard_stop:
            return {trial: Action.STOP}
        self.spared.add(trial)
        return {trial: Action.PAUSE}


class Track:
    """What one trial has reported since `grace`.

    Attributes:
        age: Age at the last result.
        best: Best score; minus infinity if there is none.
    """

    def __init__(self) -> None:
        self.age = 0.0
        self.best = -math.inf
        self._times: list[float] = []
        """Ages at which it had a score."""
        self._sums = [0.0]
        """Of its scores: all before the first, the second, ..."""

    def add(self, time: float, score: float) -> None:
        """Adds a result."""
        self.age = time
        if score > -math.inf:
            self.best = max(self.best, score)
            self._times.append(time)
            self._sums.append(self._sums[-1] + score)

    def mean(self, time: float) -> float | None:
        """Returns the mean of its scores up to an age; None if it has not come as far, or had no score by then."""
        number = bisect_right(self._times, time)
        return self._sums[number] / number if number and self.age >= time else None
