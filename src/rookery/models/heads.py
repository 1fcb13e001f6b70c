"""Heads: from a trunk's features to what actions are drawn from, or to a value.

Which head a policy has is up to the algorithm that learns it, which names it by a `HeadSpec`; here stands the one of
policy gradients. `distribution_for` is where an action space meets its distribution: a new kind of action is a case
there. A head puts out the logits of all choices, then those of all flags, then the means of all numbers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
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

ACTION_GAIN = 0.01  # first actions nearly independent of the observation: no early commitment
VALUE_GAIN = 1.0


def output_width(action: ActionSpec) -> int:
    """Numbers a linear layer puts out for one action of this layout."""
    return sum(action.sizes) + action.num_flags + action.num_numbers


def noise_for(action: ActionSpec) -> NoiseSpec:
    """Random numbers that drawing one action of this layout takes."""
    return NoiseSpec(uniform=len(action.sizes) + action.num_flags, normal=action.num_numbers)


def distribution_for(
    action: ActionSpec, output: Tensor, log_std: Tensor | None, mask: Tensor | None = None
) -> Distribution:
    """The distribution over actions of this layout.

    Args:
        action: Layout of the actions.
        output: Logits and means, ``[..., output_width(action)]``.
        log_std: ``[k]`` or ``[..., k]`` for k numbers, None if there are none.
        mask: Allowed choices, ``[..., sum(action.sizes)]``.
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
    """One distribution for each sort of element there is, however many parts the space has."""
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
    """What heads say about N rows.

    Attributes:
        distribution: What each row's action is drawn from.
        value: ``[N, S]``, a column for each reward signal; S is 1 where the environment's reward is the only one.
    """

    distribution: Distribution
    value: Tensor


class Head(nn.Module, ABC):
    """Base of what a policy ends in: from features to what each row's action is drawn from.

    What steers exploration (a rate, a temperature) is a buffer: it travels with the weights, so a learner sets it and
    whoever plays takes it up from the next hand-over on. The most probable actions never depend on it.

    Attributes:
        action_spec: Layout of the actions.
        noise: Random numbers an action takes.
        layer_noise: Normal numbers that noisy layers take for a row, part of `noise`; 0 without such layers.
        exploration_size: Numbers that exploration carries from one decision of a slot to the next, 0 at an episode's
            start; they are no memory: nothing is learned from them.
    """

    action_spec: ActionSpec
    noise: NoiseSpec
    layer_noise: int = 0
    exploration_size: int = 0

    @abstractmethod
    def forward(self, features: Tensor, mask: Tensor | None = None, noise: Tensor | None = None) -> Behavior:
        """What each row's action is drawn from.

        Args:
            features: ``[N, F]``.
            mask: ``[N, choices]`` bool, what is allowed; None = everything.
            noise: ``[N, layer_noise]`` normal numbers for noisy layers, or ``[1, layer_noise]`` for all rows; None =
                their means.
        """

    def draw(
        self, features: Tensor, mask: Tensor | None, noise: Tensor, carried: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Actions ``[N, ...]`` as whoever explores takes them, and their log-probabilities ``[N]``.

        Args:
            features: ``[N, F]``.
            mask: ``[N, choices]`` bool, what is allowed; None = everything.
            noise: ``[N, noise.width]``.
            carried: ``[N, exploration_size]``, changed in place; None for heads that carry nothing.
        """
        behavior: Behavior = self(features, mask)
        return behavior.sample_logp(noise)

    def of_slots(self, noise: Tensor, power: Tensor) -> Tensor:
        """Returns noise by which each slot explores at a rate of its own, that of all raised to a power.

        Args:
            noise: ``[N, noise.width]`` as drawn for all alike.
            power: ``[N, 1]`` at least 1, see `LadderPolicy`; the rate (an epsilon, a standard deviation) is below 1.
        """
        raise NotImplementedError(f"{type(self).__name__} explores alike in all slots")


class HeadSpec(ABC):
    """Which head a policy ends in: a frozen dataclass of numbers and words, so that it can stand in a file."""

    @abstractmethod
    def build(self, num_features: int, action: ActionSpec, *, log_std_init: float, generator: torch.Generator) -> Head:
        """The head.

        Args:
            num_features: Width of the features it stands on.
            action: Layout of the actions.
            log_std_init: First log standard deviation of numbers, for heads that learn one.
            generator: Draws the weights.

        Raises:
            SpaceError: If it cannot put out such actions; names what can.
        """

    def body(
        self, obs: ObsSpec, action: ActionSpec, model: ModelConfig, *, generator: torch.Generator
    ) -> tuple[nn.Module, Memory | None, int]:
        """What such a head stands on: trunk, memory if there is any, and the width of their features.

        Args:
            obs: Layout of what the trunk sees.
            action: Layout of the actions.
            model: What to build.
            generator: Draws the weights.
        """
        return build_body(obs, action, model, generator=generator, outputs=self.given(action))

    def recalled(self, memory: MemoryConfig) -> MemoryConfig:
        """Gives what a policy with such a head sees of its past: what its settings ask for, or what the head needs."""
        return memory

    def given(self, action: ActionSpec) -> int | None:
        """How many numbers a model puts out itself in the place of the head's layers (``model.output=outputs``); None
        for a head that has layers.
        """
        return None

    @property
    def greedy(self) -> HeadSpec:
        """The same for all heads that mean the same by the same weights, however they explore."""
        return self


HEAD = CodeKind("a HeadSpec (rookery.models.heads)", lambda found: issubclass(found, HeadSpec))


def head_to_json(spec: HeadSpec) -> dict[str, Any]:
    """A spec for a file: its fields, and under ``kind`` its class by import path."""
    assert isinstance(spec, HeadSpec)
    given: Any = spec
    return {"kind": object_name(type(spec)), **{field.name: getattr(spec, field.name) for field in fields(given)}}


def head_from_json(described: dict[str, Any]) -> HeadSpec:
    """The spec that `head_to_json` described.

    Raises:
        ConfigError: If there is no such class, or it is none of a head.
    """
    kind = HEAD.find(described["kind"])
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in described.items()}
    del values["kind"]
    spec: HeadSpec = kind(**values)
    return spec


@dataclass(frozen=True)
class DistributionHead(HeadSpec):
    """A distribution for any action space: what policy gradients learn."""

    def build(
        self, num_features: int, action: ActionSpec, *, log_std_init: float, generator: torch.Generator
    ) -> ActionHead:
        """The head; arguments as of `HeadSpec.build`."""
        return ActionHead(num_features, action, log_std_init=log_std_init, generator=generator)


class ActionHead(Head):
    """A linear layer to logits and means. The spread of continuous actions is a parameter, equal in every state.

    Args:
        num_features: Width of the trunk's output.
        action: Layout of the actions.
        log_std_init: First log standard deviation of each number of an action.
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
        self._own = (self.linear.weight, self.linear.bias, self.log_std)  # at hand: a look-up on a module is slow

    def forward(self, features: Tensor, mask: Tensor | None = None, noise: Tensor | None = None) -> Distribution:
        """The distribution of each row's action, from features ``[N, F]`` and perhaps a mask ``[N, choices]``."""
        weight, bias, log_std = self._own
        return distribution_for(self.action_spec, functional.linear(features, weight, bias), log_std, mask)

    def distribution(self, output: Tensor, mask: Tensor | None = None) -> Distribution:
        """The distribution with logits and means ``[N, W]`` as the layer puts them out."""
        return distribution_for(self.action_spec, output, self.log_std, mask)


@dataclass(frozen=True)
class GivenHead(HeadSpec):
    """A distribution whose parameters a model puts out itself (``model.output=outputs``)."""

    def build(
        self, num_features: int, action: ActionSpec, *, log_std_init: float, generator: torch.Generator
    ) -> GivenActionHead:
        """The head, which has no weights; arguments as of `HeadSpec.build`."""
        return GivenActionHead(action)

    def given(self, action: ActionSpec) -> int:
        """Parameters of an action's distribution."""
        return action.num_parameters


class GivenActionHead(Head):
    """Takes the first columns of the features as the parameters of a distribution, one spread for each row included.

    Args:
        action: Layout of the actions.
    """

    def __init__(self, action: ActionSpec) -> None:
        super().__init__()
        self.action_spec = action
        self.noise = noise_for(action)
        self.linear = Columns(0, action.num_parameters)

    def forward(self, features: Tensor, mask: Tensor | None = None, noise: Tensor | None = None) -> Distribution:
        """The distribution of each row's action, from features ``[N, F]`` and perhaps a mask ``[N, choices]``."""
        return self.distribution(self.linear(features), mask)

    def distribution(self, output: Tensor, mask: Tensor | None = None) -> Distribution:
        """The distribution with parameters ``[N, W]``: logits and means, then log standard deviations."""
        numbers = self.action_spec.num_numbers
        if not numbers:
            return distribution_for(self.action_spec, output, None, mask)
        return distribution_for(self.action_spec, output[..., :-numbers], output[..., -numbers:], mask)


class Columns(nn.Module):
    """Some columns of the features, in the place of a layer.

    Args:
        first: The first of them.
        count: How many.
    """

    def __init__(self, first: int, count: int) -> None:
        super().__init__()
        self.first, self.last = first, first + count

    def forward(self, features: Tensor) -> Tensor:
        """Columns ``[N, count]`` of features ``[N, F]``."""
        return features[..., self.first : self.last]


class GivenValueHead(nn.Module):
    """Takes columns of the features as values, in a unit and from a zero of their own (`signals/value_scale.py`).

    Args:
        first: The first of these columns.
        columns: S, reward signals whose values they are.
    """

    def __init__(self, first: int, *, columns: int = 1) -> None:
        super().__init__()
        self.columns = Columns(first, columns)
        self.linear = Affine(columns)

    def forward(self, features: Tensor) -> Tensor:
        """Values ``[N, S]`` of features ``[N, F]``."""
        value: Tensor = self.linear(self.columns(features))
        return value


class Affine(nn.Module):
    """Multiplies each column by a number and adds one; neither is learned by gradient.

    Args:
        num_columns: How many there are.
    """

    weight: Tensor
    bias: Tensor

    def __init__(self, num_columns: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.ones(num_columns, dtype=torch.float32, device="cpu"))
        self.register_buffer("bias", torch.zeros(num_columns, dtype=torch.float32, device="cpu"))

    def forward(self, x: Tensor) -> Tensor:
        """Columns ``[N, S]``."""
        return x * self.weight + self.bias


class ValueHead(nn.Module):
    """A linear layer to values, one for each reward signal.

    Args:
        num_features: Width of the trunk's output.
        generator: Draws the weights.
        columns: S, reward signals whose values are learned.
    """

    def __init__(self, num_features: int, *, generator: torch.Generator, columns: int = 1) -> None:
        super().__init__()
        self.linear = linear(num_features, columns, gain=VALUE_GAIN, generator=generator)

    def forward(self, features: Tensor) -> Tensor:
        """Values ``[N, S]`` of features ``[N, F]``."""
        value: Tensor = self.linear(features)
        return value
