"""Base class of PBT and PB2: periodically, the worst members of a population become clones of the best (truncation
selection). They differ in the parameters of a clone: `Population.explore`.

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
    """Shared settings of PBT and PB2."""

    interval: PositiveFloat = 10.0
    """Age (in units of `time`) between two comparisons; each comes with a checkpoint."""
    burn_in: NonNegative = 0.0
    """Age before which no member is compared."""
    quantile: Annotated[float, Interval(ge=0, le=0.5)] = 0.25
    """Fraction of the population that is replaced by members of an equal fraction at the other end; 0 = none."""
    synchronous: bool = True
    """Whether to wait for all members before comparing, so that the same seed gives the same population with any
    timing; waiting members free their workers, so any number of workers is enough. False = a member is compared with
    the last known scores of the others as soon as it arrives. With fewer workers than trials it then frees its worker
    for a waiting trial, after each interval.
    """


@dataclass
class Member:
    """One trial of the population.

    Attributes:
        params: Current parameters of the member.
        since: Age at which its current interval began.
        before: Score at that age; minus infinity if there is none.
        score: Its own score at the end of the last interval. A clone's `before` is its donor's instead.
        arrivals: Number of intervals that it has finished.
        waits: Whether it waits for the other members.
        over: Whether it ended while it waited: it is compared once more, so that the order of arrivals has no effect.
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
    """Result of one interval of one member.

    Attributes:
        trial: Name of the member.
        time: Age at the beginning of the interval.
        score: Score at the beginning of the interval.
        gain: Growth of the score, scaled to the length of `interval`.
        params: Parameters of the member in this interval.
    """

    trial: str
    time: float
    score: float
    gain: float
    params: Mapping[str, Any]


C = TypeVar("C", bound=PopulationConfig)


class Population(Scheduler[C], Generic[C]):
    """Compares members at each multiple of an interval, and replaces the worst by clones of the best.

    Synchronous comparison knows that all members have arrived as follows: the first time, no trial runs and the search
    is exhausted (`drained`). From then on the population is closed, and the last member to arrive or end triggers the
    comparison.
    """

    def __init__(self, cfg: C, space: Mapping[str, Any], streams: Streams) -> None:
        super().__init__(cfg, space, streams)
        self.members: dict[str, Member] = {}
        self.intervals: list[IntervalResult] = []
        self.closed = False

    @abstractmethod
    def explore(self, donor: str, going: Sequence[Mapping[str, Any]], rng: np.random.Generator) -> dict[str, Any]:
        """Returns the parameters of a clone.

        Args:
            donor: Trial whose checkpoint the clone takes over; parameters that cannot change must be the donor's.
            going: Parameters that the other members continue with, as far as decided.
            rng: Random generator for this clone and comparison.
        """

    @property
    def yields(self) -> bool:
        """Whether members free their workers at the end of an interval, so that members of equal age are compared.

        Members that wait for each other pause instead.
        """
        return not self.cfg.synchronous

    def add(self, trial: str, params: Mapping[str, Any]) -> None:
        """Adds a member; opens a closed population again, if more samples are requested on resume."""
        self.members[trial] = Member(dict(params))
        self.closed = False

    def milestone(self, trial: str) -> float:
        """Returns the end of its interval: the next multiple of `interval` that is not within the burn-in."""
        every = self.cfg.interval
        passed = math.floor(self.members[trial].since / every + 1e-9)  # 0.3 / 0.1 is a little less than 3
        return max(passed + 1, math.ceil(self.cfg.burn_in / every - 1e-9)) * every

    def on_result(self, trial: str, time: float, score: float) -> Actions:
        """Compares a member at the end of an interval, or pauses it until the comparison; else it continues."""
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
        """Removes a member; if the others waited for it alone, they are compared and continue."""
        self.members[trial].over = True
        if not self.members[trial].waits:
            del self.members[trial]
        return self.compare_waiting() if self.is_complete else {}

    def drained(self, paused: Sequence[str]) -> Actions:
        """Closes the population: no other members will join."""
        self.closed = True
        return self.compare_waiting()

    @property
    def is_complete(self) -> bool:
        """Whether the population is closed and all members wait."""
        return self.closed and all(member.waits for member in self.members.values())

    def compare_waiting(self) -> Actions:
        """Compares waiting members: the worst become clones of the best; all continue but those that are over."""
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

        Exploits come before continued trials, in `compare_waiting` too: actions are carried out in order, so a clone
        takes its donor's checkpoint before the donor writes a later one.
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


def changeable_paths(
    setting: str, requested: Sequence[str], space: Mapping[str, Any], kinds: type | tuple[type, ...]
) -> list[str]:
    """Returns the paths of a space whose values may change within a trial.

    Args:
        setting: Setting with the paths, for messages: ``PBTConfig.mutations``.
        requested: Requested paths; empty = all that can change.
        space: Domains by path.
        kinds: Classes of domains whose values can be changed.

    Raises:
        ConfigError: With a line for each requested path that cannot change; or if no path can.
    """
    can = [path for path, domain in space.items() if not domain.fixed and isinstance(domain, kinds)]
    problems = []
    for path in requested:
        if path not in space:
            hint = nearest(path, list(space))
            problems.append(f"{setting}: {path} has no domain{hint or f'; these have one: {_listed(space)}'}")
        elif space[path].fixed:
            problems.append(
                f"{setting}: {path} cannot change in a running training, as its checkpoints depend on it; "
                f"leave it out here: it stays in the space, and a clone has its donor's value"
                f"{f'; these can change: {_listed(can)}' if can else ''}"
            )
        elif path not in can:
            problems.append(
                f"{setting}: {path} cannot change: a value of {space[path]} has no neighbours; leave it out"
            )
    if not problems and not can:
        problems.append(
            f"{setting}: no parameter of the space can change in a running trial ({_listed(space) or 'it is empty'}); "
            f"give one a domain that can, such as algorithm.lr = loguniform(1e-5, 1e-2)"
        )
    refuse(problems)
    return list(requested) or can


def _listed(paths: Iterable[str]) -> str:
    return ", ".join(paths)
