"""Action distributions: sampling from given noise, log-probability, entropy, Kullback-Leibler divergence.

`torch.distributions` is general and slow for eight rows, so these are short sequences of tensor operations. Leading
dimensions are batch dimensions; the last one holds a head's outputs; results are summed over the elements of an action.
Noise is an argument and never drawn here: a fixed amount per row, so that an action depends only on its own row's
stream.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor
from torch.nn import functional

MASKED_LOGIT = -1e8  # not -inf: the probability is 0 too, but entropy and KL stay finite (0 * -1e8 = 0)
LOG_2PI = math.log(2.0 * math.pi)


@dataclass(frozen=True)
class NoiseSpec:
    """Number of random numbers that one action takes; they lie in one row, uniforms first.

    Attributes:
        uniform: Numbers uniform in [0, 1).
        normal: Standard normal numbers.
        per_env_epsilon: Decrease of exploration from slot to slot, see `PerEnvEpsilonPolicy`; 0 = all alike.
    """

    uniform: int = 0
    normal: int = 0
    per_env_epsilon: float = 0.0

    @property
    def width(self) -> int:
        """Length of a row of noise."""
        return self.uniform + self.normal


class Behavior(ABC):
    """Distribution that actions are drawn from, for a batch of rows ``[...]``, which is also the shape of results."""

    @property
    @abstractmethod
    def noise(self) -> NoiseSpec:
        """The random numbers that `sample` takes for each row."""

    @abstractmethod
    def sample(self, noise: Tensor) -> Tensor:
        """Returns actions drawn with `noise`, ``[..., noise.width]``."""

    @abstractmethod
    def mode(self) -> Tensor:
        """Returns the actions without exploration: the most probable ones."""

    @abstractmethod
    def log_prob(self, action: Tensor) -> Tensor:
        """Returns the log-probability (log-density, for continuous actions) of `action`."""

    def sample_logp(self, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Returns `sample` and its `log_prob`; distributions may share work between both."""
        action = self.sample(noise)
        return action, self.log_prob(action)


class Distribution(Behavior):
    """Action distribution with everything that policy gradients need."""

    @abstractmethod
    def entropy(self) -> Tensor:
        """Returns the entropy in nats."""

    @abstractmethod
    def kl(self, other: Self) -> Tensor:
        """Returns KL(self || other) in nats."""

    @property
    @abstractmethod
    def parameters(self) -> Tensor:
        """Returns all parameters ``[..., P]``, for storage in a batch."""

    @abstractmethod
    def like(self, parameters: Tensor) -> Self:
        """Returns a distribution of this kind with these `parameters`, for any number of rows."""

    def gradient(
        self, action: Tensor, logp_gradient: Tensor, entropy_gradient: Tensor | float
    ) -> tuple[Tensor, Tensor | None] | None:
        """Returns the gradient of a loss with respect to the head's output, in closed form, without a graph.

        Optional: a distribution without a closed form returns None, and autograd differentiates losses.

        Args:
            action: ``[N, ...]``.
            logp_gradient: ``[N]``, the derivative of the loss with respect to `log_prob` of each row's action.
            entropy_gradient: Gradient with respect to `entropy`: ``[N]``, or one number for all rows (0 costs nothing).

        Returns:
            Gradients with respect to the output ``[N, W]``, 0 for masked elements, and to ``log_std``, ``[k]`` summed
            over rows, None for distributions without one; or None if there is no closed form.
        """
        return None

    def kl_gradient(self, old: Self, weight: Tensor) -> tuple[Tensor, Tensor | None] | None:
        """Returns the gradient of a KL penalty with respect to the head's output; optional, results as of `gradient`.

        Args:
            old: Distributions of the same kind, of the same rows.
            weight: ``[N]``, the derivative of the loss with respect to each row's KL(old || self).
        """
        return None


class Categorical(Distribution):
    """One of n discrete actions, int64 ``[...]``.

    Args:
        logits: Unnormalised log-probabilities ``[..., n]``.
        mask: Allowed actions ``[..., n]``, bool; the others get probability 0, and their logits no gradient.
    """

    def __init__(self, logits: Tensor, mask: Tensor | None = None) -> None:
        if mask is not None:
            logits = torch.where(mask, logits, MASKED_LOGIT)
        self.mask = mask
        self.log_probs = torch.log_softmax(logits, -1)

    @property
    def noise(self) -> NoiseSpec:
        """Takes one uniform number."""
        return NoiseSpec(uniform=1)

    def sample(self, noise: Tensor) -> Tensor:
        """Returns the first action whose cumulative probability exceeds the uniform number."""
        return self._draw(noise).squeeze(-1)

    def sample_logp(self, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Returns `sample` and its `log_prob`."""
        choice = self._draw(noise)
        return choice.squeeze(-1), self.log_probs.gather(-1, choice).squeeze(-1)

    def _draw(self, noise: Tensor) -> Tensor:
        """Returns the action ``[..., 1]`` for a uniform number below 1, ``[..., 1]``."""
        # In float64 a sum of float32 probabilities is exact in any order of summation (such as a GPU's), hence flat
        # where one is 0: a strict comparison cannot stop there. The target stays below the total, so some action
        # exceeds it.
        cumulative = self.log_probs.exp().cumsum(-1, dtype=torch.float64)
        return torch.searchsorted(cumulative, noise * cumulative[..., -1:], right=True)

    def mode(self) -> Tensor:
        """Returns the most probable action, the first of equals."""
        return self.log_probs.argmax(-1)

    def log_prob(self, action: Tensor) -> Tensor:
        """Returns the log-probability of `action`, int64 ``[...]``."""
        if action.ndim == 1:  # the same bits, with fewer and cheaper operations in the backward pass
            return -functional.nll_loss(self.log_probs, action, reduction="none")
        return self.log_probs.gather(-1, action.unsqueeze(-1)).squeeze(-1)

    def entropy(self) -> Tensor:
        """Returns the entropy in nats; masked actions contribute 0."""
        return -(self.log_probs.exp() * self.log_probs).sum(-1)

    def kl(self, other: Self) -> Tensor:
        """Returns KL(self || other) in nats; about 1e8 if `other` masks an action that `self` takes."""
        return (self.log_probs.exp() * (self.log_probs - other.log_probs)).sum(-1)

    def gradient(
        self, action: Tensor, logp_gradient: Tensor, entropy_gradient: Tensor | float
    ) -> tuple[Tensor, Tensor | None]:
        """Returns the gradient with respect to the logits ``[N, n]``."""
        probs = self.log_probs.exp()
        weight = logp_gradient.unsqueeze(-1)
        if _is_zero(entropy_gradient):
            gradient = probs.mul_(-weight)  # d log p(a) / d logit = (1 for the action a, else 0) - p
            gradient.scatter_add_(-1, action.unsqueeze(-1), weight)
        else:  # first with respect to log p, where the entropy's is -p (log p + 1); the softmax cancels the 1
            gradient = (probs * self.log_probs).mul_(-_column(entropy_gradient))
            gradient.scatter_add_(-1, action.unsqueeze(-1), weight)
            gradient.addcmul_(probs, gradient.sum(-1, keepdim=True), value=-1.0)
        if self.mask is not None:
            gradient.mul_(self.mask)
        return gradient, None

    def kl_gradient(self, old: Self, weight: Tensor) -> tuple[Tensor, Tensor | None]:
        """Returns the gradient with respect to the logits ``[N, n]``, 0 where both have probability 0."""
        return (self.log_probs.exp() - old.log_probs.exp()).mul_(weight.unsqueeze(-1)), None

    @property
    def parameters(self) -> Tensor:
        """Returns the log-probabilities, ``[..., n]``."""
        return self.log_probs

    def like(self, parameters: Tensor) -> Self:
        """Returns a distribution with log-probabilities ``[..., n]``."""
        other = copy.copy(self)
        other.log_probs = parameters
        return other


class MultiCategorical(Distribution):
    """Several independent discrete actions (MultiDiscrete), int64 ``[..., k]``.

    Args:
        logits: Concatenated logits of all actions, ``[..., sum(sizes)]``.
        sizes: Number of options of each of the k actions.
        mask: Allowed options ``[..., sum(sizes)]``, bool.
    """

    def __init__(self, logits: Tensor, sizes: Sequence[int], mask: Tensor | None = None) -> None:
        if mask is not None:
            logits = torch.where(mask, logits, MASKED_LOGIT)
        self.sizes = tuple(sizes)
        self.mask = mask
        widest = max(sizes)
        if min(sizes) == widest:
            table = logits.unflatten(-1, (len(sizes), widest))
        else:  # actions with fewer options are padded with options of probability 0
            parts = logits.split(tuple(sizes), -1)
            table = torch.stack([functional.pad(p, (0, widest - p.shape[-1]), value=MASKED_LOGIT) for p in parts], -2)
        self.choices = Categorical(table)

    @property
    def noise(self) -> NoiseSpec:
        """Takes one uniform number per action."""
        return NoiseSpec(uniform=self.choices.log_probs.shape[-2])

    def sample(self, noise: Tensor) -> Tensor:
        """Draws each action with its own uniform number."""
        return self.choices.sample(noise.unsqueeze(-1))

    def sample_logp(self, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Returns `sample` and its `log_prob`."""
        choice, logp = self.choices.sample_logp(noise.unsqueeze(-1))
        return choice, logp.sum(-1)

    def mode(self) -> Tensor:
        """Returns the most probable option of each action."""
        return self.choices.mode()

    def log_prob(self, action: Tensor) -> Tensor:
        """Returns the sum of the log-probabilities; `action` is ``[..., k]``."""
        return self.choices.log_prob(action).sum(-1)

    def entropy(self) -> Tensor:
        """Returns the sum of the entropies."""
        return self.choices.entropy().sum(-1)

    def kl(self, other: Self) -> Tensor:
        """Returns the sum of the divergences."""
        return self.choices.kl(other.choices).sum(-1)

    def gradient(
        self, action: Tensor, logp_gradient: Tensor, entropy_gradient: Tensor | float
    ) -> tuple[Tensor, Tensor | None]:
        """Returns the gradient with respect to all logits, ``[N, sum(sizes)]``."""
        weight = logp_gradient.unsqueeze(-1).expand_as(action)
        table, _ = self.choices.gradient(action, weight, _column(entropy_gradient))
        gradient = self._side_by_side(table)
        if self.mask is not None:
            gradient.mul_(self.mask)
        return gradient, None

    def kl_gradient(self, old: Self, weight: Tensor) -> tuple[Tensor, Tensor | None]:
        """Returns the gradient with respect to all logits, ``[N, sum(sizes)]``."""
        table, _ = self.choices.kl_gradient(old.choices, weight.unsqueeze(-1))
        return self._side_by_side(table), None

    def _side_by_side(self, table: Tensor) -> Tensor:
        """Removes the padding, ``[N, k, widest]`` to ``[N, sum(sizes)]``."""
        if min(self.sizes) == max(self.sizes):
            return table.flatten(-2)
        return torch.cat([row[:, :size] for row, size in zip(table.unbind(-2), self.sizes, strict=True)], -1)

    @property
    def parameters(self) -> Tensor:
        """Returns the log-probabilities of all options, each action padded to the widest, ``[..., k * widest]``."""
        return self.choices.log_probs.flatten(-2)

    def like(self, parameters: Tensor) -> Self:
        """Returns a distribution with log-probabilities ``[..., k * widest]``."""
        other = copy.copy(self)
        other.choices = self.choices.like(parameters.unflatten(-1, self.choices.log_probs.shape[-2:]))
        return other


class Bernoulli(Distribution):
    """Several independent flags (MultiBinary), int64 ``[..., k]``: 1 for yes, 0 for no.

    Args:
        logits: log(p / (1 - p)) of each flag's probability p of a yes, ``[..., k]``.
    """

    def __init__(self, logits: Tensor) -> None:
        self.logits = logits

    @property
    def noise(self) -> NoiseSpec:
        """Takes one uniform number per flag."""
        return NoiseSpec(uniform=self.logits.shape[-1])

    def sample(self, noise: Tensor) -> Tensor:
        """Draws yes where the uniform number is below the probability."""
        return (noise < torch.sigmoid(self.logits)).long()

    def mode(self) -> Tensor:
        """Returns yes where it is more probable than no."""
        return (self.logits > 0).long()

    def log_prob(self, action: Tensor) -> Tensor:
        """Returns the log-probability of `action`, ``[..., k]``."""
        return -functional.softplus((1 - 2 * action) * self.logits).sum(-1)

    def entropy(self) -> Tensor:
        """Returns the entropy in nats."""
        yes, no = self._surprise()
        return torch.lerp(no, yes, torch.sigmoid(self.logits)).sum(-1)

    def kl(self, other: Self) -> Tensor:
        """Returns KL(self || other) in nats."""
        (yes, no), (other_yes, other_no) = self._surprise(), other._surprise()
        return torch.lerp(other_no - no, other_yes - yes, torch.sigmoid(self.logits)).sum(-1)

    def gradient(
        self, action: Tensor, logp_gradient: Tensor, entropy_gradient: Tensor | float
    ) -> tuple[Tensor, Tensor | None]:
        """Returns the gradient with respect to the logits ``[N, k]``."""
        probs = torch.sigmoid(self.logits)
        gradient = (action - probs).mul_(logp_gradient.unsqueeze(-1))
        if not _is_zero(entropy_gradient):  # d entropy / d logit = -logit * p (1 - p)
            spread = torch.addcmul(probs, probs, probs, value=-1.0)
            gradient -= spread.mul_(self.logits).mul_(_column(entropy_gradient))
        return gradient, None

    def kl_gradient(self, old: Self, weight: Tensor) -> tuple[Tensor, Tensor | None]:
        """Returns the gradient with respect to the logits ``[N, k]``."""
        return (torch.sigmoid(self.logits) - torch.sigmoid(old.logits)).mul_(weight.unsqueeze(-1)), None

    @property
    def parameters(self) -> Tensor:
        """Returns the logits, ``[..., k]``."""
        return self.logits

    def like(self, parameters: Tensor) -> Self:
        """Returns a distribution with logits ``[..., k]``."""
        return type(self)(parameters)

    def _surprise(self) -> tuple[Tensor, Tensor]:
        """Returns -log p and -log(1 - p), never infinite."""
        return functional.softplus(-self.logits), functional.softplus(self.logits)


class DiagonalGaussian(Distribution):
    """Vector of independent normal numbers, float32 ``[..., k]``.

    Args:
        mean: ``[..., k]``.
        log_std: Log of the standard deviation, ``[..., k]`` or ``[k]`` for all rows.
    """

    def __init__(self, mean: Tensor, log_std: Tensor) -> None:
        self.mean = mean
        self.log_std = log_std

    @property
    def noise(self) -> NoiseSpec:
        """Takes one normal number per element."""
        return NoiseSpec(normal=self.mean.shape[-1])

    def sample(self, noise: Tensor) -> Tensor:
        """Returns the mean plus standard deviation times `noise`; differentiable."""
        return torch.addcmul(self.mean, self.log_std.exp(), noise)

    def mode(self) -> Tensor:
        """Returns the mean."""
        return self.mean

    def log_prob(self, action: Tensor) -> Tensor:
        """Returns the log-density of `action`, ``[..., k]``."""
        return self._log_density((action - self.mean) * torch.exp(-self.log_std))

    def entropy(self) -> Tensor:
        """Returns the differential entropy in nats."""
        entropy = self.log_std.sum(-1) + 0.5 * self.mean.shape[-1] * (1.0 + LOG_2PI)
        return entropy.expand(self.mean.shape[:-1])

    def kl(self, other: Self) -> Tensor:
        """Returns KL(self || other) in nats."""
        ratio = torch.exp(2.0 * (self.log_std - other.log_std))
        shift = ((self.mean - other.mean) * torch.exp(-other.log_std)).square()
        return (other.log_std - self.log_std + 0.5 * (ratio + shift - 1.0)).sum(-1)

    def gradient(
        self, action: Tensor, logp_gradient: Tensor, entropy_gradient: Tensor | float
    ) -> tuple[Tensor, Tensor | None]:
        """Returns gradients with respect to the means ``[N, k]`` and to a `log_std` shared by all rows, ``[k]``."""
        inverse = torch.exp(-self.log_std)
        standard = (action - self.mean).mul_(inverse)
        weight = logp_gradient.unsqueeze(-1)
        weighted = standard * weight
        log_std = torch.addcmul(-weight, weighted, standard).sum(0)  # d log p / d log std = standard^2 - 1
        if isinstance(entropy_gradient, Tensor):  # d entropy / d log std = 1
            log_std += entropy_gradient.sum()
        elif entropy_gradient:
            log_std += entropy_gradient * len(action)
        return weighted.mul_(inverse), log_std

    def kl_gradient(self, old: Self, weight: Tensor) -> tuple[Tensor, Tensor | None]:
        """Returns gradients with respect to the means ``[N, k]`` and to a `log_std` shared by all rows, ``[k]``."""
        inverse, column = torch.exp(-self.log_std), weight.unsqueeze(-1)
        shift = (self.mean - old.mean) * inverse
        ratio = torch.exp(2.0 * (old.log_std - self.log_std))
        return shift * inverse * column, ((1.0 - ratio - shift.square()) * column).sum(0)

    @property
    def parameters(self) -> Tensor:
        """Returns means, then log standard deviations, ``[..., 2 * k]``."""
        return torch.cat((self.mean, self.log_std.expand_as(self.mean)), -1)

    def like(self, parameters: Tensor) -> Self:
        """Returns a distribution with means and log standard deviations ``[..., 2 * k]``."""
        return type(self)(*parameters.chunk(2, -1))

    def sample_logp(self, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Returns `sample`, and its log-density computed from the noise."""
        return self.sample(noise), self._log_density(noise)

    def _log_density(self, standard: Tensor) -> Tensor:
        """Returns the log-density of the point that lies `standard` standard deviations from the mean."""
        highest = -0.5 * self.mean.shape[-1] * LOG_2PI - self.log_std.sum(-1)
        return torch.sub(highest, standard.square().sum(-1), alpha=0.5)


class Composite(Distribution):
    """Independent distributions over the parts of an action, concatenated: float32 ``[..., k]``.

    Args:
        parts: The distributions, each over vectors; those that take normal noise come last.
        widths: Number of action elements of each.
    """

    def __init__(self, parts: Sequence[Distribution], widths: Sequence[int]) -> None:
        self.parts = tuple(parts)
        self.widths = tuple(widths)

    @property
    def noise(self) -> NoiseSpec:
        """Takes the numbers of all parts; in a row of noise they lie in the order of the parts."""
        specs = [part.noise for part in self.parts]
        return NoiseSpec(sum(spec.uniform for spec in specs), sum(spec.normal for spec in specs))

    def sample(self, noise: Tensor) -> Tensor:
        """Draws each part with its own numbers."""
        return torch.cat([part.sample(mine).float() for part, mine in self._with_noise(noise)], -1)

    def mode(self) -> Tensor:
        """Returns the most probable action of each part."""
        return torch.cat([part.mode().float() for part in self.parts], -1)

    def log_prob(self, action: Tensor) -> Tensor:
        """Returns the sum of the parts' log-probabilities."""
        return self._sum([part.log_prob(piece) for part, piece in self._with_action(action)])

    def entropy(self) -> Tensor:
        """Returns the sum of the parts' entropies."""
        return self._sum([part.entropy() for part in self.parts])

    def kl(self, other: Self) -> Tensor:
        """Returns the sum of the parts' divergences."""
        return self._sum([part.kl(other_part) for part, other_part in zip(self.parts, other.parts, strict=True)])

    def gradient(
        self, action: Tensor, logp_gradient: Tensor, entropy_gradient: Tensor | float
    ) -> tuple[Tensor, Tensor | None] | None:
        """Returns gradients with respect to the concatenated outputs, ``[N, W]``, and to the `log_std` of the
        continuous part; None if a part has no closed form.
        """
        pieces = self._with_action(action)
        return self._joined([part.gradient(piece, logp_gradient, entropy_gradient) for part, piece in pieces])

    def kl_gradient(self, old: Self, weight: Tensor) -> tuple[Tensor, Tensor | None] | None:
        """Returns the gradients of the penalty in the form of `gradient`."""
        pairs = zip(self.parts, old.parts, strict=True)
        return self._joined([part.kl_gradient(other_part, weight) for part, other_part in pairs])

    def _joined(self, given: Sequence[tuple[Tensor, Tensor | None] | None]) -> tuple[Tensor, Tensor | None] | None:
        """Concatenates the parts' gradients; None if one is missing."""
        pairs = [pair for pair in given if pair is not None]
        if len(pairs) < len(given):
            return None
        log_std = next((log_std for _, log_std in pairs if log_std is not None), None)
        return torch.cat([output for output, _ in pairs], -1), log_std

    @property
    def parameters(self) -> Tensor:
        """Returns the concatenated parameters of the parts."""
        return torch.cat([part.parameters for part in self.parts], -1)

    def like(self, parameters: Tensor) -> Self:
        """Returns a distribution with these parameters."""
        pieces = parameters.split([part.parameters.shape[-1] for part in self.parts], -1)
        return type(self)([part.like(mine) for part, mine in zip(self.parts, pieces, strict=True)], self.widths)

    def sample_logp(self, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Returns `sample` and its `log_prob`."""
        pairs = [part.sample_logp(mine) for part, mine in self._with_noise(noise)]
        return torch.cat([action.float() for action, _ in pairs], -1), self._sum([logp for _, logp in pairs])

    def _with_noise(self, noise: Tensor) -> Iterable[tuple[Distribution, Tensor]]:
        return zip(self.parts, noise.split([part.noise.width for part in self.parts], -1), strict=True)

    def _with_action(self, action: Tensor) -> Iterable[tuple[Distribution, Tensor]]:
        for part, piece in zip(self.parts, action.split(self.widths, -1), strict=True):
            yield part, piece if isinstance(part, DiagonalGaussian) else piece.long()

    def _sum(self, terms: Sequence[Tensor]) -> Tensor:
        return torch.stack(tuple(terms)).sum(0)


def _is_zero(weight: Tensor | float) -> bool:
    return not isinstance(weight, Tensor) and weight == 0


def _column(weight: Tensor | float) -> Tensor | float:
    """Returns weights of rows shaped to multiply ``[N, k]``; a single number unchanged."""
    return weight.unsqueeze(-1) if isinstance(weight, Tensor) else weight
