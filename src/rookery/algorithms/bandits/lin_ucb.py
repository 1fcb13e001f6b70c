"""LinUCB (Li et al. 2010, arXiv:1003.0146): takes the action with the highest upper confidence bound of a linear
reward.

The details that decide are in docs/algorithms/linucb.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from rookery.algorithms.bandits.bandit import Bandit, BanditConfig, check_linear
from rookery.algorithms.capabilities import Capabilities
from rookery.core.seeding import Streams
from rookery.policies.policy import Policy


@dataclass(frozen=True)
class LinUCBConfig(BanditConfig):
    """Settings of LinUCB. Environment presets change some of them: see docs/reference/presets.md."""

    algorithm: ClassVar[str] = "rookery.algorithms.bandits.lin_ucb:LinUCB"
    capabilities = Capabilities(supports_staleness=True, uses_central_obs=False, learns_single_decisions=True)

    @property
    def explore(self) -> Literal["ucb"]:
        """By upper confidence bounds."""
        return "ucb"


class LinUCB(Bandit[LinUCBConfig]):
    """The algorithm: Algorithm 1 of the paper; with `arm_features`, one model for all arms (Chu et al. 2011)."""

    def __init__(self, policy: Policy, cfg: LinUCBConfig, streams: Streams, name: str) -> None:
        check_linear(policy, name, "LinUCB")
        super().__init__(policy, cfg, streams, name)
