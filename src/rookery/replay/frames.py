"""Stacks of frames, of which each frame is stored once.

An observation ``[K, ...]`` that is made of the last K frames shares all but one of them with the observation before it.
Here it is K numbers of frames. Whether it shares them is found by comparing bytes, so that what is read back is what
was seen, whatever comes at the start of an episode: where it does not, more frames are stored.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace

import numpy as np

from rookery.core.spaces.arrays import Leaf
from rookery.core.state import Stateful
from rookery.replay.disk import Shelf
from rookery.replay.pieces import Piece, rows_in

REACH = 4096
"""How many frames back an observation may have one in common with the one before: a slot that slept longer stores all
of its frames again, so that those of the oldest rows can go.
"""

SPARE = 16
"""One frame for this many rows is there besides one for each: for the starts and ends of episodes."""

LARGEST_STACK, SMALLEST_FRAME = 16, 256
"""Frames of a stack at most, and bytes of a frame at least: for others it is not worth while."""

TRIAL = 64
"""Observations that changed, after which it is plain whether a leaf is a stack."""


def may_be_stack(leaf: Leaf) -> bool:
    """Whether a leaf has the shape of a stack of pictures; if it is one, only what is seen tells."""
    if leaf.kind != "box" or leaf.dtype != np.uint8 or len(leaf.shape) < 3:
        return False
    return 2 <= leaf.shape[0] <= LARGEST_STACK and int(np.prod(leaf.shape[1:])) >= SMALLEST_FRAME


def frames_for(capacity: int) -> int:
    """Frames there is room for in a memory of so many rows."""
    return capacity + capacity // SPARE + REACH


def observations_of(piece: Piece, path: str, prefix: str = "") -> np.ndarray:
    """A leaf of the observations of a piece ``[n, ...]``, whole however they are stored; with the prefix ``next_``, of
    what was seen after its ``next_row``.
    """
    if f"{prefix}obs/{path}" in piece:
        return piece[f"{prefix}obs/{path}"]
    return piece[f"frame/{path}"][piece[f"number/{path}"].searchsorted(piece[f"{prefix}stack/{path}"])]


def observations_at(piece: Piece, path: str, rows: np.ndarray, prefix: str = "") -> np.ndarray:
    """Some rows ``[m]`` of what `observations_of` gives, in memory of their own."""
    if f"{prefix}obs/{path}" in piece:
        return piece[f"{prefix}obs/{path}"].take(rows, axis=0)
    places = piece[f"number/{path}"].searchsorted(piece[f"{prefix}stack/{path}"].take(rows, axis=0))
    return piece[f"frame/{path}"].take(places, axis=0)


class PlainLeaf:
    """A leaf whose observations are stored whole, in the rows of a ring and aside.

    Args:
        capacity: Rows of the ring.
        leaf: The leaf.
        shelf: Makes the arrays of rows.

    Attributes:
        rows: ``[capacity, ...]``.
        aside: ``[room, ...]``.
    """

    SORT = "obs"
    """What pieces call the arrays of what is stored."""

    def __init__(self, capacity: int, leaf: Leaf, shelf: Shelf) -> None:
        self.leaf = leaf
        self.rows = shelf.empty((capacity, *leaf.shape), leaf.dtype)
        self.aside = np.empty((0, *leaf.shape), leaf.dtype)

    def forget(self) -> None:
        """Lets go of what is aside."""
        self.aside = self.aside[:0].copy()

    def grow(self, size: int) -> None:
        """Makes room for `size` arrays aside."""
        if size > len(self.aside):
            grown = np.empty((size, *self.aside.shape[1:]), self.aside.dtype)
            grown[: len(self.aside)] = self.aside
            self.aside = grown

    def stored(self, places: np.ndarray, aside: np.ndarray | None) -> np.ndarray:
        """What is stored at these places, ``[N, ...]``, in memory of its own.

        Args:
            places: ``[N]``.
            aside: Which of them are not rows; None if all are.
        """
        found = self.rows.take(places, axis=0, mode="clip")
        if aside is not None:
            found[aside] = self.aside[places[aside] - len(self.rows)]
        return found

    gather = stored  # of observations stored whole

    def write(self, rows: np.ndarray | slice, piece: Piece) -> None:
        """Copies the rows of a piece."""
        self.rows[rows] = piece[f"{self.SORT}/{self.leaf.path}"]

    def write_aside(self, numbers: np.ndarray, piece: Piece) -> None:
        """Copies what was seen after the last rows of a piece."""
        self.aside[numbers] = piece[f"next_{self.SORT}/{self.leaf.path}"]

    def export(self, rows: np.ndarray, following: np.ndarray, aside: np.ndarray | None) -> Piece:
        """What a piece of these rows says of the leaf.

        Args:
            rows: ``[n]``.
            following: ``[q]`` places of what was seen after the last ones.
            aside: Which of these are not rows; None if all are.
        """
        names = f"{self.SORT}/{self.leaf.path}", f"next_{self.SORT}/{self.leaf.path}"
        return dict(zip(names, (self.stored(rows, None), self.stored(following, aside)), strict=True))


class StackedLeaf(PlainLeaf, Stateful):
    """A leaf whose observations are stored frame by frame.

    Frames have serial numbers and lie in a ring of their own, a bit larger than that of the rows. An observation has no
    frame older than `REACH` before those that its row found there, so that frames can go in the order they came.

    Attributes:
        rows: ``[capacity, K]`` int64, numbers of the frames of each row.
        base: ``[capacity]`` int64, how many frames there were before each row.
        aside: ``[room, K]`` int64, numbers of the frames of observations that are no row's.
        frames: ``[M, ...]``.
        head: Frames ever stored: the number of the next one.
    """

    SORT = "stack"
    saved = ("head", "changed", "shared")
    fixed = ("leaf", "rows", "base", "aside", "frames")

    def __init__(self, capacity: int, leaf: Leaf, shelf: Shelf) -> None:
        super().__init__(capacity, replace(leaf, shape=leaf.shape[:1], dtype=np.dtype(np.int64)), shelf)
        self.leaf = leaf
        self.base = shelf.empty((capacity,), np.int64)
        self.frames = shelf.empty((frames_for(capacity), *leaf.shape[1:]), leaf.dtype)
        self.head = 0
        self.changed = 0
        """Observations so far that were not the same as the one before them in their episode, up to `TRIAL`."""
        self.shared = 0
        """Those of them that were the one before them with one frame more."""

    @property
    def is_stack(self) -> bool:
        """Whether what was seen so far looks like stacks of frames."""
        return self.changed < TRIAL or 2 * self.shared >= self.changed

    def oldest(self, first: int, total: int) -> int:
        """The first of the rows with these serial numbers of which all frames are there."""
        bound, capacity = self.head - (len(self.frames) - REACH), len(self.rows)

        def base(serial: int) -> int:
            return int(self.base[serial % capacity])

        if first == total or base(first) >= bound:
            return first
        return first + bisect_left(range(first, total), bound, key=base)

    def gather(self, places: np.ndarray, aside: np.ndarray | None) -> np.ndarray:
        """The observations ``[N, K, ...]`` of these places; arguments as of `stored`."""
        return self.frames.take(self.stored(places, aside) % len(self.frames), axis=0)

    # --- pieces -------------------------------------------------------------------------------------------------------

    def write(self, rows: np.ndarray | slice, piece: Piece) -> None:
        """Copies the rows of a piece, and its frames."""
        super().write(rows, piece)
        path = self.leaf.path
        self.base[rows] = piece[f"base/{path}"]
        number = piece[f"number/{path}"]
        if len(number):
            self.frames[number % len(self.frames)] = piece[f"frame/{path}"]
            self.head = max(self.head, int(number[-1]) + 1)

    def export(self, rows: np.ndarray, following: np.ndarray, aside: np.ndarray | None) -> Piece:
        """What a piece of these rows says of the leaf; see `PlainLeaf.export`."""
        path, stacks = self.leaf.path, super().export(rows, following, aside)
        number = np.unique(np.concatenate([stack.ravel() for stack in stacks.values()]))
        frames = self.frames[number % len(self.frames)]
        return stacks | {f"base/{path}": self.base[rows], f"number/{path}": number, f"frame/{path}": frames}

    def renumbered(self, piece: Piece) -> Piece:
        """A piece of another memory with the numbers that its frames get in this one."""
        path = self.leaf.path
        number = piece[f"number/{path}"]
        changed = {
            f"{sort}/{path}": self.head + number.searchsorted(piece[f"{sort}/{path}"])
            for sort in ("stack", "next_stack", "base")
        }
        return piece | changed | {f"number/{path}": self.head + np.arange(len(number))}

    def encoded(self, piece: Piece, tails: np.ndarray) -> Piece:
        """A piece that has whole observations as one that has frames.

        The observations are the n rows and the q that were seen after the last ones. Each is compared with the one
        before it in its slot.

        Args:
            piece: Whose rows come next.
            tails: ``[n]`` places of what the ring last saw of each row's slot; -1 where that is no row's matter: there
                is none, or the one before is in the piece.
        """
        path, size = self.leaf.path, rows_in(piece)
        seen = np.concatenate((piece[f"obs/{path}"], piece[f"next_obs/{path}"]))
        before = np.arange(size) - piece["before"]
        starts = piece["begins"] | (piece["before"] == 0) | (before < 0)
        previous = np.concatenate((np.where(starts, -1, before), piece["next_row"]))
        shifted = previous >= 0
        words = _words(seen)
        shifted[shifted] = _same(words[shifted, :-1], words[previous[shifted], 1:])
        repeated = np.zeros(seen.shape[:2], bool)  # a frame is the one before it in the stack
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
        kept = {name: array for name, array in piece.items() if name not in (f"obs/{path}", f"next_obs/{path}")}
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
        """The numbers ``[E, K]`` of the frames of E observations, how many frames there were before each ``[E]``, and
        which of them are new ``[E, K]``.

        Args:
            previous: ``[E]`` which observation came before each.
            shifted: ``[E]`` whether it is that one with one frame more.
            repeated: ``[E, K]`` whether a frame is the one before it in its stack.
            known: Observations that are in the ring already.
            numbers_of: The numbers of the frames of these.
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
        while len(waiting):  # for those before them; these are few times one after the other
            ready = ~np.isin(previous[waiting], waiting)
            now = waiting[ready]
            numbers[now, :-1] = numbers[previous[now], 1:]
            numbers[now, -1] = np.where(fresh[now, -1], numbers[now, -1], numbers[now, -2])
            waiting = waiting[~ready]
        return numbers, base, fresh


def _words(stacks: np.ndarray) -> np.ndarray:
    """Stacks ``[n, K, ...]`` of bytes as ``[n, K, words]``, of which there are fewer to compare."""
    flat = stacks.reshape(*stacks.shape[:2], -1)
    return flat if flat.shape[2] % 8 else flat.view(np.uint64)


def _same(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Which of N arrays are equal, ``[N]``."""
    return np.asarray((one == other).all(axis=tuple(range(1, one.ndim))))
