"""Action distributions of 2021: objects made from a model's outputs, from which actions are sampled.

They have a distribution of `torch.distributions` in `dist`. Scripts that request TensorFlow get the same classes, under
the names they had there. Random numbers come from torch's global generator.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import log
from operator import add
from typing import Any, TypeVar

import numpy as np
import torch
from gymnasium import Space
from gymnasium.spaces import Box
from torch import Tensor, nn
from torch.distributions import (
    Beta,
    Categorical,
    Dirichlet,
    Distribution,
    Normal,
    RelaxedOneHotCategorical,
    kl_divergence,
)
from torch.nn import functional

from rookery.face import ConfigError
from rookery_rllib.base import nested
from rookery_rllib.batch.numpy_functions import MAX_LOG_NN_OUTPUT, MIN_LOG_NN_OUTPUT, SMALL_NUMBER
from rookery_rllib.gym.rllib_spaces import get_base_struct_from_space

T = TypeVar("T")

SURPRISE = 100.0
"""Bound of the log-density of one element of a squashed Gaussian, against outliers."""

LEAST_SHARE = 1e-7
"""Added to the concentrations of Dirichlet distributions, and the smallest share that differs from 0."""


class ActionDistribution:
    def __init__(self, inputs: Any, model: Any) -> None:
        self.inputs = inputs
        self.model = model

    def _missing(self, method: str) -> NotImplementedError:
        return NotImplementedError(f"{type(self).__name__} has no {method}")

    def sample(self) -> Any:
        raise self._missing("sample()")

    def deterministic_sample(self) -> Any:
        raise self._missing("deterministic_sample()")

    def sampled_action_logp(self) -> Any:
        raise self._missing("sampled_action_logp()")

    def logp(self, x: Any) -> Any:
        raise self._missing("logp(x)")

    def kl(self, other: ActionDistribution) -> Any:
        raise self._missing("kl(other)")

    def entropy(self) -> Any:
        raise self._missing("entropy()")

    def multi_kl(self, other: ActionDistribution) -> Any:
        return self.kl(other)

    def multi_entropy(self) -> Any:
        return self.entropy()

    @staticmethod
    def required_model_output_shape(action_space: Space[Any], model_config: Any) -> int:
        raise NotImplementedError("the action distribution has no required_model_output_shape(action_space, config)")


class TorchDistributionWrapper(ActionDistribution):
    """Action distribution on top of one of `torch.distributions`, which a subclass sets as `dist`.

    A subclass may define `_build_sample_op` instead of `sample`, as those for TensorFlow did.
    """

    dist: Distribution
    inputs: Tensor

    def __init__(self, inputs: Any, model: Any = None) -> None:
        super().__init__(_tensor(inputs, model), model)
        self.last_sample: Any = None

    def logp(self, actions: Any) -> Any:
        return self.dist.log_prob(_tensor(actions, self.model))

    def entropy(self) -> Any:
        return self.dist.entropy()

    def kl(self, other: Any) -> Any:
        return kl_divergence(self.dist, other.dist)

    def _build_sample_op(self) -> Any:
        return self.dist.sample()

    def _kept(self, actions: T) -> T:
        self.last_sample = actions
        return actions

    def sample(self) -> Any:
        return self._kept(self._build_sample_op())

    def sampled_action_logp(self) -> Any:
        if self.last_sample is None:
            raise RuntimeError(f"{type(self).__name__}: call sample() before sampled_action_logp()")
        return self.logp(self.last_sample)


class TorchCategorical(TorchDistributionWrapper):
    """One choice out of n, int64 ``[B]``, of logits ``[B, n]``."""

    dist: Categorical

    def __init__(self, inputs: Any, model: Any = None, temperature: float = 1.0) -> None:
        if temperature <= 0.0:
            raise ConfigError(f"Categorical: temperature is {temperature}, must be above 0")
        super().__init__(inputs, model)
        if temperature != 1.0:
            self.inputs = self.inputs / temperature
        self.dist = Categorical(logits=self.inputs)

    def deterministic_sample(self) -> Tensor:
        return self._kept(self.inputs.argmax(-1))

    @staticmethod
    def required_model_output_shape(action_space: Any, model_config: Any) -> int:
        return int(action_space.n)


class TorchMultiCategorical(TorchDistributionWrapper):
    """Several independent choices, int64 ``[B, k]``; of a Box of integers, numbers ``[B, *shape]`` from its low on."""

    def __init__(self, inputs: Any, model: Any = None, input_lens: Any = (), action_space: Any = None) -> None:
        super().__init__(inputs, model)
        sizes = [int(size) for size in np.ravel(input_lens)]
        self.cats = [Categorical(logits=part) for part in self.inputs.split(sizes, dim=1)]
        self.action_space = action_space

    def _as_actions(self, choices: Tensor) -> Tensor:
        if not isinstance(self.action_space, Box):
            return choices
        low = torch.from_numpy(self.action_space.low.ravel()).to(choices.device)
        return (choices + low.long()).reshape(-1, *self.action_space.shape)

    def _build_sample_op(self) -> Tensor:
        return self._as_actions(torch.stack([cat.sample() for cat in self.cats], dim=1))

    def deterministic_sample(self) -> Tensor:
        return self._kept(self._as_actions(torch.stack([cat.logits.argmax(-1) for cat in self.cats], dim=1)))

    def logp(self, actions: Any) -> Tensor:
        """Takes actions ``[B, k]``, a list of k tensors ``[B]``, or ``[B, *shape]`` of a Box."""
        if isinstance(actions, list | tuple):
            actions = torch.stack([_tensor(part, self.model) for part in actions], dim=1)
        actions = _tensor(actions, self.model)
        actions = actions.reshape(len(actions), -1)
        if isinstance(self.action_space, Box):
            actions = actions - torch.from_numpy(self.action_space.low.ravel()).to(actions.device)
        columns = zip(self.cats, actions.unbind(1), strict=True)
        return torch.stack([cat.log_prob(column) for cat, column in columns]).sum(0)

    def multi_entropy(self) -> Tensor:
        return torch.stack([cat.entropy() for cat in self.cats], dim=1)

    def entropy(self) -> Tensor:
        return self.multi_entropy().sum(1)

    def multi_kl(self, other: Any) -> Tensor:
        pairs = zip(self.cats, other.cats, strict=True)
        return torch.stack([kl_divergence(own_part, other_part) for own_part, other_part in pairs], dim=1)

    def kl(self, other: Any) -> Tensor:
        return self.multi_kl(other).sum(1)

    @staticmethod
    def required_model_output_shape(action_space: Any, model_config: Any) -> int:
        return sum(options(action_space))


class _IndependentNumbers(TorchDistributionWrapper):
    """Independent numbers ``[B, k]`` of two parameters each, ``[B, 2 * k]``."""

    def logp(self, actions: Any) -> Any:
        return self.dist.log_prob(_tensor(actions, self.model)).sum(-1)

    def entropy(self) -> Any:
        return self.dist.entropy().sum(-1)

    def kl(self, other: Any) -> Tensor:
        return kl_divergence(self.dist, other.dist).sum(-1)

    @staticmethod
    def required_model_output_shape(action_space: Any, model_config: Any) -> int:
        return 2 * _elements(action_space)


class TorchDiagGaussian(_IndependentNumbers):
    """Independent normal numbers, float32 ``[B, k]``, of means, then log standard deviations, ``[B, 2 * k]``."""

    dist: Normal

    def __init__(self, inputs: Any, model: Any = None, *, action_space: Any = None) -> None:
        super().__init__(inputs, model)
        mean, log_std = self.inputs.chunk(2, dim=1)
        self.dist = Normal(mean, log_std.exp())
        self.mean, self.log_std, self.std = mean, log_std, self.dist.stddev

    def deterministic_sample(self) -> Tensor:
        return self._kept(self.dist.mean)


class TorchSquashedGaussian(_IndependentNumbers):
    """Normal numbers squashed by tanh to two bounds, float32 ``[B, k]``.

    Log-densities are those of tanh's range (-1, 1), whatever the bounds, as they were in 2021. `inputs` are means, then
    log standard deviations, ``[B, 2 * k]``; the latter are clipped to [-5, 2].
    """

    dist: Normal

    def __init__(self, inputs: Any, model: Any = None, low: Any = -1.0, high: Any = 1.0) -> None:
        super().__init__(inputs, model)
        if not np.all(np.less(low, high)):
            raise ConfigError(f"SquashedGaussian: low is {low} and high is {high}, must be above it")
        mean, log_std = self.inputs.chunk(2, dim=-1)
        self.dist = Normal(mean, log_std.clamp(MIN_LOG_NN_OUTPUT, MAX_LOG_NN_OUTPUT).exp())
        self.low, self.high = (torch.as_tensor(bound, dtype=mean.dtype, device=mean.device) for bound in (low, high))
        self.mean, self.std = self.dist.mean, self.dist.stddev

    def _squash(self, raw: Tensor) -> Tensor:
        squashed = self.low + (torch.tanh(raw) + 1.0) * (self.high - self.low) / 2.0
        return torch.minimum(torch.maximum(squashed, self.low), self.high)

    def _unsquash(self, values: Tensor) -> Tensor:
        inside = (values - self.low) * 2.0 / (self.high - self.low) - 1.0
        return torch.atanh(inside.clamp(-1.0 + SMALL_NUMBER, 1.0 - SMALL_NUMBER))

    def _logp(self, raw: Tensor) -> Tensor:
        normal: Tensor = self.dist.log_prob(raw).clamp(-SURPRISE, SURPRISE)
        return (normal - torch.log(1.0 - torch.tanh(raw).square() + SMALL_NUMBER)).sum(-1)

    def _build_sample_op(self) -> Tensor:
        return self._squash(self.dist.rsample())

    def deterministic_sample(self) -> Tensor:
        return self._kept(self._squash(self.dist.mean))

    def logp(self, x: Any) -> Tensor:
        return self._logp(self._unsquash(_tensor(x, self.model)))

    def sample_logp(self) -> tuple[Tensor, Tensor]:
        """Draws actions; returns them with their log-densities ``[B]``, through which gradients pass."""
        raw: Tensor = self.dist.rsample()
        return self._kept(self._squash(raw)), self._logp(raw)

    def entropy(self) -> Tensor:
        """Raises a ValueError; use the mean of -logp of samples."""
        raise ValueError("SquashedGaussian: there is no formula for its entropy; use the mean of -logp of samples")

    def kl(self, other: Any) -> Tensor:
        """Raises a ValueError; estimate the divergence from samples."""
        raise ValueError("SquashedGaussian: there is no formula for its divergence; use samples and logp")


class TorchBeta(_IndependentNumbers):
    """Numbers between two bounds, each of a Beta distribution, float32 ``[B, k]``.

    Log-densities are those of the range (0, 1), whatever the bounds, as they were in 2021.
    """

    dist: Beta

    def __init__(self, inputs: Any, model: Any = None, low: float = 0.0, high: float = 1.0) -> None:
        super().__init__(inputs, model)
        largest = -log(SMALL_NUMBER)
        self.inputs = functional.softplus(self.inputs.clamp(-largest, largest)) + 1.0
        self.low, self.high = low, high
        alpha, beta = self.inputs.chunk(2, dim=-1)
        self.dist = Beta(concentration1=alpha, concentration0=beta)

    def _squash(self, share: Tensor) -> Tensor:
        return self.low + share * (self.high - self.low)

    def _build_sample_op(self) -> Tensor:
        return self._squash(self.dist.rsample())

    def deterministic_sample(self) -> Tensor:
        return self._kept(self._squash(self.dist.mean))

    def logp(self, x: Any) -> Any:
        return super().logp((_tensor(x, self.model) - self.low) / (self.high - self.low))


class TorchDeterministic(TorchDistributionWrapper):
    def deterministic_sample(self) -> Tensor:
        return self._kept(self.inputs)

    def _build_sample_op(self) -> Tensor:
        return self.inputs

    def logp(self, actions: Any) -> Tensor:
        return self.inputs.new_zeros(len(self.inputs))

    def sampled_action_logp(self) -> Tensor:
        return self.logp(None)

    @staticmethod
    def required_model_output_shape(action_space: Any, model_config: Any) -> int:
        return _elements(action_space)


class TorchDirichlet(TorchDistributionWrapper):
    dist: Dirichlet

    def __init__(self, inputs: Any, model: Any = None) -> None:
        super().__init__(inputs, model)
        self.inputs = self.inputs.exp() + LEAST_SHARE
        self.dist = Dirichlet(self.inputs)

    def deterministic_sample(self) -> Tensor:
        return self._kept(self.dist.mean)

    def logp(self, x: Any) -> Any:
        shares = _tensor(x, self.model).clamp(min=LEAST_SHARE)
        return self.dist.log_prob(shares / shares.sum(-1, keepdim=True))

    @staticmethod
    def required_model_output_shape(action_space: Any, model_config: Any) -> int:
        return _elements(action_space)


class GumbelSoftmax(TorchDistributionWrapper):
    """One choice out of n as nearly a one-hot, float32 ``[B, n]``, through which gradients pass (Jang et al. 2017)."""

    dist: RelaxedOneHotCategorical

    def __init__(self, inputs: Any, model: Any = None, temperature: float = 1.0) -> None:
        super().__init__(inputs, model)
        self.dist = RelaxedOneHotCategorical(
            torch.as_tensor(temperature, dtype=torch.float32, device=self.inputs.device), logits=self.inputs
        )
        self.probs = self.inputs.softmax(-1)

    def _build_sample_op(self) -> Tensor:
        return self.dist.rsample()

    def deterministic_sample(self) -> Tensor:
        return self._kept(self.probs)

    def logp(self, x: Any) -> Tensor:
        """Returns the log-probabilities ``[B]`` of choices ``[B]``; of weights ``[B, n]``, their weighted sums."""
        weights = _tensor(x, self.model)
        if weights.shape != self.inputs.shape:
            weights = functional.one_hot(weights.long(), self.inputs.shape[-1])
        return (weights * self.inputs.log_softmax(-1)).sum(-1)

    @staticmethod
    def required_model_output_shape(action_space: Any, model_config: Any) -> int:
        return int(action_space.n)


class TorchMultiActionDistribution(TorchDistributionWrapper):
    def __init__(
        self, inputs: Any, model: Any = None, *, child_distributions: Any, input_lens: Any, action_space: Any
    ) -> None:
        super().__init__(inputs, model)
        self.action_space_struct = get_base_struct_from_space(action_space)
        self.input_lens = [int(size) for size in nested.flatten(input_lens)]
        parts = self.inputs.split(self.input_lens, dim=1)
        makers = nested.flatten(child_distributions)
        self.flat_child_distributions = [make(part, model) for make, part in zip(makers, parts, strict=True)]

    def _sum(self, terms: Sequence[Any]) -> Any:
        return reduce(add, terms)

    def logp(self, x: Any) -> Any:
        """Takes actions as the space has them, a list of the parts, or all parts side by side, ``[B, W]``."""
        children = self.flat_child_distributions
        if isinstance(x, np.ndarray | Tensor):
            merged = _tensor(x, self.model)
            pieces: list[Any] = list(merged.split([_width(child) for child in children], dim=1))
        else:
            pieces = [_tensor(part, self.model) for part in nested.flatten(x)]
        terms = []
        for child, piece in zip(children, pieces, strict=True):
            if isinstance(child, TorchCategorical) and piece.dim() > 1:
                piece = piece.squeeze(-1)
            terms.append(child.logp(piece))
        return self._sum(terms)

    def kl(self, other: Any) -> Any:
        pairs = zip(self.flat_child_distributions, other.flat_child_distributions, strict=True)
        return self._sum([own_part.kl(other_part) for own_part, other_part in pairs])

    def entropy(self) -> Any:
        return self._sum([child.entropy() for child in self.flat_child_distributions])

    def _actions(self, drawn: Sequence[Any]) -> Any:
        return self._kept(nested.unflatten_as(self.action_space_struct, drawn))

    def sample(self) -> Any:
        return self._actions([child.sample() for child in self.flat_child_distributions])

    def deterministic_sample(self) -> Any:
        return self._actions([child.deterministic_sample() for child in self.flat_child_distributions])

    def sampled_action_logp(self) -> Any:
        return self._sum([child.sampled_action_logp() for child in self.flat_child_distributions])

    def required_model_output_shape(  # type: ignore[override]  # an object knows it without the space
        self, action_space: Any = None, model_config: Any = None
    ) -> int:
        return sum(self.input_lens)


def options(action_space: Any) -> list[int]:
    """Returns the number of options of each choice of a MultiDiscrete space, or of a Box of integers.

    Raises:
        ConfigError: If the bounds of a Box differ among its elements.
    """
    if not isinstance(action_space, Box):
        return [int(size) for size in np.ravel(action_space.nvec)]
    low, high = int(action_space.low.min()), int(action_space.high.max())
    if np.any(action_space.low != low) or np.any(action_space.high != high):
        raise ConfigError(
            f"action space {action_space}: its elements have different bounds; use MultiDiscrete, one size for each"
        )
    return [high - low + 1] * int(np.prod(action_space.shape))


def _elements(action_space: Any) -> int:
    return int(np.prod(action_space.shape))


def _width(child: Any) -> int:
    """Returns the number of columns of a part's actions in a merged tensor."""
    if isinstance(child, TorchCategorical):
        return 1
    drawn = getattr(child, "last_sample", None)
    actions = child.deterministic_sample()
    child.last_sample = drawn  # for `sampled_action_logp`
    return int(np.prod(actions.shape[1:]))


def _tensor(values: Any, model: Any) -> Tensor:
    """Returns values as a tensor on the model's device; tensors are unchanged."""
    if isinstance(values, Tensor):
        return values
    tensor = torch.from_numpy(np.asarray(values))
    weight = next(model.parameters(), None) if isinstance(model, nn.Module) else None
    if tensor.dtype == torch.float64:
        tensor = tensor.float()
    return tensor if weight is None else tensor.to(weight.device)
