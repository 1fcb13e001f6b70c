"""Settings of policies in stored runs that earlier versions of Rookery did not take from the section `algorithm`.

In those versions a policy had the defaults of a reward signal of `signals.own`, whatever `algorithm` set for that
signal; and a section that a policy switched on without a value, ``policies.main.signals.rnd: {}``, was not stored. Such
a run keeps the values with which it has learned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import TypeVar

from rookery.core.config import DEFAULT

V = TypeVar("V")

ALGORITHM, POLICIES = "algorithm", "policies"


def kept_defaults(history: Mapping[str, Sequence[tuple[str, V]]]) -> dict[str, V]:
    """Returns the settings, by path, that a policy of a stored run has by default although `algorithm` differs.

    A run that this version starts has none.

    Args:
        history: For each path, every (source, value), lowest first; the last one won.
    """

    def last(path: str) -> V | None:
        return history[path][-1][1] if path in history else None

    kept: dict[str, V] = {}
    for path, given in history.items():
        section, *way = path.split(".")
        if section != POLICIES or len(way) < 2 or given[-1][0] != DEFAULT:
            continue
        around = ["", *(f".{inside}" for inside in accumulate(way[1:-1], "{}.{}".format))]
        if any(last(f"{POLICIES}.{way[0]}{at}.name") != last(f"{ALGORITHM}{at}.name") for at in around):
            continue  # a section of a class of its own takes nothing of `algorithm`
        above = ".".join((ALGORITHM, *way[1:]))
        if above in history:
            differs = last(above) != given[-1][1]
        else:
            differs = any(f"{ALGORITHM}{at}" in history for at in around) or _is_section(above, history)
        if differs:
            kept[path] = given[-1][1]
    return kept


def note_of(kept: Mapping[str, object], history: Mapping[str, object]) -> list[str]:
    """Returns the line for a user whose run keeps settings that `algorithm` sets otherwise; nothing if it keeps none.

    Args:
        kept: Result of `kept_defaults`.
        history: Its argument.
    """
    above = {path: ".".join((ALGORITHM, *path.split(".")[2:])) for path in kept}
    lost = [path for path, at in above.items() if at in history or _is_section(at, history)]
    values = ", ".join(f"{path} = {kept[path]}" for path in lost)
    why = f"an earlier version of Rookery stored this run, whose policies did not take these settings from {ALGORITHM}"
    line = f"{why}; it keeps the values it has learned with: {values}; a new run takes those of {ALGORITHM}"
    return [line] if lost else []


def _is_section(path: str, history: Mapping[str, object]) -> bool:
    """Returns whether there are settings below a path."""
    return any(known.startswith(f"{path}.") for known in history)
