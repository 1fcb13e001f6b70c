"""Episodes of a file with a row for each decision, read in blocks.

The rows are read twice: once to check every value and to find the episodes, which keeps only flags and rewards, and
once when the episodes are written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any

import numpy as np
from gymnasium import spaces

from rookery.core.errors import ConfigError
from rookery.core.io.files import FileError
from rookery.core.spaces.arrays import action_spec, obs_spec
from rookery.replay.formats.columns import (
    WHOLE,
    ColumnTable,
    EpisodeFlags,
    StoredRows,
    Wanted,
    bare_flag,
    check_numbers,
    differ,
    episode_of,
    guessed_spaces,
    recording_of_table,
    stored_rows,
    taken,
    unused,
    with_reasons,
)
from rookery.replay.recording import EpisodeSource, RecordedEpisode, without_running
from rookery.replay.segments import Spaces

BLOCK_BYTES = 1 << 24
"""Approximate size of a block in bytes."""

Opened = Callable[[], AbstractContextManager[Mapping[str, Any]]]
"""Opens the columns of a file by name: each with a ``shape``, a ``dtype`` and slices of its rows, as in h5py."""


class Interleaved(ConfigError):
    """Rows of one episode are interleaved with others."""


class BlockColumns:
    """The columns of a file that have a role, read in blocks of rows.

    Args:
        source: The file, for messages.
        opened: Context manager of its columns.
        roles: Names of the columns of each role.
        names: All columns of the file.
        wanted: Options of reading.
        row_name: Returns the name of row 0, 1, ... in messages.
        has_unit_bounds: Whether continuous actions within -1 and 1 get these bounds.
        one_more: Whether columns may have one row more than actions, which is ignored.

    Attributes:
        source: The file, for messages.
        taken: Roles of columns, as text.
        dropped: Columns without a role.
        bare_flag: The only flag of episode ends, if it does not distinguish termination from truncation.
        wanted: Options of reading.
        block: Number of rows in a block.

    Raises:
        FileError: If it cannot be read.
        ConfigError: If columns have different lengths, or no rows.
    """

    def __init__(
        self,
        source: str,
        opened: Opened,
        roles: Mapping[str, Sequence[str]],
        names: Sequence[str],
        wanted: Wanted,
        *,
        row_name: Callable[[int], str] = ColumnTable.row_name,
        has_unit_bounds: bool = False,
        one_more: bool = False,
    ) -> None:
        self.source, self.has_unit_bounds, self.row_name = source, has_unit_bounds, row_name
        self._opened, self._roles = opened, roles
        used = [name for mine in roles.values() for name in mine]
        with opened() as columns:
            self._length = len(columns[roles["action"][0]])
            for name in used:
                if len(columns[name]) not in (self._length, self._length + one_more):
                    raise ConfigError(
                        f"{source}: {name} has {len(columns[name]):,} rows, and {roles['action'][0]} "
                        f"{self._length:,}: their rows do not match; cut them to the same rows, or name "
                        "others with --column"
                    )
            row = sum(
                int(np.prod(columns[name].shape[1:], dtype=np.int64)) * columns[name].dtype.itemsize for name in used
            )
        self.taken, self.dropped = taken(roles), unused(list(names), roles)
        self.bare_flag, self.wanted = bare_flag(roles), wanted
        self.block = max(BLOCK_BYTES // max(row, 1), 1)
        if not self._length:
            raise ConfigError(f"{source}: has no rows")

    def __len__(self) -> int:
        return self._length

    def has(self, role: str) -> bool:
        """Returns whether there is a column of a role."""
        return any(known.partition("/")[0] == role for known in self._roles)

    def table(self, start: int, roles: Sequence[str] | None = None, number: int | None = None) -> ColumnTable:
        """Returns a block of rows from `start` on, or `number` rows; with `roles` only their columns."""
        end = min(start + (self.block if number is None else number), self._length)
        found: dict[str, np.ndarray] = {}
        with self._opened() as columns:
            for role, names in self._roles.items():
                if roles is None or role.partition("/")[0] in roles:
                    found[role] = self._read(columns, names, start, end)
        by_role = with_reasons(self._roles, found)
        return ColumnTable(
            self.source, by_role, lambda row: self.row_name(start + row), self.taken, self.dropped, self.bare_flag
        )

    def _read(self, columns: Mapping[str, Any], names: Sequence[str], start: int, end: int) -> np.ndarray:
        try:
            arrays = [np.asarray(columns[name][start:end]) for name in names]
        except OSError as error:
            raise FileError(
                f"{self.source}: {names[0]} cannot be read from {self.row_name(start)} on: {error}"
            ) from None
        if len(arrays) == 1:
            return arrays[0]
        return np.concatenate([array.reshape(len(array), -1) for array in arrays], axis=1)

    def starts(self) -> range:
        """Returns the first row of each block."""
        return range(0, len(self), self.block)


def episodes_in(columns: BlockColumns) -> EpisodeSource:
    """Returns the episodes of a file, read on demand; or all at once if episodes are interleaved.

    Args:
        columns: The file.

    Raises:
        ConfigError: If a row has a value that is not a number or not in the spaces, or time jumps; names it.
        SpaceError: If its spaces differ; names both.
    """
    made_of = columns.wanted.spaces or spaces_of_columns(columns)
    try:
        return BlockEpisodes(columns, made_of)
    except Interleaved:
        return recording_of_table(columns.table(0, number=len(columns)), columns.wanted, made_of)


def spaces_of_columns(columns: BlockColumns) -> Spaces:
    """Returns spaces inferred from the rows, see `guessed_spaces`."""
    ends: dict[str, list[np.ndarray]] = {}
    for start in columns.starts():
        table = columns.table(start, ("obs", "action"))
        check_numbers(table)
        for role, array in table.columns.items():
            if role == "action" or (array.dtype.kind in WHOLE and array.ndim <= 2):
                ends.setdefault(role, []).extend((array.min(axis=0), array.max(axis=0)))
            else:
                ends.setdefault(role, [array[0], array[0]])
    least = {role: np.stack([np.min(found, axis=0), np.max(found, axis=0)]) for role, found in ends.items()}
    for role, found in ends.items():
        if role != "action" and not (found[0].dtype.kind in WHOLE and found[0].ndim <= 1):
            least[role] = np.stack(found[:2])
    made_of = guessed_spaces(ColumnTable(columns.source, least), columns.wanted.action_bounds)
    action, numbers = made_of.action.space, least["action"]
    is_open = isinstance(action, spaces.Box) and not made_of.action.is_bounded
    if columns.has_unit_bounds and is_open and np.abs(numbers.astype(np.float64)).max() <= 1:
        action = spaces.Box(-1.0, 1.0, action.shape, np.float32)
    return Spaces(obs_spec(made_of.obs.space, action, info_mask=made_of.obs.has_mask), action_spec(action), 0)


@dataclass
class FileScan:
    """Flags and rewards of all rows of a file, in parts, collected while searching for episodes."""

    reward: list[np.ndarray]
    unseen: list[np.ndarray]
    terminated: list[np.ndarray]
    truncated: list[np.ndarray]
    begins: list[np.ndarray]
    differs: list[np.ndarray]
    steps: list[np.ndarray]
    episode: list[np.ndarray]


class BlockEpisodes:
    """Episodes of a file, read on demand.

    Args:
        columns: The file.
        made_of: Spaces of its rows.

    Raises:
        Interleaved: If rows of one episode are interleaved with others.
        ConfigError: If a row has a value that is not a number or not in the spaces, or time jumps; names it.
        SpaceError: If its spaces differ; names both.
    """

    def __init__(self, columns: BlockColumns, made_of: Spaces) -> None:
        self._columns, self.spaces = columns, made_of
        self.taken, self.dropped = columns.taken, columns.dropped
        self._block = lru_cache(maxsize=2)(self._rows_from)
        found = self._scan()
        flags = EpisodeFlags(
            np.concatenate(found.begins) | self._breaks(found.episode),
            np.concatenate(found.terminated),
            np.concatenate(found.truncated),
            np.concatenate(found.differs)[1:] if found.differs else None,
            np.concatenate(found.steps) if found.steps else None,
        )
        self._wanted, self.notes = flags.with_limit(columns.wanted, columns.bare_flag)
        self._bounds = flags.episodes(self._wanted, self._bad)
        last = self._bounds[1:] - 1
        self._terminated, self._truncated = flags.terminated[last], flags.truncated[last]
        self._reward = np.concatenate(found.reward) if found.reward else None
        lacks = {
            "reward": self._reward is None,
            "logp": not columns.has("logp"),
            "last_obs": bool(np.concatenate(found.unseen)[last[~self._terminated]].any()),
        }
        self.missing = tuple(name for name, is_missing in lacks.items() if is_missing)

    def __len__(self) -> int:
        return len(self._columns)

    @property
    def lengths(self) -> np.ndarray:
        """Number of decisions of each episode."""
        return np.diff(self._bounds)

    @property
    def episodes(self) -> Sequence[RecordedEpisode]:
        """All episodes in memory."""
        return tuple(self.read(np.arange(len(self._bounds) - 1)))

    def returns(self) -> np.ndarray:
        """Returns the return of each episode, NaN where unknown."""
        if self._reward is None:
            return np.full(len(self._bounds) - 1, np.nan)
        sums = np.add.reduceat(self._reward.astype(np.float64), self._bounds[:-1])
        return without_running(sums, (self._terminated | self._truncated).tolist())

    def read(self, which: np.ndarray) -> Iterator[RecordedEpisode]:
        """Yields some episodes, by their ascending indices."""
        for number in which.tolist():
            start, end = int(self._bounds[number]), int(self._bounds[number + 1])
            ends, cut = bool(self._terminated[number]), bool(self._truncated[number])
            one = episode_of(self._rows(start, end), slice(None), ends, cut)
            if one.last_obs is not None and (problem := self.spaces.obs.check(one.last_obs, slice(None))):
                if len(one) != self._wanted.time_limit:
                    raise self._bad(end - 1, f"next_obs: {problem}")
                one = replace(one, last_obs=None)  # recorded as termination, so the observation was not written
            yield one

    def _bad(self, row: int, problem: str) -> ConfigError:
        return ConfigError(f"{self._columns.source}: {self._columns.row_name(row)}: {problem}")

    def _rows_from(self, start: int) -> StoredRows:
        """Returns the block of rows from `start` on."""
        table = self._columns.table(start)
        check_numbers(table)
        return stored_rows(table, self.spaces, clip_actions=self._columns.wanted.clip_actions)

    def _rows(self, start: int, end: int) -> StoredRows:
        size = self._columns.block
        parts = []
        for first in range(start // size * size, end, size):
            parts.append(_part(self._block(first), max(start - first, 0), end - first))
        return parts[0] if len(parts) == 1 else _joined(parts)

    def _scan(self) -> FileScan:
        """Reads and checks every row."""
        found, before = FileScan([], [], [], [], [], [], [], []), None
        for start in self._columns.starts():
            rows = self._block(start)
            table = self._columns.table(start, ("begins", "episode", "step"))
            number = len(rows.terminated)
            found.terminated.append(rows.terminated)
            found.truncated.append(rows.truncated)
            found.unseen.append(np.full(number, rows.next_obs is None))
            begins = table.columns.get("begins")
            found.begins.append(np.zeros(number, bool) if begins is None else begins.reshape(number, -1)[:, 0] != 0)
            if rows.reward is not None:
                found.reward.append(rows.reward)
            for role, parts in (("step", found.steps), ("episode", found.episode)):
                if role in table.columns:
                    parts.append(table.columns[role].reshape(number, -1))
            if rows.next_obs is not None:
                ahead = np.ones(number, bool)  # whether next_obs of the previous row differs
                for path, leaf in rows.obs.items():
                    if leaf.dtype.kind == "f":
                        finite = np.isfinite(rows.next_obs[path]).reshape(number, -1).all(axis=1)
                        found.unseen[-1] |= ~finite
                    last = leaf[:1] if before is None else before[path]
                    expected = np.concatenate((last, rows.next_obs[path][:-1]))
                    ahead = differ(expected, leaf) if path == next(iter(rows.obs)) else ahead | differ(expected, leaf)
                found.differs.append(ahead)
                before = {path: leaf[-1:] for path, leaf in rows.next_obs.items()}
        if found.differs:
            found.differs.append(np.zeros(1, bool))
        found.steps = [part[:, 0] for part in found.steps]
        return found

    def _breaks(self, parts: list[np.ndarray]) -> np.ndarray:
        """Returns a mask ``[N]`` of the rows at which the episode id changes.

        Raises:
            Interleaved: If rows of one episode are interleaved with others.
        """
        if not parts:
            return np.zeros(len(self), bool)
        ids = np.concatenate(parts)
        changes = np.concatenate(([True], (ids[1:] != ids[:-1]).any(axis=1)))
        starts = np.flatnonzero(changes)
        _, first = np.unique(ids[starts], axis=0, return_index=True)
        again = np.setdiff1d(np.arange(len(starts)), first)
        if len(again):
            row = int(starts[again[0]])
            raise Interleaved(*self._bad(row, f"episode {ids[row].tolist()} continues after others").problems)
        return changes


def _part(rows: StoredRows, start: int, end: int) -> StoredRows:
    """Returns some of the rows."""

    def cut(value: Any) -> Any:
        if isinstance(value, dict):
            return {path: leaf[start:end] for path, leaf in value.items()}
        return None if value is None else value[start:end]

    return StoredRows(**{field.name: cut(getattr(rows, field.name)) for field in fields(StoredRows)})


def _joined(parts: Sequence[StoredRows]) -> StoredRows:
    """Returns rows of several blocks as one."""

    def whole(values: list[Any]) -> Any:
        if isinstance(values[0], dict):
            return {path: np.concatenate([value[path] for value in values]) for path in values[0]}
        return None if values[0] is None else np.concatenate(values)

    found = {field.name: whole([getattr(part, field.name) for part in parts]) for field in fields(StoredRows)}
    return StoredRows(**found)
