"""Data sets as HDF5 files with a row for each decision, as D4RL has them; read in blocks, however large they are."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rookery.core.errors import ConfigError, RookeryError, SpaceError
from rookery.core.io.files import FileError
from rookery.replay.episodes import JoinedEpisodes
from rookery.replay.formats.blocks import BLOCK_BYTES, BlockColumns, episodes_in
from rookery.replay.formats.columns import Wanted, find_columns
from rookery.replay.formats.growth import growth_of
from rookery.replay.formats.replay_format import ReplayFormat
from rookery.replay.formats.staged import Staged
from rookery.replay.recording import EpisodeSource

SUFFIXES = ("hdf5", "h5")
"""How the names of such files end."""

NUMBERS = "fiubSU"
"""Kinds of types that are read; of texts the first row is named."""

REARRANGING = (2, 3, 5, 6)
"""Filters of HDF5 that pack nothing further: shuffle, checksums, and numbers of fewer bits."""


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
    found = [episodes_in(columns_of_file(file, wanted)) for file in files]
    for one, file in zip(found, files, strict=True):
        if (one.spaces.obs, one.spaces.action) != (found[0].spaces.obs, found[0].spaces.action):
            raise SpaceError(
                f"{file}: holds {one.spaces}, and {files[0]} {found[0].spaces}; name the spaces of all (--env, --like)"
            )
    return {wanted.policy: found[0] if len(found) == 1 else JoinedEpisodes(found)}


def columns_of_file(path: Path, wanted: Wanted) -> BlockColumns:
    """The data sets of a file that have a role; numbers from -1 to 1 that are decided have these bounds, as all of
    D4RL's have.
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
        staged = put_aside(sets, used) if any(chunk_bytes(sets[name]) > BLOCK_BYTES for name in used) else None
    source = opened if staged is None else staged.opened
    return BlockColumns(str(path), source, roles, list(sets), wanted, has_unit_bounds=True)


def chunk_bytes(one: Any) -> int:
    """Returns how many bytes of a data set are unpacked together."""
    size: int = math.prod(one.chunks or (0,)) * one.dtype.itemsize
    return size


def put_aside(sets: Mapping[str, Any], used: Sequence[str]) -> Staged:
    """Reads data sets chunk by chunk, each once: where chunks are larger than what is read together, every reading of
    some rows would unpack all of a chunk.
    """
    staged = Staged()
    for name in used:
        one = sets[name]
        step = one.chunks[0] if one.chunks else max(BLOCK_BYTES * len(one) // max(one.nbytes, 1), 1)
        for start in range(0, max(len(one), 1), step):
            staged.append(name, one[start : start + step])
    staged.close()
    return staged


@contextmanager
def opened_hdf5(path: Path) -> Iterator[Any]:
    """Opens a file to be read; what the library raises of a damaged one becomes a `FileError`."""
    package = hdf5()
    try:
        with package.File(path, "r") as file:
            yield file
    except (RookeryError, MemoryError):
        raise
    except FileNotFoundError:
        raise FileError(f"{path}: there is no such file") from None
    except Exception as error:  # the library raises errors of many kinds, of Python's and its own
        said = " ".join(str(error).split())[:200]
        raise FileError(f"{path}: is no whole HDF5 file: {said or type(error).__name__}") from None


def data_sets_in(path: Path, file: Any) -> dict[str, Any]:
    """Returns the data sets of a file, by name.

    Raises:
        FileError: If something in it lies in another file, which could be any file of this machine.
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
            raise FileError(f"{path}: {name} is {kind}: its numbers lie in other files, which are not read")
    return found


def unpacked_bytes(path: Path, name: str, one: Any) -> int:
    """Returns how many bytes a data set unpacks to.

    Args:
        path: The file.
        name: Name of the data set.
        one: The data set.

    Raises:
        FileError: If it is packed twice, so that nothing bounds what its chunks grow to.
        ConfigError: If it is not of numbers.
    """
    if one.dtype.kind not in NUMBERS:
        raise ConfigError(
            f"{path}: {name} is of {one.dtype}, where numbers are wanted; name other data sets with --column"
        )
    layout = one.id.get_create_plist()
    filters = [layout.get_filter(number)[0] for number in range(layout.get_nfilters())]
    if sum(code not in REARRANGING for code in filters) > 1:
        raise FileError(f"{path}: {name} is packed more than once, which is not read; write it with one compression")
    size: int = math.prod(one.shape) * one.dtype.itemsize
    return max(size, chunk_bytes(one))


HDF5 = ReplayFormat(
    read_hdf5, None, (".hdf5", ".h5"), read_only="HDF5 is read and not written; use .npz, which has the same arrays"
)
