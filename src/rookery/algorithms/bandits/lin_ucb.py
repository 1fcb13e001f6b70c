"""LinUCB (Li et al. 2010, arXiv:1003.0146): takes the action with the highest upper confidence bound of a linear
reward.

The details that decide are in docs/algorithms/linucb.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from rookery.algorithms.bandits.bandit import LinearModelBandit, LinearModelConfig


@dataclass(frozen=True)
class LinUCBConfig(LinearModelConfig):
    """Settings of LinUCB. Environment presets change some of them: see docs/reference/presets.md."""

    algorithm: ClassVar[str] = "rookery.algorithms.bandits.lin_ucb:LinUCB"
    capabilities = LinearModelConfig.capabilities

    @property
    def explore(self) -> Literal["ucb"]:
        """By upper confidence bounds."""
        return "ucb"


class LinUCB(LinearModelBandit[LinUCBConfig]):
    """The algorithm: Algorithm 1 of the paper; with `arm_features`, one model for all arms (Chu et al. 2011)."""
