"""Gated recurrent units."""

from __future__ import annotations

import torch
from torch import Tensor

from rookery.models.cells.operators import Operators
from rookery.models.cells.recurrent import Cell, LayerWeights, Recurrent, biases, keep_biases


class GRU(Recurrent):
    """Gated recurrent units (Cho et al. 2014), in the form of ``torch.nn.GRU``.

    With r, z, n = ``W x + b`` and, of the last output, ``U h``: ``r = sigmoid(r + U_r h)``,
    ``z = sigmoid(z + U_z h)``, ``n = tanh(n + r * U_n h)``, ``h = (1 - z) n + z h``. The state of a layer and its
    output are h. Initially the units of a layer forget within 2 to about `sequence_length` decisions.
    """

    kernel = "gru"
    num_gates = 3
    fused = staticmethod(torch.gru)

    def _start(self, bias: Tensor, horizon: int) -> None:
        bias[self.num_features : 2 * self.num_features] = keep_biases(self.num_features, horizon)

    def _cell(self, x: Tensor, states: tuple[Tensor, ...], weights: LayerWeights) -> tuple[Tensor, ...]:
        weight, recurrent, bias = weights
        h = torch.gru_cell(x, states[0], weight, recurrent, *biases(bias))
        return h, h

    def _write_cell(self, graph: Operators, cell: Cell, x: str, states: list[str]) -> list[str]:
        assert cell.recurrent is not None
        (h,) = states
        news = graph.split(graph.linear(x, cell.input.weight, cell.input.bias), [self.num_features] * 3)
        past = graph.split(graph.linear(h, cell.recurrent), [self.num_features] * 3)
        r, z = (graph.op("Sigmoid", graph.add(a, b)) for a, b in zip(news[:2], past[:2], strict=True))
        n = graph.op("Tanh", graph.add(news[2], graph.mul(r, past[2])))
        h = graph.add(n, graph.mul(z, graph.sub(h, n)))
        return [h, h]
