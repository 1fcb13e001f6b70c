"""Recurrent cells on kernels, for acting one decision at a time and for learning through time.

A cell reads the output of a `Network`, whose last layer computes its gates; the cell's output is the only leaf of the
next network. `models/cells/` has the torch reference.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from rookery.core.native import ADDRESS, Build, CellKind, DrawingHead, Network, places


def cell_kind(build: Build, name: str) -> CellKind:
    """Returns the row of `core/kernels/cells.h` with this name.

    Raises:
        ValueError: If there is none.
    """
    found = build.call["cell_kind"](name.encode())
    if not found:
        raise ValueError(f"no kernel computes cells of kind {name!r}")
    kind: CellKind = found.contents
    return kind


class NativeCell:
    """Recurrent cell on kernels, on its weight at a fixed address.

    Like a `Network`, it takes one call at a time; different cells may run in different threads.

    Args:
        build: The compiled kernels.
        kind: Its name in `core/kernels/cells.h`.
        size: H, its units.
        recurrent: ``[gates * H, H]``; None for a kind without a recurrent weight (scan).

    Attributes:
        size: H.
        gates: G, inputs of each unit from the previous layer.
        state: Size of the state: hidden state and cell state ``[h | c]`` of an LSTM, else ``[h]``.

    Raises:
        ValueError: If there is no such kind.
        MemoryError: If there is not enough memory.
    """

    def __init__(self, build: Build, kind: str, size: int, recurrent: Tensor | None) -> None:
        row = cell_kind(build, kind)
        self.size, self.gates, self.state = size, row.gates, size * row.states
        assert (None if recurrent is None else recurrent.shape) == (
            (row.gates * size, size) if row.looks_back else None
        )
        self._call = call = build.call
        self._kept_alive = recurrent
        weight, gradient = (None, None) if recurrent is None else places(recurrent)
        self.handle = call["cell_new"](row, size, weight, gradient)
        if not self.handle:
            raise MemoryError("no memory for a recurrent cell")
        self._finalizer = weakref.finalize(self, call["cell_free"], self.handle)
        self._kept = 0, 0

    def pack(self) -> None:
        """Updates the copy of a changed weight used by single steps; a pass over sequences updates its own."""
        self._call["cell_pack"](self.handle)

    def advance(self, pre: Tensor, memory: Tensor) -> Tensor:
        """Computes one decision of N slots, with the weight of the last `pack`.

        Args:
            pre: ``[N, G * H]`` contiguous, output of the previous layer.
            memory: ``[N, state]``, changed in place; its rows may be parts of longer rows.

        Returns:
            The cell's output, ``[N, H]``: h, for a scan tanh(h).
        """
        rows = len(pre)
        assert pre.shape == (rows, self.gates * self.size)
        assert pre.is_contiguous()
        output = torch.empty(rows, self.size, dtype=torch.float32, device="cpu")
        self._call["cell_step"](self.handle, pre.data_ptr(), rows, *self._states(memory, rows), output.data_ptr())
        return output

    def forward(self, pre: Tensor, first: Tensor, length: Tensor, memory: Tensor, after: Tensor, keep: bool) -> Tensor:
        """Computes all decisions of B sequences of at most S decisions; see `core/batch.py:Sequences`.

        Args:
            pre: ``[S, B, G * H]`` contiguous, output of the previous layer; empty cells are not read.
            first: ``[S, B]`` bool contiguous, where an episode starts with a zero state.
            length: ``[B]`` int64 contiguous, decisions of each sequence, from 1 to S.
            memory: ``[B, state]`` before each sequence; not read where an episode starts there. Its rows, and those of
                `after`, may be parts of longer rows.
            after: ``[B, state]``, receives the state after the last decision of each sequence. May be `memory`.
            keep: Whether to keep the data that `write_gradients` needs.

        Returns:
            The cell's output, ``[S, B, H]``: h, for a scan tanh(h); zeros in empty cells.

        Raises:
            MemoryError: If there is not enough memory.
        """
        steps, rows = first.shape
        assert pre.shape == (steps, rows, self.gates * self.size)
        assert length.shape == (rows,)
        assert (first.dtype, length.dtype) == (torch.bool, torch.int64)
        assert all(each.is_contiguous() for each in (pre, first, length))
        self._kept = (0, 0) if keep else self._kept
        output = torch.empty(steps, rows, self.size, dtype=torch.float32, device="cpu")
        inputs = pre.data_ptr(), first.data_ptr(), length.data_ptr(), steps, rows
        states = *self._states(memory, rows), *self._states(after, rows)
        if not self._call["cell_forward"](self.handle, *inputs, *states, output.data_ptr(), keep):
            raise MemoryError(f"no memory for {steps:,} steps of {rows:,} sequences of a recurrent cell")
        if keep:
            self._kept = steps, rows
        return output

    def write_gradients(self, gradient: Tensor) -> Tensor:
        """Writes the gradient of the weight, through time within each episode of a sequence.

        Args:
            gradient: ``[S, B, H]`` contiguous, of the output of the last kept forward pass; empty cells are not read.

        Returns:
            The gradient of `pre`, ``[S, B, G * H]``, zeros in empty cells. The memory before the sequences gets none.

        Raises:
            RuntimeError: If no forward pass was kept.
        """
        if self._kept == (0, 0):
            raise RuntimeError("a backward pass without a kept forward pass")
        assert gradient.shape == (*self._kept, self.size)
        assert gradient.is_contiguous()
        pre_gradient = torch.empty(*self._kept, self.gates * self.size, dtype=torch.float32, device="cpu")
        self._call["cell_backward"](self.handle, gradient.data_ptr(), pre_gradient.data_ptr())
        return pre_gradient

    def _states(self, memory: Tensor, rows: int) -> tuple[int, int]:
        """Returns the address of states, and their stride."""
        assert memory.shape == (rows, self.state)
        assert memory.dtype == torch.float32
        assert memory.stride(1) == 1 or self.state == 1
        return memory.data_ptr(), memory.stride(0)


class Recurrence:
    """Acting network of a policy with memory: networks with cells between them.

    Args:
        build: The compiled kernels.
        networks: One more than cells. All but the first read only the previous cell's output.
        cells: From the first to the last; each reads the previous network's output.
        offsets: First column of each cell's state in a slot's memory.
    """

    def __init__(
        self, build: Build, networks: Sequence[Network], cells: Sequence[NativeCell], offsets: Sequence[int]
    ) -> None:
        assert len(networks) == len(cells) + 1
        assert len(offsets) == len(cells)
        for below, cell, above in zip(networks, cells, networks[1:], strict=False):
            assert sum(below.widths) == cell.gates * cell.size
            assert above.numbers == cell.size
        self._parts: tuple[Network | NativeCell, ...] = (*networks, *cells)
        self._step = build.call["memory_policy_step"]
        self._networks = (ADDRESS * len(networks))(*[network.handle for network in networks])
        self._cells = (ADDRESS * len(cells))(*[cell.handle for cell in cells])
        self._offsets = (ctypes.c_int32 * len(cells))(*offsets)

    def pack(self) -> None:
        """Updates changed weights for `policy_step`."""
        for part in self._parts:
            part.pack()

    def policy_step(
        self,
        head: DrawingHead,
        leaves: Any,
        rows: int,
        memory: int,
        memory_width: int,
        log_std: int | None,
        mask: int | None,
        noise: int | None,
        actions: int,
        logp: int,
    ) -> None:
        """Computes networks, actions and log-probabilities of N rows in one call, with the weights of the last `pack`.

        All arrays are addresses, so that a call for every environment step need not look them up; they are contiguous,
        float32 unless noted.

        Args:
            head: Draws actions from the first outputs of the last network.
            leaves: An array of addresses of the first network's inputs.
            rows: N, at least one.
            memory: ``[N, memory_width]``, changed in place; zeros where an episode starts.
            memory_width: Numbers in the memory of a slot.
            log_std: ``[numbers]`` or None.
            mask: ``[N, choices]`` bytes; None = all allowed.
            noise: ``[N, noise]``; None = the most probable actions.
            actions: ``[N, elements]`` of the head's type, written here.
            logp: ``[N]``, written here.
        """
        parts = self._networks, self._cells, self._offsets, len(self._cells)
        self._step(*parts, head.handle, leaves, rows, memory, memory_width, log_std, mask, noise, actions, logp)
