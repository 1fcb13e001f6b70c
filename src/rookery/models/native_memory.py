"""Policies that remember, on kernels: how trunk, recurrent cells and what stands on them are described to these."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from rookery.core.batch import Sequences, TensorTree
from rookery.core.native import FLOATS, Build, Leaf, Linear, Network
from rookery.core.native_memory import Cell, Recurrence
from rookery.models.encoders import Encoder
from rookery.models.memory import Memory, Recurrent
from rookery.models.native import RECURRENT, NativeTrunk, Normalized
from rookery.models.recurrence import InputLayer, RecurrentLayer


class NativeRecurrence:
    """A trunk, the cells of a memory, and linear layers on top of them, on kernels.

    Args:
        build: What runs it.
        trunk: An encoder that qualifies.
        memory: One of `RECURRENT`.
        heads: Linear layers, each on what the memory gives.
        normalized: What is shifted and scaled before the trunk; empty if observations come as the trunk takes them.
    """

    def __init__(
        self, build: Build, trunk: Encoder, memory: Memory, heads: Sequence[nn.Linear], normalized: Normalized
    ) -> None:
        assert isinstance(memory, Recurrent)
        width, layers = memory.num_features, list(memory.layers)
        inputs = [layer.input for layer in layers if isinstance(layer, InputLayer)]
        self.trunk = NativeTrunk(build, trunk, inputs[:1], normalized)
        above = [[layer] for layer in inputs[1:]] + [list(heads)]
        self._networks = [self.trunk.network]
        self._networks += [
            Network(build, [Leaf(FLOATS, width)], [[Linear(layer.weight, layer.bias) for layer in part]], "none")
            for part in above
        ]
        weights = [layer.recurrent if isinstance(layer, RecurrentLayer) else None for layer in layers]
        self._cells = [Cell(build, RECURRENT[type(memory)], width, weight) for weight in weights]
        self._build = build
        self._columns = [slice(i * cell.state, (i + 1) * cell.state) for i, cell in enumerate(self._cells)]
        self._sequences: Sequences | None = None

    def playing(self, offset: int) -> Recurrence:
        """All of it for one decision at a time, where a slot's memory has the cells' states from column `offset` on."""
        return Recurrence(self._build, self._networks, self._cells, [offset + part.start for part in self._columns])

    def forward(
        self,
        obs: TensorTree,
        memory: Tensor,
        sequences: Sequences,
        keep: bool = False,
        after: Tensor | None = None,
    ) -> list[Tensor]:
        """What each layer on top puts out, ``[N, outputs]``.

        Args:
            obs: ``[N, ...]`` by leaf path, normalized unless the trunk does that.
            memory: ``[B, memory.size]`` before each sequence.
            sequences: How the rows lie in time.
            keep: A backward pass will follow.
            after: ``[B, memory.size]``, is written if given: what is remembered after each sequence.
        """
        outputs = self.trunk.forward(obs, keep)
        after = torch.empty_like(memory) if after is None else after
        first, length = sequences.first.contiguous(), sequences.length.contiguous()
        for cell, columns, network in zip(self._cells, self._columns, self._networks[1:], strict=True):
            gates = sequences.grid(outputs[0]).contiguous()
            hidden = cell.forward(gates, first, length, memory[:, columns], after[:, columns], keep)
            outputs = network.forward([sequences.rows(hidden).contiguous()], keep)
        if keep:
            self._sequences = sequences
        return outputs

    def write_gradients(self, gradients: Sequence[Tensor]) -> None:
        """Writes the gradients of all weights, given those of what the last pass that kept put out."""
        sequences = self._sequences
        assert sequences is not None
        for cell, network in zip(reversed(self._cells), reversed(self._networks[1:]), strict=True):
            hidden = network.write_gradients([gradient.contiguous() for gradient in gradients], inputs=True)
            assert hidden is not None
            gates = cell.write_gradients(sequences.grid(hidden).contiguous())
            gradients = [sequences.rows(gates)]
        self.trunk.write_gradients(gradients)
