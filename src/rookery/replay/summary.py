"""What is in a stored memory, in numbers: its episodes, what they returned and how they ended."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from rookery.replay.pieces import Piece, rows_in
from rookery.replay.segments import StoredReplay


@dataclass
class Episodes:
    """Episodes of a memory, found piece by piece.

    Attributes:
        returns: Of each finished episode whose first decision is in the memory, the sum of its rewards.
        lengths: Its decisions.
        ended: Which row it ended with, counted from the oldest.
        terminated: Finished episodes that had no future.
        truncated: Finished episodes that were cut off, and had one.
        broken: Episodes after which another one began without either.
    """

    returns: list[float] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)
    terminated: int = 0
    truncated: int = 0
    broken: int = 0
    _open: dict[int, tuple[float, int, bool]] = field(default_factory=dict)  # by slot: return, length, seen from start
    _left: int = 0

    @property
    def running(self) -> int:
        """Episodes that nothing has ended."""
        return len(self._open) + self._left

    def add(self, piece: Piece, first: int, continues: bool) -> None:
        """Takes note of a piece, before which came `first` rows; if it `continues` them, slots are the same."""
        if not continues:
            self._left += len(self._open)
            self._open.clear()
        order = np.argsort(piece["slot"], kind="stable")
        slot, begins, reward = (piece[name][order] for name in ("slot", "begins", "reward"))
        alone = piece["before"][order] == 0  # what was before it in its slot was never here
        terminated, truncated = piece["terminated"][order], piece["truncated"][order]
        ends = terminated | truncated
        if not rows_in(piece):
            return
        breaks = (slot[1:] != slot[:-1]) | begins[1:] | alone[1:] | ends[:-1]
        starts = np.flatnonzero(np.concatenate(([True], breaks)))
        last = np.append(starts[1:], rows_in(piece)) - 1
        sums = np.add.reduceat(reward.astype(np.float64), starts)
        stretches = zip(
            slot[starts].tolist(), begins[starts].tolist(), alone[starts].tolist(), sums.tolist(),
            (last - starts + 1).tolist(), terminated[last].tolist(), truncated[last].tolist(), order[last].tolist(),
            strict=True,
        )  # fmt: skip
        for number, begin, first_known, total, length, termination, truncation, row in stretches:
            before, had, whole = self._open.pop(number, (0.0, 0, False))
            if begin:
                self.broken += had > 0
                before, had, whole = 0.0, 0, True
            elif first_known:
                self._left += had > 0
                before, had, whole = 0.0, 0, False
            if not (termination or truncation):
                self._open[number] = (before + total, had + length, whole)
                continue
            self.terminated += termination
            self.truncated += truncation and not termination
            if whole:
                self.returns.append(before + total)
                self.lengths.append(had + length)
                self.ended.append(first + row)


@dataclass(frozen=True)
class Summary:
    """What is in a memory.

    Attributes:
        episodes: Its episodes.
        rewards: ``[rows]`` the reward of each decision, oldest first.
        oldest: When its oldest rows were written, in seconds since 1970.
        newest: When its newest ones were.
    """

    episodes: Episodes
    rewards: np.ndarray
    oldest: float
    newest: float


def summarize(memory: StoredReplay) -> Summary:
    """Reads a memory once, hashes compared.

    Raises:
        FileError: If a segment is missing, broken or foreign; names it.
    """
    episodes, rewards, written = Episodes(), [], []
    first = 0
    for piece in memory.pieces():
        episodes.add(piece.rows, first, piece.continues)
        rewards.append(np.array(piece.rows["reward"]))
        written.append(piece.written)
        first += rows_in(piece.rows)
    return Summary(episodes, np.concatenate(rewards), min(written), max(written))
