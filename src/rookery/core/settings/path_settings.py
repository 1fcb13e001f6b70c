"""Settings that are paths, according to their types; relative paths start in the folder of their source."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

from rookery.core.io.files import split_name
from rookery.core.settings.fields import alternatives, bare
from rookery.core.settings.reach import Reaches
from rookery.core.settings.starting_folder import is_relative


def may_hold_paths(hint: Any, value: Any) -> bool:
    """Returns whether a value may contain paths, because its type contains paths or any values."""
    if bare(hint) is Any:
        return isinstance(value, str | list | tuple | dict)
    return holds_paths(hint) and bool(value)


@cache
def holds_paths(hint: Any) -> bool:
    """Returns whether a type, or a part of it, is marked as a path."""
    if (mark := _mark(hint)) is not None:
        return mark.is_path
    parts = alternatives(hint)
    return any(map(holds_paths, parts if len(parts) > 1 else get_args(bare(hint))))


def locate(hint: Any, value: Any, folders: Sequence[str]) -> tuple[Any, str, list[str]]:
    """Makes the relative paths in a value absolute.

    Args:
        hint: Type of the value, which marks the paths in it.
        value: The value.
        folders: Where relative paths may begin: in the first folder in which there is something at the path, else in
            the first.

    Returns:
        The value, the folder where its paths begin, and a note for each path that is not in the first folder.
    """
    notes: list[str] = []
    chosen = folders[0]

    def find(text: str) -> str:
        nonlocal chosen
        places = [os.path.join(folder, text) for folder in folders]
        at = next((number for number, place in enumerate(places) if split_name(place)[0].exists()), 0)
        if at:
            chosen = folders[at]
            notes.append(f"{text}: is not in {folders[0]}, where the run was started; {places[at]} is used")
        return places[at]

    return (_located(hint, value, find) if holds_paths(hint) else value), chosen, notes


def _located(hint: Any, value: Any, find: Any) -> Any:
    """Returns a value in which each relative path is replaced by the result of `find`."""
    if (mark := _mark(hint)) is not None:
        is_path = mark.is_path and isinstance(value, str | Path) and value not in mark.but and is_relative(str(value))
        return type(value)(find(str(value))) if is_path else value
    parts = alternatives(hint)
    if len(parts) > 1:
        for part in parts:
            value = _located(part, value, find)
        return value
    args = get_args(bare(hint))
    if isinstance(value, Mapping) and len(args) == 2:
        return {_located(args[0], key, find): _located(args[1], inner, find) for key, inner in value.items()}
    if isinstance(value, list | tuple) and args:
        return type(value)(_located(args[0], inner, find) for inner in value)
    return value


def _mark(hint: Any) -> Reaches | None:
    """Returns the `Reaches` mark of a type; None without one."""
    marks = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    return next((mark for mark in marks if isinstance(mark, Reaches)), None)
