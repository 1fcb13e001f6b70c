"""What recurrent memories are made of: weights of their layers, and passes through time over pieces of one episode."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from rookery.core.batch import Sequences
from rookery.models.layers import linear, orthogonal
from rookery.models.pieces import Pieces


class InputLayer(nn.Module):
    """A layer whose gates look at its input alone.

    Args:
        num_inputs: Width of its input.
        size: Width of the layer.
        num_gates: How many vectors of that width it computes, gates and candidates.
        generator: Draws the weights, orthogonal as a whole.
    """

    def __init__(self, num_inputs: int, size: int, *, num_gates: int, generator: torch.Generator) -> None:
        super().__init__()
        self.size = size
        self.input = linear(num_inputs, num_gates * size, gain=1.0, generator=generator)


class RecurrentLayer(InputLayer):
    """A layer whose gates look at its last output too.

    Args:
        num_inputs: Width of its input.
        size: Width of the layer.
        num_gates: How many vectors of that width it computes, gates and candidates.
        generator: Draws the weights, those of inputs and of outputs each orthogonal as a whole.
    """

    def __init__(self, num_inputs: int, size: int, *, num_gates: int, generator: torch.Generator) -> None:
        super().__init__(num_inputs, size, num_gates=num_gates, generator=generator)
        self.recurrent = nn.Parameter(orthogonal(num_gates * size, size, gain=1.0, generator=generator))


LayerT = TypeVar("LayerT", bound=InputLayer)


def stacked(
    kind: type[LayerT], num_inputs: int, *, size: int, layers: int, num_gates: int, generator: torch.Generator
) -> list[LayerT]:
    """Layers of a kind, the first on so many inputs, each other on what the one before it gives."""
    widths = [num_inputs] + [size] * (layers - 1)
    return [kind(width, size, num_gates=num_gates, generator=generator) for width in widths]


Weights = tuple[tuple[Tensor, Tensor, Tensor], ...]
"""Of each recurrent layer: input weight, recurrent weight, bias."""


def weights_of(layers: list[RecurrentLayer]) -> Weights:
    """The weights of these layers, to keep at hand: to look them up in modules takes as long as a small product."""
    return tuple((layer.input.weight, layer.recurrent, layer.input.bias) for layer in layers)


def spread_memories(size: int, horizon: int) -> Tensor:
    """Biases ``[size]`` of gates that keep: at first unit by unit forgets later, within 2 to ``1 + horizon`` decisions.

    Such a gate keeps ``sigmoid(log(t)) = 1 - 1 / (1 + t)``, with t from 1 to `horizon` in geometric steps (as Tallec &
    Ollivier 2018, arXiv:1804.11188, draw it). Were all gates alike, none would see an early decision much later, and
    there would be no gradient to learn it by.
    """
    return math.log(horizon) * torch.linspace(0.0, 1.0, size)


def biases(bias: Tensor) -> tuple[Tensor, ...]:
    """The bias of a layer as torch's cells take it: alone on the processor, elsewhere with a second one of zeros."""
    return (bias,) if bias.is_cpu else (bias, torch.zeros_like(bias))


def fused_pass(
    fused: Callable[..., tuple[Tensor, ...]],
    x: Tensor,
    memory: Tensor,
    sequences: Sequences,
    *,
    weights: Weights,
    num_states: int,
) -> tuple[Tensor, Tensor]:
    """All layers of an LSTM or GRU over all decisions, in one call of torch's own pass.

    Args:
        fused: ``torch.lstm`` or ``torch.gru``.
        x: ``[N, F]``.
        memory: ``[B, layers * num_states * size]``.
        sequences: How the rows lie in time.
        weights: Of the layers.
        num_states: Vectors that a layer remembers: 2 (h, c) or 1 (h).

    Returns:
        Features ``[N, size]``, and what is remembered after each sequence.
    """
    pieces = Pieces.of(sequences)
    states = pieces.before(memory).unflatten(1, (len(weights), num_states, -1)).permute(2, 1, 0, 3).contiguous()
    before = states[0] if num_states == 1 else states.unbind(0)
    flat: list[Tensor] = []
    for weight, recurrent, bias in weights:
        flat += [weight, recurrent, bias, torch.zeros_like(bias)]
    has_biases, dropout, bidirectional, batch_first = True, 0.0, False, False
    options: tuple[Any, ...] = (flat, has_biases, len(weights), dropout, torch.is_grad_enabled(), bidirectional)
    if pieces.in_order:
        out, *after = fused(sequences.grid(x), before, *options, batch_first)
        out = out.flatten(0, 1)
    else:
        out, *after = fused(pieces.pack(x), torch.tensor(pieces.counts), before, *options)
    remembered = torch.stack(after, 2).index_select(1, pieces.last)  # [layers, B, num_states, size]
    return pieces.unpack(out), remembered.transpose(0, 1).flatten(1)


def blend(candidate: Tensor, gate: Tensor, before: Tensor, counts: list[int]) -> Tensor:
    """The blends ``h[t] = (1 - gate[t]) h[t - 1] + gate[t] candidate[t]`` of each piece, in packed order, ``[N, H]``.

    Args:
        candidate: ``[N, H]``.
        gate: ``[N, H]`` from 0 to 1.
        before: ``[P, H]`` what stands before the first step of each piece.
        counts: How many pieces have a first row, a second one, ...
    """
    blended: Tensor = _Blend.apply(candidate, gate, before, counts)  # type: ignore[no-untyped-call]
    return blended


class _Blend(torch.autograd.Function):
    """One operation a time step in each direction; autograd's own tape would hold and visit four."""

    @staticmethod
    def forward(ctx: Any, candidate: Tensor, gate: Tensor, before: Tensor, counts: list[int]) -> Tensor:
        out = torch.empty_like(candidate)
        h = before
        for now, news, z in zip(out.split(counts), candidate.split(counts), gate.split(counts), strict=True):
            h = torch.lerp(h[: len(now)], news, z, out=now)
        ctx.save_for_backward(candidate, gate, before, out)
        ctx.counts = counts
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        candidate, gate, before, out = ctx.saved_tensors
        counts: list[int] = ctx.counts
        keep = 1.0 - gate
        grad = grads[0].clone()
        grad_of, keep_of = grad.split(counts), keep.split(counts)
        for step in range(len(counts) - 1, 0, -1):
            grad_of[step - 1][: counts[step]].addcmul_(grad_of[step], keep_of[step])
        going_on = [h[:count] for h, count in zip(out.split(counts), counts[1:], strict=False)]
        previous = torch.cat((before, *going_on))
        return grad * gate, grad * (candidate - previous), grad_of[0] * keep_of[0], None
