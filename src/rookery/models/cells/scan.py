"""A linear recurrence whose gates look at the input alone."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from rookery.core.batch import Sequences
from rookery.models.cells.operators import Operators
from rookery.models.cells.recurrent import Cell, LayerWeights, Recurrent, spread_memories
from rookery.models.pieces import Pieces


class Scan(Recurrent):
    """Minimal gated recurrent units (minGRU, Feng et al. 2024, arXiv:2410.01201), which learn fast.

    With z, n = ``W x + b``: ``h = (1 - sigmoid(z)) h + sigmoid(z) n``. A layer remembers h, and gives ``tanh(h)``.
    Gates and candidates do not look back, so that one product computes those of all decisions. What is left to do one
    after the other is a blend of two vectors, which on a CPU is faster so than in a scan of log2(S) rounds over all
    rows. Nothing is divided and no weight of the past is above 1, so it needs no logarithms as the paper's form does,
    and candidates of either sign are fine.

    The tanh is not the paper's. Without it what one layer gives is linear in its candidates, and heads that are linear
    too learn to tell a decision from those around it much later. At first units forget as those of a `GRU`.
    """

    kernel = "scan"
    num_gates = 2
    looks_back = False

    def _start(self, bias: Tensor, horizon: int) -> None:
        bias[: self.num_features] = -spread_memories(self.num_features, horizon)

    def _cell(self, x: Tensor, states: tuple[Tensor, ...], weights: LayerWeights) -> tuple[Tensor, ...]:
        weight, _, bias = weights
        gate, candidate = functional.linear(x, weight, bias).chunk(2, 1)
        h = torch.lerp(states[0], candidate, gate.sigmoid())
        return h.tanh(), h

    def _write_cell(self, graph: Operators, cell: Cell, x: str, states: list[str]) -> list[str]:
        (h,) = states
        gate, candidate = graph.split(graph.linear(x, cell.input.weight, cell.input.bias), [self.num_features] * 2)
        h = graph.add(h, graph.mul(graph.op("Sigmoid", gate), graph.sub(candidate, h)))
        return [graph.op("Tanh", h), h]

    def forward(self, x: Tensor, memory: Tensor, sequences: Sequences) -> tuple[Tensor, Tensor]:
        """All decisions of B sequences, one time step of all of them after the other; see `Memory.forward`."""
        pieces = Pieces.of(sequences)
        after: list[Tensor] = []
        x = pieces.pack(x)
        states = pieces.before(memory).split(self.num_features, 1)
        for before, (weight, _, bias) in zip(states, self._weights, strict=True):
            gate, candidate = functional.linear(x, weight, bias).chunk(2, 1)
            h = blend(candidate, gate.sigmoid(), before, pieces.counts)
            after.append(h.index_select(0, pieces.last_packed))
            x = h.tanh()
        return pieces.unpack(x), torch.cat(after, 1)


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
