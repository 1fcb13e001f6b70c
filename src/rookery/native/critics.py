"""The way back through critics on kernels to the actions that they value (docs/kernels.md).

Losses stay what they are, functions in torch of what networks put out. Where a loss of an actor goes on through critics
to the values of its actions, `ActionValues` brings the gradient back to the actions; no weight's gradient is computed
on that way, and nothing at all for critics whose value of a row did not count.
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


def action_values(critics: Forward[Any], pair: Any) -> Tensor:
    """Computes critics' values of actions, ``[K, N]`` or ``[K, N, ...]``; where the actions have a graph, the gradient
    flows back to them. On kernels it flows nowhere else.

    Args:
        critics: The critics.
        pair: Observations and actions, as the critics' own modules take them.
    """
    kernels = critics.kernels
    if kernels is None:
        by_modules: Tensor = critics(pair)
        return by_modules
    if torch.is_grad_enabled() and pair.action.requires_grad:
        values: Tensor = ActionValues.apply(pair.action, pair, kernels)  # type: ignore[no-untyped-call]
        return values
    return kernels.run(kernels.structure.inputs(pair))[0]


def values_to_go_back_from(critics: Forward[Any], pair: Any) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """Computes the same without a graph, by critics that run on kernels; and gives what takes the gradient with respect
    to the values to that with respect to the numbers that the critics read (`NetworkKernels.input_gradient`).
    """
    kernels = critics.kernels
    assert kernels is not None
    return kernels.run(kernels.structure.inputs(pair), keep=True)[0], kernels.input_gradient


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
        read = ctx.kernels.input_gradient(gradient)  # of all numbers read, those of the action come last
        return read.sum(0)[:, -ctx.width :], None, None


def squashed_drawing(head: nn.Module) -> SquashedDrawing | None:
    """Gives what draws squashed numbers on kernels and goes back through it; None where there are none for the head."""
    build = best_build()
    if build is None or not isinstance(head, SquashedHead) or head.log_spread is not None:
        return None
    return SquashedDrawing(build, head)


class SquashedDrawing:
    """Squashed numbers on kernels: as `SquashedGaussian.sample_logp`, without a graph, and the way back by hand.

    Args:
        build: The compiled kernels.
        head: Of which the layer's outputs are; whether it is `random` does not matter here.
    """

    def __init__(self, build: Build, head: SquashedHead) -> None:
        self._numbers, self._call = head.num_numbers, build.call
        self._head = DrawingHead(build, layout_of(head)._replace(rate=None))

    def sample_logp(self, output: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Draws actions ``[N, k]``, and gives their log-probabilities ``[N]``.

        Args:
            output: ``[N, 2 * k]`` float32 on the processor, contiguous, what the head's layer puts out.
            noise: ``[N, k]`` likewise, standard normal numbers.
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
        """Computes the gradient with respect to `output`, ``[N, 2 * k]``; noise stays where it is.

        Args:
            output: As `sample_logp` took it.
            noise: Likewise.
            action: ``[N, k]`` what it gave.
            by_logp: The gradient with respect to the log-probability of each action; one number, without dimensions.
            by_read: ``[K, N, n]`` float32, contiguous, the gradients with respect to what each of K critics read, of
                which the action comes last, as `NetworkKernels.input_gradient` gives them.
        """
        gradient, (readers, rows, read) = torch.empty_like(output), by_read.shape
        given = [tensor.data_ptr() for tensor in (noise, action, by_logp, by_read)]
        written = readers, read, gradient.data_ptr()
        self._call["squashed_gradients"](self._head.handle, output.data_ptr(), rows, *given, *written)
        return gradient

    def draw_ahead(
        self, actor: Forward[Any], obs: TensorTree, next_obs: TensorTree, noise: Tensor
    ) -> tuple[Tensor, Tensor, Tensor] | None:
        """Draws actions in what came next, ``[N, k]``, with their log-probabilities ``[N]``; and gives what the actor
        puts out for the decisions themselves, ``[N, 2 * k]``, from the same pass, which keeps what a gradient step
        needs. None where the actor does not run on kernels.

        Args:
            actor: What the head is of.
            obs: Observations of the decisions, ``[N, ...]`` by leaf path.
            next_obs: Of what came next.
            noise: ``[N, k]`` standard normal numbers.
        """
        if (kernels := actor.kernels) is None:
            return None
        both = {path: torch.cat((leaf, next_obs[path])) for path, leaf in obs.items()}
        now, after = kernels.run(Inputs(both), keep=True)[0].chunk(2)
        return *self.sample_logp(after, noise), now


class WithoutGraph:
    """Runs a few numbers that learn as kernels run networks, so that their gradient step needs no graph either.

    Args:
        numbers: What learns.
    """

    def __init__(self, numbers: nn.Parameter) -> None:
        self.numbers = numbers

    @property
    def num_weights(self) -> int:
        """How many there are."""
        return self.numbers.numel()

    @property
    def kernels(self) -> WithoutGraph:
        """What `gradient_step` asks for."""
        return self

    def __call__(self, batch: object) -> Tensor:
        """Gives the numbers, with a graph."""
        return self.numbers

    def forward(self, batch: object) -> list[Tensor]:
        """Gives the numbers."""
        return [self.numbers.detach()]

    def outputs(self, parts: list[Tensor], batch: object) -> Tensor:
        """Gives the same."""
        return parts[0]

    def write_gradients(self, gradients: Sequence[Tensor]) -> None:
        """Writes the gradient of the numbers."""
        write_gradient(self.numbers, gradients[0])
