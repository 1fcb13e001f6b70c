"""Descriptions of supported networks for kernels: trunks with heads, with or without recurrent cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ctypes import Array, c_void_p

import numpy as np
import torch
from torch import Tensor, nn

from rookery.core.batch import Sequences, TensorTree
from rookery.core.native import (
    ADDRESS,
    BYTES,
    CATEGORIES,
    FLOATS,
    MAX_PARTS,
    Build,
    HeadLayout,
    InputLeaf,
    LinearLayer,
    Network,
    Norm,
    Table,
    is_plain,
)
from rookery.core.native_memory import NativeCell, Recurrence, cell_kind
from rookery.models.build import Encoder
from rookery.models.cells.base import Memory
from rookery.models.cells.recurrent import Cell, Recurrent
from rookery.models.heads import Head
from rookery.models.q_head import QHead
from rookery.models.squashed import CLAMPED, SCALED, DeterministicHead, SquashedHead

DTYPES = {FLOATS: torch.float32, BYTES: torch.uint8, CATEGORIES: torch.int64}

Normalized = Mapping[str, InputLeaf]
"""Inputs that kernels normalize, by leaf path."""


def last_layers(head: nn.Module) -> list[nn.Linear]:
    """Returns the linear layers of a supported head, all of them on the features."""
    if isinstance(head, nn.Linear):
        return [head]
    layers = [*head.value, *head.advantage] if isinstance(head, QHead) and head.spec.dueling else [head.linear]
    linear = [layer for layer in layers if isinstance(layer, nn.Linear)]
    assert len(linear) == len(layers)
    return linear


def layout_of(head: Head) -> HeadLayout:
    """Describes the concatenated outputs of `last_layers`."""
    spec = head.action_spec
    layout = HeadLayout(spec.sizes, spec.num_flags, spec.num_numbers, spec.dtype == np.int64)
    if isinstance(head, QHead):
        softmax = head.spec.explore == "boltzmann"
        rate = head.temperature if softmax else head.epsilon
        return layout._replace(kind="softmax" if softmax else "values", dueling=head.spec.dueling, rate=rate)
    if isinstance(head, SquashedHead):
        smooth = head.spec.log_std == "tanh"
        bounds = SCALED if smooth else CLAMPED
        return layout._replace(kind="squashed", log_std=bounds, smooth=smooth, rate=head.random)
    if isinstance(head, DeterministicHead):
        return layout._replace(kind="deterministic", rate=head.random, spread=head.std)
    return layout


class NativeTrunk:
    """A trunk with linear layers on top, on kernels.

    Args:
        build: The compiled kernels.
        trunk: A supported encoder.
        heads: Linear layers, each on the trunk's features.
        normalized: Inputs that are normalized before the trunk; empty for observations in the trunk's form.
        parts: Number of bfloat16 numbers that may represent a number as their sum; see `Network`.
    """

    def __init__(
        self,
        build: Build,
        trunk: Encoder,
        heads: Sequence[nn.Linear],
        normalized: Normalized,
        *,
        parts: int = 0,
    ) -> None:
        assert len(heads) <= MAX_PARTS
        leaves = []
        for leaf in trunk.vectors:
            width = int(np.prod(leaf.shape))
            kind = FLOATS if leaf.dtype == np.float32 else BYTES
            leaves.append(normalized.get(leaf.path, InputLeaf(kind, width, leaf.scale)))
        leaves += [InputLeaf(CATEGORIES, len(leaf.sizes)) for leaf in trunk.categories]
        layers, table, first = [], None, trunk.first
        if first is not None:
            weight = first.bias.new_empty(len(first.bias), 0) if first.weight is None else first.weight
            table = None if first.table is None else Table(first.table, first.offsets)
            layers.append([LinearLayer(weight, first.bias)])
        layers += [[_linear(layer)] for layer in trunk.layers]
        layers.append([_linear(head) for head in heads])
        norms = [Norm(norm.weight, norm.bias, norm.eps) for norm in trunk.norms if isinstance(norm, nn.LayerNorm)]
        self.network = Network(build, leaves, layers, trunk.activation, table, norms, parts)
        self.paths = tuple(leaf.path for leaf in (*trunk.vectors, *trunk.categories))
        """Paths of observation leaves in the order in which the network reads them."""
        self._types = tuple(DTYPES[leaf.kind] for leaf in leaves)
        self._widths = tuple(leaf.width for leaf in leaves)

    def forward(self, obs: TensorTree, keep: bool = False) -> list[Tensor]:
        """Computes each head's output, ``[N, outputs]``, for observations ``[N, ...]`` by leaf path.

        Args:
            obs: Types as stored, normalized unless this trunk normalizes.
            keep: Whether a backward pass follows.
        """
        return self.network.forward(self.read(obs), keep)

    def read(self, obs: TensorTree) -> list[Tensor]:
        """Returns the leaves of observations in the memory layout of the network, copied if needed."""
        leaves = zip(map(obs.__getitem__, self.paths), self._types, strict=True)
        return [
            leaf if leaf.dtype == dtype and leaf.is_contiguous() else leaf.to(dtype).contiguous()
            for leaf, dtype in leaves
        ]

    def can_read(self, obs: TensorTree) -> bool:
        """Returns whether observations have the memory layout of the network."""
        leaves = [obs[path] for path in self.paths]
        wide = all(leaf.numel() == len(leaf) * width for leaf, width in zip(leaves, self._widths, strict=True))
        return wide and all(is_plain(leaf, dtype) for leaf, dtype in zip(leaves, self._types, strict=True))

    def addresses(self, obs: TensorTree) -> Array[c_void_p]:
        """Returns the addresses of observations in the network's layout, valid as long as the tensors exist."""
        return (ADDRESS * len(self.paths))(*[obs[path].data_ptr() for path in self.paths])

    def write_gradients(self, gradients: Sequence[Tensor]) -> None:
        """Writes the gradients of all weights, given those of the heads' outputs of the last kept pass."""
        self.network.write_gradients([gradient.contiguous() for gradient in gradients])


class NativeMemory:
    """A trunk, the cells of a memory, and linear layers on top, on kernels.

    Args:
        build: The compiled kernels.
        trunk: A supported encoder.
        memory: A memory whose cells are on kernels.
        heads: Linear layers, each on the memory's output.
        normalized: Inputs that are normalized before the trunk; empty for observations in the trunk's form.
    """

    def __init__(
        self, build: Build, trunk: Encoder, memory: Memory, heads: Sequence[nn.Linear], normalized: Normalized
    ) -> None:
        assert isinstance(memory, Recurrent)
        row = cell_kind(build, memory.kernel)
        assert (row.gates, row.states) == (memory.num_gates, memory.num_states)
        width, cells = memory.num_features, [cell for cell in memory.layers if isinstance(cell, Cell)]
        inputs = [cell.input for cell in cells]
        self.trunk = NativeTrunk(build, trunk, inputs[:1], normalized)
        above = [[layer] for layer in inputs[1:]] + [list(heads)]
        numbers = [InputLeaf(FLOATS, width)]
        self._networks = [self.trunk.network]
        self._networks += [
            Network(build, numbers, [[LinearLayer(layer.weight, layer.bias) for layer in part]], "linear")
            for part in above
        ]
        self._cells = [NativeCell(build, memory.kernel, width, cell.recurrent) for cell in cells]
        self._build = build
        self._columns = [slice(i * cell.state, (i + 1) * cell.state) for i, cell in enumerate(self._cells)]
        self._sequences: Sequences | None = None

    def playing(self, offset: int) -> Recurrence:
        """Returns the network for single decisions; a slot's memory has the cells' states from column `offset` on."""
        return Recurrence(self._build, self._networks, self._cells, [offset + part.start for part in self._columns])

    def forward(
        self,
        obs: TensorTree,
        memory: Tensor,
        sequences: Sequences,
        keep: bool = False,
        after: Tensor | None = None,
    ) -> list[Tensor]:
        """Computes the output of each layer on top, ``[N, outputs]``.

        Args:
            obs: ``[N, ...]`` by leaf path, normalized unless the trunk normalizes.
            memory: ``[B, memory.size]`` memory before each sequence.
            sequences: Order of the rows in time.
            keep: Whether a backward pass follows.
            after: ``[B, memory.size]``, if given, receives the memory after each sequence.
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
        """Writes the gradients of all weights, given those of the outputs of the last kept pass."""
        sequences = self._sequences
        assert sequences is not None
        for cell, network in zip(reversed(self._cells), reversed(self._networks[1:]), strict=True):
            hidden = network.write_gradients([gradient.contiguous() for gradient in gradients], inputs=True)
            assert hidden is not None
            gates = cell.write_gradients(sequences.grid(hidden).contiguous())
            gradients = [sequences.rows(gates)]
        self.trunk.write_gradients(gradients)


def _linear(layer: nn.Module) -> LinearLayer:
    assert isinstance(layer, nn.Linear)
    return LinearLayer(layer.weight, layer.bias)
