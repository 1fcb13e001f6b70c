"""Settings of the noise on continuous actions; the noise itself is in `models/exploration.py`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from rookery.core.settings.fields import FormerName, Fraction, NonNegative, Scheduled, Settings, Structural
from rookery.core.settings.reach import Count


@dataclass(frozen=True)
class NoiseConfig(Settings):
    """Correlation of the exploration noise over time."""

    kind: Structural[Literal["white", "ou", "gsde"]] = "white"
    """``white`` = none (Gaussian noise); ``ou`` = Ornstein-Uhlenbeck process; ``gsde`` = a function of the state that
    is fixed for a while (Raffin et al. 2021).
    """

    theta: Fraction = 0.15
    """Of ``ou``: mean reversion, the share of the noise that decays with each decision."""

    every: Count | None = None
    """Of ``gsde``: decisions until a new function is drawn; none = whole episodes."""


@dataclass(frozen=True)
class SizedNoiseConfig(NoiseConfig):
    """Noise with an explicit size, for policies without a standard deviation."""

    std: Scheduled[NonNegative] = 0.1
    """Standard deviation, for actions in [-1, 1]."""

    per_env_epsilon: Annotated[Structural[NonNegative], FormerName("ladder")] = 0.0
    """Lower exploration of later slots: slot i of N uses ``std ** (1 + per_env_epsilon * i / (N - 1))``; 0 = all
    alike. Ape-X (Horgan et al. 2018) takes 7 with 0.4.
    """
