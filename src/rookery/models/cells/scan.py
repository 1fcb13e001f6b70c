"""Linear recurrence whose gates depend only on the input (minGRU)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from rookery.core.batch import Sequences
from rookery.models.cells.operators import Operators
from rookery.models.cells.recurrent import Cell, LayerWeights, Recurrent, keep_biases
from rookery.models.sequence_split import SplitSequences


class Scan(Recurrent):
    """Minimal gated recurrent units (minGRU, Feng et al. 2024, arXiv:2410.01201), which learn fast.

    With z, n = ``W x + b``: ``h = (1 - sigmoid(z)) h + sigmoid(z) n``. The state of a layer is h, its output
    ``tanh(h)``. Gates and candidates do not depend on the state, so that one product computes those of all decisions.
    Only a blend of two vectors is sequential, which on a CPU is faster than a scan of log2(S) rounds over all rows.
    There is no division and no weight above 1, so it needs no logarithms, unlike the paper's form, and candidates may
    have either sign.

    The tanh is not in the paper. Without it the output of a layer is linear in its candidates, and linear heads learn
    much later to distinguish a decision from its neighbours. Initially units forget as those of a `GRU`.
    """

    kernel = "scan"
    num_gates = 2
    looks_back = False

    def _start(self, bias: Tensor, horizon: int) -> None:
        bias[: self.num_features] = -keep_biases(self.num_features, horizon)

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
        """Processes all decisions of B sequences, one time step after another; see `Memory.forward`."""
        pieces = SplitSequences.of(sequences)
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
    """Returns the blends ``h[t] = (1 - gate[t]) h[t - 1] + gate[t] candidate[t]`` of each piece, in packed order, ``[N,
    H]``.

    Args:
        candidate: ``[N, H]``.
        gate: ``[N, H]`` from 0 to 1.
        before: ``[P, H]`` state before the first step of each piece.
        counts: Number of pieces with a first row, a second row, ...
    """
    blended: Tensor = _Blend.apply(candidate, gate, before, counts)  # type: ignore[no-untyped-call]
    return blended


class _Blend(torch.autograd.Function):
    """Blend with one operation per time step in each direction, where autograd's tape would hold four."""

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
