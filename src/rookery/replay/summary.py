"""Summary of a stored replay buffer: its episodes, their returns and ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from rookery.replay.segment_arrays import SegmentArrays, rows_in
from rookery.replay.segments import StoredReplay


@dataclass
class Episodes:
    """Episodes of a stored buffer, collected segment by segment.

    Attributes:
        returns: Return of each finished episode whose first decision is in the buffer.
        lengths: Number of its decisions.
        ended: Index of its last row, from the oldest.
        is_terminated: Whether it terminated.
        terminated: Number of terminated episodes.
        truncated: Number of truncated episodes.
        broken: Number of episodes after which another one began without either.
    """

    returns: list[float] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)
    is_terminated: list[bool] = field(default_factory=list)
    terminated: int = 0
    truncated: int = 0
    broken: int = 0
    _open: dict[int, tuple[float, int, bool]] = field(
        default_factory=dict
    )  # by slot: return, length, whether the start is known
    _left: int = 0

    @property
    def running(self) -> int:
        """Number of unfinished episodes."""
        return len(self._open) + self._left

    def add(self, segment: SegmentArrays, first: int, continues: bool) -> None:
        """Adds a segment after `first` rows; if it `continues` them, slots are the same."""
        if not continues:
            self._left += len(self._open)
            self._open.clear()
        for part in episode_parts(segment):
            before, had, whole = self._open.pop(part.slot, (0.0, 0, False))
            if part.begins:
                self.broken += had > 0
                before, had, whole = 0.0, 0, True
            elif part.alone:
                self._left += had > 0
                before, had, whole = 0.0, 0, False
            if not (part.terminated or part.truncated):
                self._open[part.slot] = (before + part.reward, had + len(part.rows), whole)
                continue
            self.terminated += part.terminated
            self.truncated += part.truncated and not part.terminated
            if whole:
                self.returns.append(before + part.reward)
                self.lengths.append(had + len(part.rows))
                self.ended.append(first + int(part.rows[-1]))
                self.is_terminated.append(part.terminated)


@dataclass(frozen=True)
class EpisodePart:
    """Consecutive decisions of one episode in a segment.

    Attributes:
        slot: Their slot.
        rows: ``[n]`` rows.
        begins: Whether the episode begins with them.
        alone: Whether the slot has no earlier rows in the buffer.
        reward: Sum of their rewards.
        terminated: Whether the episode ends with them.
        truncated: Whether it is truncated after them.
    """

    slot: int
    rows: np.ndarray
    begins: bool
    alone: bool
    reward: float
    terminated: bool
    truncated: bool


def episode_parts(segment: SegmentArrays) -> Iterator[EpisodePart]:
    """Yields the parts of episodes in a segment, slot by slot."""
    if not rows_in(segment):
        return
    order = np.argsort(segment["slot"], kind="stable")
    slot, begins, reward = (segment[name][order] for name in ("slot", "begins", "reward"))
    alone = segment["before"][order] == 0  # no earlier rows of the slot
    terminated, truncated = segment["terminated"][order], segment["truncated"][order]
    ends = terminated | truncated
    breaks = (slot[1:] != slot[:-1]) | begins[1:] | alone[1:] | ends[:-1]
    starts = np.flatnonzero(np.concatenate(([True], breaks)))
    last = np.append(starts[1:], rows_in(segment)) - 1
    sums = np.add.reduceat(reward.astype(np.float64), starts)
    facts = (slot[starts], begins[starts], alone[starts], sums, terminated[last], truncated[last])
    columns = zip(starts.tolist(), last.tolist(), *(fact.tolist() for fact in facts), strict=True)
    for start, end, number, begin, first_known, total, termination, truncation in columns:
        yield EpisodePart(number, order[start : end + 1], begin, first_known, total, termination, truncation)


@dataclass
class Ranges:
    """Smallest and largest values of observations and actions, collected segment by segment.

    Attributes:
        least: Minima by name (``obs``, ``camera``, ``actions``), in the shape of one value.
        most: Maxima, likewise.
    """

    least: dict[str, np.ndarray] = field(default_factory=dict)
    most: dict[str, np.ndarray] = field(default_factory=dict)

    def add(self, name: str, array: np.ndarray) -> None:
        """Adds values, ``[n, ...]``."""
        if not len(array):
            return
        low, high = array.min(axis=0), array.max(axis=0)
        self.least[name] = np.minimum(self.least.get(name, low), low)
        self.most[name] = np.maximum(self.most.get(name, high), high)


@dataclass(frozen=True)
class Summary:
    """Summary of a stored buffer.

    Attributes:
        episodes: Its episodes.
        rewards: ``[rows]`` rewards, oldest first.
        ranges: Ranges of stored observations and actions; bounded values in units of half their range.
        oldest: Time when its oldest rows were written, in seconds since 1970.
        newest: Time when its newest rows were written.
    """

    episodes: Episodes
    rewards: np.ndarray
    ranges: Ranges
    oldest: float
    newest: float

    @property
    def warning(self) -> str:
        """Warning that episodes have no ends, or that a time limit may be recorded as termination; empty if neither."""
        if self.episodes.broken and not (self.episodes.terminated or self.episodes.truncated):
            return (
                "no column has the ends of episodes, so none counts as whole, and no policy can be evaluated on them "
                "(rookery evaluate --replay): import again with --time-limit N if they were truncated after N "
                "decisions, "
                "or name the column of ends: --column terminated=NAME, --column truncated=NAME"
            )
        pairs = zip(self.episodes.lengths, self.episodes.is_terminated, strict=True)
        ended = [length for length, is_terminated in pairs if is_terminated]
        longest = max(self.episodes.lengths, default=0)
        alike = ended.count(longest)
        if self.episodes.truncated or alike < FEW or longest < SHORTEST or alike < SUSPECT * len(ended):
            return ""
        return (
            f"{alike:,} of {len(ended):,} episodes that terminated did so after {longest:,} decisions, and none was "
            "longer or truncated: if that was a time limit, it was recorded as termination; import again with "
            f"--time-limit {longest}"
        )


FEW, SHORTEST, SUSPECT = 2, 10, 0.05
"""Signs of a time limit: smallest number of episodes of the same, largest length; smallest length; and smallest share
of the terminated episodes.
"""


def summarize(memory: StoredReplay) -> Summary:
    """Reads a stored buffer once, with a check of its hashes.

    Raises:
        FileError: If a segment is missing, broken or foreign; names it.
    """
    episodes, ranges, rewards, written = Episodes(), Ranges(), [], []
    first = 0
    for segment in memory.open_segments():
        episodes.add(segment.rows, first, segment.continues)
        for leaf in memory.spaces.obs.leaves:
            if leaf.kind != "mask":
                for sort in ("obs", "frame"):
                    if f"{sort}/{leaf.path}" in segment.rows:
                        ranges.add(leaf.path, segment.rows[f"{sort}/{leaf.path}"])
        ranges.add("actions", segment.rows["action"])
        rewards.append(np.array(segment.rows["reward"]))
        written.append(segment.written)
        first += rows_in(segment.rows)
    return Summary(episodes, np.concatenate(rewards), ranges, min(written), max(written))


def spread(values: Sequence[float] | np.ndarray, nothing: str, *, deviation: bool = False) -> str:
    """Returns minimum, mean and maximum of some numbers as text; with `deviation` also their standard deviation."""
    if not len(values):
        return nothing
    found = np.asarray(values)
    mean = found.mean(dtype=np.float64)
    text = f"min {found.min():.6g}, mean {mean:.6g}, max {found.max():.6g}"
    return f"{text}, standard deviation {found.std(dtype=np.float64):.6g}" if deviation else text


MOST_RANGES = 8
"""Largest number of values whose ranges are listed one by one."""


def between(low: np.ndarray, high: np.ndarray) -> str:
    """Returns ranges as text: each of a few, or one for all."""
    if 1 < low.size <= MOST_RANGES:
        pairs = zip(low.ravel().tolist(), high.ravel().tolist(), strict=True)
        return ", ".join(f"{one:.4g} to {other:.4g}" for one, other in pairs)
    if not low.size:
        return "no numbers"
    return f"{low.min():.6g} to {high.max():.6g}"
