"""Linear Thompson sampling (Agrawal and Goyal 2013, arXiv:1209.3352): draws weights from the posterior of a linear
reward, and takes the action that is best by them.

The details that decide are in docs/algorithms/lints.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from rookery.algorithms.bandits.bandit import Bandit, BanditConfig, check_linear
from rookery.algorithms.capabilities import Capabilities
from rookery.core.seeding import Streams
from rookery.policies.policy import Policy


@dataclass(frozen=True)
class LinTSConfig(BanditConfig):
    """Settings of LinTS. Environment presets change some of them: see docs/reference/presets.md."""

    algorithm: ClassVar[str] = "rookery.algorithms.bandits.lin_ts:LinTS"
    capabilities = Capabilities(supports_staleness=True, uses_central_obs=False, learns_single_decisions=True)

    @property
    def explore(self) -> Literal["thompson"]:
        """By drawn weights."""
        return "thompson"


class LinTS(Bandit[LinTSConfig]):
    """The algorithm: Algorithm 1 of the paper, with `exploration_scale` as v."""

    def __init__(self, policy: Policy, cfg: LinTSConfig, streams: Streams, name: str) -> None:
        check_linear(policy, name, "LinTS")
        super().__init__(policy, cfg, streams, name)
