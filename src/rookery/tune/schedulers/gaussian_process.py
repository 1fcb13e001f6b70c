"""A Gaussian process whose target drifts: what PB2 knows about parameters that are better now than they were before.

Bogunovic et al. 2016, Time-Varying Gaussian Process Bandit Optimization (the kernel); Rasmussen and Williams 2006,
Gaussian Processes for Machine Learning, algorithm 2.1 (posterior, marginal likelihood).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

LENGTHS = (0.1, 0.2, 0.4, 0.8, 1.6)
FORGETTING = (0.0, 0.03, 0.1, 0.25, 0.5)
NOISE = (1e-3, 1e-2, 0.1, 1.0)
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
        variance: Of the target.
        length: Distance over which it changes.
        forgetting: How much of what was known is lost in a unit of time (epsilon), in [0, 1).
        noise: Variance of one observation, relative to `variance`.
    """

    variance: float
    length: float
    forgetting: float
    noise: float

    def correlation(self, gap: Array, squared: Array) -> Array:
        """The kernel over its variance, for differences in time and squared distances of any shape."""
        decay: Array = (1.0 - self.forgetting) ** (gap / 2.0)
        return decay * np.exp(-squared / (2.0 * self.length**2))


class GaussianProcess:
    """A distribution of functions of time and place, after observations; its mean is 0 before any.

    Args:
        kernel: How alike the target is at two points.
        time: When each observation was made ``[n]``.
        place: Where ``[n, d]``.
        target: What was seen ``[n]``.
    """

    def __init__(self, kernel: Kernel, time: Array, place: Array, target: Array) -> None:
        self.kernel = kernel
        self.time, self.place = time, place
        alike = kernel.correlation(*differences(time, place, time, place))
        self.factor = np.linalg.cholesky(alike + kernel.noise * np.eye(len(time)))
        self.weights = np.linalg.solve(self.factor.T, np.linalg.solve(self.factor, target))

    def predict(self, time: Array, place: Array) -> tuple[Array, Array]:
        """Mean and standard deviation of the target, without the noise of observing it, at ``[m]`` and ``[m, d]``."""
        alike = self.kernel.correlation(*differences(self.time, self.place, time, place))
        explained = (np.linalg.solve(self.factor, alike) ** 2).sum(axis=0)
        return alike.T @ self.weights, np.sqrt(self.kernel.variance * np.clip(1.0 - explained, 0.0, None))


def differences(time: Array, place: Array, other_time: Array, other_place: Array) -> tuple[Array, Array]:
    """Differences in time, and squared distances in place, of every point to every other: ``[n, m]`` each."""
    squared = ((place[:, None, :] - other_place[None, :, :]) ** 2).sum(axis=2)
    return np.abs(time[:, None] - other_time[None, :]), squared


def fit(time: Array, place: Array, target: Array) -> Kernel:
    """The kernel under which the observations are most likely: a search over a grid, then in ever smaller steps.

    For given other numbers the most likely variance is known (``target' alike^-1 target / n``), so there are three to
    search for.

    Args:
        time: When each observation was made ``[n]``.
        place: Where ``[n, d]``, of about the size 1.
        target: What was seen ``[n]``, with mean 0.
    """
    gap, squared = differences(time, place, time, place)

    def likely(kernel: Kernel) -> tuple[float, Kernel]:
        """The log likelihood at the best variance but for a constant, and the kernel with that variance."""
        factor = np.linalg.cholesky(kernel.correlation(gap, squared) + kernel.noise * np.eye(len(target)))
        variance = float((np.linalg.solve(factor, target) ** 2).mean()) + 1e-12  # not 0, where nothing changes
        value = -0.5 * len(target) * math.log(variance) - float(np.log(np.diag(factor)).sum())
        return value, replace(kernel, variance=variance)

    grid = (likely(Kernel(1.0, *numbers)) for numbers in itertools.product(LENGTHS, FORGETTING, NOISE))
    value, kernel = max(grid, key=lambda found: found[0])
    for ratio, (name, (low, high)) in itertools.product(STEPS, LIMITS.items()):
        now = getattr(kernel, name)
        for other in (now * ratio, now / ratio):
            found = likely(replace(kernel, **{name: min(max(other, low), high)}))
            value, kernel = max((value, kernel), found, key=lambda found: found[0])
    return kernel
