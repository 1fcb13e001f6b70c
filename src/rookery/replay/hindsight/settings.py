"""Settings of hindsight experience replay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rookery.core.settings.fields import Fraction, Settings, Structural


@dataclass(frozen=True)
class HindsightConfig(Settings):
    """Settings of hindsight experience replay (Andrychowicz et al. 2017), for environments with goals."""

    strategy: Structural[Literal["future", "final", "episode"] | None] = None
    """Decisions are replayed with goals that their episode reached: at or after the decision (``future``), at its end
    (``final``), or at any time (``episode``). None = with the recorded goals only.
    """

    relabeled: Fraction = 0.8
    """Share of drawn decisions that get such a goal: 0.8 = four for each one that keeps its goal (k = 4 in the paper).
    """
