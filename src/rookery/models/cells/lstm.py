"""Long short-term memory."""

from __future__ import annotations

import torch
from torch import Tensor

from rookery.models.cells.operators import Operators
from rookery.models.cells.recurrent import Cell, LayerWeights, Recurrent, biases


class LSTM(Recurrent):
    """Long short-term memory (Hochreiter & Schmidhuber 1997; forget gates by Gers et al. 2000).

    With gates i, f, g, o = ``W x + b + U h``, in the order of ``torch.nn.LSTM``:
    ``c = sigmoid(f) c + sigmoid(i) tanh(g)``, ``h = sigmoid(o) tanh(c)``. The state of a layer is h, then c, its output
    h. The bias of f starts at 1, so that the cell keeps information before it has learned to forget.
    """

    kernel = "lstm"
    num_gates = 4
    num_states = 2
    fused = staticmethod(torch.lstm)

    def _start(self, bias: Tensor, horizon: int) -> None:
        bias[self.num_features : 2 * self.num_features] = 1.0

    def _cell(self, x: Tensor, states: tuple[Tensor, ...], weights: LayerWeights) -> tuple[Tensor, ...]:
        weight, recurrent, bias = weights
        h, c = torch.lstm_cell(x, states, weight, recurrent, *biases(bias))
        return h, h, c

    def _write_cell(self, graph: Operators, cell: Cell, x: str, states: list[str]) -> list[str]:
        assert cell.recurrent is not None
        h, c = states
        gates = graph.add(graph.linear(x, cell.input.weight, cell.input.bias), graph.linear(h, cell.recurrent))
        i, f, g, o = graph.split(gates, [self.num_features] * 4)
        kept = graph.mul(graph.op("Sigmoid", f), c)
        c = graph.add(kept, graph.mul(graph.op("Sigmoid", i), graph.op("Tanh", g)))
        h = graph.mul(graph.op("Sigmoid", o), graph.op("Tanh", c))
        return [h, h, c]
