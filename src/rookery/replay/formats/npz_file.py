"""Files ``.npz``: arrays by name, as Rookery exports them, or as others keep data sets (D4RL's names are known)."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np

from rookery.core.errors import ConfigError, SpaceError
from rookery.core.files import FileError
from rookery.replay.formats.columns import (
    Wanted,
    find_columns,
    recording_of_table,
    table_of,
)
from rookery.replay.pieces import BY_ROW
from rookery.replay.recording import RecordedEpisode, Recording
from rookery.replay.segments import Spaces
from rookery.replay.transfer import ABOUT


def read_npz(path: Path, wanted: Wanted) -> dict[str, Recording]:
    """Reads a file, without pickle.

    Raises:
        FileError: If it cannot be read, or is broken.
        ConfigError: If it has not the arrays that are needed, or a row cannot be used; names it.
        SpaceError: If it is of other spaces.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except FileNotFoundError:
        raise FileError(f"{path}: there is no such file") from None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        hint = "; arrays of objects are pickles and are not read" if "allow_pickle" in str(error) else ""
        raise FileError(f"{path}: is no whole .npz file: {str(error) or type(error).__name__}{hint}") from None
    if ABOUT in arrays:
        return {wanted.policy: own_recording(path, arrays, wanted.spaces)}
    rows = {name: array for name, array in arrays.items() if array.ndim}
    names = find_columns(str(path), list(rows), wanted.columns)
    found = {role: _side_by_side([rows[name] for name in mine]) for role, mine in names.items()}
    number = len(found["action"])
    uneven = {role: len(array) for role, array in found.items() if len(array) not in (number, number + 1)}
    if uneven:
        role, length = next(iter(uneven.items()))
        raise ConfigError(
            f"{path}: {role} has {length:,} rows, and action {number:,}: one of them begins or ends elsewhere; cut "
            "them to the same rows, or name others with --column"
        )
    found = {role: array[:number] for role, array in found.items()}  # Stable-Baselines writes one observation more
    table = table_of(str(path), found, list(arrays), names, wanted)
    return {wanted.policy: recording_of_table(table, wanted)}


def _side_by_side(arrays: list[np.ndarray]) -> np.ndarray:
    if len(arrays) == 1:
        return arrays[0]
    return np.concatenate([array.reshape(len(array), -1) for array in arrays], axis=1)


def own_recording(path: Path, arrays: dict[str, np.ndarray], wanted: Spaces | None) -> Recording:
    """The episodes of a file that Rookery has exported; numbers are as they were stored.

    Raises:
        FileError: If something is missing in it.
        SpaceError: If other spaces are wanted.
    """
    try:
        about = json.loads(str(arrays[ABOUT]))
        spaces = Spaces.from_json(json.dumps(about["spaces"] | {"memory_size": 0}))
        missing = set(about["missing"])
        obs = {leaf.path: "" if leaf.path == "obs" else f"/{leaf.path}" for leaf in spaces.obs.leaves}
        seen = {leaf: arrays[f"obs{own}"] for leaf, own in obs.items()}
        following = {leaf: arrays[f"next_obs{own}"] for leaf, own in obs.items()}
        rows = {name: arrays[name] for name in (*BY_ROW, "slot", "clock")}
    except (KeyError, ValueError, TypeError) as error:
        raise FileError(f"{path}: is no whole export of a replay buffer ({type(error).__name__}: {error})") from None
    if wanted is not None and (wanted.obs != spaces.obs or wanted.action != spaces.action):
        raise SpaceError(f"{path}: holds {spaces}, and {wanted} are wanted")
    order = np.argsort(rows["slot"], kind="stable")
    slot, clock, begins = (rows[name][order] for name in ("slot", "clock", "begins"))
    ends = (rows["terminated"] | rows["truncated"])[order]
    breaks = (slot[1:] != slot[:-1]) | (clock[1:] != clock[:-1] + 1) | begins[1:] | ends[:-1]
    parts = np.split(order, np.flatnonzero(breaks) + 1) if len(order) else []
    episodes = []
    for part in sorted(parts, key=lambda part: int(part[0])):
        last = part[-1]
        terminated = bool(rows["terminated"][last])
        last_obs = None if terminated else {leaf: array[last : last + 1] for leaf, array in following.items()}
        if last_obs is not None and "last_obs" in missing:
            known = any((array[0] != seen[leaf][last]).any() for leaf, array in last_obs.items())
            last_obs = last_obs if known else None
        episodes.append(
            RecordedEpisode(
                {leaf: array[part] for leaf, array in seen.items()},
                rows["action"][part],
                None if "reward" in missing else rows["reward"][part],
                None if "logp" in missing else rows["logp"][part],
                terminated,
                bool(rows["truncated"][last]) and not terminated,
                last_obs,
            )
        )
    return Recording(spaces, tuple(episodes))
