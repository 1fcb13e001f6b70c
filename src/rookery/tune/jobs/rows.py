"""Rows of `metrics.jsonl`: made from reported metrics, and compared with stop criteria."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from typing import Any

from rookery.core.errors import ConfigError
from rookery.core.settings.thresholds import is_reached
from rookery.tune.names import hint_for
from rookery.tune.trial import Row

GROUPS = ("policies", "agents", "metrics", "evaluation", "self_play", "curriculum", "counters", "time")
"""Prefixes of columns that depend on a training's settings; they may appear later, or never."""

BEGINNINGS = f"columns that begin with {', '.join(f'{group}/' for group in GROUPS)}"


def is_grouped(name: str) -> bool:
    """Returns whether a column belongs to one of the `GROUPS`."""
    return name.replace(".", "/").partition("/")[0] in GROUPS


def flatten(reported: Mapping[Any, Any], above: str = "") -> dict[str, Any]:
    """Returns a flat row of reported metrics: ``{"loss": {"actor": 1}}`` becomes ``loss/actor``.

    Numbers of NumPy and tensors with one element become plain numbers, those that are not finite None.

    Args:
        reported: Numbers, texts, and mappings of them.
        above: Text before each name.

    Raises:
        ConfigError: If a value has another type.
    """
    row: dict[str, Any] = {}
    for key, value in reported.items():
        name = f"{above}{key}"
        if isinstance(value, Mapping):
            row |= flatten(value, f"{name}/")
        else:
            row[name] = _plain(name, value)
    return row


def _plain(name: str, value: Any) -> Any:
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Integral | Real):
        try:
            finite = math.isfinite(value)
        except OverflowError:  # a whole number beyond the range of floats
            finite = False
        return (int(value) if isinstance(value, Integral) else float(value)) if finite else None
    shape = getattr(value, "shape", None)
    if hasattr(value, "item") and (shape is None or math.prod(shape) == 1):  # an array or a tensor
        return _plain(name, value.item())
    what = type(value).__name__ if shape is None else f"{type(value).__name__} of shape {tuple(shape)}"
    raise ConfigError(
        f"reported: {name} is a {what}: a row holds numbers and texts; report a number instead, such as its mean"
    )


def number_of(row: Row, name: str) -> Any:
    """Returns a column by its name with dots or slashes; ``iterations``, ``seconds`` and ``minutes`` always work."""
    others = {"iterations": "iteration", "seconds": "time/seconds"}
    if name == "minutes" and name not in row:
        seconds = number_of(row, "seconds")
        return None if seconds is None else seconds / 60
    return row.get(name, row.get(others.get(name, name.replace(".", "/"))))


def reached_criterion(criteria: Mapping[str, float], row: Row) -> str:
    """Returns the first criterion that a row meets, as text; empty if it meets none."""
    for name, threshold in criteria.items():
        value = number_of(row, name)
        if isinstance(value, int | float) and is_reached(value, threshold):
            return f"{name} {value:g} reached {threshold:g}"
    return ""


def not_reported(what: str, name: str, columns: Iterable[str]) -> str:
    """Returns a message that trials do not report a column, with those they report; it begins with `what`."""
    return f"{what}: the trials report no such number{hint_for(name, columns)}; there are {', '.join(columns)}"
