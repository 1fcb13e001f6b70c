"""Gradients of actions through critics on kernels (docs/kernels.md).

Losses remain torch functions of network outputs. Where an actor's loss depends on critics' values of its actions,
`ActionValues` computes the gradient of the actions; it computes no gradients of weights, and skips critics whose value
of a row does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from rookery.core.batch import TensorTree
from rookery.core.native import Build, DrawingHead, best_build, write_gradient
from rookery.models.squashed import SquashedHead
from rookery.models.structure import Inputs
from rookery.native.forward import Forward, NetworkKernels
from rookery.native.networks import layout_of


def action_values(critics: Forward[Any], pair: Any, chosen: Sequence[int] | None = None) -> Tensor:
    """Computes critics' values of actions, ``[K, N]`` or ``[K, N, ...]``; if the actions have a graph, gradients flow
    to them. On kernels they flow only to the actions.

    Args:
        critics: The critics.
        pair: Observations and actions, in the form of the critics' own modules.
        chosen: Numbers of the critics, if values have no graph; None = all.
    """
    kernels = critics.kernels
    if kernels is None:
        by_modules: Tensor = critics(pair) if chosen is None else critics.net(pair, chosen)
        return by_modules
    if chosen is not None:
        return kernels.run_some(kernels.structure.inputs(pair), chosen)
    if torch.is_grad_enabled() and pair.action.requires_grad:
        values: Tensor = ActionValues.apply(pair.action, pair, kernels)  # type: ignore[no-untyped-call]
        return values
    return kernels.run(kernels.structure.inputs(pair))[0]


def values_and_input_gradient(critics: Forward[Any], pair: Any) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """Computes the same without a graph, by critics that run on kernels; also returns the function from the gradient of
    the values to the gradient of the critics' inputs (`NetworkKernels.input_gradient`).
    """
    kernels = critics.kernels
    assert kernels is not None
    return kernels.run(kernels.structure.inputs(pair), keep=True)[0], kernels.input_gradient


class ActionValues(torch.autograd.Function):
    """Computes the values of `action_values` without a graph, by critics that run on kernels; also returns the function
    from the gradient of the values to the gradient of the critics' inputs (`NetworkKernels.input_gradient`).
    """

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
        assert ctx.passes == ctx.kernels.passes, "the critics have computed another pass meanwhile"
        read = ctx.kernels.input_gradient(gradient)  # the action is the last part of the input
        return read.sum(0)[:, -ctx.width :], None, None


def squashed_drawing(head: nn.Module) -> SquashedDrawing | None:
    """Returns sampling and gradient of a squashed Gaussian on kernels; None if they do not support the head."""
    build = best_build()
    if build is None or not isinstance(head, SquashedHead) or head.log_spread is not None:
        return None
    return SquashedDrawing(build, head)


class SquashedDrawing:
    """`SquashedGaussian.sample_logp` on kernels, without a graph, and its gradient in closed form.

    Args:
        build: The compiled kernels.
        head: Head of the outputs; its `random` has no effect here.
    """

    def __init__(self, build: Build, head: SquashedHead) -> None:
        self._numbers, self._call = head.num_numbers, build.call
        self._head = DrawingHead(build, layout_of(head)._replace(rate=None))

    def sample_logp(self, output: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Draws actions ``[N, k]``; returns them and their log-probabilities ``[N]``.

        Args:
            output: ``[N, 2 * k]`` float32 on the CPU, contiguous, the output of the head's layer.
            noise: ``[N, k]`` standard normal numbers.
        """
        rows = output.shape[0]
        action, logp = (
            torch.empty(rows, self._numbers, dtype=torch.float32, device="cpu"),
            torch.empty(rows, dtype=torch.float32, device="cpu"),
        )
        drawn = action.data_ptr(), logp.data_ptr()
        self._call["head_draw"](self._head.handle, output.data_ptr(), rows, noise.data_ptr(), *drawn)
        return action, logp

    def gradient(self, output: Tensor, noise: Tensor, action: Tensor, by_logp: Tensor, by_read: Tensor) -> Tensor:
        """Computes the gradient with respect to `output`, ``[N, 2 * k]``.

        Args:
            output: The argument of `sample_logp`.
            noise: The argument of `sample_logp`.
            action: ``[N, k]``, the actions that it returned.
            by_logp: The gradient with respect to the log-probability of each action; one number, without dimensions.
            by_read: ``[K, N, n]`` float32, contiguous, the gradients with respect to the inputs of K critics, the
                action last, as `NetworkKernels.input_gradient` returns them.
        """
        gradient, (readers, rows, read) = torch.empty_like(output), by_read.shape
        given = [tensor.data_ptr() for tensor in (noise, action, by_logp, by_read)]
        written = readers, read, gradient.data_ptr()
        self._call["squashed_gradients"](self._head.handle, output.data_ptr(), rows, *given, *written)
        return gradient

    def draw_ahead(
        self, actor: Forward[Any], obs: TensorTree, next_obs: TensorTree, noise: Tensor
    ) -> tuple[Tensor, Tensor, Tensor] | None:
        """Draws actions for the next observations, ``[N, k]``, with their log-probabilities ``[N]``; the same pass also
        returns the actor's outputs for the decisions themselves, ``[N, 2 * k]``, and keeps them for a gradient step.
        Returns None if the actor does not run on kernels.

        Args:
            actor: The network of the head.
            obs: Observations of the decisions, ``[N, ...]`` by leaf path.
            next_obs: Next observations.
            noise: ``[N, k]`` standard normal numbers.
        """
        if (kernels := actor.kernels) is None:
            return None
        both = {path: torch.cat((leaf, next_obs[path])) for path, leaf in obs.items()}
        now, after = kernels.run(Inputs(both), keep=True)[0].chunk(2)
        return *self.sample_logp(after, noise), now


class ManualTemperatureStep:
    """Learned numbers with the interface of networks on kernels, so that their gradient step needs no graph.

    Args:
        numbers: The learned numbers.
    """

    def __init__(self, numbers: nn.Parameter) -> None:
        self.numbers = numbers

    @property
    def num_weights(self) -> int:
        """Number of learned numbers."""
        return self.numbers.numel()

    @property
    def kernels(self) -> ManualTemperatureStep:
        """The object itself, for `gradient_step`."""
        return self

    def __call__(self, batch: object) -> Tensor:
        """Returns the numbers, with a graph."""
        return self.numbers

    def forward(self, batch: object) -> list[Tensor]:
        """Returns the numbers."""
        return [self.numbers.detach()]

    def outputs(self, parts: list[Tensor], batch: object) -> Tensor:
        """Returns the numbers of `parts`."""
        return parts[0]

    def write_gradients(self, gradients: Sequence[Tensor]) -> None:
        """Writes the gradient of the numbers."""
        write_gradient(self.numbers, gradients[0])
