"""Action distributions made from a module's outputs: ``from_logits``, as RLlib 2.x has them."""

from __future__ import annotations

from typing import Any, Self

import torch
from gymnasium import Space, spaces
from torch import Tensor
from torch.distributions import Categorical, Distribution, Normal, kl_divergence

from rookery.face import ConfigError

LOWEST_SHARE = 1e-6
"""Distance of squashed actions from their bounds where their density is computed."""


class OfLogits:
    """A distribution made from outputs ``[N, P]``."""

    dist: Distribution

    @classmethod
    def from_logits(cls, logits: Tensor, **how: Any) -> Self:
        raise NotImplementedError(f"{cls.__name__} has no from_logits")

    @classmethod
    def get_partial_dist_cls(cls, **how: Any) -> type[OfLogits]:
        """Returns the class itself: what it needs is read from outputs."""
        return cls

    def sample(self, sample_shape: Any = ()) -> Any:
        return self.dist.sample(sample_shape or torch.Size())

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.dist.rsample(sample_shape or torch.Size())

    def logp(self, value: Any, **how: Any) -> Any:
        return self.dist.log_prob(value)

    def entropy(self) -> Any:
        return self.dist.entropy()

    def kl(self, other: Any) -> Any:
        return kl_divergence(self.dist, other.dist)

    def to_deterministic(self) -> ExactActions:
        raise NotImplementedError(f"{type(self).__name__} has no to_deterministic")


class ExactActions(OfLogits):
    """Actions without chance."""

    def __init__(self, loc: Tensor) -> None:
        self.loc = loc

    @classmethod
    def from_logits(cls, logits: Tensor, **how: Any) -> Self:
        return cls(logits)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return self.loc

    rsample = sample

    def to_deterministic(self) -> ExactActions:
        return self


class CategoricalOfLogits(OfLogits):
    def __init__(self, logits: Tensor | None = None, probs: Tensor | None = None) -> None:
        self.dist: Categorical = Categorical(logits=logits, probs=probs)
        self.logits, self.probs = self.dist.logits, self.dist.probs

    @classmethod
    def from_logits(cls, logits: Tensor, **how: Any) -> Self:
        return cls(logits=logits)

    def to_deterministic(self) -> ExactActions:
        return ExactActions(self.logits.argmax(-1))


class GaussianOfLogits(OfLogits):
    """Independent normal actions; outputs are means, then log standard deviations."""

    def __init__(self, loc: Tensor, scale: Tensor) -> None:
        self.loc, self.scale = loc, scale
        self.dist: Distribution = Normal(loc, scale)

    @classmethod
    def from_logits(cls, logits: Tensor, **how: Any) -> Self:
        loc, log_std = logits.chunk(2, -1)
        return cls(loc, log_std.exp())

    def logp(self, value: Any, **how: Any) -> Any:
        return self.dist.log_prob(value).sum(-1)

    def entropy(self) -> Any:
        return self.dist.entropy().sum(-1)

    def kl(self, other: Any) -> Any:
        return kl_divergence(self.dist, other.dist).sum(-1)

    def to_deterministic(self) -> ExactActions:
        return ExactActions(self.loc)


class SquashedOfLogits(GaussianOfLogits):
    """Normal actions squashed by tanh to [-1, 1]."""

    def sample(self, sample_shape: Any = ()) -> Any:
        return torch.tanh(super().sample(sample_shape))

    def rsample(self, sample_shape: Any = ()) -> Any:
        return torch.tanh(super().rsample(sample_shape))

    def logp(self, value: Any, **how: Any) -> Any:
        inside = value.clamp(-1 + LOWEST_SHARE, 1 - LOWEST_SHARE)
        return super().logp(torch.atanh(inside)) - torch.log1p(-inside.square() + LOWEST_SHARE).sum(-1)

    def to_deterministic(self) -> ExactActions:
        return ExactActions(torch.tanh(self.loc))


class SeveralOfLogits(OfLogits):
    """Independent categorical actions; outputs are the logits of one after the other."""

    sizes: tuple[int, ...] = ()

    def __init__(self, parts: list[CategoricalOfLogits]) -> None:
        self.parts = parts

    @classmethod
    def get_partial_dist_cls(cls, input_lens: Any = (), **how: Any) -> type[OfLogits]:
        return type(cls.__name__, (cls,), {"sizes": tuple(int(size) for size in input_lens)})

    @classmethod
    def from_logits(cls, logits: Tensor, input_lens: Any = None, **how: Any) -> Self:
        sizes = list(cls.sizes if input_lens is None else input_lens)
        return cls([CategoricalOfLogits(part) for part in logits.split(sizes, -1)])

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return torch.stack([part.sample(sample_shape) for part in self.parts], -1)

    def logp(self, value: Any, **how: Any) -> Any:
        return sum(part.logp(value[..., place]) for place, part in enumerate(self.parts))

    def entropy(self) -> Any:
        return sum(part.entropy() for part in self.parts)

    def kl(self, other: Any) -> Any:
        return sum(one.kl(two) for one, two in zip(self.parts, other.parts, strict=True))

    def to_deterministic(self) -> ExactActions:
        return ExactActions(torch.stack([part.to_deterministic().loc for part in self.parts], -1))


def distribution_class(space: Space[Any], squashed: bool = False) -> type[OfLogits]:
    """Returns the distribution class of an action space; raises a ConfigError for a space without one."""
    if isinstance(space, spaces.Discrete):
        return CategoricalOfLogits
    if isinstance(space, spaces.MultiDiscrete):
        return SeveralOfLogits.get_partial_dist_cls(input_lens=space.nvec.flatten())
    if isinstance(space, spaces.Box):
        return SquashedOfLogits if squashed else GaussianOfLogits
    raise ConfigError(f"action space {space}: has no distribution class here; use algo.compute_single_action")
