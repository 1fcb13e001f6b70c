"""A custom reward signal: an observation is rewarded more, the less it resembles earlier ones.

Observations are mapped to random features, whose inner products measure similarity (Rahimi & Recht 2007); the
reward is the width of a confidence ellipsoid of earlier observations (Jin et al. 2020, arXiv:1907.05388, Algorithm 1).
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from rookery.extend import Decisions, PositiveFloat, PositiveInt, RewardSignal, SignalConfig, Structural


@dataclass(frozen=True)
class EllipsoidConfig(SignalConfig):
    """Settings of the signal."""

    signal: ClassVar[str] = "own_signal:Ellipsoid"

    num_features: Structural[PositiveInt] = 128
    distance: PositiveFloat = 1.0  # observations that are much closer to each other count as one
    scale: bool = True  # divide rewards by the running standard deviation of their returns


class Ellipsoid(RewardSignal[EllipsoidConfig]):
    """The signal."""

    episodic = False  # novelty in the next episode counts too
    saved = ("projection", "phase", "precision")  # stored in a checkpoint

    def __init__(self, policy, cfg, streams, name):
        super().__init__(policy, cfg, streams, name)
        numbers = sum(int(np.prod(leaf.shape)) for leaf in policy.obs_spec.leaves)
        generator = self.generator(streams)
        self.projection = torch.randn(numbers, cfg.num_features, generator=generator) / cfg.distance
        self.phase = 2 * torch.pi * torch.rand(cfg.num_features, generator=generator)
        self.precision = torch.eye(cfg.num_features)

    def features(self, obs):
        """Returns random features ``[N, F]`` of raw observations, of length about 1."""
        rows = torch.cat([leaf.reshape(len(leaf), -1).float() for leaf in obs.values()], 1)
        return (rows @ self.projection + self.phase).cos() * (2 / self.cfg.num_features) ** 0.5

    def observe(self, played: Decisions):
        """Adds new decisions to the statistics; called once for each."""
        seen = self.features(played.next_obs)[~played.terminated]
        self.precision += seen.T @ seen

    def reward(self, seen: Decisions):
        """Returns the reward ``[N]`` of each decision."""
        features = self.features(seen.next_obs)
        solved = torch.linalg.solve(self.precision, features.T).T
        return (features * solved).sum(1).clamp(min=0).sqrt().masked_fill(seen.terminated, 0.0)
