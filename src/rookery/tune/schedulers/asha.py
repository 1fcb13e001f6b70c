"""ASHA: asynchronous successive halving. No trial waits: a trial passes a rung if it is among the best so far.

Li et al. 2020, A System for Massively Parallel Hyperparameter Tuning. Rungs are at ages r eta^k (section 3.1), and the
best 1/eta of the trials at a rung continue. In the paper (algorithm 2) a trial waits at its rung until it is one of
them, and a free worker takes the best waiting trial. Here it is stopped at once if it is not one of them when it
reaches the rung (the variant of Tune, and of Optuna's pruner). So no trial is ever paused, at the price that some
trials continue which are not among the best in the end: the n-th of trials in random order continues with probability
max(1, floor(n / eta)) / n.
"""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import numpy as np
from annotated_types import Ge

from rookery.core.seeding import Role, Streams
from rookery.core.settings.fields import PositiveFloat
from rookery.core.settings.reach import COUNT, Few
from rookery.tune.scheduler import Action, Actions, Scheduler, SchedulerConfig


@dataclass(frozen=True)
class ASHAConfig(SchedulerConfig):
    """Stops trials at a rung if they are not among the best so far, without waiting."""

    scheduler: ClassVar[str] = "rookery.tune.schedulers.asha:ASHA"

    max_time: PositiveFloat = field(kw_only=True)
    """Age at which a trial is over, in units of `time` (the paper's R)."""
    grace: PositiveFloat = 1.0
    """Age of the first rung; no trial is stopped before it (the paper's r)."""
    reduction: Annotated[int, Ge(2), COUNT] = 4
    """Reduction factor (eta): about one of this many trials at a rung continues; the age of rungs grows by it."""
    brackets: Few = 1
    """Number of brackets: trials of the second bracket skip the first rung, and so on, in case early scores mean
    little. A trial's bracket is drawn at random; each bracket with one rung fewer is 1/e as likely.
    """

    def __post_init__(self) -> None:
        if self.grace >= self.max_time:
            raise ValueError(
                f"grace = {self.grace:g} must be less than max_time = {self.max_time:g}: else no trials are compared"
            )
        rungs = rung_ages(self.grace, self.max_time, self.reduction)
        if self.brackets > len(rungs):
            ages = ", ".join(f"{age:g}" for age in rungs)
            raise ValueError(
                f"brackets = {self.brackets} must be at most {len(rungs)}, as there are rungs before max_time: {ages}"
            )


class ASHA(Scheduler[ASHAConfig]):
    """Compares each trial with those that reached its rung before it."""

    def __init__(self, cfg: ASHAConfig, space: Mapping[str, Any], streams: Streams) -> None:
        super().__init__(cfg, space, streams)
        self.ages = rung_ages(cfg.grace, cfg.max_time, cfg.reduction)
        self.rungs: list[list[list[float]]] = [[[] for _ in self.ages] for _ in range(cfg.brackets)]
        """Scores at each rung of each bracket, ascending; a later bracket never uses its first rungs."""
        likely = np.exp(-np.arange(cfg.brackets))
        self.chances = likely / likely.sum()
        self.bracket: dict[str, int] = {}
        self.next_rung: dict[str, int] = {}

    def add(self, trial: str, params: Mapping[str, Any]) -> None:
        """Draws the trial's bracket from a separate random stream, so that it does not depend on earlier trials."""
        rng = self.streams.generator(Role.TUNE, "scheduler", "asha", trial)
        self.bracket[trial] = self.next_rung[trial] = int(rng.choice(self.cfg.brackets, p=self.chances))

    def on_result(self, trial: str, time: float, score: float) -> Actions:
        """Stops the trial at a rung where it is not among the best, and at `max_time`.

        A trial that passes several rungs in one iteration counts at the highest of them only: at the others its score
        would be compared with those of younger trials.
        """
        if time >= self.cfg.max_time:
            return {trial: Action.STOP}
        passed = sum(age <= time for age in self.ages)
        if passed <= self.next_rung[trial]:
            return {}
        rung = self.rungs[self.bracket[trial]][passed - 1]
        if score == -math.inf and not rung:
            return {}  # no trial has a score at this age yet: it is compared as soon as it has one
        self.next_rung[trial] = passed
        return {} if passes_rung(rung, score, self.cfg.reduction) else {trial: Action.STOP}


def passes_rung(rung: list[float], score: float, reduction: int) -> bool:
    """Adds a score to a rung, and returns whether fewer than ``max(1, n // reduction)`` of all n scores are better.

    Equal scores are not worse: trials begin with the same seeds, so before they have learned anything their returns are
    often identical. A missing score (minus infinity) never passes.

    Args:
        rung: Scores of all trials that reached the rung, ascending.
        score: Score of the new trial.
        reduction: Number of trials of which one continues.
    """
    insort(rung, score)
    better = len(rung) - bisect_right(rung, score)
    return score > -math.inf and better < max(1, len(rung) // reduction)


def rung_ages(grace: float, max_time: float, reduction: int) -> list[float]:
    """Returns the ages at which trials are compared, ascending, all below `max_time`."""
    ages: list[float] = []
    while (age := grace * reduction ** len(ages)) < max_time:
        ages.append(age)
    return ages
