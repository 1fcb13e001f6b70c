"""RLlib's JSON files: one batch per line, with the columns of one policy or of several."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from rookery.core.errors import ConfigError, SpaceError
from rookery.core.io.files import FileError, write_file
from rookery.core.io.json_text import DuplicateKeyError, unique_keys
from rookery.replay.formats.blocks import BlockColumns, episodes_in
from rookery.replay.formats.columns import Wanted, columns_of, find_columns
from rookery.replay.formats.growth import Growth, growth_of
from rookery.replay.formats.packed import PackedError, unpack, unpack_trusted
from rookery.replay.formats.replay_format import ReplayFormat, of_recording
from rookery.replay.formats.spool import SpooledColumns
from rookery.replay.recording import EpisodeSource, Recording
from rookery.replay.segments import RAW

SINGLE = "default_policy"
"""RLlib's name of the policy in batches without a name."""

ROLES = ("obs", "new_obs", "actions", "rewards", "dones", "terminateds", "truncateds", "eps_id", "agent_index",
         "action_logp", RAW)  # fmt: skip
"""Columns of a batch that are read."""


def read_line(
    line: str, path: str | Path, unpacked: Callable[[str], Any]
) -> tuple[int | None, dict[str, dict[str, Any]]]:
    """Returns the batch of a line: columns by policy and name.

    Args:
        line: The line.
        path: Its place, for errors.
        unpacked: Returns the content of a packed column.

    Returns:
        The env steps of a batch of several policies, None for a single policy; and the columns, lists or arrays.

    Raises:
        FileError: If the line is not a batch, or two of its columns or policies have the same name.
        ConfigError: If a column cannot be unpacked.
    """
    try:
        record = json.loads(line, object_pairs_hook=unique_keys)
        kind = record.pop("type")
        parts = {SINGLE: record} if kind == "SampleBatch" else record["policy_batches"]
        count = None if kind == "SampleBatch" else int(record["count"])
        columns = {
            policy: {name: unpacked(one) if isinstance(one, str) else one for name, one in part.items()}
            for policy, part in parts.items()
        }
    except ConfigError as error:
        raise ConfigError(*(f"{path}: {problem}" for problem in error.problems)) from None
    except DuplicateKeyError as error:
        raise FileError(
            f"{path}: has two columns or policies named {error.key!r} in one object; rename one of them or remove it"
        ) from None
    except PackedError as error:
        raise FileError(f"{path}: {error}") from None
    except (ValueError, KeyError, AttributeError, TypeError, OverflowError, RecursionError) as error:
        raise FileError(f"{path}: a line is not a batch ({type(error).__name__}: {error})") from None
    return count, columns


def read_rllib(path: Path, wanted: Wanted) -> dict[str, EpisodeSource]:
    """Reads a file of batches, or all files ``*.json`` of a directory.

    Raises:
        FileError: If there is none, it is empty, or a line is not a batch.
        ConfigError: If a column is packed as a pickle and pickles are not trusted, or a row cannot be used; names it.
        SpaceError: If its spaces differ.
    """
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    if not files or not files[0].exists():
        raise FileError(f"{path}: there is no such file, or there are no files .json in it")
    found: dict[str, Batches] = {}
    for file in files:
        growth = growth_of(file, wanted.max_unpacked)
        for where, parts in _batches_in(file, wanted.trust_pickle, growth):
            for policy, columns in parts.items():
                found.setdefault(policy, Batches()).add(where, columns)
    if not found:
        raise FileError(f"{path}: is empty: it has no batches")
    if SINGLE in found and wanted.policy in found and wanted.policy != SINGLE:
        raise ConfigError(
            f"{path}: holds {SINGLE}, which is read as policy {wanted.policy!r}, and a policy of that name too; name "
            "the first one otherwise (--policy NAME)"
        )
    return {
        wanted.policy if policy == SINGLE else policy: _episodes(path, batches, wanted)
        for policy, batches in found.items()
    }


class Batches:
    """Spooled columns of a policy's batches, one batch after the other.

    Attributes:
        names: Columns that all batches have; None before the first.
        spooled: Their rows.
    """

    def __init__(self) -> None:
        self.names: list[str] | None = None
        self.spooled = SpooledColumns()

    def add(self, where: str, columns: Mapping[str, np.ndarray]) -> None:
        """Adds a batch; raises a ConfigError if the row shape of a column differs from earlier batches."""
        self.names = [name for name in (columns if self.names is None else self.names) if name in columns]
        for name in self.names:
            try:
                self.spooled.append(name, columns[name])
            except ValueError as error:
                raise ConfigError(f"{where}: column {name} has {error}") from None


def _lines_of(path: Path) -> Iterator[str]:
    try:
        with path.open(encoding="utf-8") as file:
            yield from file
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(f"{path}: cannot be read: {error}") from None


def _batches_in(
    path: Path, trust_pickle: bool, growth: Growth
) -> Iterator[tuple[str, dict[str, dict[str, np.ndarray]]]]:
    """Yields the batches of a file: place, and columns by policy and name."""
    unpacked = partial(unpack_trusted if trust_pickle else unpack, growth=growth)
    for number, line in enumerate(_lines_of(path), 1):
        if not line.strip():
            continue
        try:
            _, parts = read_line(line, f"{path}:{number}", unpacked)
        except ConfigError as error:
            if trust_pickle:
                raise
            raise ConfigError(f"{error}; or, if you trust its author, give --trust-pickle") from None
        yield (
            f"{path}:{number}",
            {
                policy: {name: _array(path, number, name, one) for name, one in part.items() if name in ROLES}
                for policy, part in parts.items()
            },
        )


def _array(path: Path, number: int, name: str, column: Any) -> np.ndarray:
    try:
        array = np.array(column)
    except (ValueError, OverflowError, RecursionError):
        array = np.array(None)
    if array.dtype.kind not in "fiub" or not array.ndim:
        raise ConfigError(
            f"{path}:{number}: column {name} does not contain numbers, or not equally many in each row: observations "
            "and "
            "actions with parts have to be flattened before they are written"
        )
    return array


def _episodes(path: Path, batches: Batches, wanted: Wanted) -> EpisodeSource:
    """Returns the episodes of a policy's batches, which may continue from one batch to the next."""
    names = list(batches.names or ())
    if "terminateds" in names and "dones" in names:  # `dones` does not distinguish termination from truncation
        names.remove("dones")
    batches.spooled.close()
    roles = {role: mine[:1] for role, mine in find_columns(str(path), names, wanted.columns).items()}
    if "episode" in roles and "agent_index" in names:
        roles["episode"] = [*roles["episode"], "agent_index"]
    columns = BlockColumns(str(path), batches.spooled.opened, roles, [], wanted)
    return episodes_in(columns)


def write_rllib(recording: Recording, path: Path) -> None:
    """Writes a batch for each episode, with plain columns.

    Raises:
        SpaceError: If observations or actions have parts, which such batches have no columns for.
        FileError: If the file cannot be written.
    """
    if [leaf.path for leaf in recording.spaces.obs.leaves] != ["obs"]:
        raise SpaceError(
            f"{path}: observations {recording.spaces.obs.space} have parts, which RLlib's batches have no columns for; "
            "use .npz or Minari instead"
        )
    columns = columns_of(recording, "new_obs")
    lines, start = [], 0
    for number, episode in enumerate(recording.episodes):
        rows = slice(start, start + len(episode))
        start += len(episode)
        batch = _batch({name: column[rows] for name, column in columns.items()}, number)
        lines.append(json.dumps({"type": "SampleBatch", **batch}) + "\n")
    write_file(path, "".join(lines).encode())


def _batch(columns: Mapping[str, np.ndarray], number: int) -> dict[str, list[Any]]:
    """Returns the columns of an episode by RLlib's names; NaN (of unknown observations) becomes 0."""
    names = {"obs": "obs", "new_obs": "new_obs", "action": "actions", "reward": "rewards", "logp": "action_logp",
             RAW: RAW, "terminated": "terminateds", "truncated": "truncateds", "step": "t"}  # fmt: skip
    found = {
        rllib_name: np.nan_to_num(columns[own_name]).tolist()
        for own_name, rllib_name in names.items()
        if own_name in columns
    }
    found["dones"] = (columns["terminated"] | columns["truncated"]).tolist()
    length = len(columns["terminated"])
    return found | {"eps_id": [number] * length, "agent_index": [0] * length}


RLLIB_JSON = ReplayFormat(read_rllib, of_recording(write_rllib), (".json",))
