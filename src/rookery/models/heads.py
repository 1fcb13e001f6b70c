"""Heads: from a trunk's features to action distributions, or to values.

The algorithm chooses a policy's head by a `HeadSpec`; this module has the head of policy gradients. `distribution_for`
maps an action space to its distribution: a new kind of action is a case there. A head outputs the logits of all
discrete actions, then those of all flags, then the means of all continuous actions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, assert_never

import torch
from torch import Tensor, nn
from torch.nn import functional

from rookery.core.settings.fields import object_name
from rookery.core.settings.trust import CodeKind
from rookery.core.spaces.arrays import ActionSpec, ObsSpec
from rookery.models.build import ModelConfig, build_body
from rookery.models.cells.base import Memory
from rookery.models.distributions import (
    Behavior,
    Bernoulli,
    Categorical,
    Composite,
    DiagonalGaussian,
    Distribution,
    MultiCategorical,
    NoiseSpec,
)
from rookery.models.layers import linear
from rookery.models.memory import MemoryConfig

ACTION_GAIN = 0.01  # initial actions depend little on the observation, for exploration
VALUE_GAIN = 1.0


def output_width(action: ActionSpec) -> int:
    """Returns the width of a linear layer's output for actions of this layout."""
    return sum(action.sizes) + action.num_flags + action.num_numbers


def noise_for(action: ActionSpec) -> NoiseSpec:
    """Returns the random numbers that drawing one action of this layout takes."""
    return NoiseSpec(uniform=len(action.sizes) + action.num_flags, normal=action.num_numbers)


def distribution_for(
    action: ActionSpec, output: Tensor, log_std: Tensor | None, mask: Tensor | None = None
) -> Distribution:
    """Returns the distribution over actions of this layout.

    Args:
        action: Layout of the actions.
        output: Logits and means, ``[..., output_width(action)]``.
        log_std: ``[k]`` or ``[..., k]`` for k continuous actions, None without them.
        mask: Allowed discrete actions, ``[..., sum(action.sizes)]``.
    """
    if action.kind == "discrete":
        return Categorical(output, mask)
    if action.kind == "multi_discrete":
        return MultiCategorical(output, action.sizes, mask)
    if action.kind == "box":
        assert log_std is not None
        return DiagonalGaussian(output, log_std)
    if action.kind == "multi_binary":
        return Bernoulli(output)
    if action.kind == "composite":
        return _composite(action, output, log_std, mask)
    assert_never(action.kind)


def _composite(action: ActionSpec, output: Tensor, log_std: Tensor | None, mask: Tensor | None) -> Composite:
    """Returns one distribution for each kind of action element, regardless of how many parts the space has."""
    logits, flags, means = output.split((sum(action.sizes), action.num_flags, action.num_numbers), -1)
    parts: list[Distribution] = []
    if action.sizes:
        parts.append(MultiCategorical(logits, action.sizes, mask))
    if action.num_flags:
        parts.append(Bernoulli(flags))
    if action.num_numbers:
        assert log_std is not None
        parts.append(DiagonalGaussian(means, log_std))
    widths = (len(action.sizes), action.num_flags, action.num_numbers)
    return Composite(parts, [width for width in widths if width])


@dataclass(frozen=True)
class Outputs:
    """Outputs of policy and value heads for N rows.

    Attributes:
        distribution: Action distribution of each row.
        value: ``[N, S]``, a column for each reward signal; S is 1 with the environment's reward alone.
    """

    distribution: Distribution
    value: Tensor


class Head(nn.Module, ABC):
    """Base of policy heads: maps features to the distribution of each row's action.

    Exploration parameters (a rate, a temperature) are buffers: a learner sets them, and acting copies receive them with
    the next weights. The most probable actions never depend on them.

    Attributes:
        action_spec: Layout of the actions.
        noise: Random numbers an action takes.
        layer_noise: Normal numbers per row for noisy layers, part of `noise`; 0 without such layers.
        exploration_size: Numbers that exploration carries from one decision of a slot to the next, 0 at an episode's
            start; unlike memory, learners never use them.
    """

    action_spec: ActionSpec
    noise: NoiseSpec
    layer_noise: int = 0
    exploration_size: int = 0

    @abstractmethod
    def forward(self, features: Tensor, mask: Tensor | None = None, noise: Tensor | None = None) -> Behavior:
        """Returns the distribution of each row's action.

        Args:
            features: ``[N, F]``.
            mask: ``[N, choices]`` bool, allowed actions; None = all.
            noise: ``[N, layer_noise]`` normal numbers for noisy layers, or ``[1, layer_noise]`` for all rows; None =
                their means.
        """

    def draw(
        self, features: Tensor, mask: Tensor | None, noise: Tensor, carried: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Returns exploring actions ``[N, ...]`` and their log-probabilities ``[N]``.

        Args:
            features: ``[N, F]``.
            mask: ``[N, choices]`` bool, allowed actions; None = all.
            noise: ``[N, noise.width]``.
            carried: ``[N, exploration_size]``, changed in place; None for heads that carry nothing.
        """
        behavior: Behavior = self(features, mask)
        return behavior.sample_logp(noise)

    def bound_log_std(self, low: float, high: float) -> None:
        """Clamps a log standard deviation that is a parameter of its own; does nothing for heads without one."""

    def of_slots(self, noise: Tensor, power: Tensor) -> Tensor:
        """Returns noise with which each slot explores at its own rate, the common rate raised to a power.

        Args:
            noise: ``[N, noise.width]`` as drawn for equal rates.
            power: ``[N, 1]`` at least 1, see `PerEnvEpsilonPolicy`; the rate (epsilon, standard deviation) is below 1.
        """
        raise NotImplementedError(f"{type(self).__name__} explores alike in all slots")


class HeadSpec(ABC):
    """Description of a policy's head: a frozen dataclass of numbers and strings, so that files can hold it."""

    @abstractmethod
    def build(self, num_features: int, action: ActionSpec, *, log_std_init: float, generator: torch.Generator) -> Head:
        """Builds the head.

        Args:
            num_features: Width of its input.
            action: Layout of the actions.
            log_std_init: Initial log standard deviation of continuous actions, for heads that learn one.
            generator: Draws the weights.

        Raises:
            SpaceError: If the head does not support the action space; the message names heads or algorithms that do.
        """

    def body(
        self, obs: ObsSpec, action: ActionSpec, model: ModelConfig, *, generator: torch.Generator
    ) -> tuple[nn.Module, Memory | None, int]:
        """Builds the body below the head: trunk, memory or None, and the number of features.

        Args:
            obs: Layout of the trunk's input.
            action: Layout of the actions.
            model: Settings of the network.
            generator: Draws the weights.
        """
        return build_body(obs, action, model, generator=generator, outputs=self.given(action))

    def extras(self, action: ActionSpec) -> Mapping[str, int]:
        """Returns further columns that the acting side writes for each decision: number of elements by name."""
        return {}

    def recalled(self, memory: MemoryConfig) -> MemoryConfig:
        """Returns the recall settings of a policy with this head: those given, or those that the head needs."""
        return memory

    def given(self, action: ActionSpec) -> int | None:
        """Returns the width of the outputs that a model computes in place of the head's layers
        (``model.output=action_params``); None for a head with layers.
        """
        return None

    @property
    def greedy(self) -> HeadSpec:
        """Returns a spec that is equal for all heads that interpret weights equally, regardless of exploration."""
        return self


HEAD = CodeKind("a HeadSpec (rookery.models.heads)", lambda found: issubclass(found, HeadSpec))


def head_to_json(spec: HeadSpec) -> dict[str, Any]:
    """Returns a spec for a file: its fields, and under ``kind`` the import path of its class."""
    assert isinstance(spec, HeadSpec)
    given: Any = spec
    return {"kind": object_name(type(spec)), **{field.name: getattr(spec, field.name) for field in fields(given)}}


def head_from_json(described: dict[str, Any]) -> HeadSpec:
    """Returns the spec that `head_to_json` described.

    Raises:
        ConfigError: If the class does not exist, or is not a `HeadSpec`.
    """
    kind = HEAD.find(described["kind"])
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in described.items()}
    del values["kind"]
    spec: HeadSpec = kind(**values)
    return spec


@dataclass(frozen=True)
class DistributionHead(HeadSpec):
    """Spec of a distribution for any action space, for policy gradients."""

    def build(
        self, num_features: int, action: ActionSpec, *, log_std_init: float, generator: torch.Generator
    ) -> ActionHead:
        """Builds the head; arguments as of `HeadSpec.build`."""
        return ActionHead(num_features, action, log_std_init=log_std_init, generator=generator)


class ActionHead(Head):
    """Linear layer to logits and means. The log standard deviation of continuous actions is a state-independent
    parameter.

    Args:
        num_features: Width of the trunk's output.
        action: Layout of the actions.
        log_std_init: Initial log standard deviation of each continuous action element.
        generator: Draws the weights.
    """

    log_std: nn.Parameter | None

    def __init__(
        self, num_features: int, action: ActionSpec, *, log_std_init: float, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.action_spec = action
        self.noise = noise_for(action)
        self.linear = linear(num_features, output_width(action), gain=ACTION_GAIN, generator=generator)
        numbers = action.num_numbers
        self.log_std = (
            nn.Parameter(torch.full((numbers,), float(log_std_init), dtype=torch.float32, device="cpu"))
            if numbers
            else None
        )
        self._own = (self.linear.weight, self.linear.bias, self.log_std)  # cached: a look-up on a module is slow

    def forward(self, features: Tensor, mask: Tensor | None = None, noise: Tensor | None = None) -> Distribution:
        """Returns the distribution of each row's action, of features ``[N, F]`` and a mask ``[N, choices]`` or None."""
        weight, bias, log_std = self._own
        return distribution_for(self.action_spec, functional.linear(features, weight, bias), log_std, mask)

    @torch.no_grad()
    def bound_log_std(self, low: float, high: float) -> None:
        """Clamps the log standard deviation of continuous actions; see `Head.bound_log_std`."""
        if self.log_std is not None:
            self.log_std.clamp_(low, high)

    def distribution(self, output: Tensor, mask: Tensor | None = None) -> Distribution:
        """Returns the distribution with logits and means ``[N, W]`` as the layer outputs them."""
        return distribution_for(self.action_spec, output, self.log_std, mask)


@dataclass(frozen=True)
class GivenHead(HeadSpec):
    """Spec of a distribution whose parameters the model computes itself (``model.output=action_params``)."""

    def build(
        self, num_features: int, action: ActionSpec, *, log_std_init: float, generator: torch.Generator
    ) -> GivenActionHead:
        """Builds the head, which has no weights; arguments as of `HeadSpec.build`."""
        return GivenActionHead(action)

    def given(self, action: ActionSpec) -> int:
        """Returns the number of parameters of the action distribution."""
        return action.num_parameters


class GivenActionHead(Head):
    """Head that uses the first columns of the features as distribution parameters, with a log standard deviation per
    row.

    Args:
        action: Layout of the actions.
    """

    def __init__(self, action: ActionSpec) -> None:
        super().__init__()
        self.action_spec = action
        self.noise = noise_for(action)
        self.linear = Columns(0, action.num_parameters)

    def forward(self, features: Tensor, mask: Tensor | None = None, noise: Tensor | None = None) -> Distribution:
        """Returns the distribution of each row's action, of features ``[N, F]`` and a mask ``[N, choices]`` or None."""
        return self.distribution(self.linear(features), mask)

    def distribution(self, output: Tensor, mask: Tensor | None = None) -> Distribution:
        """Returns the distribution with parameters ``[N, W]``: logits and means, then log standard deviations."""
        numbers = self.action_spec.num_numbers
        if not numbers:
            return distribution_for(self.action_spec, output, None, mask)
        return distribution_for(self.action_spec, output[..., :-numbers], output[..., -numbers:], mask)


class Columns(nn.Module):
    """Selects columns of the features, in place of a layer.

    Args:
        first: Index of the first column.
        count: Number of columns.
    """

    def __init__(self, first: int, count: int) -> None:
        super().__init__()
        self.first, self.last = first, first + count

    def forward(self, features: Tensor) -> Tensor:
        """Returns columns ``[N, count]`` of features ``[N, F]``."""
        return features[..., self.first : self.last]


class GivenValueHead(nn.Module):
    """Value head that uses columns of the features as values, with their own scale and offset
    (`signals/value_scale.py`).

    Args:
        first: The first of these columns.
        columns: S, reward signals whose values they are.
    """

    def __init__(self, first: int, *, columns: int = 1) -> None:
        super().__init__()
        self.columns = Columns(first, columns)
        self.linear = Affine(columns)

    def forward(self, features: Tensor) -> Tensor:
        """Returns values ``[N, S]`` of features ``[N, F]``."""
        value: Tensor = self.linear(self.columns(features))
        return value


class Affine(nn.Module):
    """Scales and shifts each column; neither number is learned by gradient.

    Args:
        num_columns: S, number of columns.
    """

    weight: Tensor
    bias: Tensor

    def __init__(self, num_columns: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.ones(num_columns, dtype=torch.float32, device="cpu"))
        self.register_buffer("bias", torch.zeros(num_columns, dtype=torch.float32, device="cpu"))

    def forward(self, x: Tensor) -> Tensor:
        """Returns the scaled columns ``[N, S]``."""
        return x * self.weight + self.bias


class ValueHead(nn.Module):
    """Linear layer to values, one for each reward signal.

    Args:
        num_features: Width of the trunk's output.
        generator: Draws the weights.
        columns: S, reward signals whose values are learned.
    """

    def __init__(self, num_features: int, *, generator: torch.Generator, columns: int = 1) -> None:
        super().__init__()
        self.linear = linear(num_features, columns, gain=VALUE_GAIN, generator=generator)

    def forward(self, features: Tensor) -> Tensor:
        """Returns values ``[N, S]`` of features ``[N, F]``."""
        value: Tensor = self.linear(features)
        return value
