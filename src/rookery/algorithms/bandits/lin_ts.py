"""Linear Thompson sampling (Agrawal and Goyal 2013, arXiv:1209.3352): draws weights from the posterior of a linear
reward, and takes the action that is best by them.

The details that decide are in docs/algorithms/lints.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from rookery.algorithms.bandits.bandit import LinearModelBandit, LinearModelConfig


@dataclass(frozen=True)
class LinTSConfig(LinearModelConfig):
    """Settings of LinTS. Environment presets change some of them: see docs/reference/presets.md."""

    algorithm: ClassVar[str] = "rookery.algorithms.bandits.lin_ts:LinTS"
    capabilities = LinearModelConfig.capabilities

    @property
    def explore(self) -> Literal["thompson"]:
        """By drawn weights."""
        return "thompson"


class LinTS(LinearModelBandit[LinTSConfig]):
    """The algorithm: Algorithm 1 of the paper, with `exploration_scale` as v."""
