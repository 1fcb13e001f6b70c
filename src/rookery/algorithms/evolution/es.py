"""Evolution strategies (Salimans et al. 2017, arXiv:1703.03864): the gradient of the return of perturbed weights,
estimated by finite differences along random directions. No gradient goes through the network.

The details that decide are in docs/algorithms/es.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from rookery.algorithms.capabilities import Capabilities
from rookery.algorithms.evolution.population import Evolution, EvolutionConfig
from rookery.algorithms.evolution.sgd import SGD
from rookery.core.flat import Flat
from rookery.core.optim import Adam, Optimizer
from rookery.core.settings.fields import NonNegative, PositiveFloat, Scheduled, Structural


@dataclass(frozen=True)
class ESConfig(EvolutionConfig):
    """Settings of ES. Environment presets change some of them: see docs/reference/presets.md."""

    algorithm: ClassVar[str] = "rookery.algorithms.evolution.es:ES"
    capabilities = Capabilities(uses_central_obs=False)
    field_order = (
        "lr num_directions episodes_per_candidate noise_std return_shaping optimizer weight_decay max_grad_norm "
        "adam_eps model"
    )

    lr: Scheduled[PositiveFloat] = 0.03
    weight_decay: NonNegative = 0.005
    return_shaping: Literal["ranks", "normalize", "none"] = "ranks"
    """Replacement of the returns of a generation: their centered ranks from -0.5 to 0.5, where equal returns have
    equal ranks; the returns with mean 0 and standard deviation 1; or the returns themselves.
    """
    optimizer: Structural[Literal["adam", "sgd"]] = "adam"
    """How weights follow the gradient."""
    adam_eps: PositiveFloat = 1e-8
    """Added to Adam's denominator."""


def centered_ranks(returns: Tensor) -> Tensor:
    """Returns the ranks of `returns`, any shape, scaled to -0.5 for the smallest and 0.5 for the largest. Equal returns
    have the mean of their ranks, so that differences of equal returns are 0.
    """
    flat, order = returns.flatten(), returns.flatten().sort().values
    below, up_to = (torch.searchsorted(order, flat, right=right) for right in (False, True))
    ranks: Tensor = (below + up_to - 1).float() / (2 * (len(flat) - 1)) - 0.5
    return ranks.reshape(returns.shape)


def shape_returns(returns: Tensor, shaping: str) -> Tensor:
    """Returns what replaces the returns of a generation; see `ESConfig.return_shaping`."""
    if shaping == "ranks":
        return centered_ranks(returns)
    if shaping == "normalize":
        return (returns - returns.mean()) / (returns.std(correction=0) + 1e-8)
    return returns


class ES(Evolution[ESConfig]):
    """The algorithm: Algorithm 1 of the paper, with antithetic directions."""

    def make_optimizer(self, flat: Flat) -> Optimizer:
        """Makes Adam or SGD."""
        if self.cfg.optimizer == "sgd":
            return SGD(flat)
        return Adam(flat, betas=(0.9, 0.999), eps=self.cfg.adam_eps)

    def direction_weights(self, returns: Tensor, cfg: ESConfig) -> Tensor:
        """Returns the difference of both sides' shaped returns over ``2 * num_directions * noise_std``, ``[n]``."""
        shaped = shape_returns(returns, cfg.return_shaping)
        return (shaped[:, 0] - shaped[:, 1]) / (returns.numel() * float(self.policy.head.noise_std))
