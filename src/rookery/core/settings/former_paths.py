"""Layers and sections of an experiment with renamed paths: former names, or those of a stored journal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from rookery.core.settings.fields import Settings, is_undecided
from rookery.core.settings.layers import CLASS, Layer, mapping_of, nested

Rename = Callable[[str], str]
"""Returns the path to use for a path that was given."""

S = TypeVar("S", bound=Settings)


def renamed_tree(tree: Mapping[str, Any], rename: Rename, path: str = "") -> dict[str, Any]:
    """Returns nested settings with renamed paths; if both names of a setting are given, both remain."""
    found: dict[str, Any] = {}
    for key, node in tree.items():
        at, name = f"{path}.{key}" if path else str(key), key
        if key != CLASS and "." not in str(key):
            name = rename(at).rpartition(".")[2]
        inner = mapping_of(node) if isinstance(node, Settings) and is_undecided(node) else node
        found[key if name in tree else name] = renamed_tree(inner, rename, at) if isinstance(inner, Mapping) else node
    return found


def renamed_layer(layer: Layer, rename: Rename) -> tuple[Layer, list[str]]:
    """Returns a layer with renamed paths, and a note for each."""
    notes = []

    def noted(path: str) -> str:
        name = rename(path)
        if name != path:
            notes.append(f"{layer.where(path)}: {path} is now called {name.rpartition('.')[2]}")
        return name

    values = renamed_tree(nested(layer.values), noted)
    folders = {rename(path): folder for path, folder in layer.stored_folders.items()}
    lines = {rename(path): line for path, line in layer.lines.items()}
    return replace(layer, values=values, lines=lines, stored_folders=folders), notes


def renamed_keys(settings: S, names: tuple[str, ...], rename: Rename) -> S:
    """Returns settings in which the paths of other settings, used as keys or in a list, are renamed.

    Args:
        settings: The settings; those without such a field are returned unchanged.
        names: The fields.
        rename: Returns the other name.
    """
    changes = {name: _renamed(vars(settings)[name], rename) for name in names if vars(settings).get(name)}
    changes = {name: value for name, value in changes.items() if value != getattr(settings, name)}
    return settings.replace(**changes) if changes else settings


def _renamed(value: Any, rename: Rename) -> Any:
    if isinstance(value, Mapping):
        return {rename(path): part for path, part in value.items()}
    return tuple(rename(part) if isinstance(part, str) else _renamed(part, rename) for part in value)
