"""Numbers that copies report beside observations and rewards, as games do: `ReportedNumbers`."""

from __future__ import annotations

import math
from typing import Literal

HowReported = Literal["average", "most_recent", "sum", "histogram"]
"""What is to be made of several numbers of a name."""


class ReportedNumbers:
    """Numbers by name, kept until somebody takes them."""

    def __init__(self) -> None:
        self._numbers: dict[str, tuple[HowReported, list[float]]] = {}

    def add(self, name: str, value: float, how: HowReported) -> None:
        """Takes a number; one that is not finite is left out."""
        if math.isfinite(value):
            kept = self._numbers.setdefault(name, (how, []))[1]
            if how == "most_recent":
                kept.clear()
            kept.append(value)

    def take(self) -> dict[str, tuple[HowReported, list[float]]]:
        """Gives the numbers since this was asked last, by name, with what is to be made of them."""
        numbers, self._numbers = self._numbers, {}
        return numbers
