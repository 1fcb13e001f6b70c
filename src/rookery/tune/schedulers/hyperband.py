"""HyperBand: successive halving in several brackets, from many trials that are compared early to few that all run long.

Li et al. 2018, Hyperband: A Novel Bandit-Based Approach to Hyperparameter Optimization, algorithm 1, with one
difference: trials are not begun again for each rung but paused at it, so that a rung costs only what is new.

With R = `max_time`, eta = `reduction` and s_max = floor(log_eta(R / `grace`)), bracket s (from s_max down to 0) begins
with n = ceil((s_max + 1) eta^s / (s + 1)) trials and compares them at ages r_i = R eta^(i - s), from where the best
floor(n eta^-(i + 1)) go on. Trials fill bracket after bracket; after the last the first kind comes again.
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
    """Lets the trials of a bracket wait for each other at each rung, and only the best of them go on."""

    scheduler: ClassVar[str] = "rookery.tune.schedulers.hyperband:HyperBand"

    max_time: PositiveFloat = 81.0
    """Age at which a trial is over, in units of `time`."""
    grace: PositiveFloat = 1.0
    """The least age at which trials are compared: the paper's unit of resource, which decides how many brackets there
    are. With `time` in env steps it should be some thousands.
    """
    reduction: Annotated[int, Ge(2), COUNT] = 3
    """Of so many trials one goes on from a rung, and the next rung is at so many times the age (the paper's eta)."""

    def __post_init__(self) -> None:
        if self.grace * self.reduction > self.max_time:
            raise ValueError(
                f"max_time = {self.max_time:g} must be at least grace x reduction = {self.grace * self.reduction:g}: "
                "else nothing is compared"
            )


@dataclass(frozen=True)
class RungPlan:
    """What the plan of a bracket says about one of its rungs.

    Attributes:
        number: Trials that run to the rung.
        age: Age at which they are compared.
    """

    number: int
    age: float


def plan(max_time: float, grace: float, reduction: int) -> list[list[RungPlan]]:
    """Plans the rungs of all brackets, from s_max down to 0, as table 1 of the paper does for R = 81 and eta = 3."""
    s_max = 0
    while grace * reduction ** (s_max + 1) <= max_time:
        s_max += 1
    brackets = []
    for s in range(s_max, -1, -1):
        number = -(-(s_max + 1) * reduction**s // (s + 1))  # rounded up
        brackets.append([RungPlan(number // reduction**i, max_time / reduction ** (s - i)) for i in range(s + 1)])
    return brackets


class HyperBand(Scheduler[HyperBandConfig]):
    """Puts each new trial in the bracket that is being filled."""

    def __init__(self, cfg: HyperBandConfig, space: Mapping[str, Any], streams: Streams) -> None:
        super().__init__(cfg, space, streams)
        self.plan = plan(cfg.max_time, cfg.grace, cfg.reduction)
        self.brackets: list[Bracket] = []
        self.bracket_of: dict[str, Bracket] = {}

    def add(self, trial: str, params: Mapping[str, Any]) -> None:
        """Puts a trial in the last bracket, or in a new one if that is full."""
        if not self.brackets or self.brackets[-1].closed:
            self.brackets.append(Bracket(self.plan[len(self.brackets) % len(self.plan)]))
        self.brackets[-1].add(trial)
        self.bracket_of[trial] = self.brackets[-1]

    def milestone(self, trial: str) -> float:
        """Returns the next rung of its bracket."""
        return self.bracket_of[trial].rung.age

    def on_result(self, trial: str, time: float, score: float) -> Actions:
        """Lets a trial wait at its rung; if it was the last to come, the best go on and the others stop."""
        bracket = self.bracket_of[trial]
        if time >= self.cfg.max_time:
            return {trial: Action.STOP}
        if time < bracket.rung.age:
            return {}
        return {trial: Action.PAUSE, **bracket.arrive(trial, time, score)}

    def on_end(self, trial: str) -> Actions:
        """Removes a trial: nobody waits for it any longer."""
        return self.bracket_of[trial].remove(trial)

    def drained(self, paused: Sequence[str]) -> Actions:
        """Closes the last bracket, which too few trials came to fill: it goes on with those there are.

        Each rung has as many places as planned, so the first ones may be comparisons that everybody survives.
        """
        return self.brackets[-1].close()


class Bracket:
    """Successive halving of trials that began together; all of them are on their way to the same rung, or wait at it.

    Args:
        rungs: The plan.
    """

    def __init__(self, rungs: Sequence[RungPlan]) -> None:
        self.rungs = rungs
        self.level = 0
        self.joined = 0
        self.closed = False
        """Whether no more trials will join."""
        self.going: list[str] = []
        """Trials that are neither stopped nor over, in the order in which they joined."""
        self.waiting: dict[str, tuple[float, float]] = {}
        """(age, score) of those that have come to the rung."""

    @property
    def rung(self) -> RungPlan:
        """Where all are on their way to."""
        return self.rungs[self.level]

    def add(self, trial: str) -> None:
        """Adds a trial."""
        self.going.append(trial)
        self.joined += 1
        self.closed = self.joined == self.rungs[0].number

    def arrive(self, trial: str, time: float, score: float) -> Actions:
        """Notes that a trial has come to the rung."""
        self.waiting[trial] = time, score
        return self.decide()

    def remove(self, trial: str) -> Actions:
        """Removes a trial that is over; the others need not wait for it, and one more of them may go on."""
        if trial not in self.going:
            return {}
        self.going.remove(trial)
        self.waiting.pop(trial, None)
        return self.decide()

    def close(self) -> Actions:
        """Closes the bracket: no more trials will join."""
        self.closed = True
        return self.decide()

    def decide(self) -> Actions:
        """Decides who goes on to the next rung and who stops, once all have come to this one."""
        actions: Actions = {}
        while self.closed and self.going and len(self.waiting) == len(self.going):
            # Of equal scores the earlier trial is better: the order of `going`, which sorting keeps.
            ranking = sorted(self.going, key=lambda trial: -self.waiting[trial][1])
            self.level += 1
            places = self.rung.number
            actions |= dict.fromkeys(ranking[places:], Action.STOP)
            self.going = [trial for trial in self.going if trial in ranking[:places]]
            # One that is past the next rung already, because its last iteration was long, goes on waiting there.
            self.waiting = {
                trial: self.waiting[trial] for trial in self.going if self.waiting[trial][0] >= self.rung.age
            }
            actions |= {trial: Action.CONTINUE for trial in self.going if trial not in self.waiting}
        return actions
