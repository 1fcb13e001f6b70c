"""Settings of the noise that tries out continuous actions; the noise itself is in `models/exploration.py`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from rookery.core.settings.fields import FormerName, Fraction, NonNegative, Scheduled, Settings, Structural
from rookery.core.settings.reach import Count


@dataclass(frozen=True)
class NoiseConfig(Settings):
    """What the noise of consecutive decisions has to do with each other."""

    kind: Structural[Literal["white", "ou", "gsde"]] = "white"
    """``white`` = nothing (Gaussian noise); ``ou`` = it drifts (Ornstein-Uhlenbeck); ``gsde`` = it is a function of the
    state for a while (Raffin et al. 2021).
    """

    theta: Fraction = 0.15
    """Of ``ou``: share of the noise that is gone with each decision."""

    every: Count | None = None
    """Of ``gsde``: decisions with the same function; none = whole episodes."""


@dataclass(frozen=True)
class SizedNoiseConfig(NoiseConfig):
    """The same, where the policy itself does not say how large the noise is."""

    std: Scheduled[NonNegative] = 0.1
    """Standard deviation, where actions span [-1, 1]."""

    per_env_epsilon: Annotated[Structural[NonNegative], FormerName("ladder")] = 0.0
    """How much less later slots explore: slot i of N has ``std ** (1 + per_env_epsilon * i / (N - 1))``; 0 = all
    explore alike. Ape-X (Horgan et al. 2018) uses 7 with 0.4.
    """
