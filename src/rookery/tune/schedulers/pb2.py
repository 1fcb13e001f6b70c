"""Population-based bandits (PB2): PBT that chooses the parameters of clones by a model of all results so far.

Parker-Holder et al. 2020, Provably Efficient Online Hyperparameter Optimization with Population-Based Bandits. The
choice of clones and donors is in `population.py`. Here a time-varying Gaussian process predicts how much the score
grows in the next interval for given parameters, and an upper confidence bound (UCB) chooses them.

Bogunovic et al. 2016, Time-Varying Gaussian Process Bandit Optimization (the kernel); Rasmussen and Williams 2006,
Gaussian Processes for Machine Learning, algorithm 2.1 (posterior, marginal likelihood). Libraries have no time-varying
kernel, and NumPy has the rest of the algebra.
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
from rookery.tune.schedulers.population import Population, PopulationConfig, changeable_paths
from rookery.tune.space import FUNCTIONS, Float, Integer

SETTING = "scheduler.bounds"

Array = NDArray[np.float64]

NEWEST = 200
"""Number of observations in the model: the newest, as older ones hardly count, and time grows with their cube."""

FITTED = 80
"""Number of these that the kernel is fitted to, in about a hundred steps. Matrices of this size are factored on one
thread in milliseconds; larger ones on several threads, which wait for each other while trials use all cores.
"""

CANDIDATES = 512
"""Number of random points in the search for the highest bound."""

LOCAL_RADII = (0.1, 0.05, 0.02, 0.01, 0.005)
"""Radii of the local search around the best point afterwards, each with a quarter as many points."""


@dataclass(frozen=True)
class PB2Config(PopulationConfig):
    """Exploits by copying, explores by a bandit. The defaults are those of Ray Tune, except `synchronous`."""

    scheduler: ClassVar[str] = "rookery.tune.schedulers.pb2:PB2"

    bounds: dict[Label, tuple[Annotated[float, ARGUMENTS], Annotated[float, ARGUMENTS]]] = field(default_factory=dict)
    """Parameters to change: numeric paths of the space, with the smallest and largest value; none = all numeric
    parameters that can change in a running trial, within their domains. A clone has all others from its donor.
    """


class PB2(Population[PB2Config]):
    """Chooses the parameters of a clone by a model of their gain."""

    def __init__(self, cfg: PB2Config, space: Mapping[str, Any], streams: Streams) -> None:
        super().__init__(cfg, space, streams)
        paths = changeable_paths(SETTING, tuple(cfg.bounds), space, (Float, Integer))
        self.axes = {path: _within(cfg.bounds.get(path), path, space[path]) for path in paths}
        self.fitted: tuple[int, Kernel] | None = None
        """Number of intervals at the last fit, and its kernel, which clones of the same moment share."""

    def explore(self, donor: str, going: Sequence[Mapping[str, Any]], rng: np.random.Generator) -> dict[str, Any]:
        """Returns the donor's parameters, with the numeric ones that the model favours."""
        shares = self.best_point(donor, going, rng)
        chosen = zip(self.axes.items(), shares, strict=True)
        return self.members[donor].params | {path: domain.quantile(float(u)) for (path, domain), u in chosen}

    def best_point(self, donor: str, going: Sequence[Mapping[str, Any]], rng: np.random.Generator) -> Array:
        """Returns the point ``[d]`` with the highest upper confidence bound of the next gain.

        The point is random until there are more intervals than parameters. Time counts in intervals.

        Points that other members continue with count as observed, with the predicted mean: they do not change the mean,
        but reduce the deviation near them (Desautels et al. 2014, GP-BUCB).
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
        posterior = GaussianProcess(kernel, time, place, target)
        pending = GaussianProcess(kernel, times, places, np.zeros(len(times)))
        width = math.sqrt(max(0.2 * math.log(0.4 * len(seen)), 0.0))  # as in the authors' own code

        def bound(points: Array) -> Array:
            at = np.full(len(points), now), points
            return posterior.predict(*at)[0] + width * pending.predict(*at)[1]

        return maximize(bound, len(self.axes), rng)

    def points(self, params: Sequence[Mapping[str, Any]]) -> Array:
        """Returns parameters scaled to their ranges, from 0 to 1 ``[n, d]``."""
        return np.array([[share(domain, each[path]) for path, domain in self.axes.items()] for each in params])


# --- the model --------------------------------------------------------------------------------------------------------

GRID = {
    "length": (0.1, 0.2, 0.4, 0.8, 1.6),
    "forgetting": (0.0, 0.03, 0.1, 0.25, 0.5),
    "noise": (1e-3, 1e-2, 0.1, 1.0),
}
"""Grid from which `fit` takes the best combination; from there it continues in smaller and smaller steps."""

LIMITS = {"length": (0.1, 10.0), "forgetting": (0.0, 0.9), "noise": (1e-3, 10.0)}
"""Limits of `fit`. Without the lower ones, exact observations close to each other would fit a target full of tiny
bumps, which predicts nothing elsewhere.
"""

STEPS = tuple(2.0**0.5**step for step in range(1, 5))
"""Factors of the steps of `fit`."""


@dataclass(frozen=True)
class Kernel:
    """Time-varying kernel: ``variance exp(-d^2 / (2 length^2)) (1 - forgetting)^(|t - t'| / 2)``.

    Attributes:
        variance: Variance of the target.
        length: Length scale.
        forgetting: Forgetting rate for each unit of time (epsilon), in [0, 1).
        noise: Variance of one observation, relative to `variance`.
    """

    variance: float
    length: float
    forgetting: float
    noise: float

    def correlation(self, gap: Array, squared: Array) -> Array:
        """Returns the kernel divided by its variance, for time differences and squared distances of any shape."""
        decay: Array = (1.0 - self.forgetting) ** (gap / 2.0)
        return decay * np.exp(-squared / (2.0 * self.length**2))


class GaussianProcess:
    """Posterior of a Gaussian process over time and parameters; the prior mean is 0.

    Args:
        kernel: Kernel of the process.
        time: Time of each observation ``[n]``.
        place: Parameters of each observation ``[n, d]``.
        target: Observed values ``[n]``.
    """

    def __init__(self, kernel: Kernel, time: Array, place: Array, target: Array) -> None:
        self.kernel = kernel
        self.time, self.place = time, place
        correlation_matrix = kernel.correlation(*differences(time, place, time, place))
        self.factor = np.linalg.cholesky(correlation_matrix + kernel.noise * np.eye(len(time)))
        self.weights = np.linalg.solve(self.factor.T, np.linalg.solve(self.factor, target))

    def predict(self, time: Array, place: Array) -> tuple[Array, Array]:
        """Returns mean and standard deviation of the target ``[m]``, without observation noise."""
        correlation_matrix = self.kernel.correlation(*differences(self.time, self.place, time, place))
        explained = (np.linalg.solve(self.factor, correlation_matrix) ** 2).sum(axis=0)
        return correlation_matrix.T @ self.weights, np.sqrt(self.kernel.variance * np.clip(1.0 - explained, 0.0, None))


def differences(time: Array, place: Array, other_time: Array, other_place: Array) -> tuple[Array, Array]:
    """Returns time differences and squared distances of every point to every other, ``[n, m]`` each."""
    squared = ((place[:, None, :] - other_place[None, :, :]) ** 2).sum(axis=2)
    return np.abs(time[:, None] - other_time[None, :]), squared


def fit(time: Array, place: Array, target: Array) -> Kernel:
    """Returns the kernel with the highest likelihood: searches a grid, then continues in ever smaller steps.

    The best variance has a closed form (``target' C^-1 target / n`` with correlations C), so three parameters
    are searched.

    Args:
        time: Time of each observation ``[n]``.
        place: Parameters of each observation ``[n, d]``, scaled to about 1.
        target: Observed values ``[n]``, with mean 0.
    """
    gap, squared = differences(time, place, time, place)

    def fitted(kernel: Kernel) -> tuple[float, Kernel]:
        """Returns the log likelihood at the best variance up to a constant, and the kernel with that variance."""
        factor = np.linalg.cholesky(kernel.correlation(gap, squared) + kernel.noise * np.eye(len(target)))
        variance = float((np.linalg.solve(factor, target) ** 2).mean()) + 1e-12  # not 0 for a constant target
        value = -0.5 * len(target) * math.log(variance) - float(np.log(np.diag(factor)).sum())
        return value, replace(kernel, variance=variance)

    kernels = (Kernel(1.0, *numbers) for numbers in itertools.product(*GRID.values()))
    value, kernel = max(map(fitted, kernels), key=lambda found: found[0])
    for ratio, (name, (low, high)) in itertools.product(STEPS, LIMITS.items()):
        now = getattr(kernel, name)
        for other in (now * ratio, now / ratio):
            found = fitted(replace(kernel, **{name: min(max(other, low), high)}))
            value, kernel = max((value, kernel), found, key=lambda found: found[0])
    return kernel


def maximize(function: Callable[[Array], Array], size: int, rng: np.random.Generator) -> Array:
    """Returns an approximate maximizer of a function in the unit cube ``[size]``, by random then local search.

    Args:
        function: Function from points ``[n, size]`` to values ``[n]``.
        size: Dimensions of the cube.
        rng: Chooses the points.
    """
    points = rng.random((CANDIDATES, size))
    best: Array = points[np.argmax(function(points))]
    for reach in LOCAL_RADII:
        near = np.clip(best + reach * rng.standard_normal((CANDIDATES // 4, size)), 0.0, 1.0)
        near[0] = best
        best = near[np.argmax(function(near))]
    return best


def share(domain: Float | Integer, value: float) -> float:
    """Returns the relative position of a value in its domain, from 0 to 1: the inverse of ``domain.quantile``."""
    half = (domain.step or 0) / 2
    low, high, value = domain.low - half, domain.high + half, domain.clip(value)
    if domain.log:
        low, high, value = math.log(low), math.log(high), math.log(value)
    return (value - low) / (high - low)


def _within(bounds: tuple[float, float] | None, path: str, domain: Float | Integer) -> Float | Integer:
    """Returns the domain of a parameter, with the given bounds."""
    if bounds is None:
        return domain
    numbers = "randint" if isinstance(domain, Integer) else "uniform"
    kind, step = f"log{numbers}" if domain.log else numbers, domain.step
    try:
        found: Float | Integer = FUNCTIONS[f"q{kind}"](*bounds, step) if step else FUNCTIONS[kind](*bounds)
    except ConfigError as error:
        raise ConfigError(f"{SETTING}: {path} = [{bounds[0]:g}, {bounds[1]:g}]: {error}") from None
    return found
