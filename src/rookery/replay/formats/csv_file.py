"""CSV tables: a line of column names, then a line for each decision."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np

from rookery.core.errors import ConfigError
from rookery.core.io.files import FileError, write_file
from rookery.replay.formats.blocks import BlockColumns, episodes_in
from rookery.replay.formats.columns import Wanted, columns_of, find_columns, flat_columns
from rookery.replay.formats.replay_format import ReplayFormat, of_recording
from rookery.replay.formats.spool import SpooledColumns
from rookery.replay.recording import EpisodeSource, Recording

WORDS = {"true": 1, "false": 0, "": np.nan}
"""Values of words and empty cells."""


LINES = 8192
"""Number of lines in a block."""


def row_name(path: Path, row: int) -> str:
    """Returns the name of a row in messages: its number, and its first line in the file, which is read again for it."""
    begins, number = 1, -1  # -1 is the row of column names
    with path.open(encoding="utf-8-sig", newline="") as file:
        lines = csv.reader(file)
        for values in lines:
            if values and number == row:
                break
            number += bool(values)  # an empty line is not a row
            begins = lines.line_num + 1
    return f"row {row + 1} (line {begins})"


def read_csv(path: Path, wanted: Wanted) -> dict[str, EpisodeSource]:
    """Reads a table with named columns, in blocks of lines.

    Raises:
        FileError: If it cannot be read or is empty.
        ConfigError: If a column is missing, or a row cannot be used; names it.
        SpaceError: If its spaces differ.
    """
    spooled = SpooledColumns()
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = (line for line in csv.reader(file) if line)
            names = [name.strip() for name in next(lines, [])]
            if not names:
                raise FileError(f"{path}: is empty: a line with the names of the columns comes first")
            roles = find_columns(str(path), names, wanted.columns)
            spool(path, lines, names, roles, spooled, wanted)
    except FileNotFoundError:
        raise FileError(f"{path}: there is no such file") from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise FileError(f"{path}: cannot be read as CSV: {error}") from None
    spooled.close()
    columns = BlockColumns(str(path), spooled.opened, roles, names, wanted, row_name=partial(row_name, path))
    return {wanted.policy: episodes_in(columns)}


def spool(
    path: Path,
    lines: Iterator[list[str]],
    names: Sequence[str],
    roles: dict[str, list[str]],
    spooled: SpooledColumns,
    wanted: Wanted,
) -> None:
    """Spools the columns with a role as numbers; drops times that are texts, unless the user named them."""
    places = {name: place for place, name in enumerate(names)}
    episodes: dict[object, int] = {}
    first, rows = 0, list(islice(lines, LINES))
    roles_of: dict[str, set[str]] = {}
    for role, mine in roles.items():
        for name in mine:
            roles_of.setdefault(name, set()).add(role)
    for name in roles_of:
        spooled.append(name, np.zeros(0, np.int64))
    while rows:
        for number, row in enumerate(rows, first):
            if len(row) != len(names):
                raise ConfigError(
                    f"{path}: {row_name(path, number)}: has {len(row)} values, and there are {len(names)} columns"
                )
        for name, used_as in list(roles_of.items()):  # a column with two roles is read once
            texts = [row[places[name]] for row in rows]
            if used_as == {"episode"}:
                spooled.append(name, np.array([episodes.setdefault(_key(text), len(episodes)) for text in texts]))
                continue
            try:
                spooled.append(name, numbers(path, name, texts, first))
            except ConfigError:
                if used_as != {"step"} or "step" in wanted.columns:
                    raise
                del roles_of[name]
                roles.pop("step", None)
        first, rows = first + len(rows), list(islice(lines, LINES))


def _key(text: str) -> object:
    """Returns the key of an episode: a number or a text."""
    word = text.strip()
    for read in (int, float):
        with suppress(ValueError):
            return read(word)
    return word


def numbers(path: Path, name: str, texts: Sequence[str], first: int) -> np.ndarray:
    """Returns a column as numbers: int64 if all are integers, else float64; an empty cell is NaN.

    Args:
        path: The file, for messages.
        name: The column.
        texts: Texts of its rows.
        first: Index of the first of these rows.
    """
    with suppress(ValueError, OverflowError):
        return np.array([int(text) for text in texts], np.int64)
    with suppress(ValueError):
        return np.array([float(text) for text in texts])
    found = np.empty(len(texts), np.float64)
    for row, text in enumerate(texts):
        word = text.strip().lower()
        try:
            found[row] = WORDS[word] if word in WORDS else float(word)
        except ValueError:
            raise ConfigError(
                f"{path}: {row_name(path, first + row)}: {name} is {text!r}, which is not a number; name other columns "
                "with --column"
            ) from None
    return found.astype(np.int64) if {text.strip().lower() for text in texts} <= {"true", "false"} else found


def write_csv(recording: Recording, path: Path) -> None:
    """Writes a table; numbers are restored exactly on reading.

    Raises:
        SpaceError: If actions have parts, which have no columns.
        FileError: If the file cannot be written.
    """
    columns = flat_columns(columns_of(recording))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*(_texts(array) for array in columns.values()), strict=True))
    write_file(path, text.getvalue().encode())


def _texts(array: np.ndarray) -> list[str]:
    """Returns numbers in their shortest exact form; empty for NaN."""
    if array.dtype.kind == "f":
        return ["" if number != number else str(number) for number in array]
    return [str(number) for number in array.tolist()]


CSV = ReplayFormat(read_csv, of_recording(write_csv), (".csv",))
