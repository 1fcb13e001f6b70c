"""PPO with two value functions: of the environment's reward, and of a reward for novelty.

The novelty of an observation falls with the count of similar ones (#Exploration, Tang et al. 2017,
arXiv:1611.04717): observations are similar if a few random projections of them have the same signs.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from rookery import PPO, PPOConfig
from rookery.extend import Fraction, NonNegative, ValueColumn

BITS = 12
"""Number of projections whose signs distinguish observations."""


@dataclass(frozen=True)
class CuriousConfig(PPOConfig):
    """Settings of PPO, and of the reward for novelty."""

    algorithm: ClassVar[str] = "two_values:Curious"

    novelty_gamma: Fraction = 0.9
    """Discount of the reward for novelty."""
    novelty_strength: NonNegative = 0.1
    """Weight of its advantages; those of the environment's reward have weight 1."""


class Curious(PPO):
    """PPO with a second reward signal, with its own value function and discount."""

    saved = ("counts",)
    fixed = ("projection",)

    def __init__(self, policy, cfg, streams, name):
        super().__init__(policy, cfg, streams, name)
        numbers = sum(int(np.prod(leaf.shape)) for leaf in policy.obs_spec.leaves)
        generator = torch.Generator().manual_seed(0)
        self.projection = torch.randn(numbers, BITS, generator=generator)
        self.counts = torch.zeros(2**BITS)

    @property
    def columns(self):
        """The environment's reward, and the reward for novelty."""
        return (*super().columns, ValueColumn(self.cfg.novelty_gamma, self.cfg.novelty_strength))

    def rewards(self, rollout):
        """Returns a column of rewards for each of `columns`, ``[T, F, 2]``."""
        return torch.cat((super().rewards(rollout), self.novelty(rollout).unsqueeze(-1)), -1)

    def novelty(self, rollout):
        """Returns one over the root of the count of similar observations, ``[T, F]``."""
        rows = torch.cat([leaf.flatten(2).float() for leaf in rollout.obs.values()], -1)
        signs = (rows @ self.projection > 0).long()
        number = signs @ (2 ** torch.arange(BITS))
        self.counts += torch.bincount(number[rollout.valid], minlength=2**BITS)
        return self.counts[number].clamp(min=1).rsqrt()
