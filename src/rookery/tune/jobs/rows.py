"""Rows of `metrics.jsonl`: made of whatever a trial reports, written, read, cut, and compared with stop criteria."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from typing import Any

from rookery.core.errors import ConfigError
from rookery.core.settings.thresholds import is_reached
from rookery.tune.names import called_here
from rookery.tune.trial import Row

GROUPS = ("policies", "agents", "metrics", "evaluation", "counters", "time")
"""What the names of columns begin with that depend on a training's settings; they may come later, or never."""

BEGINNINGS = f"what begins with {', '.join(f'{group}/' for group in GROUPS)}"


def is_grouped(name: str) -> bool:
    """Says whether a column is of one of the `GROUPS`."""
    return name.replace(".", "/").partition("/")[0] in GROUPS


def flat(reported: Mapping[Any, Any], above: str = "") -> dict[str, Any]:
    """Makes a flat row of what a trial reports: ``{"loss": {"actor": 1}}`` gives ``loss/actor``.

    Numbers of NumPy and tensors with one element become plain numbers, those that are not finite None.

    Args:
        reported: Numbers, texts, and mappings of them.
        above: Text before each name.

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


def number_of(row: Row, name: str) -> Any:
    """Returns a column by its name with dots or slashes; any row has ``iterations``, ``seconds`` and ``minutes``."""
    others = {"iterations": "iteration", "seconds": "time/seconds"}
    if name == "minutes" and name not in row:
        seconds = number_of(row, "seconds")
        return None if seconds is None else seconds / 60
    return row.get(name, row.get(others.get(name, name.replace(".", "/"))))


def reached(criteria: Mapping[str, float], row: Row) -> str:
    """Returns the first criterion that a row meets, in words; empty if it meets none."""
    for name, threshold in criteria.items():
        value = number_of(row, name)
        if isinstance(value, int | float) and is_reached(value, threshold):
            return f"{name} {value:g} reached {threshold:g}"
    return ""


def not_reported(what: str, name: str, columns: Iterable[str]) -> str:
    """Says that trials report no column of a name, and which they do; `what` begins the message."""
    return f"{what}: the trials report no such number{called_here(name, columns)}; there are {', '.join(columns)}"
