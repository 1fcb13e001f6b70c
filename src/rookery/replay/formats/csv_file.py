"""Tables as text: a line of names, then a line for each decision."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rookery.core.errors import ConfigError
from rookery.core.files import FileError, write_file
from rookery.replay.formats.columns import (
    Wanted,
    columns_of,
    find_columns,
    flat_columns,
    recording_of_table,
    table_of,
)
from rookery.replay.recording import Recording

WORDS = {"true": 1, "false": 0, "": np.nan}
"""What is written where no number is."""


def row_name(row: int) -> str:
    """What a user calls a row: its number, and its line in the file."""
    return f"row {row + 1} (line {row + 2})"


def read_csv(path: Path, wanted: Wanted) -> dict[str, Recording]:
    """Reads a table with named columns.

    Raises:
        FileError: If it cannot be read or is empty.
        ConfigError: If a column is not there, or a row cannot be used; names it.
        SpaceError: If it is of other spaces.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = [line for line in csv.reader(file) if line]
    except FileNotFoundError:
        raise FileError(f"{path}: there is no such file") from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise FileError(f"{path}: cannot be read as CSV: {error}") from None
    if not lines:
        raise FileError(f"{path}: is empty: a line with the names of the columns comes first")
    names, rows = [name.strip() for name in lines[0]], lines[1:]
    for number, row in enumerate(rows):
        if len(row) != len(names):
            raise ConfigError(f"{path}: {row_name(number)}: has {len(row)} values, and there are {len(names)} columns")
    places = {name: place for place, name in enumerate(names)}
    columns = {}
    found = find_columns(str(path), names, wanted.columns)
    for role, mine in list(found.items()):
        try:
            parts = [numbers(path, name, [row[places[name]] for row in rows], role == "episode") for name in mine]
        except ConfigError:
            if role != "step" or role in wanted.columns:
                raise
            del found[role]  # times in words, which nobody has asked for
            continue
        columns[role] = parts[0] if len(parts) == 1 else np.stack(parts, axis=1)
    table = table_of(str(path), columns, names, found, wanted, row_name)
    return {wanted.policy: recording_of_table(table, wanted)}


def numbers(path: Path, name: str, texts: Sequence[str], any_text: bool) -> np.ndarray:
    """A column as numbers: whole ones as int64 if all are, else float64; an empty place is NaN.

    Args:
        path: The file, for messages.
        name: The column.
        texts: What stands in its rows.
        any_text: Whether texts that are no numbers are names of something, and get numbers.
    """
    try:
        return np.array([int(text) for text in texts], np.int64)
    except (ValueError, OverflowError):
        pass
    found = np.empty(len(texts), np.float64)
    for row, text in enumerate(texts):
        word = text.strip().lower()
        try:
            found[row] = WORDS[word] if word in WORDS else float(word)
        except ValueError:
            if any_text:
                return np.unique(np.array(texts), return_inverse=True)[1]
            raise ConfigError(
                f"{path}: {row_name(row)}: {name} is {text!r}, which is no number; name other columns with --column"
            ) from None
    return found.astype(np.int64) if {text.strip().lower() for text in texts} <= {"true", "false"} else found


def write_csv(recording: Recording, path: Path) -> None:
    """Writes a table; numbers read back are the same ones.

    Raises:
        SpaceError: If actions have parts, for which there are no columns.
        FileError: If the file cannot be written.
    """
    columns = flat_columns(columns_of(recording))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*(_texts(array) for array in columns.values()), strict=True))
    write_file(path, text.getvalue().encode())


def _texts(array: np.ndarray) -> list[str]:
    """Numbers in the shortest form that stands for them, in their own type; nothing for NaN."""
    if array.dtype.kind == "f":
        return ["" if number != number else str(number) for number in array]
    return [str(number) for number in array.tolist()]
