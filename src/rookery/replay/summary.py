"""What is in a stored memory, in numbers: its episodes, what they returned and how they ended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
        is_terminated: Whether it had no future.
        terminated: Finished episodes that had no future.
        truncated: Finished episodes that were cut off, and had one.
        broken: Episodes after which another one began without either.
    """

    returns: list[float] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)
    is_terminated: list[bool] = field(default_factory=list)
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
        for stretch in stretches_in(piece):
            before, had, whole = self._open.pop(stretch.slot, (0.0, 0, False))
            if stretch.begins:
                self.broken += had > 0
                before, had, whole = 0.0, 0, True
            elif stretch.alone:
                self._left += had > 0
                before, had, whole = 0.0, 0, False
            if not (stretch.terminated or stretch.truncated):
                self._open[stretch.slot] = (before + stretch.reward, had + len(stretch.rows), whole)
                continue
            self.terminated += stretch.terminated
            self.truncated += stretch.truncated and not stretch.terminated
            if whole:
                self.returns.append(before + stretch.reward)
                self.lengths.append(had + len(stretch.rows))
                self.ended.append(first + int(stretch.rows[-1]))
                self.is_terminated.append(stretch.terminated)


@dataclass(frozen=True)
class Stretch:
    """Decisions of one episode one after the other in a piece.

    Attributes:
        slot: Whose they are.
        rows: ``[n]`` their rows.
        begins: Whether the episode begins with them.
        alone: Whether nothing that was before them in their slot was ever here.
        reward: Sum of their rewards.
        terminated: Whether the episode ends with them.
        truncated: Whether it is cut off after them.
    """

    slot: int
    rows: np.ndarray
    begins: bool
    alone: bool
    reward: float
    terminated: bool
    truncated: bool


def stretches_in(piece: Piece) -> Iterator[Stretch]:
    """Yields the parts of episodes that a piece consists of, slot by slot."""
    if not rows_in(piece):
        return
    order = np.argsort(piece["slot"], kind="stable")
    slot, begins, reward = (piece[name][order] for name in ("slot", "begins", "reward"))
    alone = piece["before"][order] == 0  # what was before it in its slot was never here
    terminated, truncated = piece["terminated"][order], piece["truncated"][order]
    ends = terminated | truncated
    breaks = (slot[1:] != slot[:-1]) | begins[1:] | alone[1:] | ends[:-1]
    starts = np.flatnonzero(np.concatenate(([True], breaks)))
    last = np.append(starts[1:], rows_in(piece)) - 1
    sums = np.add.reduceat(reward.astype(np.float64), starts)
    facts = (slot[starts], begins[starts], alone[starts], sums, terminated[last], truncated[last])
    columns = zip(starts.tolist(), last.tolist(), *(fact.tolist() for fact in facts), strict=True)
    for start, end, number, begin, first_known, total, termination, truncation in columns:
        yield Stretch(number, order[start : end + 1], begin, first_known, total, termination, truncation)


@dataclass
class Ranges:
    """The least and the largest of each number that was seen or done, found piece by piece.

    Attributes:
        least: By name (``obs``, ``camera``, ``actions``), in the shape of one.
        most: Likewise.
    """

    least: dict[str, np.ndarray] = field(default_factory=dict)
    most: dict[str, np.ndarray] = field(default_factory=dict)

    def add(self, name: str, array: np.ndarray) -> None:
        """Takes note of some, ``[n, ...]``."""
        if not len(array):
            return
        low, high = array.min(axis=0), array.max(axis=0)
        self.least[name] = np.minimum(self.least.get(name, low), low)
        self.most[name] = np.maximum(self.most.get(name, high), high)


@dataclass(frozen=True)
class Summary:
    """What is in a memory.

    Attributes:
        episodes: Its episodes.
        rewards: ``[rows]`` the reward of each decision, oldest first.
        ranges: Of observations and actions as they are stored: numbers with two bounds in units of half their range.
        oldest: When its oldest rows were written, in seconds since 1970.
        newest: When its newest ones were.
    """

    episodes: Episodes
    rewards: np.ndarray
    ranges: Ranges
    oldest: float
    newest: float

    @property
    def warning(self) -> str:
        """Says that nothing ends episodes, or that a time limit may have been recorded as an end; empty if neither."""
        if self.episodes.broken and not (self.episodes.terminated or self.episodes.truncated):
            return (
                "nothing says how an episode ended, so none counts as whole, and no policy can be judged by them "
                "(rookery evaluate --replay): import again with --time-limit N if they were cut off after N decisions, "
                "or name the column that says how they ended: --column terminated=NAME, --column truncated=NAME"
            )
        pairs = zip(self.episodes.lengths, self.episodes.is_terminated, strict=True)
        ended = [length for length, is_terminated in pairs if is_terminated]
        longest = max(self.episodes.lengths, default=0)
        alike = ended.count(longest)
        if self.episodes.truncated or alike < FEW or longest < SHORTEST or alike < SUSPECT * len(ended):
            return ""
        return (
            f"{alike:,} of {len(ended):,} episodes that terminated did so after {longest:,} decisions, and none was "
            "longer or truncated: if that was a time limit, it was recorded as an end; import again with "
            f"--time-limit {longest}"
        )


FEW, SHORTEST, SUSPECT = 2, 10, 0.05
"""What points to a time limit: so many episodes that end after the same, largest number of decisions; at least so long;
and at least this part of those that terminated.
"""


def summarize(memory: StoredReplay) -> Summary:
    """Reads a memory once, hashes compared.

    Raises:
        FileError: If a segment is missing, broken or foreign; names it.
    """
    episodes, ranges, rewards, written = Episodes(), Ranges(), [], []
    first = 0
    for piece in memory.pieces():
        episodes.add(piece.rows, first, piece.continues)
        for leaf in memory.spaces.obs.leaves:
            if leaf.kind != "mask":
                for sort in ("obs", "frame"):
                    if f"{sort}/{leaf.path}" in piece.rows:
                        ranges.add(leaf.path, piece.rows[f"{sort}/{leaf.path}"])
        ranges.add("actions", piece.rows["action"])
        rewards.append(np.array(piece.rows["reward"]))
        written.append(piece.written)
        first += rows_in(piece.rows)
    return Summary(episodes, np.concatenate(rewards), ranges, min(written), max(written))


def spread(values: Sequence[float] | np.ndarray, nothing: str, *, deviation: bool = False) -> str:
    """The least, the mean and the largest of some numbers; with `deviation` their standard deviation too."""
    if not len(values):
        return nothing
    found = np.asarray(values)
    mean = found.mean(dtype=np.float64)
    text = f"min {found.min():.6g}, mean {mean:.6g}, max {found.max():.6g}"
    return f"{text}, standard deviation {found.std(dtype=np.float64):.6g}" if deviation else text


MOST_RANGES = 8
"""Numbers whose ranges are told one by one; of more only the widest of all."""


def between(low: np.ndarray, high: np.ndarray) -> str:
    """From where to where numbers go: each of a few, or all together."""
    if 1 < low.size <= MOST_RANGES:
        pairs = zip(low.ravel().tolist(), high.ravel().tolist(), strict=True)
        return ", ".join(f"{one:.4g} to {other:.4g}" for one, other in pairs)
    return f"{low.min():.6g} to {high.max():.6g}"
