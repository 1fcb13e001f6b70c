"""Heads: from a trunk's features to a distribution over actions, or to a value.

`distribution_for` is where an action space meets its distribution: a new kind of action is a case there. A head puts
out the logits of all choices, then those of all flags, then the means of all numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

import torch
from torch import Tensor, nn
from torch.nn import functional

from rookery.core.spaces import ActionSpec
from rookery.models.distributions import (
    Bernoulli,
    Categorical,
    Composite,
    DiagonalGaussian,
    Distribution,
    MultiCategorical,
    NoiseSpec,
)
from rookery.models.layers import linear

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
    """What heads say about N rows: a distribution over actions, and values ``[N]``."""

    distribution: Distribution
    value: Tensor


class ActionHead(nn.Module):
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
        self.log_std = nn.Parameter(torch.full((numbers,), float(log_std_init))) if numbers else None
        self._own = (self.linear.weight, self.linear.bias, self.log_std)  # at hand: a look-up on a module is slow

    def forward(self, features: Tensor, mask: Tensor | None = None) -> Distribution:
        """The distribution of each row's action, from features ``[N, F]`` and perhaps a mask ``[N, choices]``."""
        weight, bias, log_std = self._own
        return distribution_for(self.action_spec, functional.linear(features, weight, bias), log_std, mask)


class ValueHead(nn.Module):
    """A linear layer to one value.

    Args:
        num_features: Width of the trunk's output.
        generator: Draws the weights.
    """

    def __init__(self, num_features: int, *, generator: torch.Generator) -> None:
        super().__init__()
        self.linear = linear(num_features, 1, gain=VALUE_GAIN, generator=generator)

    def forward(self, features: Tensor) -> Tensor:
        """Values ``[N]`` of features ``[N, F]``."""
        value: Tensor = self.linear(features).squeeze(-1)
        return value
