"""Population-based bandits: PBT whose clones get the parameters that promise most, by all that was seen so far.

Parker-Holder et al. 2020, Provably Efficient Online Hyperparameter Optimization with Population-Based Bandits. Who
copies whom is decided in `population.py`. Here a Gaussian process whose knowledge fades says how much the score will
grow in the next interval with which parameters, and the upper end of what is likely decides (UCB).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from rookery.core.errors import ConfigError
from rookery.core.seeding import Streams
from rookery.tune.schedulers.gaussian_process import Array, GaussianProcess, Kernel, fit
from rookery.tune.schedulers.population import Population, PopulationConfig, to_change
from rookery.tune.space import Float, Integer

SETTING = "scheduler.bounds"

NEWEST = 200
"""How many observations count: the newest, as older ones are all but forgotten, and time grows with their cube."""

FITTED = 80
"""How many of these the kernel is fitted to, a hundred times over. Matrices of this size are factored on one thread in
milliseconds; larger ones on several, which wait long for each other while trials use all cores.
"""

CANDIDATES = 512
"""Random points among which the most promising is looked for."""

LOOKS = (0.1, 0.05, 0.02, 0.01, 0.005)
"""How far around the best so far is looked then, each time at a quarter as many points."""


@dataclass(frozen=True)
class PB2Config(PopulationConfig):
    """Exploit by copying, explore by a bandit. The defaults are those of Ray Tune, but for waiting."""

    scheduler: ClassVar[str] = "rookery.tune.schedulers.pb2:PB2"

    bounds: dict[str, tuple[float, float]] = field(default_factory=dict)
    """What changes: paths of the space with a number, and the smallest and largest to choose; none = all numbers of the
    space that can change in a running trial, within their domains. Everything else a clone has from its donor.
    """


class PB2(Population[PB2Config]):
    """Chooses what a clone goes on with by a model of how much each choice brings."""

    def __init__(self, cfg: PB2Config, space: Mapping[str, Any], streams: Streams) -> None:
        super().__init__(cfg, space, streams)
        paths = to_change(SETTING, tuple(cfg.bounds), space, (Float, Integer))
        self.axes = {path: _within(cfg.bounds.get(path), path, space[path]) for path in paths}
        self.fitted: tuple[int, Kernel] | None = None
        """How many intervals were known to the last fit, and what came of it: clones of one moment share it."""

    def explore(self, donor: str, going: Sequence[Mapping[str, Any]], rng: np.random.Generator) -> dict[str, Any]:
        """The donor's parameters, but for the numbers, which are the most promising ones."""
        shares = self.promising(donor, going, rng)
        chosen = zip(self.axes.items(), shares, strict=True)
        return self.members[donor].params | {path: domain.quantile(float(u)) for (path, domain), u in chosen}

    def promising(self, donor: str, going: Sequence[Mapping[str, Any]], rng: np.random.Generator) -> Array:
        """The point ``[d]`` at which the upper end of what is likely for the coming gain is highest; a random one until
        more intervals were seen than there are parameters. Time counts in intervals.

        Points that others go on with count as seen, with what the model expects there: they leave the mean as it is,
        and less to find out near them (Desautels et al. 2014, GP-BUCB).
        """
        seen = sorted(self.intervals, key=lambda each: (each.time, each.trial))[-NEWEST:]
        if len(seen) <= len(self.axes):
            return rng.random(len(self.axes))
        place = self.points([each.params for each in seen])
        time = np.array([each.time for each in seen]) / self.cfg.interval
        gain = np.array([each.gain for each in seen])
        target = (gain - gain.mean()) / (gain.std() or 1.0)
        if self.fitted is None or self.fitted[0] != len(self.intervals):
            self.fitted = len(self.intervals), fit(time[-FITTED:], place[-FITTED:], target[-FITTED:])
        kernel = self.fitted[1]

        now = self.members[donor].since / self.cfg.interval
        others = self.points(going)
        times, places = np.append(time, np.full(len(others), now)), np.vstack([place, others])
        knows = GaussianProcess(kernel, time, place, target)
        awaits = GaussianProcess(kernel, times, places, np.zeros(len(times)))
        width = math.sqrt(max(0.2 * math.log(0.4 * len(seen)), 0.0))  # as in the authors' own code

        def bound(points: Array) -> Array:
            at = np.full(len(points), now), points
            return knows.predict(*at)[0] + width * awaits.predict(*at)[1]

        return highest(bound, len(self.axes), rng)

    def points(self, params: Sequence[Mapping[str, Any]]) -> Array:
        """Where each lies in the ranges of the parameters that change, from 0 to 1 ``[n, d]``."""
        return np.array([[share(domain, each[path]) for path, domain in self.axes.items()] for each in params])


def highest(function: Callable[[Array], Array], size: int, rng: np.random.Generator) -> Array:
    """About where in the unit cube a function is highest ``[size]``: the best of random points, then of some near it.

    Args:
        function: From points ``[n, size]`` to values ``[n]``.
        size: Dimensions of the cube.
        rng: Chooses the points.
    """
    points = rng.random((CANDIDATES, size))
    best: Array = points[np.argmax(function(points))]
    for reach in LOOKS:
        near = np.clip(best + reach * rng.standard_normal((CANDIDATES // 4, size)), 0.0, 1.0)
        near[0] = best
        best = near[np.argmax(function(near))]
    return best


def share(domain: Float | Integer, value: float) -> float:
    """How far into its domain a value lies, from 0 to 1: what ``domain.quantile`` makes it of."""
    half = (domain.step or 0) / 2
    low, high, value = domain.low - half, domain.high + half, domain.clip(value)
    if domain.log:
        low, high, value = math.log(low), math.log(high), math.log(value)
    return (value - low) / (high - low)


def _within(bounds: tuple[float, float] | None, path: str, domain: Float | Integer) -> Float | Integer:
    """The domain of a parameter, with the bounds that were asked for."""
    if bounds is None:
        return domain
    low, high = bounds
    about = f"{SETTING}: {path} = [{low:g}, {high:g}]"
    if low >= high or (domain.log and low <= 0):
        raise ConfigError(f"{about}: must be rising{', from above 0: its domain is logarithmic' if domain.log else ''}")
    found: Float | Integer
    if isinstance(domain, Integer):
        found = replace(domain, low=int(low), high=int(high))
    else:
        found = replace(domain, low=low, high=high)
    if not (found.contains(low) and found.contains(high)):
        raise ConfigError(f"{about}: must be multiples of {domain.step:g}, as all values of {domain} are")
    return found
