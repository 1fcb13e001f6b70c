"""Count-based exploration (Tang et al. 2017, arXiv:1611.04717): rarely visited states have higher rewards.

Observations share a count if their random projections have equal signs (SimHash, eq. 2 of the paper); with many
projections only equal or very similar observations do. The reward is one over the root of the count (eq. 1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import torch
from annotated_types import Interval
from torch import Tensor, nn

from rookery.core.batch import Decisions, TensorTree
from rookery.core.device import device_of
from rookery.core.seeding import Streams
from rookery.core.settings.fields import Structural
from rookery.models.build import ModelConfig, build_trunk
from rookery.policies.normalize import ObsNormalizer
from rookery.policies.policy import Policy
from rookery.signals.signal import RewardSignal, SignalConfig


@dataclass(frozen=True)
class CountConfig(SignalConfig):
    """Settings of count-based exploration."""

    signal: ClassVar[str] = "rookery.signals.count:Count"

    bits: Structural[Annotated[int, Interval(ge=1, le=62)]] = 32
    """Number of random projections: with fewer, more observations share a count."""


class Count(RewardSignal[CountConfig]):
    """Rewards the next observation by one over the square root of its count.

    Attributes:
        normalizer: Mean and standard deviation of the observations before the first count; fixed afterwards.
        trunk: Flattens observations.
        projection: ``[numbers, bits]``.
        codes: ``[C]`` int64, all codes so far, ascending.
        counts: ``[C]`` int64, count of each code.
    """

    episodic = False
    saved = ("normalizer", "trunk", "projection", "codes", "counts")
    fixed = ("powers",)

    def __init__(self, policy: Policy, cfg: CountConfig, streams: Streams, name: str) -> None:
        super().__init__(policy, cfg, streams, name)
        generator, device = self.generator(streams), device_of(policy)
        self.normalizer = ObsNormalizer(policy.own_spec, 10.0, policy.model.entities).to(device)
        self.trunk: nn.Module = build_trunk(self.normalizer.spec, ModelConfig(hidden=()), generator=generator).to(
            device
        )
        width = self.trunk.num_features
        assert isinstance(width, int)
        self.projection = torch.randn(width, cfg.bits, generator=generator, dtype=torch.float32, device="cpu").to(
            device
        )
        self.powers = (2 ** torch.arange(cfg.bits, dtype=torch.int64, device="cpu")).to(device)
        self.codes = np.zeros(0, np.int64)
        self.counts = np.zeros(0, np.int64)

    @torch.no_grad()
    def code(self, obs: TensorTree) -> np.ndarray:
        """Returns the code of each raw observation, ``[N]`` int64."""
        signs = self.trunk(self.normalizer(obs)) @ self.projection > 0
        codes: np.ndarray = (signs * self.powers).sum(1).cpu().numpy()
        return codes

    def observe(self, played: Decisions) -> None:
        """Counts the next observations."""
        if not len(self.codes):
            self.normalizer.update(played.obs)
        found = self.code(played.next_obs)[~played.terminated.cpu().numpy()]
        self.codes, place = np.unique(np.concatenate((self.codes, found)), return_inverse=True)
        weight = np.concatenate((self.counts, np.ones(len(found), np.int64)))
        self.counts = np.bincount(place, weight, len(self.codes)).astype(np.int64)

    def reward(self, seen: Decisions) -> Tensor:
        """Returns one over the square root of the count, ``[N]``; 0 where the episode terminated."""
        codes = self.code(seen.next_obs)
        at = np.minimum(np.searchsorted(self.codes, codes), max(len(self.codes) - 1, 0))
        there = self.codes[at] == codes if len(self.codes) else np.zeros(len(codes), bool)
        count = np.where(there, self.counts[at], 1) if len(self.codes) else np.ones(len(codes), np.int64)
        reward = torch.from_numpy(count.astype(np.float32) ** -0.5).to(seen.terminated.device)
        return reward.masked_fill(seen.terminated, 0.0)

    def summary(self) -> dict[str, float | int | None]:
        """Returns the number of different codes."""
        return {"seen": len(self.codes)}
