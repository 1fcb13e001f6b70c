"""Sequences cut where episodes start, so that what passes through time passes within one episode."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rookery.core.batch import Sequences


@dataclass(frozen=True)
class Pieces:
    """Sequences cut where episodes start: P runs of decisions of one episode each, the longest first.

    What passes through time passes within a piece, so that neither a reset nor a missing row ever comes into it, and
    nothing of one episode is multiplied with what belongs to another, not even by zero.

    In *packed* order the first rows of all pieces come first, then their second rows, and so on, as in torch's
    `PackedSequence`.

    Attributes:
        counts: How many pieces have a first row, a second one, ...; never rising, and P at first.
        packed: ``[N]`` the place of each row in packed order; None if the rows come in that order.
        order: ``[N]`` the row at each place of packed order; None likewise.
        origin: ``[P]`` the sequence that each piece is of.
        starts: ``[P]`` bool, whether it starts an episode; else it goes on from the memory of its sequence.
        last: ``[B]`` the piece that holds the last row of each sequence.
        last_packed: ``[B]`` the place of that row in packed order.
    """

    counts: list[int]
    packed: Tensor | None
    order: Tensor | None
    origin: Tensor
    starts: Tensor
    last: Tensor
    last_packed: Tensor

    @staticmethod
    def of(sequences: Sequences) -> Pieces:
        """The pieces of these sequences."""
        first, place = sequences.first, sequences.place
        steps, count = first.shape
        time = torch.arange(steps, device=first.device, dtype=torch.int64).unsqueeze(1)
        column = torch.arange(count, device=first.device, dtype=torch.int64)
        if place is None and not first[1:].any():  # each sequence is a piece
            return Pieces([count] * steps, None, None, column, first[0], column, column + (steps - 1) * count)
        begin = torch.where(first, time, 0).cummax(0).values  # of the piece that each cell of the grid belongs to
        name = begin * count + column  # a piece is called by the cell where it begins
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
        return Pieces(sizes, packed, order, names % count, starts, last, last_packed)

    @property
    def in_order(self) -> bool:
        """Whether each sequence is a piece, all are of one length, and the rows come in packed order."""
        return self.packed is None

    def pack(self, rows: Tensor) -> Tensor:
        """Rows ``[N, ...]`` in packed order."""
        return rows if self.order is None else rows.index_select(0, self.order)

    def unpack(self, packed: Tensor) -> Tensor:
        """What lies in packed order ``[N, ...]`` as rows in theirs."""
        return packed if self.packed is None else packed.index_select(0, self.packed)

    def before(self, memory: Tensor) -> Tensor:
        """What is remembered before each piece, ``[P, M]``, of what is remembered before each sequence, ``[B, M]``."""
        if self.packed is not None:
            memory = memory.index_select(0, self.origin)
        return memory.masked_fill(self.starts.unsqueeze(1), 0.0)
