"""Files ``.npz``: arrays by name, as Rookery exports them, or as others keep data sets (D4RL's names are known)."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np

from rookery.core.errors import SpaceError
from rookery.core.files import FileError
from rookery.replay.formats.blocks import BLOCK_BYTES, BlockColumns, episodes_in
from rookery.replay.formats.columns import Wanted, find_columns
from rookery.replay.formats.staged import Staged
from rookery.replay.pieces import BY_ROW
from rookery.replay.recording import EpisodeSource, RecordedEpisode, Recording, known_raw
from rookery.replay.segments import RAW, Spaces
from rookery.replay.transfer import ABOUT


def read_npz(path: Path, wanted: Wanted) -> dict[str, EpisodeSource]:
    """Reads a file, without pickle; one that Rookery has exported at once, others in blocks.

    Raises:
        FileError: If it cannot be read, or is broken.
        ConfigError: If it has not the arrays that are needed, or a row cannot be used; names it.
        SpaceError: If it is of other spaces.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            if ABOUT in archive.files:
                arrays = {name: archive[name] for name in archive.files}
                return {wanted.policy: own_recording(path, arrays, wanted.spaces)}
            names: list[str] = archive.files
        staged = Staged()
        with zipfile.ZipFile(path) as archive:
            names = [name for name in names if f"{name}.npy" in archive.namelist()]
            with_rows = [name for name in names if _put_aside(archive, name, None)]
            roles = find_columns(str(path), with_rows, wanted.columns)
            for name in dict.fromkeys(name for mine in roles.values() for name in mine):
                _put_aside(archive, name, staged)
    except FileNotFoundError:
        raise FileError(f"{path}: there is no such file") from None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        hint = "; arrays of objects are pickles and are not read" if "allow_pickle" in str(error) else ""
        raise FileError(f"{path}: is no whole .npz file: {str(error) or type(error).__name__}{hint}") from None
    staged.close()
    # Stable-Baselines writes one observation more
    columns = BlockColumns(str(path), staged.opened, roles, names, wanted, one_more=True)
    return {wanted.policy: episodes_in(columns)}


def _put_aside(archive: zipfile.ZipFile, name: str, staged: Staged | None) -> bool:
    """Puts an array of the archive aside, some rows at a time; says whether it has rows.

    Raises:
        ValueError: If it is one of objects, or not whole.
    """
    with archive.open(f"{name}.npy") as file:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, by_columns, dtype = read(file)
        if staged is None or not shape:
            return bool(shape)
        if dtype.hasobject:
            raise ValueError("Object arrays cannot be loaded when allow_pickle=False")
        if by_columns:
            whole = np.frombuffer(file.read(), dtype, int(np.prod(shape))).reshape(shape[::-1]).T
            staged.append(name, np.ascontiguousarray(whole))
            return True
        width = int(np.prod(shape[1:], dtype=np.int64)) * dtype.itemsize
        step = max(BLOCK_BYTES // max(width, 1), 1)
        for start in range(0, max(shape[0], 1), step):
            number = min(step, shape[0] - start)
            rows = np.frombuffer(file.read(number * width), dtype)
            staged.append(name, rows.reshape(number, *shape[1:]))
        return True


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
        raw = arrays.get(RAW)
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
                None if raw is None else known_raw(raw[part]),
            )
        )
    return Recording(spaces, tuple(episodes))
