"""Distributions from which the parameters of an environment are drawn, once per episode.

A sampler is written as a mapping whose key ``sampler`` names it, with its settings beside it: ``{sampler: uniform, low:
0.5, high: 2}``. `SAMPLERS` has the names; ``my.module:function`` is a function of your own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import numpy as np

from rookery.core.settings.fields import NonNegative, PositiveFloat, Settings
from rookery.core.settings.reach import ARGUMENTS, CODE, CountFromZero

Value = Any
"""Value of a parameter: a number; with ``constant``, ``choice`` and user functions any value that the environment
accepts.
"""


@dataclass(frozen=True)
class Sampler(Settings):
    """Distribution of the values of a parameter.

    Attributes:
        clips: Whether values beyond the bounds of a parameter are moved to them, instead of refused.
    """

    clips: ClassVar[bool] = False

    seed: CountFromZero | None = field(default=None, kw_only=True)
    """Seed of the stream from which values are drawn, so that runs with different seeds draw the same values; none =
    that of the run.
    """

    def draw(self, rng: np.random.Generator) -> Value:
        """Draws a value with a given generator."""
        raise NotImplementedError

    def numbers(self) -> tuple[float, ...]:
        """Returns numbers between which all values lie; empty if they are not known."""
        return ()

    def known(self) -> tuple[Value, ...]:
        """Returns the known values: all that can be drawn, or the ends of their range."""
        return self.numbers()


@dataclass(frozen=True)
class ConstantSampler(Sampler):
    """Sampler that always returns the same value."""

    value: Annotated[Any, ARGUMENTS]
    """The value."""

    def draw(self, rng: np.random.Generator) -> Value:
        """Returns the value."""
        return self.value

    def numbers(self) -> tuple[float, ...]:
        """Returns the value, if it is a number."""
        return (float(self.value),) if is_number(self.value) else ()

    def known(self) -> tuple[Value, ...]:
        """Returns the value."""
        return (self.value,)


@dataclass(frozen=True)
class UniformSampler(Sampler):
    """Sampler of uniformly distributed numbers."""

    low: float
    """Smallest value."""
    high: float
    """Largest value."""

    def __post_init__(self) -> None:
        _check_order(self.low, self.high)

    def draw(self, rng: np.random.Generator) -> Value:
        """Draws a number."""
        return float(rng.uniform(self.low, self.high))

    def numbers(self) -> tuple[float, ...]:
        """Returns both ends."""
        return self.low, self.high


@dataclass(frozen=True)
class LogUniformSampler(Sampler):
    """Sampler of numbers with uniformly distributed logarithms."""

    low: PositiveFloat
    """Smallest value."""
    high: PositiveFloat
    """Largest value."""

    def __post_init__(self) -> None:
        _check_order(self.low, self.high)

    def draw(self, rng: np.random.Generator) -> Value:
        """Draws a number."""
        drawn = math.exp(rng.uniform(math.log(self.low), math.log(self.high)))
        return min(max(drawn, self.low), self.high)  # exp and log need not give back the ends

    def numbers(self) -> tuple[float, ...]:
        """Returns both ends."""
        return self.low, self.high


@dataclass(frozen=True)
class NormalSampler(Sampler):
    """Sampler of normally distributed numbers, clipped to the bounds of the parameter."""

    clips = True

    mean: float
    """Mean."""
    std: NonNegative
    """Standard deviation."""

    def draw(self, rng: np.random.Generator) -> Value:
        """Draws a number."""
        return float(rng.normal(self.mean, self.std))

    def numbers(self) -> tuple[float, ...]:
        """Returns the mean, which must lie within the bounds."""
        return (self.mean,)


@dataclass(frozen=True)
class IntervalsSampler(Sampler):
    """Sampler of numbers uniformly distributed over several intervals."""

    intervals: tuple[tuple[float, float], ...]
    """Lower and upper end of each interval."""

    def __post_init__(self) -> None:
        if not self.intervals:
            raise ValueError("intervals is empty: it needs at least one [low, high]")
        for low, high in self.intervals:
            _check_order(low, high)

    def draw(self, rng: np.random.Generator) -> Value:
        """Draws a number."""
        sizes = [high - low for low, high in self.intervals]
        at = float(rng.uniform(0.0, sum(sizes)))
        for (low, high), size in zip(self.intervals, sizes, strict=True):
            if at <= size:
                return min(low + at, high)
            at -= size
        return self.intervals[-1][1]

    def numbers(self) -> tuple[float, ...]:
        """Returns the ends of all intervals."""
        return tuple(end for ends in self.intervals for end in ends)


@dataclass(frozen=True)
class ChoiceSampler(Sampler):
    """Sampler of values from a list."""

    values: tuple[Annotated[Any, ARGUMENTS], ...]
    """The values."""
    chances: tuple[NonNegative, ...] | None = None
    """Relative weights of the values, in any unit; none = equally likely."""

    def __post_init__(self) -> None:
        if not self.values:
            raise ValueError("values is empty: it needs at least one value")
        if self.chances is not None and (len(self.chances) != len(self.values) or not sum(self.chances)):
            raise ValueError(f"chances has {len(self.chances)} numbers for {len(self.values)} values, or only zeros")

    def draw(self, rng: np.random.Generator) -> Value:
        """Draws a value."""
        shares = None if self.chances is None else np.array(self.chances) / sum(self.chances)
        return self.values[int(rng.choice(len(self.values), p=shares))]

    def numbers(self) -> tuple[float, ...]:
        """Returns the numbers among the values."""
        return tuple(float(value) for value in self.values if is_number(value))

    def known(self) -> tuple[Value, ...]:
        """Returns all values."""
        return self.values


@dataclass(frozen=True)
class FunctionSampler(Sampler):
    """Sampler that calls a function: ``function(rng, **arguments) -> value``."""

    function: Annotated[Callable[..., Any], CODE]
    """Function of a `numpy.random.Generator`, which must be its only source of randomness."""
    arguments: Annotated[Mapping[str, Any], ARGUMENTS] = field(default_factory=dict)
    """Keyword arguments of the function."""

    def draw(self, rng: np.random.Generator) -> Value:
        """Calls the function."""
        return self.function(rng, **self.arguments)


SAMPLERS: dict[str, type[Sampler]] = {
    "constant": ConstantSampler,
    "uniform": UniformSampler,
    "loguniform": LogUniformSampler,
    "normal": NormalSampler,
    "intervals": IntervalsSampler,
    "choice": ChoiceSampler,
}
"""Samplers by the value of the key ``sampler``."""


def is_number(value: Any) -> bool:
    """Returns whether a value is a finite number, and not a bool."""
    return isinstance(value, int | float | np.number) and not isinstance(value, bool) and math.isfinite(value)


def _check_order(low: float, high: float) -> None:
    if low > high:
        raise ValueError(f"low {low:g} is above high {high:g}")
