"""Action distributions: sampling from given noise, log-probability, entropy, Kullback-Leibler divergence.

`torch.distributions` is general and slow for eight rows, so these are short sequences of tensor operations. Leading
dimensions are batch dimensions; the last one is what a head puts out; results are summed over the elements of an
action. Noise is given, never drawn here: a fixed amount a row, so that an action depends on its own row's stream only.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor
from torch.nn import functional

MASKED_LOGIT = -1e8  # not -inf: probability 0 all the same, but entropy and KL stay finite (0 * -1e8 = 0)
BELOW_ONE = 1.0 - 2.0**-24  # the largest float32 below 1
LOG_2PI = math.log(2.0 * math.pi)


@dataclass(frozen=True)
class NoiseSpec:
    """How many random numbers one action takes; they lie in one row, uniforms first.

    Attributes:
        uniform: Numbers uniform in [0, 1).
        normal: Standard normal numbers.
    """

    uniform: int = 0
    normal: int = 0

    @property
    def width(self) -> int:
        """Length of a row of noise."""
        return self.uniform + self.normal


class Distribution(ABC):
    """Actions and their probabilities, for a batch of rows ``[...]``, which is also the shape of results."""

    @property
    @abstractmethod
    def noise(self) -> NoiseSpec:
        """What `sample` needs for each row."""

    @abstractmethod
    def sample(self, noise: Tensor) -> Tensor:
        """Actions drawn with `noise`, ``[..., noise.width]``."""

    @abstractmethod
    def mode(self) -> Tensor:
        """The most probable actions."""

    @abstractmethod
    def log_prob(self, action: Tensor) -> Tensor:
        """Log-probability (density, for continuous actions) of `action`."""

    @abstractmethod
    def entropy(self) -> Tensor:
        """Entropy in nats."""

    @abstractmethod
    def kl(self, other: Self) -> Tensor:
        """KL(self || other) in nats."""

    def sample_logp(self, noise: Tensor) -> tuple[Tensor, Tensor]:
        """`sample` and `log_prob` of it, sharing work where a distribution can."""
        action = self.sample(noise)
        return action, self.log_prob(action)


class Categorical(Distribution):
    """One choice out of n, an int64 number ``[...]``.

    Args:
        logits: Unnormalised log-probabilities ``[..., n]``.
        mask: Allowed choices ``[..., n]``, bool; the others get probability 0, and their logits no gradient.
    """

    def __init__(self, logits: Tensor, mask: Tensor | None = None) -> None:
        if mask is not None:
            logits = torch.where(mask, logits, MASKED_LOGIT)
        self.log_probs = torch.log_softmax(logits, -1)

    @property
    def noise(self) -> NoiseSpec:
        """One uniform number."""
        return NoiseSpec(uniform=1)

    def sample(self, noise: Tensor) -> Tensor:
        """The first choice whose cumulative probability exceeds the uniform number."""
        # In float64 a sum of float32 probabilities is exact in any order of summation (a GPU's, say), hence flat where
        # one is 0: a strict comparison cannot stop there. The target stays below the total, so some choice exceeds it.
        cumulative = self.log_probs.exp().cumsum(-1, dtype=torch.float64)
        target = noise.clamp_max(BELOW_ONE) * cumulative.narrow(-1, -1, 1)
        return torch.searchsorted(cumulative, target, right=True).squeeze(-1)

    def mode(self) -> Tensor:
        """The most probable choice, the first of equals."""
        return self.log_probs.argmax(-1)

    def log_prob(self, action: Tensor) -> Tensor:
        """Log-probability of `action`, int64 ``[...]``."""
        return self.log_probs.gather(-1, action.unsqueeze(-1)).squeeze(-1)

    def entropy(self) -> Tensor:
        """Entropy in nats; masked choices count nothing."""
        return -(self.log_probs.exp() * self.log_probs).sum(-1)

    def kl(self, other: Self) -> Tensor:
        """KL(self || other) in nats; about 1e8 where `other` excludes a choice that `self` makes."""
        return (self.log_probs.exp() * (self.log_probs - other.log_probs)).sum(-1)


class MultiCategorical(Distribution):
    """Several independent choices, int64 ``[..., k]``.

    Args:
        logits: The logits of all choices side by side, ``[..., sum(sizes)]``.
        sizes: How many options each of the k choices has.
        mask: Allowed options ``[..., sum(sizes)]``, bool.
    """

    def __init__(self, logits: Tensor, sizes: Sequence[int], mask: Tensor | None = None) -> None:
        if mask is not None:
            logits = torch.where(mask, logits, MASKED_LOGIT)
        widest = max(sizes)
        if min(sizes) == widest:
            table = logits.unflatten(-1, (len(sizes), widest))
        else:  # shorter choices are filled up with options of probability 0
            parts = logits.split(tuple(sizes), -1)
            table = torch.stack([functional.pad(p, (0, widest - p.shape[-1]), value=MASKED_LOGIT) for p in parts], -2)
        self.choices = Categorical(table)

    @property
    def noise(self) -> NoiseSpec:
        """A uniform number for each choice."""
        return NoiseSpec(uniform=self.choices.log_probs.shape[-2])

    def sample(self, noise: Tensor) -> Tensor:
        """Each choice by its own uniform number."""
        return self.choices.sample(noise.unsqueeze(-1))

    def mode(self) -> Tensor:
        """The most probable option of each choice."""
        return self.choices.mode()

    def log_prob(self, action: Tensor) -> Tensor:
        """Sum of the choices' log-probabilities; `action` is ``[..., k]``."""
        return self.choices.log_prob(action).sum(-1)

    def entropy(self) -> Tensor:
        """Sum of the choices' entropies."""
        return self.choices.entropy().sum(-1)

    def kl(self, other: Self) -> Tensor:
        """Sum of the choices' divergences."""
        return self.choices.kl(other.choices).sum(-1)


class DiagonalGaussian(Distribution):
    """A vector of independent normal numbers, float32 ``[..., k]``.

    Args:
        mean: ``[..., k]``.
        log_std: Log of the standard deviation, ``[..., k]`` or ``[k]`` for all rows.
    """

    def __init__(self, mean: Tensor, log_std: Tensor) -> None:
        self.mean = mean
        self.log_std = log_std

    @property
    def noise(self) -> NoiseSpec:
        """A normal number for each element."""
        return NoiseSpec(normal=self.mean.shape[-1])

    def sample(self, noise: Tensor) -> Tensor:
        """Mean plus standard deviation times `noise`; gradients pass through."""
        return torch.addcmul(self.mean, self.log_std.exp(), noise)

    def mode(self) -> Tensor:
        """The mean."""
        return self.mean

    def log_prob(self, action: Tensor) -> Tensor:
        """Log-density of `action`, ``[..., k]``."""
        return self._log_density((action - self.mean) * torch.exp(-self.log_std))

    def entropy(self) -> Tensor:
        """Differential entropy in nats."""
        entropy = self.log_std.sum(-1) + 0.5 * self.mean.shape[-1] * (1.0 + LOG_2PI)
        return entropy.expand(self.mean.shape[:-1])

    def kl(self, other: Self) -> Tensor:
        """KL(self || other) in nats."""
        ratio = torch.exp(2.0 * (self.log_std - other.log_std))
        shift = ((self.mean - other.mean) * torch.exp(-other.log_std)).square()
        return (other.log_std - self.log_std + 0.5 * (ratio + shift - 1.0)).sum(-1)

    def sample_logp(self, noise: Tensor) -> tuple[Tensor, Tensor]:
        """`sample`, and its log-density straight from the noise."""
        return self.sample(noise), self._log_density(noise)

    def _log_density(self, standard: Tensor) -> Tensor:
        """Log-density of the point that lies `standard` standard deviations from the mean."""
        constant = self.log_std.sum(-1) + 0.5 * self.mean.shape[-1] * LOG_2PI
        return -0.5 * standard.square().sum(-1) - constant
