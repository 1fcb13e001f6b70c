"""HyperBand: successive halving in several brackets, from many trials that are compared early to few that all run long.

Li et al. 2018, Hyperband: A Novel Bandit-Based Approach to Hyperparameter Optimization, algorithm 1, with one
difference: trials do not restart for each rung but pause at it, so that a rung costs its new iterations only.

With R = `max_time`, eta = `reduction` and s_max = floor(log_eta(R / `grace`)), bracket s (from s_max down to 0) begins
with n = ceil((s_max + 1) eta^s / (s + 1)) trials and compares them at ages r_i = R eta^(i - s), where the best
floor(n eta^-(i + 1)) continue. Trials fill bracket after bracket; after the last bracket the first kind repeats.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from annotated_types import Ge

from rookery.core.seeding import Streams
from rookery.core.settings.fields import PositiveFloat
from rookery.core.settings.reach import COUNT
from rookery.tune.scheduler import Action, Actions, Scheduler, SchedulerConfig


@dataclass(frozen=True)
class HyperBandConfig(SchedulerConfig):
    """Pauses the trials of a bracket at each rung until all have reached it, and continues the best."""

    scheduler: ClassVar[str] = "rookery.tune.schedulers.hyperband:HyperBand"

    max_time: PositiveFloat = 81.0
    """Age at which a trial is over, in units of `time`."""
    grace: PositiveFloat = 1.0
    """Minimum age at which trials are compared (the paper's unit of resource); it determines the number of brackets.
    With `time` in env steps it should be some thousands.
    """
    reduction: Annotated[int, Ge(2), COUNT] = 3
    """Reduction factor (eta): one of this many trials at a rung continues; the age of rungs grows by it."""

    def __post_init__(self) -> None:
        if self.grace * self.reduction > self.max_time:
            raise ValueError(
                f"max_time = {self.max_time:g} must be at least grace x reduction = {self.grace * self.reduction:g}: "
                "else no trials are compared"
            )


@dataclass(frozen=True)
class RungPlan:
    """Plan of one rung of a bracket.

    Attributes:
        number: Number of trials that run to the rung.
        age: Age at which they are compared.
    """

    number: int
    age: float


def plan(max_time: float, grace: float, reduction: int) -> list[list[RungPlan]]:
    """Returns the rungs of all brackets, from s_max down to 0; table 1 of the paper is R = 81 and eta = 3."""
    s_max = 0
    while grace * reduction ** (s_max + 1) <= max_time:
        s_max += 1
    brackets = []
    for s in range(s_max, -1, -1):
        number = -(-(s_max + 1) * reduction**s // (s + 1))  # rounded up
        brackets.append([RungPlan(number // reduction**i, max_time / reduction ** (s - i)) for i in range(s + 1)])
    return brackets


class HyperBand(Scheduler[HyperBandConfig]):
    """Puts each new trial into the bracket that is not full yet."""

    def __init__(self, cfg: HyperBandConfig, space: Mapping[str, Any], streams: Streams) -> None:
        super().__init__(cfg, space, streams)
        self.plan = plan(cfg.max_time, cfg.grace, cfg.reduction)
        self.brackets: list[Bracket] = []
        self.bracket_of: dict[str, Bracket] = {}

    def add(self, trial: str, params: Mapping[str, Any]) -> None:
        """Puts a trial into the last bracket, or into a new one if that is full."""
        if not self.brackets or self.brackets[-1].closed:
            self.brackets.append(Bracket(self.plan[len(self.brackets) % len(self.plan)]))
        self.brackets[-1].add(trial)
        self.bracket_of[trial] = self.brackets[-1]

    def milestone(self, trial: str) -> float:
        """Returns the next rung of its bracket."""
        return self.bracket_of[trial].rung.age

    def on_result(self, trial: str, time: float, score: float) -> Actions:
        """Pauses a trial at its rung; after the last trial of the bracket, the best continue and the others stop."""
        bracket = self.bracket_of[trial]
        if time >= self.cfg.max_time:
            return {trial: Action.STOP}
        if time < bracket.rung.age:
            return {}
        return {trial: Action.PAUSE, **bracket.arrive(trial, time, score)}

    def on_end(self, trial: str) -> Actions:
        """Removes a trial, so that no trial waits for it."""
        return self.bracket_of[trial].remove(trial)

    def drained(self, paused: Sequence[str]) -> Actions:
        """Closes the last bracket, which too few trials have filled, and continues with its trials.

        Each rung has as many places as planned, so all trials may pass the first rungs.
        """
        return self.brackets[-1].close()


class Bracket:
    """Successive halving of trials that began together; all of them run to the same rung, or wait at it.

    Args:
        rungs: The plan.
    """

    def __init__(self, rungs: Sequence[RungPlan]) -> None:
        self.rungs = rungs
        self.level = 0
        self.joined = 0
        self.closed = False
        """Whether no more trials will join."""
        self.active: list[str] = []
        """Trials that are neither stopped nor over, in the order in which they joined."""
        self.waiting: dict[str, tuple[float, float]] = {}
        """(age, score) of the trials that have reached the rung."""

    @property
    def rung(self) -> RungPlan:
        """The next rung of all trials."""
        return self.rungs[self.level]

    def add(self, trial: str) -> None:
        """Adds a trial."""
        self.active.append(trial)
        self.joined += 1
        self.closed = self.joined == self.rungs[0].number

    def arrive(self, trial: str, time: float, score: float) -> Actions:
        """Adds a trial that has reached the rung."""
        self.waiting[trial] = time, score
        return self.decide()

    def remove(self, trial: str) -> Actions:
        """Removes a trial that is over; the others do not wait for it, and one more of them may continue."""
        if trial not in self.active:
            return {}
        self.active.remove(trial)
        self.waiting.pop(trial, None)
        return self.decide()

    def close(self) -> Actions:
        """Closes the bracket: no more trials will join."""
        self.closed = True
        return self.decide()

    def decide(self) -> Actions:
        """Decides which trials continue to the next rung and which stop, once all trials have reached this one."""
        actions: Actions = {}
        while self.closed and self.active and len(self.waiting) == len(self.active):
            # Of equal scores the earlier trial is better: the order of `active`, which sorting keeps.
            ranking = sorted(self.active, key=lambda trial: -self.waiting[trial][1])
            self.level += 1
            places = self.rung.number
            actions |= dict.fromkeys(ranking[places:], Action.STOP)
            self.active = [trial for trial in self.active if trial in ranking[:places]]
            # A trial that is past the next rung already, because its last iteration was long, stays paused.
            self.waiting = {
                trial: self.waiting[trial] for trial in self.active if self.waiting[trial][0] >= self.rung.age
            }
            actions |= {trial: Action.CONTINUE for trial in self.active if trial not in self.waiting}
        return actions
