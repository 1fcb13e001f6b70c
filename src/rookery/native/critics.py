"""The way back through critics on kernels to the actions that they value (docs/kernels.md).

Losses stay what they are, functions in torch of what networks put out. Where a loss of an actor goes on through critics
to the values of its actions, `ActionValues` brings the gradient back to the actions; no weight's gradient is computed
on that way, and nothing at all for critics whose value of a row did not count.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rookery.models.squashed import CLAMPED, SCALED, SquashedGaussian, SquashedHead
from rookery.native.forward import NetworkKernels


def action_values(kernels: NetworkKernels, pair: Any, keep: bool = False) -> Tensor:
    """Computes critics' values of actions, ``[K, N]`` or ``[K, N, ...]``; where the actions have a graph, the gradient
    flows back to them and nowhere else.

    Args:
        kernels: The critics.
        pair: Observations and actions, as the critics' own modules take them.
        keep: `action_gradient` will follow.
    """
    if torch.is_grad_enabled() and pair.action.requires_grad:
        values: Tensor = ActionValues.apply(pair.action, pair, kernels)  # type: ignore[no-untyped-call]
        return values
    return kernels.run(kernels.structure.inputs(pair), keep)[0]


def action_gradient(kernels: NetworkKernels, gradient: Tensor, width: int) -> Tensor:
    """Gives the gradient of the actions ``[N, width]`` of the last pass that kept, from that of what came out of it."""
    return kernels.input_gradient(gradient)[..., -width:].sum(0)  # of all numbers read, those of the action come last


class ActionValues(torch.autograd.Function):
    """Critics' values of actions, as a node of a graph."""

    @staticmethod
    def forward(ctx: Any, action: Tensor, pair: Any, kernels: NetworkKernels) -> Tensor:
        """Computes ``[K, N]`` or ``[K, N, ...]``; `pair` holds the same actions."""
        ctx.kernels, ctx.width = kernels, action.shape[1]
        values = kernels.run(kernels.structure.inputs(pair), keep=True)[0]
        ctx.passes = kernels.passes
        return values

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        """Computes the gradient of the actions."""
        assert ctx.passes == ctx.kernels.passes, "critics have valued something else meanwhile"
        return action_gradient(ctx.kernels, gradient, ctx.width), None, None


def squashed_gradient(
    head: SquashedHead, behavior: SquashedGaussian, noise: Tensor, action: Tensor, by_logp: Tensor, by_action: Tensor
) -> Tensor:
    """Computes the gradient with respect to what the layer of a head puts out, ``[N, 2 * k]``.

    Args:
        head: The policy's head.
        behavior: What actions are drawn from, as the head makes it of what its layer puts out.
        noise: ``[N, k]`` numbers that actions were drawn with.
        action: ``[N, k]`` the actions.
        by_logp: ``[N]`` the gradient with respect to the actions' log-probabilities.
        by_action: ``[N, k]`` the gradient with respect to the actions.
    """
    weight = by_logp.unsqueeze(1)
    # of u, of which the action is the tanh: d log p / du = 2 tanh u, as noise stays where it is
    by_number = torch.addcmul(by_action, by_action * action, action, value=-1.0).add_(action * weight, alpha=2.0)
    log_std = behavior.log_std
    by_log_std = (by_number * noise).mul_(log_std.exp()).sub_(weight)
    low, high = SCALED if head.spec.log_std == "tanh" else CLAMPED
    if head.spec.log_std == "tanh":  # by its derivative, in terms of what it gave
        by_log_std.mul_((log_std - low) * (high - log_std)).mul_(2.0 / (high - low))
    else:
        by_log_std.mul_((log_std > low) & (log_std < high))
    return torch.cat((by_number, by_log_std), 1)
