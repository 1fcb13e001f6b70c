"""Observations of a replay buffer: each stored once, as the one of its row and the next one of the row before.

A *place* says where an observation lies. Places below `capacity` are rows of the ring. The others are *aside*: what was
seen after a row that no row of the ring follows, because its episode was cut off, or because it is the newest.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rookery.core.spaces.arrays import ObsSpec, Tree
from rookery.core.state import Stateful
from rookery.replay.budget import check_growth, check_room, leaf_bytes
from rookery.replay.disk import Shelf
from rookery.replay.frames import PlainLeaf, StackedLeaf, may_be_stack, observations_of
from rookery.replay.pieces import Piece, check_array


class Pool:
    """Numbers below a size that grows, handed out and taken back."""

    def __init__(self) -> None:
        self.size = 0
        self._free = np.zeros(0, dtype=np.int64)
        self._num_free = 0

    @property
    def used(self) -> int:
        """Numbers that are out."""
        return self.size - self._num_free

    def take(self, count: int) -> np.ndarray:
        """So many numbers ``[count]``; `size` may have grown."""
        if count > self._num_free:
            size = max(16, 2 * self.size, self.used + count)
            free = np.empty(size, dtype=np.int64)
            free[: self._num_free] = self._free[: self._num_free]
            more = size - self.size
            free[self._num_free : self._num_free + more] = np.arange(self.size, size)
            self._free, self._num_free, self.size = free, self._num_free + more, size
        self._num_free -= count
        return self._free[self._num_free : self._num_free + count].copy()

    def give(self, numbers: np.ndarray) -> None:
        """Takes numbers back."""
        self._free[self._num_free : self._num_free + len(numbers)] = numbers
        self._num_free += len(numbers)


class Observations(Stateful):
    """The observations of all rows of a ring, and those aside; with `frame_stacks`, stacks of frames frame by frame."""

    fixed = ("capacity", "spec", "leaves", "pool", "shelf")

    def __init__(self, spec: ObsSpec, capacity: int, *, frame_stacks: bool, shelf: Shelf) -> None:
        self.spec = spec
        self.capacity = capacity
        self.shelf = shelf
        self.leaves: dict[str, PlainLeaf] = {
            leaf.path: (StackedLeaf if frame_stacks and may_be_stack(leaf) else PlainLeaf)(capacity, leaf, shelf)
            for leaf in spec.leaves
        }
        self.pool = Pool()

    @property
    def are_stacked(self) -> bool:
        """Whether any leaf is stored frame by frame."""
        return any(isinstance(leaf, StackedLeaf) for leaf in self.leaves.values())

    def state_dict(self) -> dict[str, Any]:
        """Which leaves are stored frame by frame, and how many frames there are; no observations."""
        leaves = self.leaves.items()
        return {"stacks": {path: leaf.state_dict() for path, leaf in leaves if isinstance(leaf, StackedLeaf)}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes over what `state_dict` gave, empty, with the leaves stored as they were: pieces are read like that."""
        states = state["stacks"]
        self.pool = Pool()
        for leaf in self.spec.leaves:
            kind = StackedLeaf if leaf.path in states else PlainLeaf
            if type(self.leaves[leaf.path]) is not kind:
                self.leaves[leaf.path] = kind(self.capacity, leaf, self.shelf)
            stored = self.leaves[leaf.path]
            stored.forget()
            if isinstance(stored, StackedLeaf):
                stored.load_state_dict(states[leaf.path])

    def fitted(self, piece: Piece, tails: np.ndarray, first: int, total: int) -> Piece:
        """A piece with whole observations as this memory stores them.

        Args:
            piece: Whose rows come next.
            tails: ``[n]`` places of what was last seen of each row's slot, or -1; see `StackedLeaf.encoded`.
            first: Serial number of the oldest row that is there.
            total: And of the next one.
        """
        for path, leaf in list(self.leaves.items()):
            if isinstance(leaf, StackedLeaf) and f"obs/{path}" in piece:
                stored = leaf.encoded(piece, tails)
                if leaf.is_stack:
                    piece = stored
                else:
                    self._store_whole(path, leaf, np.arange(first, total) % self.capacity)
        return piece

    def _store_whole(self, path: str, stacked: StackedLeaf, present: np.ndarray) -> None:
        """Stores a leaf that is no stack like any other, with what it has so far.

        Raises:
            ConfigError: If there is not enough memory for that.
        """
        if self.shelf.limit is None:
            check_room(leaf_bytes(stacked.leaf, self.capacity, frame_stacks=False), self.capacity, 0)
        plain = PlainLeaf(self.capacity, stacked.leaf, self.shelf)
        plain.grow(self.pool.size)
        plain.rows[present] = stacked.gather(present, None)
        aside = np.arange(self.pool.size)
        plain.aside[:] = stacked.gather(aside + self.capacity, aside)
        self.leaves[path] = plain

    def foreign(self, piece: Piece) -> Piece:
        """A piece of another memory, in which frames have other numbers, with these or with whole observations."""
        for path, leaf in self.leaves.items():
            if f"stack/{path}" in piece:
                if isinstance(leaf, StackedLeaf):
                    piece = leaf.renumbered(piece)
                else:
                    whole = {f"{prefix}obs/{path}": observations_of(piece, path, prefix) for prefix in ("", "next_")}
                    piece = piece | whole
        return piece

    def oldest(self, first: int, total: int) -> int:
        """The first of the rows with these serial numbers of which all frames are there."""
        for leaf in self.leaves.values():
            if isinstance(leaf, StackedLeaf):
                first = leaf.oldest(first, total)
        return first

    def write(self, rows: np.ndarray | slice, piece: Piece) -> None:
        """Copies the rows of a piece."""
        for leaf in self.leaves.values():
            leaf.write(rows, piece)

    def write_aside(self, places: np.ndarray, piece: Piece) -> None:
        """Copies what was seen after the last rows of a piece."""
        for leaf in self.leaves.values():
            leaf.write_aside(places - self.capacity, piece)

    def keep_aside(self, piece: Piece) -> np.ndarray:
        """Copies what was seen after the last rows of a piece, and gives the places ``[q]`` where it stands.

        Raises:
            ConfigError: If there is not enough memory for that.
        """
        had = self.pool.size
        places = self.pool.take(len(piece["next_row"])) + self.capacity
        if self.pool.size > had:
            self._grow(self.pool.size - had)
        self.write_aside(places, piece)
        return places

    def _grow(self, more: int) -> None:
        """Makes room aside for all numbers of the pool, of which so many are new."""
        size = sum(math.prod(leaf.aside.shape[1:]) * leaf.aside.itemsize for leaf in self.leaves.values())
        check_growth(more * size, self.capacity)
        for leaf in self.leaves.values():
            leaf.grow(self.pool.size)

    def release(self, places: np.ndarray) -> None:
        """Returns back those of the places that are aside."""
        if int(places.max(initial=0)) >= self.capacity:
            self.pool.give(places[places >= self.capacity] - self.capacity)

    def gather(self, places: np.ndarray) -> Tree:
        """The observations ``[N, ...]`` of these places, in memory of their own."""
        self._look(len(places))
        aside = self._aside(places)
        return {path: leaf.gather(places, aside) for path, leaf in self.leaves.items()}

    def gather_rows(self, rows: np.ndarray) -> Tree:
        """The same of places that are rows, all of them."""
        self._look(len(rows))
        return {path: leaf.gather(rows, None) for path, leaf in self.leaves.items()}

    def _look(self, number: int) -> None:
        """Says on the shelf that so many observations are read, which may consist of several frames each."""
        if self.shelf.limit is not None:
            stacked = [leaf.rows.shape[1] for leaf in self.leaves.values() if isinstance(leaf, StackedLeaf)]
            self.shelf.look(number * max(stacked, default=1))

    def _aside(self, places: np.ndarray) -> np.ndarray | None:
        return np.flatnonzero(places >= self.capacity) if int(places.max(initial=0)) >= self.capacity else None

    def export(self, rows: np.ndarray, following: np.ndarray) -> Piece:
        """What a piece of these rows says of observations; `following` are the places of what was seen after them."""
        piece: Piece = {}
        aside = self._aside(following)
        for leaf in self.leaves.values():
            piece |= leaf.export(rows, following, aside)
        return piece

    def check(self, piece: Piece) -> None:
        """Sees that a piece has observations of this layout.

        Raises:
            RookeryError: If not.
        """
        for leaf in self.spec.leaves:
            stacked = f"stack/{leaf.path}" in piece
            for sort in ("frame",) if stacked else ("obs", "next_obs"):
                check_array(piece, f"{sort}/{leaf.path}", leaf.shape[1:] if stacked else leaf.shape, leaf.dtype)
            for sort in ("stack", "next_stack") if stacked else ():
                check_array(piece, f"{sort}/{leaf.path}", leaf.shape[:1], np.dtype(np.int64))
