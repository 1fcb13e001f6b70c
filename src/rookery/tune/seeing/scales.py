"""Where a parameter's value lies on an axis: even steps for choices, else a line or its logarithm."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rookery.tune.seeing.words import told
from rookery.tune.trial import is_number

MOST_CHOICES = 12
"""Numbers among more choices than these stand on a line."""


@dataclass(frozen=True)
class Scale:
    """An axis from 0 to 1.

    Attributes:
        low: The smallest number, or its logarithm.
        high: The largest.
        log: Whether the logarithm is even.
        choices: Values as they are told, bottom to top; empty for numbers on a line.
    """

    low: float
    high: float
    log: bool = False
    choices: tuple[str, ...] = ()

    def place(self, value: Any) -> float | None:
        """Where a value lies; None if it is nowhere on this axis."""
        if self.choices:
            if told(value) not in self.choices:
                return None
            return (self.choices.index(told(value)) + 0.5) / len(self.choices)
        if not is_number(value) or (self.log and value <= 0):
            return None
        at = math.log10(value) if self.log else float(value)
        return (at - self.low) / (self.high - self.low) if self.high > self.low else 0.5

    def ticks(self) -> list[tuple[float, str]]:
        """Places worth a word, and the word."""
        if self.choices:
            return [((place + 0.5) / len(self.choices), word) for place, word in enumerate(self.choices)]
        if self.high <= self.low:
            return [(0.5, told(10**self.low if self.log else self.low))]
        if self.log:
            found = _decades(self.low, self.high)
        else:
            found = _round_steps(self.low, self.high)
        return [(place, told(value)) for value in found if (place := self.place(value)) is not None]


def scale(description: Mapping[str, Any], values: Iterable[Any]) -> Scale:
    """The axis of a parameter.

    Args:
        description: Of its domain: ``{"loguniform": [0.0001, 0.01]}``; empty if nobody knows.
        values: Those to be shown; a clone's may lie outside of the domain.
    """
    known = [value for value in values if value is not None]
    kind, arguments = next(iter(description.items()), ("", []))
    if kind in ("choice", "grid_search") or not all(map(is_number, known)):
        listed = [*(arguments if kind in ("choice", "grid_search") else ()), *known]
        words = dict.fromkeys(map(told, listed))
        if all(map(is_number, listed)):
            words = dict.fromkeys(told(value) for value in sorted(listed))
        if len(words) <= MOST_CHOICES or not all(map(is_number, listed)):
            return Scale(0.0, 1.0, choices=tuple(words))
        return line(listed, _spans_decades(listed))
    if "uniform" in kind or "randint" in kind:
        known += arguments[:1] + [arguments[1] - ("randint" in kind and not kind.startswith("q"))]
        return line(known, "log" in kind)
    return line(known, _spans_decades(known))


def line(values: Sequence[float], log: bool) -> Scale:
    """The axis from the smallest to the largest of some numbers."""
    if not values:
        return Scale(0.0, 0.0)
    low, high = min(values), max(values)
    return Scale(math.log10(low), math.log10(high), True) if log and low > 0 else Scale(low, high)


def _spans_decades(values: Sequence[float]) -> bool:
    return bool(values) and min(values) > 0 and max(values) / min(values) > 50


def _decades(low: float, high: float) -> list[float]:
    """Powers of ten between two logarithms; where there are few, 2 and 5 between them; the ends if that gives none."""
    step = max(1, math.ceil((high - low) / 6))
    powers = [10.0**power for power in range(math.ceil(low - 1e-9), math.floor(high + 1e-9) + 1, step)]
    if len(powers) < 3:
        fine = [lead * 10.0**power for power in range(math.floor(low), math.ceil(high) + 1) for lead in (1, 2, 5)]
        powers = [value for value in fine if low - 1e-9 <= math.log10(value) <= high + 1e-9]
    return powers if len(powers) > 1 else [10**low, 10**high]


def _round_steps(low: float, high: float) -> list[float]:
    """Three to seven round numbers between two."""
    rough = (high - low) / 6
    size = 10 ** math.floor(math.log10(rough))
    step = next(lead * size for lead in (1, 2, 5, 10) if lead * size >= rough * 0.999)
    return [number * step for number in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]
