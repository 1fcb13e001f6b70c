"""Data sets as HDF5 files with a row for each decision, as D4RL has them; read in blocks, however large they are.

A file is read twice: once to look at every number and to find the episodes, of which only flags and rewards are kept,
and once when the episodes are written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from rookery.core.errors import ConfigError, SpaceError
from rookery.core.files import FileError
from rookery.core.spaces import action_spec, obs_spec
from rookery.replay.episodes import JoinedEpisodes
from rookery.replay.formats.columns import (
    WHOLE,
    ColumnTable,
    EpisodeFlags,
    StoredRows,
    Wanted,
    check_numbers,
    differ,
    episode_of,
    find_columns,
    guessed_spaces,
    notes_on,
    stored_rows,
    unused,
    with_reasons,
)
from rookery.replay.recording import EpisodeSource, RecordedEpisode, without_running
from rookery.replay.segments import Spaces

BLOCK_BYTES = 1 << 24
"""About how many bytes of a file are read together."""

SUFFIXES = ("hdf5", "h5")
"""How the names of such files end."""


def hdf5() -> Any:
    """The package that reads such files.

    Raises:
        ConfigError: If it is not installed.
    """
    try:
        import h5py
    except ImportError:
        raise ConfigError("HDF5 files need h5py: pip install 'rookery[hdf5]'") from None
    return h5py


def read_hdf5(path: Path, wanted: Wanted) -> dict[str, EpisodeSource]:
    """Reads a file, or all files ``.hdf5`` and ``.h5`` of a directory.

    Raises:
        FileError: If there is none, or one cannot be read.
        ConfigError: If h5py is not installed, a data set is not there, or a row cannot be used; names it.
        SpaceError: If it is of other spaces.
    """
    files = sorted(file for one in SUFFIXES for file in path.glob(f"*.{one}")) if path.is_dir() else [path]
    if not files:
        raise FileError(f"{path}: there are no files .hdf5 in it")
    found = [Hdf5Episodes(Hdf5Columns(file, wanted), wanted) for file in files]
    for one, file in zip(found, files, strict=True):
        if (one.spaces.obs, one.spaces.action) != (found[0].spaces.obs, found[0].spaces.action):
            raise SpaceError(
                f"{file}: holds {one.spaces}, and {files[0]} {found[0].spaces}; name the spaces of all (--env, --like)"
            )
    return {wanted.policy: found[0] if len(found) == 1 else JoinedEpisodes(found)}


class Hdf5Columns:
    """The data sets of a file that have a role, read some rows at a time.

    Args:
        path: The file.
        wanted: How it is to be read.

    Attributes:
        source: The file, for messages.
        dropped: Data sets without a role.
        notes: What the names say that people should know.
        block: Rows that are read together.

    Raises:
        FileError: If it cannot be read.
        ConfigError: If a data set is not there, or they have different lengths.
    """

    def __init__(self, path: Path, wanted: Wanted) -> None:
        self.source = str(path)
        self._path, self._package = path, hdf5()
        with self._opened() as file:
            sets: dict[str, Any] = {}
            file.visititems(lambda name, one: sets.update({name: one}) if hasattr(one, "dtype") else None)
            with_rows = [name for name, one in sets.items() if one.shape]
            if not with_rows:
                raise ConfigError(f"{path}: has no data sets with rows; observations, actions and so on are wanted")
            self._roles = find_columns(self.source, with_rows, wanted.columns)
            self._check_lengths({name: len(sets[name]) for mine in self._roles.values() for name in mine})
            self._length = len(sets[self._roles["action"][0]])
            row = sum(
                int(np.prod(sets[name].shape[1:], dtype=np.int64)) * sets[name].dtype.itemsize
                for mine in self._roles.values()
                for name in mine
            )
        self.dropped = unused(list(sets), self._roles)
        self.notes = notes_on(self._roles, wanted)
        self.block = max(BLOCK_BYTES // max(row, 1), 1)
        if not self._length:
            raise ConfigError(f"{path}: has no rows")

    def __len__(self) -> int:
        return self._length

    def _check_lengths(self, lengths: Mapping[str, int]) -> None:
        usual = lengths[self._roles["action"][0]]
        for name, length in lengths.items():
            if length != usual:
                raise ConfigError(
                    f"{self.source}: {name} has {length:,} rows, and {self._roles['action'][0]} {usual:,}: one of them "
                    "begins or ends elsewhere; cut them to the same rows, or name others with --column"
                )

    def _opened(self) -> Any:
        if not self._path.exists():
            raise FileError(f"{self._path}: there is no such file")
        try:
            return self._package.File(self._path, "r")
        except OSError as error:
            raise FileError(f"{self._path}: is no whole HDF5 file: {error}") from None

    def has(self, role: str) -> bool:
        """Says whether there is a column of a role."""
        return any(known.partition("/")[0] == role for known in self._roles)

    def table(self, start: int, roles: Sequence[str] | None = None) -> ColumnTable:
        """A block of rows from `start` on; with `roles` only their columns."""
        columns: dict[str, np.ndarray] = {}
        with self._opened() as file:
            for role, names in self._roles.items():
                if roles is None or role.partition("/")[0] in roles:
                    columns[role] = self._read(file, names, start)
        return ColumnTable(self.source, with_reasons(self._roles, columns), lambda row: f"row {start + row + 1:,}")

    def _read(self, file: Any, names: Sequence[str], start: int) -> np.ndarray:
        try:
            arrays = [np.asarray(file[name][start : start + self.block]) for name in names]
        except OSError as error:
            raise FileError(f"{self.source}: {names[0]} cannot be read from row {start + 1:,} on: {error}") from None
        if len(arrays) == 1:
            return arrays[0]
        return np.concatenate([array.reshape(len(array), -1) for array in arrays], axis=1)

    def starts(self) -> range:
        """The first row of each block."""
        return range(0, len(self), self.block)


def spaces_of_columns(columns: Hdf5Columns) -> Spaces:
    """What rows are made of, going by their numbers, see `guessed_spaces`; numbers from -1 to 1 that are decided have
    these bounds, as all of D4RL's have.
    """
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
    made_of = guessed_spaces(ColumnTable(columns.source, least))
    action, numbers = made_of.action.space, least["action"]
    if isinstance(action, spaces.Box) and np.abs(numbers.astype(np.float64)).max() <= 1:
        action = spaces.Box(-1.0, 1.0, action.shape, np.float32)
    return Spaces(obs_spec(made_of.obs.space, action, info_mask=made_of.obs.has_mask), action_spec(action), 0)


@dataclass
class Found:
    """What is kept of all rows of a file while its episodes are looked for, in parts."""

    reward: list[np.ndarray]
    terminated: list[np.ndarray]
    truncated: list[np.ndarray]
    begins: list[np.ndarray]
    differs: list[np.ndarray]
    steps: list[np.ndarray]
    episode: list[np.ndarray]


class Hdf5Episodes:
    """Episodes of a file, read from it when they are wanted.

    Args:
        columns: The file.
        wanted: How it is to be read.

    Raises:
        ConfigError: If a row holds what is no number or not in the spaces, or time jumps; names it.
        SpaceError: If it is of other spaces; names both.
    """

    def __init__(self, columns: Hdf5Columns, wanted: Wanted) -> None:
        self._columns, self._wanted = columns, wanted
        self.spaces = wanted.spaces or spaces_of_columns(columns)
        self.dropped, self.notes = columns.dropped, columns.notes
        self._block = lru_cache(maxsize=2)(self._rows_from)
        found = self._look()
        flags = EpisodeFlags(
            np.concatenate(found.begins) | self._breaks(found.episode),
            np.concatenate(found.terminated),
            np.concatenate(found.truncated),
            np.concatenate(found.differs)[1:] if found.differs else None,
            np.concatenate(found.steps) if found.steps else None,
        )
        self._bounds = flags.episodes(wanted, self._bad)
        last = self._bounds[1:] - 1
        self._terminated, self._truncated = flags.terminated[last], flags.truncated[last]
        self._reward = np.concatenate(found.reward) if found.reward else None
        lacks = {
            "reward": self._reward is None,
            "logp": not columns.has("logp"),
            "last_obs": not columns.has("next_obs") and not bool(self._terminated.all()),
        }
        self.missing = tuple(name for name, is_missing in lacks.items() if is_missing)

    def __len__(self) -> int:
        return len(self._columns)

    @property
    def lengths(self) -> np.ndarray:
        """Decisions of each episode."""
        return np.diff(self._bounds)

    @property
    def episodes(self) -> Sequence[RecordedEpisode]:
        """All of them at once."""
        return tuple(self.read(np.arange(len(self._bounds) - 1)))

    def returns(self) -> np.ndarray:
        """Gives the sum of the rewards of each, NaN where it is not known."""
        if self._reward is None:
            return np.full(len(self._bounds) - 1, np.nan)
        sums = np.add.reduceat(self._reward.astype(np.float64), self._bounds[:-1])
        return without_running(sums, (self._terminated | self._truncated).tolist())

    def read(self, which: np.ndarray) -> Iterator[RecordedEpisode]:
        """Gives some episodes, by their numbers, which ascend."""
        for number in which.tolist():
            start, end = int(self._bounds[number]), int(self._bounds[number + 1])
            ends, cut = bool(self._terminated[number]), bool(self._truncated[number])
            one = episode_of(self._rows(start, end), slice(None), ends, cut)
            if one.last_obs is not None and (problem := self.spaces.obs.check(one.last_obs, slice(None))):
                raise self._bad(end - 1, f"next_obs: {problem}")
            yield one

    def _bad(self, row: int, problem: str) -> ConfigError:
        return ConfigError(f"{self._columns.source}: row {row + 1:,}: {problem}")

    def _rows_from(self, start: int) -> StoredRows:
        """The block of rows that begins with this one."""
        table = self._columns.table(start)
        check_numbers(table)
        return stored_rows(table, self.spaces, clip_actions=self._wanted.clip_actions)

    def _rows(self, start: int, end: int) -> StoredRows:
        size = self._columns.block
        parts = []
        for first in range(start // size * size, end, size):
            parts.append(_part(self._block(first), max(start - first, 0), end - first))
        return parts[0] if len(parts) == 1 else _joined(parts)

    def _look(self) -> Found:
        """Looks at every row."""
        found, before = Found([], [], [], [], [], [], []), None
        for start in self._columns.starts():
            rows = self._block(start)
            table = self._columns.table(start, ("begins", "episode", "step"))
            number = len(rows.terminated)
            found.terminated.append(rows.terminated)
            found.truncated.append(rows.truncated)
            begins = table.columns.get("begins")
            found.begins.append(np.zeros(number, bool) if begins is None else begins.reshape(number, -1)[:, 0] != 0)
            if rows.reward is not None:
                found.reward.append(rows.reward)
            for role, parts in (("step", found.steps), ("episode", found.episode)):
                if role in table.columns:
                    parts.append(table.columns[role].reshape(number, -1))
            if rows.next_obs is not None:
                ahead = np.ones(number, bool)  # of each row, whether the row before it says something else
                for path, leaf in rows.obs.items():
                    last = leaf[:1] if before is None else before[path]
                    said = np.concatenate((last, rows.next_obs[path][:-1]))
                    ahead = differ(said, leaf) if path == next(iter(rows.obs)) else ahead | differ(said, leaf)
                found.differs.append(ahead)
                before = {path: leaf[-1:] for path, leaf in rows.next_obs.items()}
        if found.differs:
            found.differs.append(np.zeros(1, bool))
        found.steps = [part[:, 0] for part in found.steps]
        return found

    def _breaks(self, parts: list[np.ndarray]) -> np.ndarray:
        """Before which rows the number of the episode changes, ``[N]``.

        Raises:
            ConfigError: If rows of one episode have others between them.
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
            raise self._bad(
                row, f"episode {ids[row].tolist()} goes on after others: sort the rows by episode, or use a .npz file"
            )
        return changes


def _part(rows: StoredRows, start: int, end: int) -> StoredRows:
    """Some of the rows."""

    def cut(value: Any) -> Any:
        if isinstance(value, dict):
            return {path: leaf[start:end] for path, leaf in value.items()}
        return None if value is None else value[start:end]

    return StoredRows(**{field.name: cut(getattr(rows, field.name)) for field in fields(StoredRows)})


def _joined(parts: Sequence[StoredRows]) -> StoredRows:
    """Rows one after the other."""

    def whole(values: list[Any]) -> Any:
        if isinstance(values[0], dict):
            return {path: np.concatenate([value[path] for value in values]) for path in values[0]}
        return None if values[0] is None else np.concatenate(values)

    found = {field.name: whole([getattr(part, field.name) for part in parts]) for field in fields(StoredRows)}
    return StoredRows(**found)
