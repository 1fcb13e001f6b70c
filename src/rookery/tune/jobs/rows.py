"""Rows of `metrics.jsonl`: made of whatever a trial reports, written, read, cut, and compared with stop criteria."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from contextlib import suppress
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from rookery.core.errors import ConfigError, nearest
from rookery.core.files import FileError, write_file
from rookery.tune.trial import Row

METRICS = "metrics.jsonl"


def flat(reported: Mapping[Any, Any], above: str = "") -> dict[str, Any]:
    """What a trial reports as a flat row: ``{"loss": {"actor": 1}}`` gives ``loss/actor``.

    Numbers of NumPy and tensors with one element become plain numbers, those that are not finite None.

    Args:
        reported: Numbers, texts, and mappings of them.
        above: What stands before each name.

    Raises:
        ConfigError: If something is neither; says what it is.
    """
    row: dict[str, Any] = {}
    for key, value in reported.items():
        name = f"{above}{key}"
        if isinstance(value, Mapping):
            row |= flat(value, f"{name}/")
        else:
            row[name] = _plain(name, value)
    return row


def _plain(name: str, value: Any) -> Any:
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Integral | Real):
        try:
            finite = math.isfinite(value)
        except OverflowError:  # a whole number of more digits than any float
            finite = False
        return (int(value) if isinstance(value, Integral) else float(value)) if finite else None
    shape = getattr(value, "shape", None)
    if hasattr(value, "item") and (shape is None or math.prod(shape) == 1):  # an array or a tensor
        return _plain(name, value.item())
    what = type(value).__name__ if shape is None else f"{type(value).__name__} of shape {tuple(shape)}"
    raise ConfigError(
        f"reported: {name} is a {what}: a row holds numbers and texts; report a number that stands for it, its mean say"
    )


def append_row(folder: Path, row: Row) -> None:
    """Adds a line.

    Raises:
        FileError: If the disk is full.
    """
    try:
        with (folder / METRICS).open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
    except OSError as error:
        raise FileError(f"{folder / METRICS}: cannot be written: {error.strerror}") from None


def read_rows(folder: Path) -> list[dict[str, Any]]:
    """All rows, oldest first; a line that a kill cut short is left out."""
    path = folder / METRICS
    rows = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else ():
        with suppress(ValueError):
            row = json.loads(line)
            if isinstance(row, dict) and isinstance(row.get("iteration"), int):
                rows.append(row)
    return rows


def row_at(folder: Path, iteration: int) -> dict[str, Any] | None:
    """The row of an iteration, if there is one; the last of several."""
    return next((row for row in reversed(read_rows(folder)) if row["iteration"] == iteration), None)


def cut_rows(folder: Path, iteration: int) -> None:
    """Forgets the rows after an iteration: those that will be written again."""
    if (folder / METRICS).exists():
        kept = [json.dumps(row) + "\n" for row in read_rows(folder) if row["iteration"] <= iteration]
        write_file(folder / METRICS, "".join(kept).encode())


def number_of(row: Row, name: str) -> Any:
    """A column by its name with dots or slashes; ``iterations`` and ``seconds`` are found in the rows of any trial."""
    others = {"iterations": "iteration", "seconds": "time/seconds"}
    return row.get(name, row.get(others.get(name, name.replace(".", "/"))))


def reached(criteria: Mapping[str, float], row: Row) -> str:
    """The first criterion that a row meets, in words; empty if it meets none."""
    for name, threshold in criteria.items():
        value = number_of(row, name)
        if isinstance(value, int | float) and value >= threshold:
            return f"{name} {value:g} reached {threshold:g}"
    return ""


def check_criteria(criteria: Mapping[str, float], row: Row) -> None:
    """Refuses criteria on columns that a trial does not report.

    Args:
        criteria: Column to threshold.
        row: What it reports.

    Raises:
        ConfigError: With a line for each.
    """
    known = {*row, "iterations", "seconds"}
    problems = [
        f"stop.{name}: the trial reports no such number; known are {', '.join(sorted(known))}"
        f"{nearest(name, sorted(known))}; report None while there is no number yet"
        for name in criteria
        if not {name, name.replace(".", "/")} & known
    ]
    if problems:
        raise ConfigError(*problems)
