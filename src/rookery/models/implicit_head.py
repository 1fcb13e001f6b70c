"""Head of implicit quantile networks (IQN, Dabney et al. 2018, arXiv:1806.06923): quantiles of the return at any
fractions, which are drawn anew for each row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from rookery.core.spaces.arrays import ActionSpec
from rookery.models.heads import VALUE_GAIN
from rookery.models.layers import HIDDEN_GAIN, linear
from rookery.models.q_head import QHead, QValues

COSINES = 64
"""Cosines in the embedding of a fraction, n of the paper's equation 4."""


@dataclass(frozen=True)
class ImplicitQValues(QValues):
    """Spec of a head for implicit quantiles of a Discrete space; attributes of `QValues`, with ``values="quantile"``.

    `atoms` is the number of fractions that are drawn for a row; streams and noisy layers have no effect.
    """

    def build(
        self, num_features: int, action: ActionSpec, *, log_std_init: float, generator: torch.Generator
    ) -> ImplicitQHead:
        """Builds the head; arguments as of `HeadSpec.build`."""
        return ImplicitQHead(num_features, action, self, generator=generator)


class ImplicitQHead(QHead):
    """Head for quantiles of the return at given fractions; arguments as of `QHead`.

    Attributes:
        embedding: From the cosines of a fraction to a factor of each feature.
        hidden: From the features, multiplied by these factors, to as many hidden units.
        linear: From the hidden units to the quantiles of the actions.
    """

    shares_noise = False

    def __init__(
        self, num_features: int, action: ActionSpec, spec: ImplicitQValues, *, generator: torch.Generator
    ) -> None:
        super().__init__(num_features, action, spec, generator=generator)
        self.layer_noise = self.atoms
        self.noise = replace(self.noise, normal=self.atoms)

    def _make_layers(self, num_features: int, width: int, generator: torch.Generator) -> Sequence[nn.Module]:
        """Makes the layers; none of them is noisy."""
        self.embedding = linear(COSINES, num_features, gain=HIDDEN_GAIN, generator=generator)
        self.hidden = linear(num_features, num_features, gain=HIDDEN_GAIN, generator=generator)
        self.linear = linear(num_features, self.num_actions, gain=VALUE_GAIN, generator=generator)
        return []

    def values(self, features: Tensor, noise: Tensor | None = None) -> Tensor:
        """Returns the quantiles of all actions, ``[N, A, M]``.

        Args:
            features: ``[N, F]``.
            noise: Normal numbers ``[N, M]`` of the fractions, see `fractions`.
        """
        product = features.unsqueeze(1) * self.embedded(fractions(noise, self.atoms, features))
        quantiles: Tensor = self.linear(functional.relu(self.hidden(product)))
        return quantiles.transpose(1, 2)

    def embedded(self, fraction: Tensor) -> Tensor:
        """Returns the factors of the features, ``[N, M, F]``, for fractions ``[N, M]`` (equation 4)."""
        order = torch.arange(COSINES, dtype=torch.float32, device=fraction.device)
        cosines = torch.cos(math.pi * order * fraction.unsqueeze(-1))
        return functional.relu(self.embedding(cosines))


def fractions(noise: Tensor | None, number: int, like: Tensor) -> Tensor:
    """Returns fractions in (0, 1), ``[N, M]``: uniform ones, which are the probabilities of values below normal numbers
    ``[N, M]``; without numbers the midpoints ``(i + 1/2) / M``, ``[1, M]``.

    Args:
        noise: The normal numbers, or None.
        number: M.
        like: A tensor of the device and type wanted.
    """
    if noise is not None:
        drawn: Tensor = torch.special.ndtr(noise)
        return drawn
    return ((torch.arange(number, dtype=like.dtype, device=like.device) + 0.5) / number).unsqueeze(0)
