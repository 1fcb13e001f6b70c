"""Data sets as HDF5 files with a row for each decision, as D4RL has them; read in blocks, however large they are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rookery.core.errors import ConfigError, SpaceError
from rookery.core.files import FileError
from rookery.replay.episodes import JoinedEpisodes
from rookery.replay.formats.blocks import BlockColumns, episodes_in
from rookery.replay.formats.columns import Wanted, find_columns
from rookery.replay.recording import EpisodeSource

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
    package = hdf5()

    @contextmanager
    def opened() -> Iterator[Any]:
        if not path.exists():
            raise FileError(f"{path}: there is no such file")
        try:
            file = package.File(path, "r")
        except OSError as error:
            raise FileError(f"{path}: is no whole HDF5 file: {error}") from None
        with file:
            yield file

    sets: dict[str, Any] = {}
    with opened() as file:
        file.visititems(lambda name, one: sets.update({name: one.shape}) if hasattr(one, "dtype") else None)
    with_rows = [name for name, shape in sets.items() if shape]
    if not with_rows:
        raise ConfigError(f"{path}: has no data sets with rows; observations, actions and so on are wanted")
    roles = find_columns(str(path), with_rows, wanted.columns)
    return BlockColumns(str(path), opened, roles, list(sets), wanted, has_unit_bounds=True)
