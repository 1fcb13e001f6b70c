"""Population-based bandits: PBT whose clones get the parameters that promise most, by all that was seen so far.

Parker-Holder et al. 2020, Provably Efficient Online Hyperparameter Optimization with Population-Based Bandits. Who
copies whom is decided in `population.py`. Here a Gaussian process whose knowledge fades says how much the score will
grow in the next interval with which parameters, and the upper end of what is likely decides (UCB).

Bogunovic et al. 2016, Time-Varying Gaussian Process Bandit Optimization (the kernel); Rasmussen and Williams 2006,
Gaussian Processes for Machine Learning, algorithm 2.1 (posterior, marginal likelihood). Libraries have no kernel that
forgets, and the algebra without it is what NumPy has.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rookery.core.errors import ConfigError
from rookery.core.seeding import Streams
from rookery.core.settings.reach import ARGUMENTS, Label
from rookery.tune.schedulers.population import Population, PopulationConfig, to_change
from rookery.tune.space import FUNCTIONS, Float, Integer

SETTING = "scheduler.bounds"

Array = NDArray[np.float64]

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

    bounds: dict[Label, tuple[Annotated[float, ARGUMENTS], Annotated[float, ARGUMENTS]]] = field(default_factory=dict)
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
        """Returns the donor's parameters, but for the numbers, which are the most promising ones."""
        shares = self.promising(donor, going, rng)
        chosen = zip(self.axes.items(), shares, strict=True)
        return self.members[donor].params | {path: domain.quantile(float(u)) for (path, domain), u in chosen}

    def promising(self, donor: str, going: Sequence[Mapping[str, Any]], rng: np.random.Generator) -> Array:
        """Returns the point ``[d]`` at which the upper end of what is likely for the coming gain is highest.

        It is a random one until more intervals were seen than there are parameters. Time counts in intervals.

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
        """Returns where each lies in the ranges of the parameters that change, from 0 to 1 ``[n, d]``."""
        return np.array([[share(domain, each[path]) for path, domain in self.axes.items()] for each in params])


# --- the model --------------------------------------------------------------------------------------------------------

GRID = {
    "length": (0.1, 0.2, 0.4, 0.8, 1.6),
    "forgetting": (0.0, 0.03, 0.1, 0.25, 0.5),
    "noise": (1e-3, 1e-2, 0.1, 1.0),
}
"""Where `fit` begins to look: the best of all combinations, from which it goes on in smaller and smaller steps."""

LIMITS = {"length": (0.1, 10.0), "forgetting": (0.0, 0.9), "noise": (1e-3, 10.0)}
"""How far it goes. Without the lower ones, exact observations close to each other would look like a target full of tiny
bumps, of which nothing is known elsewhere.
"""

STEPS = tuple(2.0**0.5**step for step in range(1, 5))
"""The factors by which it goes on."""


@dataclass(frozen=True)
class Kernel:
    """How alike the target is at two points: ``variance exp(-d^2 / (2 length^2)) (1 - forgetting)^(|t - t'| / 2)``.

    Attributes:
        variance: Variance of the target.
        length: Distance over which it changes.
        forgetting: How much of what was known is lost in a unit of time (epsilon), in [0, 1).
        noise: Variance of one observation, relative to `variance`.
    """

    variance: float
    length: float
    forgetting: float
    noise: float

    def correlation(self, gap: Array, squared: Array) -> Array:
        """Returns the kernel over its variance, for differences in time and squared distances of any shape."""
        decay: Array = (1.0 - self.forgetting) ** (gap / 2.0)
        return decay * np.exp(-squared / (2.0 * self.length**2))


class GaussianProcess:
    """A distribution of functions of time and place, after observations; its mean is 0 before any.

    Args:
        kernel: How alike the target is at two points.
        time: Time of each observation ``[n]``.
        place: Place of each observation ``[n, d]``.
        target: Observed values ``[n]``.
    """

    def __init__(self, kernel: Kernel, time: Array, place: Array, target: Array) -> None:
        self.kernel = kernel
        self.time, self.place = time, place
        alike = kernel.correlation(*differences(time, place, time, place))
        self.factor = np.linalg.cholesky(alike + kernel.noise * np.eye(len(time)))
        self.weights = np.linalg.solve(self.factor.T, np.linalg.solve(self.factor, target))

    def predict(self, time: Array, place: Array) -> tuple[Array, Array]:
        """Returns mean and deviation of the target, without the noise of observing it, at ``[m]`` and ``[m, d]``."""
        alike = self.kernel.correlation(*differences(self.time, self.place, time, place))
        explained = (np.linalg.solve(self.factor, alike) ** 2).sum(axis=0)
        return alike.T @ self.weights, np.sqrt(self.kernel.variance * np.clip(1.0 - explained, 0.0, None))


def differences(time: Array, place: Array, other_time: Array, other_place: Array) -> tuple[Array, Array]:
    """Returns differences in time, and squared distances in place, of every point to every other: ``[n, m]`` each."""
    squared = ((place[:, None, :] - other_place[None, :, :]) ** 2).sum(axis=2)
    return np.abs(time[:, None] - other_time[None, :]), squared


def fit(time: Array, place: Array, target: Array) -> Kernel:
    """Returns the kernel under which observations are most likely: a search over a grid, then in ever smaller steps.

    For given other numbers the most likely variance is known (``target' alike^-1 target / n``), so there are three to
    search for.

    Args:
        time: Time of each observation ``[n]``.
        place: Place of each observation ``[n, d]``, of about the size 1.
        target: Observed values ``[n]``, with mean 0.
    """
    gap, squared = differences(time, place, time, place)

    def likely(kernel: Kernel) -> tuple[float, Kernel]:
        """Returns the log likelihood at the best variance but for a constant, and the kernel with that variance."""
        factor = np.linalg.cholesky(kernel.correlation(gap, squared) + kernel.noise * np.eye(len(target)))
        variance = float((np.linalg.solve(factor, target) ** 2).mean()) + 1e-12  # not 0, where nothing changes
        value = -0.5 * len(target) * math.log(variance) - float(np.log(np.diag(factor)).sum())
        return value, replace(kernel, variance=variance)

    kernels = (Kernel(1.0, *numbers) for numbers in itertools.product(*GRID.values()))
    value, kernel = max(map(likely, kernels), key=lambda found: found[0])
    for ratio, (name, (low, high)) in itertools.product(STEPS, LIMITS.items()):
        now = getattr(kernel, name)
        for other in (now * ratio, now / ratio):
            found = likely(replace(kernel, **{name: min(max(other, low), high)}))
            value, kernel = max((value, kernel), found, key=lambda found: found[0])
    return kernel


def highest(function: Callable[[Array], Array], size: int, rng: np.random.Generator) -> Array:
    """Finds about where in the unit cube a function is highest ``[size]``: the best of random points, then near it.

    Args:
        function: Function from points ``[n, size]`` to values ``[n]``.
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
    """Returns how far into its domain a value lies, from 0 to 1: ``domain.quantile`` turned round."""
    half = (domain.step or 0) / 2
    low, high, value = domain.low - half, domain.high + half, domain.clip(value)
    if domain.log:
        low, high, value = math.log(low), math.log(high), math.log(value)
    return (value - low) / (high - low)


def _within(bounds: tuple[float, float] | None, path: str, domain: Float | Integer) -> Float | Integer:
    """The domain of a parameter, with the bounds that were asked for."""
    if bounds is None:
        return domain
    numbers = "randint" if isinstance(domain, Integer) else "uniform"
    kind, step = f"log{numbers}" if domain.log else numbers, domain.step
    try:
        found: Float | Integer = FUNCTIONS[f"q{kind}"](*bounds, step) if step else FUNCTIONS[kind](*bounds)
    except ConfigError as error:
        raise ConfigError(f"{SETTING}: {path} = [{bounds[0]:g}, {bounds[1]:g}]: {error}") from None
    return found
