"""Splits sequences at episode starts, so that recurrent state stays within one episode."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rookery.core.batch import Sequences


@dataclass(frozen=True)
class SplitSequences:
    """Sequences split at episode starts: P pieces with decisions of one episode each, the longest first.

    Recurrent state passes only within a piece, so there are no resets or missing rows inside, and values of one episode
    are never multiplied with those of another, not even by zero.

    *Packed* order has the first rows of all pieces first, then their second rows, and so on, as torch's
    `PackedSequence`.

    Attributes:
        counts: Number of pieces with a first row, a second row, ...; starts at P and never increases.
        packed: ``[N]`` index of each row in packed order; None if the rows already have that order.
        order: ``[N]`` row at each index of packed order; None if rows are in packed order already.
        origin: ``[P]`` sequence of each piece.
        starts: ``[P]`` bool, whether the piece starts an episode; otherwise it continues from the memory of its
            sequence.
        last: ``[B]`` piece that holds the last row of each sequence.
        last_packed: ``[B]`` index of that row in packed order.
    """

    counts: list[int]
    packed: Tensor | None
    order: Tensor | None
    origin: Tensor
    starts: Tensor
    last: Tensor
    last_packed: Tensor

    @staticmethod
    def of(sequences: Sequences) -> SplitSequences:
        """Splits sequences into pieces."""
        first, place = sequences.first, sequences.place
        steps, count = first.shape
        time = torch.arange(steps, device=first.device, dtype=torch.int64).unsqueeze(1)
        column = torch.arange(count, device=first.device, dtype=torch.int64)
        if place is None and not first[1:].any():  # each sequence is a piece
            return SplitSequences([count] * steps, None, None, column, first[0], column, column + (steps - 1) * count)
        begin = torch.where(first, time, 0).cummax(0).values  # start of the piece of each grid cell
        name = begin * count + column  # a piece is identified by its first cell
        last_name = name.gather(0, (sequences.length - 1).unsqueeze(0)).squeeze(0)
        step = (time - begin).flatten()
        name = name.flatten()
        if place is not None:
            step, name = step.index_select(0, place), name.index_select(0, place)
        length = torch.bincount(name, minlength=steps * count)
        by_length = length.argsort(descending=True, stable=True)
        rank = torch.empty_like(by_length).scatter_(
            0, by_length, torch.arange(steps * count, device=first.device, dtype=torch.int64)
        )
        counts = torch.bincount(step)
        offset = counts.cumsum(0) - counts
        packed = offset.index_select(0, step) + rank.index_select(0, name)
        order = torch.empty_like(packed).scatter_(
            0, packed, torch.arange(len(packed), device=first.device, dtype=torch.int64)
        )
        sizes = counts.tolist()
        names = by_length[: sizes[0]]
        starts = first.flatten().index_select(0, names)
        last = rank.index_select(0, last_name)
        last_packed = offset.index_select(0, length.index_select(0, last_name) - 1) + last
        return SplitSequences(sizes, packed, order, names % count, starts, last, last_packed)

    @property
    def in_order(self) -> bool:
        """Whether each sequence is one piece, all have equal length, and the rows are in packed order."""
        return self.packed is None

    def pack(self, rows: Tensor) -> Tensor:
        """Returns rows ``[N, ...]`` in packed order."""
        return rows if self.order is None else rows.index_select(0, self.order)

    def unpack(self, packed: Tensor) -> Tensor:
        """Returns packed rows ``[N, ...]`` in their original order."""
        return packed if self.packed is None else packed.index_select(0, self.packed)

    def before(self, memory: Tensor) -> Tensor:
        """Returns the memory before each piece, ``[P, M]``, given that before each sequence, ``[B, M]``."""
        if self.packed is not None:
            memory = memory.index_select(0, self.origin)
        return memory.masked_fill(self.starts.unsqueeze(1), 0.0)
