"""`ReportedNumbers`: metrics that environments, such as games, report in addition to observations and rewards."""

from __future__ import annotations

import math
from typing import Literal

HowReported = Literal["average", "most_recent", "sum", "histogram"]
"""Ways to combine several numbers with the same name."""


class ReportedNumbers:
    """Reported numbers by name, stored until they are taken."""

    def __init__(self) -> None:
        self._numbers: dict[str, tuple[HowReported, list[float]]] = {}

    def add(self, name: str, value: float, how: HowReported) -> None:
        """Adds a number; one that is not finite is left out."""
        if math.isfinite(value):
            kept = self._numbers.setdefault(name, (how, []))[1]
            if how == "most_recent":
                kept.clear()
            kept.append(value)

    def take(self) -> dict[str, tuple[HowReported, list[float]]]:
        """Returns the numbers since the last call, by name, and how to combine them."""
        numbers, self._numbers = self._numbers, {}
        return numbers
