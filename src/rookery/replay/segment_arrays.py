"""Pieces of a replay buffer: consecutive rows as arrays by name, the form in which rows are added and stored in files.

`replay/buffer.py:ReplayBuffer.rows_between` documents the names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rookery.core.batch import Rollout
from rookery.core.errors import RookeryError

SegmentArrays = dict[str, np.ndarray]

BY_ROW = ("action", "logp", "reward", "terminated", "truncated", "begins")
"""Columns of a segment that are ``[T, F, ...]`` in a rollout."""


MOST_SLOTS = 1 << 26
"""Largest number of slots."""


def check_array(segment: SegmentArrays, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Checks that a segment has an array ``[n, *shape]``.

    Raises:
        RookeryError: If not.
    """
    if name not in segment:
        raise RookeryError(f"the rows have no {name!r}; they have {', '.join(sorted(segment))}")
    found = segment[name]
    if found.shape[1:] != shape or found.dtype != dtype:
        raise RookeryError(
            f"{name} is {found.dtype} of shape {found.shape[1:]}, the policy's is {dtype} of shape {shape}; "
            "only rows of an environment with the same spaces can be used"
        )


def check_row_numbers(segment: SegmentArrays, by_row: Sequence[str]) -> None:
    """Checks that the arrays of a segment have equally many rows, and that indices of rows and slots are valid.

    Args:
        segment: The rows.
        by_row: Names of the arrays with an entry for each row.

    Raises:
        RookeryError: If not.
    """
    number = rows_in(segment)
    for name in by_row:
        if len(segment[name]) != number:
            raise RookeryError(f"{name} has {len(segment[name])} rows, and there are {number}")
    for name, least, limit in (("before", 0, np.inf), ("next_row", 0, number), ("slot", -MOST_SLOTS, MOST_SLOTS)):
        if len(segment[name]) and not least <= segment[name].min() <= segment[name].max() < limit:
            raise RookeryError(
                f"{name} is from {segment[name].min()} to {segment[name].max()}, where {number} rows are"
            )


def rows_in(segment: SegmentArrays) -> int:
    """Returns the number of rows of a segment."""
    return len(segment["reward"])


def part_of(segment: SegmentArrays, start: int, end: int) -> SegmentArrays:
    """Returns consecutive rows of a segment. A row whose next one is in the rest has no next observation."""
    part: SegmentArrays = {"serial": segment["serial"] + start}
    chosen = {
        name: np.flatnonzero((segment[name] >= start) & (segment[name] < end))
        for name in ("next_row", "memory_row")
        if name in segment
    }
    for name, array in segment.items():
        if name.startswith("next_"):
            part[name] = array[chosen["next_row"]] - (start if name == "next_row" else 0)
        elif name.startswith("memory"):
            part[name] = array[chosen["memory_row"]] - (start if name == "memory_row" else 0)
        elif not name.startswith(("serial", "frame/", "number/")):
            part[name] = array[start:end]
    return part | _frames_used(segment, part)


def _frames_used(segment: SegmentArrays, part: SegmentArrays) -> SegmentArrays:
    """Returns the frames of a segment that some of its rows use, with their serial numbers."""
    found: SegmentArrays = {}
    for name in [name for name in segment if name.startswith("number/")]:
        path = name.removeprefix("number/")
        used = np.concatenate((part[f"stack/{path}"].ravel(), part[f"next_stack/{path}"].ravel()))
        kept = np.flatnonzero(np.isin(segment[name], used))
        found[name], found[f"frame/{path}"] = segment[name][kept], segment[f"frame/{path}"][kept]
    return found


def kept_rows(segment: SegmentArrays, kept: np.ndarray, place: np.ndarray, first: int, floor: int) -> SegmentArrays:
    """Returns the kept rows of a segment; whole episodes are kept.

    Args:
        segment: Rows of a buffer.
        kept: ``[total]`` mask of the kept rows of the whole buffer.
        place: ``[total]`` index of each of those among the kept rows.
        first: Index of the first row of the segment in the buffer.
        floor: Index of the first row that the segment may follow: earlier rows are of other slots.
    """
    mine = kept[first : first + rows_in(segment)]
    rows = np.flatnonzero(mine)
    previous = rows + first - segment["before"][rows]
    linked = (segment["before"][rows] > 0) & (previous >= floor)
    linked[linked] = kept[previous[linked]]
    before = np.zeros(len(rows), np.int64)
    before[linked] = place[rows + first][linked] - place[previous[linked]]
    new = np.cumsum(mine) - 1
    found: SegmentArrays = {"serial": np.array([place[rows[0] + first] if len(rows) else 0])}
    for name, array in segment.items():
        if name.startswith(("next_", "memory")):
            which = "next_row" if name.startswith("next_") else "memory_row"
            chosen = array[mine[segment[which]]]
            found[name] = new[chosen] if name == which else chosen
        elif name == "before":
            found[name] = before
        elif not name.startswith(("serial", "frame/", "number/")):
            found[name] = array[rows]
    return found | _frames_used(segment, found)


def segment_of(rollout: Rollout, total: int, newest: np.ndarray, due: np.ndarray) -> SegmentArrays:
    """Returns the valid rows of a rollout as a segment, ordered by time, then by fragment.

    Several fragments of one slot are ordered one after the other.

    Args:
        rollout: A rollout of F fragments.
        total: Serial number of the first row.
        newest: ``[F]`` serial number of the newest row of each fragment's slot, or -1; overwritten.
        due: ``[F]`` clock of the decision after that row; overwritten.
    """
    steps, fragments = rollout.reward.shape
    slot, clock, length = rollout.slot.numpy(), rollout.clock.numpy(), rollout.length.numpy()
    terminated, truncated = rollout.terminated.numpy(), rollout.truncated.numpy()
    turn, previous = _turns(slot)
    t, f = np.nonzero(np.arange(steps)[:, None] < length)
    if turn.any():
        order = np.lexsort((f, t, turn[f]))
        t, f = t[order], f[order]
    number = np.empty((steps, fragments), np.int64)
    number[t, f] = np.arange(len(t))

    # the row before the first one of each fragment
    again = np.flatnonzero(turn)
    earlier = previous[again]
    newest[again] = total + number[length[earlier] - 1, earlier]
    due[again] = clock[earlier] + length[earlier]
    reach = np.where((newest >= 0) & (due == clock), total + number[0] - newest, 0)
    before = np.where(t == 0, reach[f], number[t, f] - number[np.maximum(t - 1, 0), f])

    # next observations of rows that no row of this fragment follows, or whose episode was truncated
    end = length - 1
    every = np.arange(fragments)
    open_ = np.flatnonzero(~(terminated[end, every] | truncated[end, every]))
    boot = rollout.boot_index.numpy()
    ended = np.flatnonzero(~terminated[boot[:, 0], boot[:, 1]])
    segment = {
        "serial": np.array([total]),
        **{name: getattr(rollout, name).numpy()[t, f] for name in BY_ROW},
        "slot": slot[f],
        "clock": clock[f] + t,
        "before": before,
        "next_row": np.concatenate((number[end[open_], open_], number[boot[ended, 0], boot[ended, 1]])),
    }
    for path, leaf in rollout.obs.items():
        segment[f"obs/{path}"] = leaf.numpy()[t, f]
        last, final = rollout.last_obs[path].numpy(), rollout.final_obs[path].numpy()
        segment[f"next_obs/{path}"] = np.concatenate((last[open_], final[ended]))
    if rollout.memory is not None:
        kept = np.flatnonzero(t % rollout.memory_every == 0)
        segment["memory_row"] = kept
        segment["memory"] = rollout.memory.numpy()[t[kept] // rollout.memory_every, f[kept]]
    return segment


def _turns(slot: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns for each fragment the number of earlier fragments of its slot in the rollout, and the latest of them."""
    fragments = len(slot)
    turn, previous = np.zeros(fragments, np.int64), np.zeros(fragments, np.int64)
    numbers = slot.tolist()
    if len(set(numbers)) < fragments:
        latest: dict[int, int] = {}
        for fragment, number in enumerate(numbers):
            if number in latest:
                previous[fragment] = latest[number]
                turn[fragment] = turn[latest[number]] + 1
            latest[number] = fragment
    return turn, previous
