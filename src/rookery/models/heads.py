"""Heads: from a trunk's features to a distribution over actions, or to a value.

`output_width`, `noise_for` and `distribution_for` are where an action space meets its distribution: a new kind of
action is one case in each.
"""

from __future__ import annotations

from typing import assert_never

import torch
from torch import Tensor, nn

from rookery.core.spaces import ActionSpec
from rookery.models.distributions import Categorical, DiagonalGaussian, Distribution, MultiCategorical, NoiseSpec
from rookery.models.layers import linear

ACTION_GAIN = 0.01  # first actions nearly independent of the observation: no early commitment
VALUE_GAIN = 1.0


def output_width(action: ActionSpec) -> int:
    """Numbers a linear layer puts out for one action of this layout."""
    return action.shape[0] if action.kind == "box" else sum(action.sizes)


def noise_for(action: ActionSpec) -> NoiseSpec:
    """Random numbers that drawing one action of this layout takes."""
    return NoiseSpec(normal=action.shape[0]) if action.kind == "box" else NoiseSpec(uniform=len(action.sizes))


def distribution_for(
    action: ActionSpec, output: Tensor, log_std: Tensor | None, mask: Tensor | None = None
) -> Distribution:
    """The distribution over actions of this layout.

    Args:
        action: Layout of the actions.
        output: Logits or means, ``[..., output_width(action)]``.
        log_std: ``[k]`` or ``[..., k]`` for a box of k elements, else None.
        mask: Allowed choices, shaped like `output`, for discrete kinds.
    """
    if action.kind == "discrete":
        return Categorical(output, mask)
    if action.kind == "multi_discrete":
        return MultiCategorical(output, action.sizes, mask)
    if action.kind == "box":
        assert log_std is not None
        return DiagonalGaussian(output, log_std)
    assert_never(action.kind)


class ActionHead(nn.Module):
    """A linear layer to logits or means. The spread of continuous actions is a parameter, equal in every state.

    Args:
        num_features: Width of the trunk's output.
        action: Layout of the actions.
        log_std_init: First log standard deviation of each element of a box action.
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
        is_box = action.kind == "box"
        self.log_std = nn.Parameter(torch.full(action.shape, float(log_std_init))) if is_box else None

    def forward(self, features: Tensor, mask: Tensor | None = None) -> Distribution:
        """The distribution of each row's action, from features ``[N, F]`` and perhaps a mask ``[N, choices]``."""
        return distribution_for(self.action_spec, self.linear(features), self.log_std, mask)


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
