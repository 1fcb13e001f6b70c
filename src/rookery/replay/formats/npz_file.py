"""Files ``.npz``: arrays by name, exported by Rookery or by other programs (with D4RL's names, for example)."""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

import numpy as np

from rookery.core.errors import RookeryError, SpaceError
from rookery.core.io.files import FileError
from rookery.replay.formats.blocks import BLOCK_BYTES, BlockColumns, episodes_in
from rookery.replay.formats.columns import Wanted, check_unique, find_columns
from rookery.replay.formats.growth import growth_of
from rookery.replay.formats.npy import Header, read_header
from rookery.replay.formats.replay_format import ReplayFormat
from rookery.replay.formats.spool import SpooledColumns
from rookery.replay.recording import EpisodeSource, RecordedEpisode, Recording, known_raw
from rookery.replay.segment_arrays import BY_ROW
from rookery.replay.segments import RAW, Spaces, StoredReplay
from rookery.replay.transfer import ABOUT, write_arrays


def read_npz(path: Path, wanted: Wanted) -> dict[str, EpisodeSource]:
    """Reads a file without pickle; exports of Rookery at once, others in blocks.

    Raises:
        FileError: If it cannot be read, or is broken.
        ConfigError: If required arrays are missing, or a row cannot be used; names it.
        SpaceError: If its spaces differ.
    """
    growth = growth_of(path, wanted.max_unpacked)
    spooled = SpooledColumns()
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
            if ABOUT in names:
                check_unique(str(path), names, names)
                growth.take(sum(one.file_size for one in archive.infolist()))
                arrays = {name: _whole(archive, name) for name in names}
                return {wanted.policy: own_recording(path, arrays, wanted.spaces)}
            with_rows = [name for name in names if _has_rows(archive, name)]
            roles = find_columns(str(path), with_rows, wanted.columns)
            used = list(dict.fromkeys(name for mine in roles.values() for name in mine))
            growth.take(sum(archive.getinfo(f"{name}.npy").file_size for name in used))
            for name in used:
                _spool(archive, name, spooled)
    except RookeryError:
        raise
    except Exception as error:  # a damaged archive makes zipfile, zlib and NumPy fail in many ways
        hint = "; arrays of objects are pickles and are not read" if "allow_pickle" in str(error) else ""
        raise FileError(f"{path}: is not a complete .npz file: {str(error) or type(error).__name__}{hint}") from None
    spooled.close()
    # Stable-Baselines writes one extra observation
    columns = BlockColumns(str(path), spooled.opened, roles, names, wanted, one_more=True)
    return {wanted.policy: episodes_in(columns)}


def _has_rows(archive: zipfile.ZipFile, name: str) -> bool:
    """Returns whether an array of the archive has rows, so is not a scalar."""
    with archive.open(f"{name}.npy") as file:
        return bool(read_header(file).shape)


def _opened(archive: zipfile.ZipFile, name: str) -> tuple[IO[bytes], Header]:
    """Opens an array of the archive, positioned after its header.

    Raises:
        ValueError: If it contains objects, or is incomplete.
    """
    file = archive.open(f"{name}.npy")
    header, size = read_header(file), archive.getinfo(f"{name}.npy").file_size
    if header.nbytes > size:
        raise ValueError(f"{name} has {size:,} bytes, and its header says {header.nbytes:,}")
    return file, header


def _whole(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    """Returns an array of the archive."""
    file, header = _opened(archive, name)
    with file:
        return header.array(file.read())


def _spool(archive: zipfile.ZipFile, name: str, spooled: SpooledColumns) -> None:
    """Spools an array of the archive, some rows at a time.

    Raises:
        ValueError: If it contains objects, or is incomplete.
    """
    file, header = _opened(archive, name)
    with file:
        if header.by_columns:
            spooled.append(name, np.ascontiguousarray(header.array(file.read())))
            return
        rows, *shape = header.shape
        width = math.prod(shape) * header.dtype.itemsize
        step = max(BLOCK_BYTES // max(width, 1), 1)
        for start in range(0, max(rows, 1), step):
            block = Header((min(step, rows - start), *shape), False, header.dtype)
            spooled.append(name, block.array(file.read(block.nbytes)))


def own_recording(path: Path, arrays: dict[str, np.ndarray], wanted: Spaces | None) -> Recording:
    """Returns the episodes of a file exported by Rookery; values are as stored.

    Raises:
        FileError: If an array is missing or invalid.
        SpaceError: If its spaces are not the wanted ones.
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
    except (KeyError, ValueError, TypeError, SpaceError, RecursionError) as error:
        raise FileError(
            f"{path}: is not a complete export of a replay buffer ({type(error).__name__}: {error})"
        ) from None
    if wanted is not None and (wanted.obs != spaces.obs or wanted.action != spaces.action):
        raise SpaceError(f"{path}: holds {spaces}, and {wanted} are wanted")
    number = rows["slot"].size
    for name, array in rows.items():
        own = (spaces.action.shape, spaces.action.dtype) if name == "action" else ((), array.dtype)
        _check_layout(path, name, array, (number, *own[0]), own[1])
    for leaf in spaces.obs.leaves:
        for tree in (seen, following):
            _check_layout(path, f"obs {leaf.path}", tree[leaf.path], (number, *leaf.shape), leaf.dtype)
    if raw is not None:
        _check_layout(path, RAW, raw, (number, spaces.action.num_numbers), np.dtype(np.float32))
    if problem := spaces.obs.check(seen, slice(None)):
        raise FileError(f"{path}: {problem}")
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


def _check_layout(path: Path, name: str, array: np.ndarray, shape: tuple[int, ...], dtype: np.dtype) -> None:
    """Raises a FileError if shape or type of an array of an exported file differ from its spaces."""
    if array.shape != shape or array.dtype != dtype or array.dtype.kind not in "fiub":
        raise FileError(
            f"{path}: is not a complete export of a replay buffer: {name} is {array.dtype} of the shape {array.shape}, "
            "where "
            f"{dtype} of the shape {shape} should be"
        )


def _write_npz(stored: StoredReplay, path: Path, name: str, advance: Callable[[int], object]) -> None:
    write_arrays(stored, path, advance)


NPZ = ReplayFormat(read_npz, _write_npz, (".npz",))
