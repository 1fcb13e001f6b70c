"""PPO that learns two values: of the environment's reward, and of a reward for what is new.

What an observation is worth to curiosity falls with how often one like it was seen (#Exploration, Tang et al. 2017,
arXiv:1611.04717): observations are alike if a few random projections of them have the same signs.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from rookery import PPO, PPOConfig
from rookery.extend import Fraction, NonNegative, ValueColumn

BITS = 12
"""Projections, whose signs tell observations apart."""


@dataclass(frozen=True)
class CuriousConfig(PPOConfig):
    """Settings of PPO, and of the reward for what is new."""

    algorithm: ClassVar[str] = "two_values:Curious"

    novelty_gamma: Fraction = 0.9
    """Discount of the reward for what is new."""
    novelty_strength: NonNegative = 0.1
    """What its advantages count beside those of the environment's reward."""


class Curious(PPO):
    """The algorithm: a second reward signal, with values and a discount of its own."""

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
        """The environment's reward, and that for what is new."""
        return (*super().columns, ValueColumn(self.cfg.novelty_gamma, self.cfg.novelty_strength))

    def rewards(self, rollout):
        """A column for each of `columns`, ``[T, F, 2]``."""
        return torch.cat((super().rewards(rollout), self.novelty(rollout).unsqueeze(-1)), -1)

    def novelty(self, rollout):
        """One over the root of how often an observation like this was seen, ``[T, F]``."""
        rows = torch.cat([leaf.flatten(2).float() for leaf in rollout.obs.values()], -1)
        signs = (rows @ self.projection > 0).long()
        number = signs @ (2 ** torch.arange(BITS))
        self.counts += torch.bincount(number[rollout.valid], minlength=2**BITS)
        return self.counts[number].clamp(min=1).rsqrt()
