"""A population that trains together: every so often its worst members become copies of its best (truncation selection).

What PBT and PB2 have in common. They differ in the parameters that a copy goes on with: `Population.explore`.

Jaderberg et al. 2017, Population Based Training of Neural Networks, algorithm 1 and section 4.1.1.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

import numpy as np
from annotated_types import Interval

from rookery.core.errors import nearest, refuse
from rookery.core.seeding import Role, Streams
from rookery.core.settings.fields import NonNegative, PositiveFloat
from rookery.tune.scheduler import Action, Actions, Exploit, Scheduler, SchedulerConfig


@dataclass(frozen=True)
class PopulationConfig(SchedulerConfig):
    """What PBT and PB2 have in common."""

    interval: PositiveFloat = 10.0
    """Age (in units of `time`) between two comparisons; each comes with a checkpoint."""
    burn_in: NonNegative = 0.0
    """Age before which nobody is compared."""
    quantile: Annotated[float, Interval(ge=0, le=0.5)] = 0.25
    """Fraction of the population that is replaced, by members of an equal fraction at the other end; 0 = nobody."""
    synchronous: bool = True
    """Wait for everybody before comparing, so that the same seed gives the same population whatever the timing; each
    member but the last gives its worker away meanwhile, so any number of workers will do. False: compare a member with
    the last known scores of the others as soon as it arrives, without waiting. With fewer workers than trials it gives
    its worker to one that waits, after each interval.
    """


@dataclass
class Member:
    """One trial of the population.

    Attributes:
        params: Parameters that the member runs with.
        since: Age at which its present interval began.
        before: Score at that age; minus infinity if there is none.
        score: The score it reached itself at the end of the last interval. A clone's `before` is its donor's instead.
        arrivals: How often it reached the end of an interval.
        waits: Whether it is there until the others arrive.
        over: Whether it ended there: it is compared once more, so that it does not matter who arrived before it.
    """

    params: dict[str, Any]
    since: float = 0.0
    before: float = -math.inf
    score: float = -math.inf
    arrivals: int = 0
    waits: bool = False
    over: bool = False


@dataclass(frozen=True)
class IntervalResult:
    """What one interval brought to one member.

    Attributes:
        trial: Name of the member.
        time: Age at the beginning of the interval.
        score: Score at the beginning of the interval.
        gain: How much the score grew, in an interval of the length that was asked for.
        params: Parameters that the member ran with.
    """

    trial: str
    time: float
    score: float
    gain: float
    params: Mapping[str, Any]


C = TypeVar("C", bound=PopulationConfig)


class Population(Scheduler[C], Generic[C]):
    """Compares members at each multiple of an interval, and lets the worst go on from where the best are.

    How synchronous comparison knows that all have arrived: the first time, nobody runs any more and no new trial will
    come (`drained`). From then on the population is closed, and whoever arrives or ends last brings the others on.
    """

    def __init__(self, cfg: C, space: Mapping[str, Any], streams: Streams) -> None:
        super().__init__(cfg, space, streams)
        self.members: dict[str, Member] = {}
        self.intervals: list[IntervalResult] = []
        self.closed = False

    @abstractmethod
    def explore(self, donor: str, going: Sequence[Mapping[str, Any]], rng: np.random.Generator) -> dict[str, Any]:
        """Returns the parameters that a clone goes on with.

        Args:
            donor: Trial whose checkpoint the clone takes over; what cannot change in it must stay as the donor has it.
            going: Parameters that the other members go on with, as far as it is decided.
            rng: Random numbers for this clone and this moment.
        """

    @property
    def yields(self) -> bool:
        """Whether members give their workers away at the end of an interval, so that those of equal age are compared.

        Members that wait for each other pause instead.
        """
        return not self.cfg.synchronous

    def add(self, trial: str, params: Mapping[str, Any]) -> None:
        """Adds a member; of a closed population, when more samples are wanted than before, it is open again."""
        self.members[trial] = Member(dict(params))
        self.closed = False

    def milestone(self, trial: str) -> float:
        """Returns the end of its interval: the next multiple of `interval` that is not within the burn-in."""
        every = self.cfg.interval
        passed = math.floor(self.members[trial].since / every + 1e-9)  # 0.3 / 0.1 is a little less than 3
        return max(passed + 1, math.ceil(self.cfg.burn_in / every - 1e-9)) * every

    def on_result(self, trial: str, time: float, score: float) -> Actions:
        """Compares a member at the end of an interval, or lets it wait for that; else it goes on."""
        member = self.members[trial]
        if time < self.milestone(trial):
            return {}
        if math.isfinite(score) and math.isfinite(member.before):
            gain = (score - member.before) / (time - member.since) * self.cfg.interval
            self.intervals.append(IntervalResult(trial, member.since, member.before, gain, member.params))
        member.since, member.before, member.score = time, score, score
        member.arrivals += 1
        if not self.cfg.synchronous:
            return self.compare([trial])
        member.waits = True
        return self.compare_waiting() if self.is_complete else {trial: Action.PAUSE}

    def on_end(self, trial: str) -> Actions:
        """Removes a member; if the others waited for nobody else, they go on."""
        self.members[trial].over = True
        if not self.members[trial].waits:
            del self.members[trial]
        return self.compare_waiting() if self.is_complete else {}

    def drained(self, paused: Sequence[str]) -> Actions:
        """Closes the population: these are all that there will ever be."""
        self.closed = True
        return self.compare_waiting()

    @property
    def is_complete(self) -> bool:
        """Whether all that there will ever be are waiting."""
        return self.closed and all(member.waits for member in self.members.values())

    def compare_waiting(self) -> Actions:
        """Makes the worst of those that wait copies of the best; all go on but those that are over."""
        waiting = sorted(name for name, member in self.members.items() if member.waits)
        for name in waiting:
            self.members[name].waits = False
        actions = self.compare(waiting)
        actions |= {name: Action.CONTINUE for name in waiting if name not in actions}
        for name in waiting:
            if self.members[name].over:
                del self.members[name], actions[name]
        return actions

    def compare(self, trials: Sequence[str]) -> Actions:
        """Returns an exploit for each of these trials that is among the worst of all that have arrived so far.

        They stand before those that go on, in `compare_waiting` too: whoever carries the actions out in their order
        takes a donor's checkpoint before it makes a later one.
        """
        scores = {name: member.score for name, member in self.members.items() if member.arrivals}
        ranked = sorted(scores, key=lambda name: (scores[name], name))
        count = min(math.ceil(len(ranked) * self.cfg.quantile), len(ranked) // 2)
        worst, best = ranked[:count], ranked[len(ranked) - count :]
        best = [name for name in best if math.isfinite(scores[name])]
        clones = [name for name in sorted(worst) if name in trials and best]
        going = [self.members[name].params for name in sorted(self.members) if name not in clones]
        actions: Actions = {}
        for name in clones:
            member = self.members[name]
            rng = self.streams.generator(Role.TUNE, "scheduler", name, member.arrivals)
            donor = best[int(rng.integers(len(best)))]
            params = self.explore(donor, going, rng)
            going.append(params)
            actions[name] = Exploit(donor, params)
            member.params = params
            member.since, member.before = self.members[donor].since, self.members[donor].score
        return actions


def to_change(setting: str, asked: Sequence[str], space: Mapping[str, Any], able: type | tuple[type, ...]) -> list[str]:
    """Returns the paths of a space whose values may become others in the middle of a trial.

    Args:
        setting: Setting that asks, for messages: ``PBTConfig.mutations``.
        asked: Paths that were named; empty = all that can.
        space: Domains by path.
        able: Classes of domains whose values can be changed.

    Raises:
        ConfigError: With a line for each path that was named and cannot change; or if there is none that can.
    """
    can = [path for path, domain in space.items() if not domain.fixed and isinstance(domain, able)]
    problems = []
    for path in asked:
        if path not in space:
            hint = nearest(path, list(space))
            problems.append(f"{setting}: {path} has no domain{hint or f'; those that have: {_listed(space)}'}")
        elif space[path].fixed:
            problems.append(
                f"{setting}: {path} cannot change in a running training: what is in its checkpoint depends on it; "
                f"leave it out here: it stays in the space, and a clone has its donor's value"
                f"{f'; these can change: {_listed(can)}' if can else ''}"
            )
        elif path not in can:
            problems.append(f"{setting}: {path} cannot change: nothing is near a value of {space[path]}; leave it out")
    if not problems and not can:
        problems.append(
            f"{setting}: no parameter of the space can change in a running trial ({_listed(space) or 'it is empty'}); "
            f"give one a domain that can, such as algorithm.lr = loguniform(1e-5, 1e-2)"
        )
    refuse(problems)
    return list(asked) or can


def _listed(paths: Iterable[str]) -> str:
    return ", ".join(paths)
