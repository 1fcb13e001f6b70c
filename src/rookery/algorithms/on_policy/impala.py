"""IMPALA (Espeholt et al. 2018, arXiv:1802.01561): an actor-critic that corrects for rollouts of older weights.

One gradient step per update, as in A2C, and the same one on rollouts of its own weights. The details that decide are
in docs/algorithms/impala.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

from rookery.algorithms.capabilities import Capabilities
from rookery.algorithms.on_policy.a2c import A2C, A2CConfig
from rookery.algorithms.on_policy.actor_critic import Correction
from rookery.core.settings.fields import NonNegative, PositiveFloat, Scheduled, Structural
from rookery.core.settings.reach import Length, Rows


@dataclass(frozen=True)
class IMPALAConfig(A2CConfig):
    """Settings of IMPALA. Space and environment presets change some of them: see docs/reference/presets.md."""

    algorithm: ClassVar[str] = "rookery.algorithms.on_policy.impala:IMPALA"
    capabilities = Capabilities(supports_staleness=True, supports_memory=True, supports_multi_learner=True)

    lr: Scheduled[PositiveFloat] = 5e-4
    """Learning rate."""
    fragment_length: Structural[Length] = 20
    """Consecutive decisions of one slot (n of the paper) before its targets are bootstrapped from a value."""
    rollout_size: Rows | None = 500
    entropy_coef: Scheduled[NonNegative] = 0.01
    rho_bar: PositiveFloat = 1.0
    """Largest importance weight of a decision: above 1 less is clipped, and single decisions weigh more."""
    c_bar: PositiveFloat = 1.0
    """Largest weight of a later error for an earlier decision."""
    optimizer: Structural[Literal["rmsprop", "adam"]] = "adam"
    """Optimizer of the gradient steps; rmsprop uses `rms_alpha` and `rms_eps`, as in the paper."""


class IMPALA(A2C):
    """The algorithm: A2C's update with the targets and importance weights of V-trace."""

    cfg: IMPALAConfig

    @cached_property
    def correction(self) -> Correction:
        """Off-policy correction."""
        return Correction(self.cfg.rho_bar, self.cfg.c_bar)
