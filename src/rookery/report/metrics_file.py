"""Reads and writes `metrics.jsonl`, the rows of a run or a trial: a line of JSON an iteration."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from rookery.core.io.files import WriteError, write_file
from rookery.core.io.json_text import parse_json
from rookery.core.io.open_files import sync_folder

METRICS = "metrics.jsonl"


def append_row(folder: Path, row: Mapping[str, Any]) -> None:
    """Appends a row to the file of a folder.

    Raises:
        FileError: If the disk is full.
    """
    try:
        with (folder / METRICS).open("a", encoding="utf-8", newline="\n") as file:
            file.write(json.dumps(row) + "\n")
    except OSError as error:
        raise WriteError(f"{folder / METRICS}: cannot be written: {error.strerror}") from None


def sync_rows(folder: Path) -> None:
    """Flushes `metrics.jsonl` of a folder to the disk, before a checkpoint that counts its rows.

    Raises:
        FileError: If it cannot be flushed.
    """
    try:
        with (folder / METRICS).open("rb+") as file:  # Windows flushes no file that is open for reading alone
            os.fsync(file.fileno())
        sync_folder(folder)
    except FileNotFoundError:
        return  # no iteration is over yet
    except OSError as error:
        raise WriteError(f"{folder / METRICS}: cannot be flushed to the disk: {error.strerror}") from None


def gap_note(folder: Path, iteration: int) -> str:
    """Returns a note on iterations up to this one without a row; empty if there are none."""
    there = {row["iteration"] for row in read_rows(folder)}
    missing = [number for number in range(1, iteration + 1) if number not in there]
    if not missing:
        return ""
    runs = itertools.groupby(enumerate(missing), lambda pair: pair[1] - pair[0])  # of consecutive numbers
    spans = [[number for _, number in run] for _, run in runs]
    numbers = ", ".join(str(one[0]) if len(one) == 1 else f"{one[0]} to {one[-1]}" for one in spans)
    rows = f"{len(missing):,} of {iteration:,} rows are missing, of iteration{'s' * (len(missing) > 1)} {numbers}"
    return f"{folder / METRICS}: {rows}; the checkpoint counts them, and they are not written again"


def read_rows(folder: Path) -> list[dict[str, Any]]:
    """Returns all rows of a folder, oldest first, without a line that a kill cut short."""
    return list(iter_rows(folder))


def iter_rows(folder: Path) -> Iterator[dict[str, Any]]:
    """Yields the rows of a folder as `read_rows` returns them, each read when it is needed."""
    path = folder / METRICS
    if not path.is_file():
        return
    with path.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            row: Any = None
            with suppress(ValueError):
                row = parse_json(line)
            if isinstance(row, dict) and isinstance(row.get("iteration"), int):
                yield row


def row_at(folder: Path, iteration: int) -> dict[str, Any] | None:
    """Returns the row of an iteration, the last one of several, or None."""
    return next((row for row in reversed(read_rows(folder)) if row["iteration"] == iteration), None)


def cut_rows(folder: Path, iteration: int) -> None:
    """Removes the rows after an iteration, because they will be written again."""
    if (folder / METRICS).is_file():
        kept = [json.dumps(row) + "\n" for row in read_rows(folder) if row["iteration"] <= iteration]
        write_file(folder / METRICS, "".join(kept).encode())
