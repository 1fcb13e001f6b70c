"""Observations of a replay buffer: each is stored once, as the observation of its row and next observation of the row
before.

A *place* is the index of an observation. Places below `capacity` are rows of the ring. The others are *aside*: the next
observation of a row that no row of the ring follows, because its episode was truncated, or because it is the newest.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rookery.core.spaces.arrays import ObsSpec, Tree
from rookery.core.state import Stateful
from rookery.replay.budget import check_growth, check_room, leaf_bytes
from rookery.replay.frames import PlainLeaf, StackedLeaf, may_be_stack, observations_of
from rookery.replay.memmap_arrays import MemmapArrays
from rookery.replay.segment_arrays import SegmentArrays, check_array


class Pool:
    """Pool of indices below a growing size."""

    def __init__(self) -> None:
        self.size = 0
        self._free = np.zeros(0, dtype=np.int64)
        self._num_free = 0

    @property
    def used(self) -> int:
        """Number of indices in use."""
        return self.size - self._num_free

    def take(self, count: int) -> np.ndarray:
        """Returns `count` free indices; `size` may grow."""
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
        """Frees indices."""
        self._free[self._num_free : self._num_free + len(numbers)] = numbers
        self._num_free += len(numbers)


class Observations(Stateful):
    """The observations of all rows of a ring, and those aside; with `frame_stacks`, stacked frames are stored one by
    one.
    """

    fixed = ("capacity", "spec", "leaves", "pool", "memmaps")

    def __init__(self, spec: ObsSpec, capacity: int, *, frame_stacks: bool, memmaps: MemmapArrays) -> None:
        self.spec = spec
        self.capacity = capacity
        self.memmaps = memmaps
        self.leaves: dict[str, PlainLeaf] = {
            leaf.path: (StackedLeaf if frame_stacks and may_be_stack(leaf) else PlainLeaf)(capacity, leaf, memmaps)
            for leaf in spec.leaves
        }
        self.pool = Pool()

    @property
    def are_stacked(self) -> bool:
        """Whether any leaf is stored frame by frame."""
        return any(isinstance(leaf, StackedLeaf) for leaf in self.leaves.values())

    def state_dict(self) -> dict[str, Any]:
        """Returns which leaves are stored frame by frame, and their numbers of frames; no observations."""
        leaves = self.leaves.items()
        return {"stacks": {path: leaf.state_dict() for path, leaf in leaves if isinstance(leaf, StackedLeaf)}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Loads a state of `state_dict` without observations, with the leaves stored in the same way, for the segments
        that follow.
        """
        states = state["stacks"]
        self.pool = Pool()
        for leaf in self.spec.leaves:
            kind = StackedLeaf if leaf.path in states else PlainLeaf
            if type(self.leaves[leaf.path]) is not kind:
                self.leaves[leaf.path] = kind(self.capacity, leaf, self.memmaps)
            stored = self.leaves[leaf.path]
            stored.forget()
            if isinstance(stored, StackedLeaf):
                stored.load_state_dict(states[leaf.path])

    def fitted(self, segment: SegmentArrays, tails: np.ndarray, first: int, total: int) -> SegmentArrays:
        """Returns a segment with whole observations as this buffer stores them.

        Args:
            segment: The rows to add.
            tails: ``[n]`` places of the last observation of each row's slot, or -1; see `StackedLeaf.encoded`.
            first: Serial number of the oldest row.
            total: Serial number of the next row.
        """
        for path, leaf in list(self.leaves.items()):
            if isinstance(leaf, StackedLeaf) and f"obs/{path}" in segment:
                stored = leaf.encoded(segment, tails)
                if leaf.is_stack:
                    segment = stored
                else:
                    self._store_whole(path, leaf, np.arange(first, total) % self.capacity)
        return segment

    def _store_whole(self, path: str, stacked: StackedLeaf, present: np.ndarray) -> None:
        """Converts a leaf that turned out not to be a stack to whole observations.

        Raises:
            ConfigError: If there is not enough memory.
        """
        if self.memmaps.limit is None:
            check_room(leaf_bytes(stacked.leaf, self.capacity, frame_stacks=False), self.capacity, 0)
        plain = PlainLeaf(self.capacity, stacked.leaf, self.memmaps)
        plain.grow(self.pool.size)
        plain.rows[present] = stacked.gather(present, None)
        aside = np.arange(self.pool.size)
        plain.aside[:] = stacked.gather(aside + self.capacity, aside)
        self.leaves[path] = plain

    def foreign(self, segment: SegmentArrays) -> SegmentArrays:
        """Returns a segment of another buffer with this one's numbers of frames, or with whole observations."""
        for path, leaf in self.leaves.items():
            if f"stack/{path}" in segment:
                if isinstance(leaf, StackedLeaf):
                    segment = leaf.renumbered(segment)
                else:
                    whole = {f"{prefix}obs/{path}": observations_of(segment, path, prefix) for prefix in ("", "next_")}
                    segment = segment | whole
        return segment

    def oldest(self, first: int, total: int) -> int:
        """Returns the first of the rows with these serial numbers whose frames are all stored."""
        for leaf in self.leaves.values():
            if isinstance(leaf, StackedLeaf):
                first = leaf.oldest(first, total)
        return first

    def write(self, rows: np.ndarray | slice, segment: SegmentArrays) -> None:
        """Copies the rows of a segment."""
        for leaf in self.leaves.values():
            leaf.write(rows, segment)

    def write_aside(self, places: np.ndarray, segment: SegmentArrays) -> None:
        """Copies the next observations of the last rows of a segment."""
        for leaf in self.leaves.values():
            leaf.write_aside(places - self.capacity, segment)

    def keep_aside(self, segment: SegmentArrays) -> np.ndarray:
        """Copies the next observations of the last rows of a segment; returns their places ``[q]``.

        Raises:
            ConfigError: If there is not enough memory.
        """
        had = self.pool.size
        places = self.pool.take(len(segment["next_row"])) + self.capacity
        if self.pool.size > had:
            self._grow(self.pool.size - had)
        self.write_aside(places, segment)
        return places

    def _grow(self, more: int) -> None:
        """Grows the arrays aside to the size of the pool; `more` is the number of new entries."""
        size = sum(math.prod(leaf.aside.shape[1:]) * leaf.aside.itemsize for leaf in self.leaves.values())
        check_growth(more * size, self.capacity)
        for leaf in self.leaves.values():
            leaf.grow(self.pool.size)

    def release(self, places: np.ndarray) -> None:
        """Frees those of the places that are aside."""
        if int(places.max(initial=0)) >= self.capacity:
            self.pool.give(places[places >= self.capacity] - self.capacity)

    def gather(self, places: np.ndarray) -> Tree:
        """Returns copies of the observations ``[N, ...]`` at these places."""
        self._note_reads(len(places))
        aside = self._aside(places)
        return {path: leaf.gather(places, aside) for path, leaf in self.leaves.items()}

    def leaf_at(self, path: str, places: np.ndarray) -> np.ndarray:
        """Returns a copy of one leaf ``[N, ...]`` of the observations at these places."""
        self._note_reads(len(places))
        return self.leaves[path].gather(places, self._aside(places))

    def gather_rows(self, rows: np.ndarray) -> Tree:
        """Returns copies of the observations of rows."""
        self._note_reads(len(rows))
        return {path: leaf.gather(rows, None) for path, leaf in self.leaves.items()}

    def _note_reads(self, number: int) -> None:
        """Records that `number` observations are read, of possibly several frames each."""
        if self.memmaps.limit is not None:
            stacked = [leaf.rows.shape[1] for leaf in self.leaves.values() if isinstance(leaf, StackedLeaf)]
            self.memmaps.note_reads(number * max(stacked, default=1))

    def _aside(self, places: np.ndarray) -> np.ndarray | None:
        return np.flatnonzero(places >= self.capacity) if int(places.max(initial=0)) >= self.capacity else None

    def export(self, rows: np.ndarray, following: np.ndarray) -> SegmentArrays:
        """Returns the observation arrays of a segment of rows; `following` has the places of next observations."""
        segment: SegmentArrays = {}
        aside = self._aside(following)
        for leaf in self.leaves.values():
            segment |= leaf.export(rows, following, aside)
        return segment

    def check(self, segment: SegmentArrays) -> None:
        """Checks that a segment has observations of this layout.

        Raises:
            RookeryError: If not.
        """
        for leaf in self.spec.leaves:
            stacked = f"stack/{leaf.path}" in segment
            for sort in ("frame",) if stacked else ("obs", "next_obs"):
                check_array(segment, f"{sort}/{leaf.path}", leaf.shape[1:] if stacked else leaf.shape, leaf.dtype)
            for sort in ("stack", "next_stack") if stacked else ():
                check_array(segment, f"{sort}/{leaf.path}", leaf.shape[:1], np.dtype(np.int64))
