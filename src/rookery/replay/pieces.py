"""Pieces of a replay buffer: consecutive rows as arrays by name, as they are added and as files keep them.

What their names mean stands at `replay/buffer.py:ReplayBuffer.rows_between`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rookery.core.batch import Rollout
from rookery.core.errors import RookeryError

Piece = dict[str, np.ndarray]

BY_ROW = ("action", "logp", "reward", "terminated", "truncated", "begins")
"""Columns of a piece that a rollout has as ``[T, F, ...]``."""


MOST_SLOTS = 1 << 26
"""Slots whose newest rows are kept in an array."""


def check_array(piece: Piece, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Sees that a piece has an array ``[n, *shape]``.

    Raises:
        RookeryError: If not.
    """
    if name not in piece:
        raise RookeryError(f"the rows have no {name!r}; they have {', '.join(sorted(piece))}")
    found = piece[name]
    if found.shape[1:] != shape or found.dtype != dtype:
        raise RookeryError(
            f"{name} is {found.dtype} of shape {found.shape[1:]}, and the policy's {dtype} of shape {shape}; "
            "only rows that were played in an environment of the same spaces can be used"
        )


def check_numbers_of_rows(piece: Piece, by_row: Sequence[str]) -> None:
    """Sees that the arrays of a piece are of equally many rows, and that numbers of rows and slots are numbers of some.

    Args:
        piece: The rows.
        by_row: The arrays that have an entry for each.

    Raises:
        RookeryError: If not.
    """
    number = rows_in(piece)
    for name in by_row:
        if len(piece[name]) != number:
            raise RookeryError(f"{name} has {len(piece[name])} rows, and there are {number}")
    for name, least, limit in (("before", 0, np.inf), ("next_row", 0, number), ("slot", -MOST_SLOTS, MOST_SLOTS)):
        if len(piece[name]) and not least <= piece[name].min() <= piece[name].max() < limit:
            raise RookeryError(f"{name} is from {piece[name].min()} to {piece[name].max()}, where {number} rows are")


def rows_in(piece: Piece) -> int:
    """How many rows a piece has."""
    return len(piece["reward"])


def part_of(piece: Piece, start: int, end: int) -> Piece:
    """Some consecutive rows of a piece. A row whose next one is in the rest has no observation of its own for that."""
    part: Piece = {"serial": piece["serial"] + start}
    chosen = {
        name: np.flatnonzero((piece[name] >= start) & (piece[name] < end))
        for name in ("next_row", "memory_row")
        if name in piece
    }
    for name, array in piece.items():
        if name.startswith("next_"):
            part[name] = array[chosen["next_row"]] - (start if name == "next_row" else 0)
        elif name.startswith("memory"):
            part[name] = array[chosen["memory_row"]] - (start if name == "memory_row" else 0)
        elif not name.startswith(("serial", "frame/", "number/")):
            part[name] = array[start:end]
    return part | _frames_used(piece, part)


def _frames_used(piece: Piece, part: Piece) -> Piece:
    """The frames of a piece that some of its rows use, with their numbers."""
    found: Piece = {}
    for name in [name for name in piece if name.startswith("number/")]:
        path = name.removeprefix("number/")
        used = np.concatenate((part[f"stack/{path}"].ravel(), part[f"next_stack/{path}"].ravel()))
        kept = np.flatnonzero(np.isin(piece[name], used))
        found[name], found[f"frame/{path}"] = piece[name][kept], piece[f"frame/{path}"][kept]
    return found


def kept_rows(piece: Piece, kept: np.ndarray, place: np.ndarray, first: int, floor: int) -> Piece:
    """The rows of whole episodes that are kept of a piece.

    Args:
        piece: Rows of a buffer.
        kept: ``[total]`` which rows of the whole buffer are kept.
        place: ``[total]`` of each of those, how many are kept before it.
        first: Number of the first row of the piece in the buffer.
        floor: Number of the first row that the piece may follow: rows before it are of other slots.
    """
    mine = kept[first : first + rows_in(piece)]
    rows = np.flatnonzero(mine)
    previous = rows + first - piece["before"][rows]
    linked = (piece["before"][rows] > 0) & (previous >= floor)
    linked[linked] = kept[previous[linked]]
    before = np.zeros(len(rows), np.int64)
    before[linked] = place[rows + first][linked] - place[previous[linked]]
    new = np.cumsum(mine) - 1
    found: Piece = {"serial": np.array([place[rows[0] + first] if len(rows) else 0])}
    for name, array in piece.items():
        if name.startswith(("next_", "memory")):
            which = "next_row" if name.startswith("next_") else "memory_row"
            chosen = array[mine[piece[which]]]
            found[name] = new[chosen] if name == which else chosen
        elif name == "before":
            found[name] = before
        elif not name.startswith(("serial", "frame/", "number/")):
            found[name] = array[rows]
    return found | _frames_used(piece, found)


def piece_of(rollout: Rollout, total: int, newest: np.ndarray, due: np.ndarray) -> Piece:
    """The valid rows of a rollout as a piece, in the order of time, and of fragments at the same time.

    Where a slot has several fragments, these are at later times one after the other.

    Args:
        rollout: Of F fragments.
        total: Serial number of the first row.
        newest: ``[F]`` serial number of the newest row there is of each fragment's slot, or -1; overwritten.
        due: ``[F]`` clock of the decision that would follow that one; overwritten.
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

    # what was seen after rows that no row of this fragment follows, or whose episode was cut off
    end = length - 1
    every = np.arange(fragments)
    open_ = np.flatnonzero(~(terminated[end, every] | truncated[end, every]))
    boot = rollout.boot_index.numpy()
    ended = np.flatnonzero(~terminated[boot[:, 0], boot[:, 1]])
    piece = {
        "serial": np.array([total]),
        **{name: getattr(rollout, name).numpy()[t, f] for name in BY_ROW},
        "slot": slot[f],
        "clock": clock[f] + t,
        "before": before,
        "next_row": np.concatenate((number[end[open_], open_], number[boot[ended, 0], boot[ended, 1]])),
    }
    for path, leaf in rollout.obs.items():
        piece[f"obs/{path}"] = leaf.numpy()[t, f]
        last, final = rollout.last_obs[path].numpy(), rollout.final_obs[path].numpy()
        piece[f"next_obs/{path}"] = np.concatenate((last[open_], final[ended]))
    if rollout.memory is not None:
        kept = np.flatnonzero(t % rollout.memory_every == 0)
        piece["memory_row"] = kept
        piece["memory"] = rollout.memory.numpy()[t[kept] // rollout.memory_every, f[kept]]
    return piece


def _turns(slot: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of each fragment, how many of its slot came before it in the rollout, and the last one of these."""
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
