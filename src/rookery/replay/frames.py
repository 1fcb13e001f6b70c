"""Storage of stacked frames, each frame once.

An observation ``[K, ...]`` of the last K frames shares all but one of them with the previous observation. It is stored
as K indices of frames. Shared frames are found by comparing bytes, so that observations are always restored exactly,
also at the start of an episode: frames that are not shared are stored.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace

import numpy as np

from rookery.core.spaces.arrays import Leaf
from rookery.core.state import Stateful
from rookery.replay.memmap_arrays import MemmapArrays
from rookery.replay.segment_arrays import SegmentArrays, rows_in

REACH = 4096
"""Largest distance in frames to a shared frame: a slot that paused longer stores all of its frames again, so that
frames of the oldest rows can be overwritten.
"""

SPARE = 16
"""One spare frame for this many rows, for starts and ends of episodes."""

LARGEST_STACK, SMALLEST_FRAME = 16, 256
"""Largest number of frames of a stack, and smallest size of a frame in bytes, that are stored frame by frame."""

TRIAL = 64
"""Number of changed observations after which it is decided whether a leaf is a stack."""


def may_be_stack(leaf: Leaf) -> bool:
    """Returns whether a leaf has the shape of stacked images; the observations decide whether it is a stack."""
    if leaf.kind != "box" or leaf.dtype != np.uint8 or len(leaf.shape) < 3:
        return False
    return 2 <= leaf.shape[0] <= LARGEST_STACK and int(np.prod(leaf.shape[1:])) >= SMALLEST_FRAME


def frames_for(capacity: int) -> int:
    """Returns the number of frames for a buffer of `capacity` rows."""
    return capacity + capacity // SPARE + REACH


def observations_of(segment: SegmentArrays, path: str, prefix: str = "") -> np.ndarray:
    """Returns a leaf of the observations of a segment ``[n, ...]``, whole in either storage; with the prefix ``next_``,
    the next observations of its ``next_row``.
    """
    if f"{prefix}obs/{path}" in segment:
        return segment[f"{prefix}obs/{path}"]
    return segment[f"frame/{path}"][segment[f"number/{path}"].searchsorted(segment[f"{prefix}stack/{path}"])]


def observations_at(segment: SegmentArrays, path: str, rows: np.ndarray, prefix: str = "") -> np.ndarray:
    """Returns a copy of some rows ``[m]`` of `observations_of`."""
    if f"{prefix}obs/{path}" in segment:
        return segment[f"{prefix}obs/{path}"].take(rows, axis=0)
    places = segment[f"number/{path}"].searchsorted(segment[f"{prefix}stack/{path}"].take(rows, axis=0))
    return segment[f"frame/{path}"].take(places, axis=0)


class PlainLeaf:
    """Storage of a leaf with whole observations, in the rows of a ring and aside.

    Args:
        capacity: Rows of the ring.
        leaf: The leaf.
        memmaps: Allocates the arrays of rows.

    Attributes:
        rows: ``[capacity, ...]``.
        aside: ``[room, ...]``.
    """

    SORT = "obs"
    """Prefix of the arrays in a segment."""

    def __init__(self, capacity: int, leaf: Leaf, memmaps: MemmapArrays) -> None:
        self.leaf = leaf
        self.rows = memmaps.empty((capacity, *leaf.shape), leaf.dtype)
        self.aside = np.empty((0, *leaf.shape), leaf.dtype)

    def forget(self) -> None:
        """Frees the observations aside."""
        self.aside = self.aside[:0].copy()

    def grow(self, size: int) -> None:
        """Makes room for `size` arrays aside."""
        if size > len(self.aside):
            grown = np.empty((size, *self.aside.shape[1:]), self.aside.dtype)
            grown[: len(self.aside)] = self.aside
            self.aside = grown

    def stored(self, places: np.ndarray, aside: np.ndarray | None) -> np.ndarray:
        """Returns a copy of the entries at these places, ``[N, ...]``.

        Args:
            places: ``[N]``.
            aside: Indices of those that are not rows; None if all are.
        """
        found = self.rows.take(places, axis=0, mode="clip")
        if aside is not None:
            found[aside] = self.aside[places[aside] - len(self.rows)]
        return found

    gather = stored  # for whole observations

    def write(self, rows: np.ndarray | slice, segment: SegmentArrays) -> None:
        """Copies the rows of a segment."""
        self.rows[rows] = segment[f"{self.SORT}/{self.leaf.path}"]

    def write_aside(self, numbers: np.ndarray, segment: SegmentArrays) -> None:
        """Copies the next observations of the last rows of a segment."""
        self.aside[numbers] = segment[f"next_{self.SORT}/{self.leaf.path}"]

    def export(self, rows: np.ndarray, following: np.ndarray, aside: np.ndarray | None) -> SegmentArrays:
        """Returns the arrays of the leaf in a segment of these rows.

        Args:
            rows: ``[n]``.
            following: ``[q]`` places of the next observations of the last ones.
            aside: Indices of those that are not rows; None if all are.
        """
        names = f"{self.SORT}/{self.leaf.path}", f"next_{self.SORT}/{self.leaf.path}"
        return dict(zip(names, (self.stored(rows, None), self.stored(following, aside)), strict=True))


class StackedLeaf(PlainLeaf, Stateful):
    """Storage of a leaf frame by frame.

    Frames have serial numbers and a ring of their own, slightly larger than that of the rows. No frame of an
    observation is older than `REACH` frames before its row was added, so that frames can be overwritten in their order.

    Attributes:
        rows: ``[capacity, K]`` int64, serial numbers of the frames of each row.
        base: ``[capacity]`` int64, number of frames before each row.
        aside: ``[room, K]`` int64, serial numbers of the frames of observations aside.
        frames: ``[M, ...]``.
        head: Number of frames ever stored: the serial number of the next one.
    """

    SORT = "stack"
    saved = ("head", "changed", "shared")
    fixed = ("leaf", "rows", "base", "aside", "frames")

    def __init__(self, capacity: int, leaf: Leaf, memmaps: MemmapArrays) -> None:
        super().__init__(capacity, replace(leaf, shape=leaf.shape[:1], dtype=np.dtype(np.int64)), memmaps)
        self.leaf = leaf
        self.base = memmaps.empty((capacity,), np.int64)
        self.frames = memmaps.empty((frames_for(capacity), *leaf.shape[1:]), leaf.dtype)
        self.head = 0
        self.changed = 0
        """Number of observations so far that differ from the previous one in their episode, up to `TRIAL`."""
        self.shared = 0
        """Number of those that are the previous one shifted by one frame."""

    @property
    def is_stack(self) -> bool:
        """Whether the observations so far look like stacked frames."""
        return self.changed < TRIAL or 2 * self.shared >= self.changed

    def oldest(self, first: int, total: int) -> int:
        """Returns the first of the rows with these serial numbers whose frames are all stored."""
        bound, capacity = self.head - (len(self.frames) - REACH), len(self.rows)

        def base(serial: int) -> int:
            return int(self.base[serial % capacity])

        if first == total or base(first) >= bound:
            return first
        return first + bisect_left(range(first, total), bound, key=base)

    def gather(self, places: np.ndarray, aside: np.ndarray | None) -> np.ndarray:
        """Returns the observations ``[N, K, ...]`` at these places; arguments as in `stored`."""
        return self.frames.take(self.stored(places, aside) % len(self.frames), axis=0)

    # --- segments -----------------------------------------------------------------------------------------------------

    def write(self, rows: np.ndarray | slice, segment: SegmentArrays) -> None:
        """Copies the rows of a segment, and its frames."""
        super().write(rows, segment)
        path = self.leaf.path
        self.base[rows] = segment[f"base/{path}"]
        number = segment[f"number/{path}"]
        if len(number):
            self.frames[number % len(self.frames)] = segment[f"frame/{path}"]
            self.head = max(self.head, int(number[-1]) + 1)

    def export(self, rows: np.ndarray, following: np.ndarray, aside: np.ndarray | None) -> SegmentArrays:
        """Returns the arrays of the leaf in a segment of these rows; see `PlainLeaf.export`."""
        path, stacks = self.leaf.path, super().export(rows, following, aside)
        number = np.unique(np.concatenate([stack.ravel() for stack in stacks.values()]))
        frames = self.frames[number % len(self.frames)]
        return stacks | {f"base/{path}": self.base[rows], f"number/{path}": number, f"frame/{path}": frames}

    def renumbered(self, segment: SegmentArrays) -> SegmentArrays:
        """Returns a segment of another buffer with the serial numbers that its frames get in this one."""
        path = self.leaf.path
        number = segment[f"number/{path}"]
        changed = {
            f"{sort}/{path}": self.head + number.searchsorted(segment[f"{sort}/{path}"])
            for sort in ("stack", "next_stack", "base")
        }
        return segment | changed | {f"number/{path}": self.head + np.arange(len(number))}

    def encoded(self, segment: SegmentArrays, tails: np.ndarray) -> SegmentArrays:
        """Returns a segment of whole observations with frames instead.

        The observations are those of the n rows and the q next ones of the last rows. Each is compared with the
        previous one of its slot.

        Args:
            segment: The rows to add.
            tails: ``[n]`` places in the ring of the last observation of each row's slot; -1 if there is none, or the
                previous row is in the segment.
        """
        path, size = self.leaf.path, rows_in(segment)
        seen = np.concatenate((segment[f"obs/{path}"], segment[f"next_obs/{path}"]))
        before = np.arange(size) - segment["before"]
        starts = segment["begins"] | (segment["before"] == 0) | (before < 0)
        previous = np.concatenate((np.where(starts, -1, before), segment["next_row"]))
        shifted = previous >= 0
        words = _words(seen)
        shifted[shifted] = _same(words[shifted, :-1], words[previous[shifted], 1:])
        repeated = np.zeros(seen.shape[:2], bool)  # a frame equals the previous one in the stack
        repeated[:, -1] = _same(words[:, -1], words[:, -2])
        shared = shifted[(previous >= 0) & ~repeated[:, -1]][: TRIAL - self.changed]
        self.changed += len(shared)
        self.shared += int(shared.sum())

        known = np.flatnonzero(tails >= 0)
        found = self.stored(tails[known], np.arange(len(known)))
        same = _same(seen[known], self.frames[found % len(self.frames)])
        known, found = known[same], found[same]
        alone = ~shifted
        alone[known] = False
        while True:
            repeated[alone, 1:] = (words[alone, 1:] == words[alone, :-1]).all(axis=2)
            numbers, base, fresh = self._numbered(previous, shifted, repeated, known, found)
            alone = numbers.min(axis=1) < base - REACH
            if not alone.any():
                break
            shifted &= ~alone
            known, found = known[~alone[known]], found[~alone[known]]
        kept = {name: array for name, array in segment.items() if name not in (f"obs/{path}", f"next_obs/{path}")}
        return kept | {
            f"stack/{path}": numbers[:size],
            f"next_stack/{path}": numbers[size:],
            f"base/{path}": base[:size],
            f"number/{path}": self.head + np.arange(np.count_nonzero(fresh)),
            f"frame/{path}": seen[fresh],
        }

    def _numbered(
        self, previous: np.ndarray, shifted: np.ndarray, repeated: np.ndarray, known: np.ndarray, numbers_of: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns the serial numbers ``[E, K]`` of the frames of E observations, the number of frames before each
        ``[E]``, and a mask of new frames ``[E, K]``.

        Args:
            previous: ``[E]`` index of the previous observation.
            shifted: ``[E]`` whether it is that one shifted by one frame.
            repeated: ``[E, K]`` whether a frame equals the previous one in its stack.
            known: Observations that are already in the ring.
            numbers_of: Serial numbers of their frames.
        """
        fresh = ~repeated
        fresh[shifted, :-1] = False
        fresh[known] = False
        count = fresh.sum(axis=1)
        base = self.head + count.cumsum() - count
        numbers = np.where(fresh, self.head + fresh.ravel().cumsum().reshape(fresh.shape) - 1, -1)
        numbers = np.maximum.accumulate(numbers, axis=1)
        numbers[known] = numbers_of
        waiting = np.flatnonzero(shifted)
        while len(waiting):  # until the previous ones are numbered; chains are short
            ready = ~np.isin(previous[waiting], waiting)
            now = waiting[ready]
            numbers[now, :-1] = numbers[previous[now], 1:]
            numbers[now, -1] = np.where(fresh[now, -1], numbers[now, -1], numbers[now, -2])
            waiting = waiting[~ready]
        return numbers, base, fresh


def _words(stacks: np.ndarray) -> np.ndarray:
    """Returns stacks ``[n, K, ...]`` of bytes as ``[n, K, words]``, which are faster to compare."""
    flat = stacks.reshape(*stacks.shape[:2], -1)
    return flat if flat.shape[2] % 8 else flat.view(np.uint64)


def _same(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Returns a mask ``[N]`` of the arrays that are equal."""
    return np.asarray((one == other).all(axis=tuple(range(1, one.ndim))))
