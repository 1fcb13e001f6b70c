"""Parquet files: columns of numbers, or of lists of equally many numbers."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rookery.core.errors import ConfigError, RookeryError, SpaceError
from rookery.core.io.files import FileError, WriteError
from rookery.core.io.open_files import replace_file
from rookery.core.packages import needed
from rookery.replay.formats.columns import (
    Wanted,
    columns_of,
    find_columns,
    flat_columns,
    recording_of_table,
    table_of,
)
from rookery.replay.formats.growth import Growth, growth_of
from rookery.replay.formats.replay_format import ReplayFormat, of_recording
from rookery.replay.recording import Recording
from rookery.replay.segments import Spaces

WIDTHS = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8, "INT96": 12}
"""Bytes of a value by its type in the file."""

SPACES = b"rookery.spaces"
"""Key of the spaces in the file's metadata."""


def parquet() -> Any:
    """Returns the package that reads and writes such files.

    Raises:
        ConfigError: If it is not installed.
    """
    with needed("Parquet files need pyarrow", "offline"):
        import pyarrow.parquet
    return pyarrow.parquet


def read_parquet(path: Path, wanted: Wanted) -> dict[str, Recording]:
    """Reads a table with named columns.

    Raises:
        FileError: If it cannot be read.
        ConfigError: If pyarrow is not installed, a column is missing, or a row cannot be used; names it.
        SpaceError: If its spaces differ.
    """
    package = parquet()
    growth = growth_of(path, wanted.max_unpacked)
    try:
        with package.ParquetFile(path) as file:
            texts = [field.name for field in file.schema_arrow if not field.type.num_fields and is_text(field.type)]
        with package.ParquetFile(path, read_dictionary=texts) as file:  # else texts are stored separately for each row
            return {wanted.policy: _recording(path, file, wanted, growth)}
    except (RookeryError, MemoryError):
        raise
    except Exception as error:  # pyarrow raises many types of errors for a damaged file
        message = " ".join(str(error).split())[:200]
        raise FileError(f"{path}: is not a complete Parquet file: {message or type(error).__name__}") from None


def _recording(path: Path, file: Any, wanted: Wanted, growth: Growth) -> Recording:
    schema = file.schema_arrow
    made_of = wanted.spaces
    if made_of is None and SPACES in (schema.metadata or {}):
        try:
            made_of = Spaces.from_json(schema.metadata[SPACES].decode())
        except SpaceError as error:
            raise FileError(f"{path}: {error}") from None
    names = list(schema.names)
    found = find_columns(str(path), names, wanted.columns)
    used = list(dict.fromkeys(name for mine in found.values() for name in mine))
    growth.take(unpacked_bytes(file.metadata, used))
    columns = {}
    for role, mine in list(found.items()):
        try:
            parts = [_array(path, name, file, role == "episode") for name in mine]
        except ConfigError:
            if role != "step" or role in wanted.columns:
                raise
            del found[role]  # times that are texts and not named by the user
            continue
        joined = [part.reshape(len(part), -1) for part in parts]
        columns[role] = parts[0] if len(parts) == 1 else np.concatenate(joined, axis=1)
    table = table_of(str(path), columns, names, found)
    return recording_of_table(table, wanted, made_of)


def is_text(kind: Any) -> bool:
    """Returns whether a type is text or bytes."""
    from pyarrow import types

    return any(one(kind) for one in (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary))


def unpacked_bytes(about: Any, used: Sequence[str]) -> int:
    """Returns the approximate unpacked size of some columns in bytes.

    Args:
        about: The metadata of the file.
        used: Names of the columns.
    """
    size = 0
    for number in range(about.num_row_groups):
        group = about.row_group(number)
        for place in range(group.num_columns):
            column = group.column(place)
            if column.path_in_schema.partition(".")[0] in used:
                size += max(column.num_values * WIDTHS.get(column.physical_type, 1), column.total_uncompressed_size)
    return size


def _array(path: Path, name: str, file: Any, any_text: bool) -> np.ndarray:
    """Returns the values of a column ``[N, ...]``; None is NaN. Texts are numbered if `any_text`.

    Raises:
        ConfigError: If it does not contain numbers, or not equally many in each row.
    """
    import pyarrow

    types = pyarrow.types
    inner, levels = file.schema_arrow.field(name).type, 0
    while types.is_list(inner) or types.is_large_list(inner) or types.is_fixed_size_list(inner):
        inner, levels = inner.value_type, levels + 1
    is_text = types.is_dictionary(inner) and not levels
    if is_text:
        column = file.read([name]).column(name).unify_dictionaries()
        if any_text:
            return np.concatenate([part.indices.fill_null(-1).to_numpy(zero_copy_only=False) for part in column.chunks])
        row = next((row for row, value in enumerate(column) if value.is_valid), 0)
        raise ConfigError(
            f"{path}: row {row + 1}: {name} is {column[row].as_py()!r}, which is not a number; name other columns with "
            "--column"
        )
    if types.is_null(inner) and not levels:
        return np.full(file.metadata.num_rows, np.nan)
    if not (types.is_integer(inner) or types.is_floating(inner) or types.is_boolean(inner)):
        raise ConfigError(
            f"{path}: column {name} is of {inner}, where numbers are wanted; name other columns with --column"
        )
    values = file.read([name]).column(name)
    shape: tuple[int, ...] = (len(values),)
    for _ in range(levels):
        values = pyarrow.chunked_array([values]) if isinstance(values, pyarrow.Array) else values
        lengths = {length for part in values.chunks for length in part.value_lengths().unique().to_pylist()}
        if len(lengths) > 1 or None in lengths:
            raise ConfigError(f"{path}: column {name} does not have equally many numbers in each row")
        shape += (lengths.pop() if lengths else 0,)
        values = pyarrow.chunked_array([part.flatten() for part in values.chunks], values.type.value_type)
    if types.is_boolean(inner) and values.null_count:
        values = values.cast(pyarrow.int8())
    array: np.ndarray = np.asarray(values.to_numpy()).reshape(shape)
    wide = np.float64 if array.dtype.kind == "f" else np.int64 if array.dtype.kind in "iu" else array.dtype
    return array if array.dtype == np.uint64 else array.astype(wide)


def write_parquet(recording: Recording, path: Path) -> None:
    """Writes a table, with the spaces in its metadata.

    Raises:
        ConfigError: If pyarrow is not installed.
        SpaceError: If actions have parts, which have no columns.
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
        replace_file(temporary, path)
    except OSError as error:
        raise WriteError(f"{path}: cannot be written: {error.strerror or error}") from None
    finally:
        temporary.unlink(missing_ok=True)


PARQUET = ReplayFormat(read_parquet, of_recording(write_parquet), (".parquet",))
