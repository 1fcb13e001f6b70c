"""Memories of stacked recurrent cells of any kind."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from rookery.core.batch import Sequences
from rookery.models.cells.base import CellConfig, Memory
from rookery.models.cells.operators import Operators
from rookery.models.layers import linear, orthogonal
from rookery.models.sequence_split import SplitSequences


class Cell(nn.Module):
    """Weights of one cell: a layer of a recurrent memory.

    Args:
        num_inputs: Width of its input.
        size: Width of the layer.
        num_gates: Number of vectors of that width that it computes, gates and candidates.
        looks_back: Whether the gates also depend on the layer's last output.
        generator: Draws the weights; the input and the recurrent weights are each orthogonal as a whole.
    """

    def __init__(
        self, num_inputs: int, size: int, *, num_gates: int, looks_back: bool, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.input = linear(num_inputs, num_gates * size, gain=1.0, generator=generator)
        self.recurrent: nn.Parameter | None = None
        if looks_back:
            self.recurrent = nn.Parameter(orthogonal(num_gates * size, size, gain=1.0, generator=generator))


LayerWeights = tuple[Tensor, Any, Tensor]
"""Weights of a layer on its input and on its own last output (None without recurrent gates), and biases."""


class Recurrent(Memory):
    """Base of memories of stacked recurrent cells.

    Args:
        num_inputs: Width of the trunk's features.
        cfg: Width and number of the layers, and the horizon of initial biases.
        generator: Draws the weights.

    Attributes:
        num_gates: Vectors that a layer computes, gates and candidates.
        num_states: Vectors in the state of a layer.
        looks_back: Whether the gates also depend on the last output.
        fused: Torch's own pass of all layers over all decisions, if it has one: ``torch.lstm``, ``torch.gru``.
    """

    num_gates: ClassVar[int]
    num_states: ClassVar[int] = 1
    looks_back: ClassVar[bool] = True
    fused: ClassVar[Callable[..., tuple[Tensor, ...]]]

    def __init__(self, num_inputs: int, cfg: CellConfig, *, generator: torch.Generator) -> None:
        super().__init__()
        self.num_features = cfg.size
        self.size = cfg.layers * self.num_states * cfg.size
        widths = [num_inputs] + [cfg.size] * (cfg.layers - 1)
        gates, looks_back = self.num_gates, self.looks_back
        made = [Cell(width, cfg.size, num_gates=gates, looks_back=looks_back, generator=generator) for width in widths]
        self.layers = nn.ModuleList(made)
        # cached: looking weights up in modules takes as long as a small product
        self._weights: tuple[LayerWeights, ...] = tuple(
            (layer.input.weight, layer.recurrent, layer.input.bias) for layer in made
        )
        with torch.no_grad():
            for layer in made:
                self._start(layer.input.bias, cfg.sequence_length)

    @abstractmethod
    def _start(self, bias: Tensor, horizon: int) -> None:
        """Sets the initial biases ``[num_gates * num_features]`` of a layer, so far zeros, for a horizon."""

    @abstractmethod
    def _cell(self, x: Tensor, states: tuple[Tensor, ...], weights: LayerWeights) -> tuple[Tensor, ...]:
        """Returns a layer's output for N slots and its new states, given its input and its states. All are ``[N,
        num_features]`` except the input of the first layer; there are `num_states` states.
        """

    @abstractmethod
    def _write_cell(self, graph: Operators, cell: Cell, x: str, states: list[str]) -> list[str]:
        """Writes `_cell` into an ONNX graph; takes and returns names of values."""

    def advance(self, x: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Processes one decision of N slots; see `Memory.advance`."""
        after: list[Tensor] = []
        states, num = memory.split(self.num_features, 1), self.num_states
        for layer, weights in enumerate(self._weights):
            x, *remembered = self._cell(x, states[num * layer : num * (layer + 1)], weights)
            after += remembered
        return x, torch.cat(after, 1)

    def write_decision(self, graph: Operators, x: str, memory: str) -> tuple[str, str]:
        """Writes one decision into an ONNX graph; see `Memory.write_decision`."""
        num, after = self.num_states, []
        states = graph.split(memory, [self.num_features] * (len(self.layers) * num))
        for number, cell in enumerate(self.layers):
            assert isinstance(cell, Cell)
            x, *remembered = self._write_cell(graph, cell, x, states[num * number : num * (number + 1)])
            after += remembered
        return x, graph.concat(after)

    def forward(self, x: Tensor, memory: Tensor, sequences: Sequences) -> tuple[Tensor, Tensor]:
        """Processes all decisions of B sequences, in one call of `fused`; see `Memory.forward`."""
        pieces, layers = SplitSequences.of(sequences), len(self._weights)
        shape = (layers, self.num_states, -1)
        states = pieces.before(memory).unflatten(1, shape).permute(2, 1, 0, 3).contiguous()
        before = states[0] if self.num_states == 1 else states.unbind(0)
        flat: list[Tensor] = []
        for weight, recurrent, bias in self._weights:
            flat += [weight, recurrent, bias, torch.zeros_like(bias)]
        has_biases, dropout, bidirectional, batch_first = True, 0.0, False, False
        options: tuple[Any, ...] = (flat, has_biases, layers, dropout, torch.is_grad_enabled(), bidirectional)
        if pieces.in_order:
            out, *after = self.fused(sequences.grid(x), before, *options, batch_first)
            out = out.flatten(0, 1)
        else:
            out, *after = self.fused(
                pieces.pack(x), torch.tensor(pieces.counts, dtype=torch.int64, device="cpu"), before, *options
            )
        remembered = torch.stack(after, 2).index_select(1, pieces.last)  # [layers, B, num_states, size]
        return pieces.unpack(out), remembered.transpose(0, 1).flatten(1)


def keep_biases(size: int, horizon: int) -> Tensor:
    """Returns initial biases ``[size]`` of gates that keep: units forget within 2 to ``1 + horizon`` decisions, each
    later than the one before. Such a gate keeps ``sigmoid(log(t)) = 1 - 1 / (1 + t)``, with t from 1 to `horizon` in
    geometric steps (Tallec & Ollivier 2018, arXiv:1804.11188, draw it at random). With equal biases no unit would
    retain an early decision for long, and there would be no gradient to learn from it.
    """
    return math.log(horizon) * torch.linspace(0.0, 1.0, size, dtype=torch.float32, device="cpu")


def biases(bias: Tensor) -> tuple[Tensor, ...]:
    """Returns the bias of a layer as torch's cells take it: alone on the CPU, on other devices with a second one of
    zeros.
    """
    return (bias,) if bias.is_cpu else (bias, torch.zeros_like(bias))
