"""Augmented random search (Mania et al. 2018, arXiv:1803.07055), version V2-t: finite differences along the best random
directions, with a step in units of the returns' standard deviation and normalized observations.

The details that decide are in docs/algorithms/ars.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from rookery.algorithms.capabilities import Capabilities
from rookery.algorithms.evolution.population import Evolution, EvolutionConfig
from rookery.algorithms.evolution.sgd import SGD
from rookery.core.errors import ConfigError
from rookery.core.flat import Flat
from rookery.core.optim import Optimizer
from rookery.core.seeding import Streams
from rookery.core.settings.fields import PositiveFloat, Scheduled, Structural
from rookery.core.settings.reach import Few
from rookery.models.build import ModelConfig
from rookery.policies.policy import Policy


@dataclass(frozen=True)
class ARSConfig(EvolutionConfig):
    """Settings of ARS. Environment presets change some of them: see docs/reference/presets.md."""

    algorithm: ClassVar[str] = "rookery.algorithms.evolution.ars:ARS"
    capabilities = Capabilities(uses_central_obs=False)
    field_order = "lr num_directions top_directions episodes_per_candidate noise_std weight_decay max_grad_norm model"

    lr: Scheduled[PositiveFloat] = 0.02
    top_directions: Few | None = None
    """Directions that count: those with the best candidates. None = all, which is version V2 of the paper."""
    noise_std: Scheduled[PositiveFloat] = 0.03
    num_directions: Structural[Few] = 8
    model: ModelConfig = field(default_factory=lambda: ModelConfig(hidden=(), normalize_obs=True))
    """The network: a linear policy of normalized observations."""


class ARS(Evolution[ARSConfig]):
    """The algorithm: Algorithm 2 of the paper."""

    def __init__(self, policy: Policy, cfg: ARSConfig, streams: Streams, name: str) -> None:
        super().__init__(policy, cfg, streams, name)
        if cfg.top_directions is not None and cfg.top_directions > cfg.num_directions:
            raise ConfigError(
                f"policies.{name}.top_directions = {cfg.top_directions}: there are {cfg.num_directions} directions "
                "(num_directions), of which the best count; set at most as many"
            )

    def make_optimizer(self, flat: Flat) -> Optimizer:
        """Makes plain gradient steps."""
        return SGD(flat)

    def direction_weights(self, returns: Tensor, cfg: ARSConfig) -> Tensor:
        """Returns the difference of both sides' returns over ``top_directions`` times the standard deviation of the
        returns that count, ``[n]``; 0 for directions that do not count.
        """
        best = returns.amax(1).topk(cfg.top_directions or len(returns)).indices
        deviation = returns[best].std(correction=0)
        weights = torch.zeros(len(returns), device=returns.device, dtype=returns.dtype)
        weights[best] = (returns[best, 0] - returns[best, 1]) / (len(best) * (deviation + 1e-8))
        return weights
