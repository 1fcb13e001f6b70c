"""HDF5 data sets with a row for each decision, as in D4RL, read in blocks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rookery.core.errors import ConfigError, RookeryError, SpaceError
from rookery.core.io.files import FileError
from rookery.core.packages import needed
from rookery.replay.episodes import JoinedEpisodes
from rookery.replay.formats.blocks import BLOCK_BYTES, BlockColumns, episodes_in
from rookery.replay.formats.columns import Wanted, find_columns
from rookery.replay.formats.growth import growth_of
from rookery.replay.formats.replay_format import ReplayFormat
from rookery.replay.formats.spool import SpooledColumns
from rookery.replay.recording import EpisodeSource

SUFFIXES = ("hdf5", "h5")
"""Suffixes of such files."""

NUMBERS = "fiubSU"
"""Kinds of types that are read; for texts an error names the first row."""

REARRANGING = (2, 3, 5, 6)
"""HDF5 filters that do not compress: shuffle, checksums, and reduced bits."""


def hdf5() -> Any:
    """Returns the package that reads such files.

    Raises:
        ConfigError: If it is not installed.
    """
    with needed("HDF5 files need h5py", "hdf5"):
        import h5py
    return h5py


def read_hdf5(path: Path, wanted: Wanted) -> dict[str, EpisodeSource]:
    """Reads a file, or all files ``.hdf5`` and ``.h5`` of a directory.

    Raises:
        FileError: If there are none, or one cannot be read.
        ConfigError: If h5py is not installed, a data set is missing, or a row cannot be used; names it.
        SpaceError: If its spaces differ.
    """
    files = sorted(file for one in SUFFIXES for file in path.glob(f"*.{one}")) if path.is_dir() else [path]
    if not files:
        raise FileError(f"{path}: there are no files .hdf5 in it")
    found = [episodes_in(columns_of_file(file, wanted)) for file in files]
    for one, file in zip(found, files, strict=True):
        if (one.spaces.obs, one.spaces.action) != (found[0].spaces.obs, found[0].spaces.action):
            raise SpaceError(
                f"{file}: holds {one.spaces}, and {files[0]} {found[0].spaces}; name the spaces of all (--env, --like)"
            )
    return {wanted.policy: found[0] if len(found) == 1 else JoinedEpisodes(found)}


def columns_of_file(path: Path, wanted: Wanted) -> BlockColumns:
    """Returns the data sets of a file that have a role; continuous actions within -1 and 1 get these bounds, as in
    D4RL.
    """
    growth = growth_of(path, wanted.max_unpacked)

    @contextmanager
    def opened() -> Iterator[Any]:
        with opened_hdf5(path) as file:
            yield file

    with opened() as file:
        sets = data_sets_in(path, file)
        with_rows = [name for name, one in sets.items() if one.shape]
        if not with_rows:
            raise ConfigError(f"{path}: has no data sets with rows; observations, actions and so on are wanted")
        roles = find_columns(str(path), with_rows, wanted.columns)
        used = list(dict.fromkeys(name for mine in roles.values() for name in mine))
        growth.take(sum(unpacked_bytes(path, name, sets[name]) for name in used))
        spooled = spool(sets, used) if any(chunk_bytes(sets[name]) > BLOCK_BYTES for name in used) else None
    source = opened if spooled is None else spooled.opened
    return BlockColumns(str(path), source, roles, list(sets), wanted, has_unit_bounds=True)


def chunk_bytes(one: Any) -> int:
    """Returns the number of bytes in an unpacked chunk of a data set."""
    size: int = math.prod(one.chunks or (0,)) * one.dtype.itemsize
    return size


def spool(sets: Mapping[str, Any], used: Sequence[str]) -> SpooledColumns:
    """Spools data sets, each chunk once: for chunks larger than a block, every read of some rows would unpack a whole
    chunk.
    """
    spooled = SpooledColumns()
    for name in used:
        one = sets[name]
        step = one.chunks[0] if one.chunks else max(BLOCK_BYTES * len(one) // max(one.nbytes, 1), 1)
        for start in range(0, max(len(one), 1), step):
            spooled.append(name, one[start : start + step])
    spooled.close()
    return spooled


@contextmanager
def opened_hdf5(path: Path) -> Iterator[Any]:
    """Opens a file for reading; errors of the library on a damaged one become a `FileError`."""
    package = hdf5()
    try:
        with package.File(path, "r") as file:
            yield file
    except (RookeryError, MemoryError):
        raise
    except FileNotFoundError:
        raise FileError(f"{path}: there is no such file") from None
    except Exception as error:  # the library raises many types of errors
        message = " ".join(str(error).split())[:200]
        raise FileError(f"{path}: is not a complete HDF5 file: {message or type(error).__name__}") from None


def data_sets_in(path: Path, file: Any) -> dict[str, Any]:
    """Returns the data sets of a file, by name.

    Raises:
        FileError: If a part of it is in another file, which could be any file of this machine.
    """
    package = hdf5()
    found: dict[str, Any] = {}

    def note(name: str, one: Any) -> None:
        if isinstance(one, package.Dataset):
            found[name] = one

    def external(name: bytes, link: Any) -> bytes | None:
        return name if link.type == package.h5l.TYPE_EXTERNAL else None

    if name := file.id.links.visit(external, info=True):
        raise FileError(f"{path}: {name.decode(errors='replace')} is a link into another file, which is not read")
    file.visititems(note)
    for name, one in found.items():
        if one.is_virtual or one.id.get_create_plist().get_external_count():
            kind = "a virtual data set" if one.is_virtual else "kept outside of the file"
            raise FileError(f"{path}: {name} is {kind}: its values are in other files, which are not read")
    return found


def unpacked_bytes(path: Path, name: str, one: Any) -> int:
    """Returns the unpacked size of a data set in bytes.

    Args:
        path: The file.
        name: Name of the data set.
        one: The data set.

    Raises:
        FileError: If it is compressed twice, so that the unpacked size is not bounded.
        ConfigError: If it does not contain numbers.
    """
    if one.dtype.kind not in NUMBERS:
        raise ConfigError(
            f"{path}: {name} is of {one.dtype}, where numbers are wanted; name other data sets with --column"
        )
    layout = one.id.get_create_plist()
    filters = [layout.get_filter(number)[0] for number in range(layout.get_nfilters())]
    if sum(code not in REARRANGING for code in filters) > 1:
        raise FileError(
            f"{path}: {name} is compressed more than once, which is not supported; write it with one compression"
        )
    size: int = math.prod(one.shape) * one.dtype.itemsize
    return max(size, chunk_bytes(one))


HDF5 = ReplayFormat(
    read_hdf5, None, (".hdf5", ".h5"), read_only="HDF5 can only be imported; export to .npz, which has the same arrays"
)
