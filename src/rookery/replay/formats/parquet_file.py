"""Tables as Parquet files: a column of numbers, or of lists of equally many numbers, each."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from rookery.core.errors import ConfigError
from rookery.core.files import FileError, WriteError
from rookery.replay.formats.columns import (
    Wanted,
    columns_of,
    find_columns,
    flat_columns,
    recording_of_table,
    table_of,
)
from rookery.replay.recording import Recording
from rookery.replay.segments import Spaces

SPACES = b"rookery.spaces"
"""Key of the file's metadata under which the spaces stand."""


def parquet() -> Any:
    """The package that reads and writes such files.

    Raises:
        ConfigError: If it is not installed.
    """
    try:
        import pyarrow.parquet
    except ImportError:
        raise ConfigError("Parquet files need pyarrow: pip install 'rookery[offline]'") from None
    return pyarrow.parquet


def read_parquet(path: Path, wanted: Wanted) -> dict[str, Recording]:
    """Reads a table with named columns.

    Raises:
        FileError: If it cannot be read.
        ConfigError: If pyarrow is not installed, a column is not there, or a row cannot be used; names it.
        SpaceError: If it is of other spaces.
    """
    reader = parquet()
    if not path.exists():
        raise FileError(f"{path}: there is no such file")
    try:
        table = reader.read_table(path)
    except (OSError, ValueError) as error:
        raise FileError(f"{path}: is no whole Parquet file: {error}") from None
    made_of = wanted.spaces
    if made_of is None and SPACES in (table.schema.metadata or {}):
        made_of = Spaces.from_json(table.schema.metadata[SPACES].decode())
    columns = {}
    found = find_columns(str(path), table.column_names, wanted.columns)
    for role, mine in list(found.items()):
        try:
            parts = [_array(path, name, table.column(name).to_pylist(), role == "episode") for name in mine]
        except ConfigError:
            if role != "step" or role in wanted.columns:
                raise
            del found[role]  # times in words, which nobody has asked for
            continue
        joined = [part.reshape(len(part), -1) for part in parts]
        columns[role] = parts[0] if len(parts) == 1 else np.concatenate(joined, axis=1)
    told = table_of(str(path), columns, table.column_names, found)
    return {wanted.policy: recording_of_table(told, wanted, made_of)}


def _array(path: Path, name: str, values: list[Any], any_text: bool) -> np.ndarray:
    """The values of a column ``[N, ...]``; None is NaN."""
    if any_text and any(isinstance(value, str) for value in values):
        return np.unique(np.array(values, str), return_inverse=True)[1]
    try:
        array = np.array([np.nan if value is None else value for value in values])
    except ValueError:
        array = np.array(None)
    if array.dtype.kind not in "fiub":
        for row, value in enumerate(values):
            if isinstance(value, str):
                raise ConfigError(f"{path}: row {row + 1}: {name} is {value!r}, which is no number; name other columns "
                                  "with --column")  # fmt: skip
        raise ConfigError(f"{path}: column {name} is not of numbers, or not of equally many in each row")
    return array


def write_parquet(recording: Recording, path: Path) -> None:
    """Writes a table, with the spaces in its metadata.

    Raises:
        ConfigError: If pyarrow is not installed.
        SpaceError: If actions have parts, for which there are no columns.
        FileError: If the file cannot be written.
    """
    writer = parquet()
    import pyarrow

    columns = flat_columns(columns_of(recording))
    plain = Spaces(recording.spaces.obs, recording.spaces.action, 0)
    table = pyarrow.table(columns).replace_schema_metadata({SPACES: json.dumps(json.loads(plain.to_json())).encode()})
    temporary = path.with_name(f".tmp-{os.getpid()}-{path.name}")
    try:
        writer.write_table(table, temporary)
        os.replace(temporary, path)
    except OSError as error:
        raise WriteError(f"{path}: cannot be written: {error.strerror or error}") from None
    finally:
        temporary.unlink(missing_ok=True)
