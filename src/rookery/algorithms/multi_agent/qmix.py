"""QMIX (Rashid et al. 2018, arXiv:1803.11485): the value of a team is a monotonically increasing, state-dependent
function of its members' values.

VDN (`vdn.py`) with another mixer. The details that decide are in docs/algorithms/qmix.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from torch import nn

from rookery.algorithms.capabilities import Capabilities
from rookery.algorithms.multi_agent.vdn import VDN, VDNConfig
from rookery.core.settings.fields import NonNegativeInt, Structural
from rookery.core.settings.reach import Width, Within
from rookery.models.mixers import MonotonicMixer, state_spec
from rookery.models.team_heads import TeamQHead


@dataclass(frozen=True)
class QMIXConfig(VDNConfig):
    """Settings of QMIX."""

    algorithm: ClassVar[str] = "rookery.algorithms.multi_agent.qmix:QMIX"
    capabilities = Capabilities(supports_staleness=True, supports_memory=True, uses_replay=True, needs_team=True)

    mixing_size: Structural[Width] = 32
    """Units between the two layers of the mixer."""
    mixing_hidden: Structural[Annotated[NonNegativeInt, Within(8_192)]] = 64
    """Hidden units of the networks that compute the mixer's weights from the state; 0 = linear."""


class QMIX(VDN):
    """Learns the values of the members' actions, and how to mix them; see `VDN`."""

    cfg: QMIXConfig

    def make_mixer(self, head: TeamQHead, generator: torch.Generator) -> nn.Module:
        """Creates a monotonic mixer on the critics' observations."""
        cfg, state = self.cfg, state_spec(self.policy.critic_spec)
        return MonotonicMixer(
            head.num_members,
            state,
            cfg.model,
            width=cfg.mixing_size,
            hidden=cfg.mixing_hidden,
            generator=generator,
        )
