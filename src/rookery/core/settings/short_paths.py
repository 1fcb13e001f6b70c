"""Short names of settings for the command line: ``lr`` for ``algorithm.lr``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from rookery.core.errors import ConfigError
from rookery.core.settings.layers import Layer

FULL_ALONE = ("algorithm.signals.", "algorithm.imitation.", "policies.", "curriculum.", "self_play.", "tune.")
"""Sections without short names: their settings are mostly called like those of the algorithm or of the run."""


@cache
def known_paths() -> tuple[str, ...]:
    """Returns the paths of all settings, read from a generated file; the path of a section ends with a dot."""
    return tuple(Path(__file__).with_name("paths.txt").read_text(encoding="utf-8").split())


@cache
def paths_by_end() -> Mapping[str, tuple[str, ...]]:
    """Returns the paths that end with a name, by name: ``hidden`` and ``model.hidden`` for ``algorithm.model.hidden``.

    A path that is itself such a name, as ``seed``, has no other.
    """
    paths = [path.removesuffix(".") for path in known_paths() if not path.startswith(FULL_ALONE)]
    found: dict[str, tuple[str, ...]] = {}
    for path in paths:
        parts = path.split(".")
        for start in range(1, len(parts)):
            end = ".".join(parts[start:])
            found[end] = (*found.get(end, ()), path)
    return found


def full_path(path: str) -> str:
    """Returns the path of a setting for its end; a full path, and a name that no setting ends with, are returned
    unchanged.

    What follows the name of a setting stays too: ``config.size`` is ``env.config.size``.

    Raises:
        ConfigError: If several settings end so; names them.
    """
    parts = path.split(".")
    if any(known.partition(".")[0] == parts[0] for known in known_paths()):
        return path
    for length in range(len(parts), 0, -1):
        end, rest = ".".join(parts[:length]), parts[length:]
        found = paths_by_end().get(end, ())
        if len(found) > 1:
            raise ConfigError(f"{end}: {len(found)} settings have this name: write {' or '.join(found)}")
        if found:
            return ".".join((*found, *rest))
    return path


def with_full_paths(layer: Layer) -> tuple[Layer, dict[str, str]]:
    """Returns a layer of overrides with full paths, and the full paths of the short ones.

    Raises:
        ConfigError: If a short path fits several settings; with a line for each such path.
    """
    values: dict[str, Any] = {}
    written: dict[str, str] = {}
    problems: list[str] = []
    for path, value in layer.values.items():
        try:
            full = full_path(path)
        except ConfigError as error:
            problems += [f"{layer.source}: {problem}" for problem in error.problems]
            continue
        values.pop(full, None)  # the later of two overrides comes later in the mapping too
        values[full] = value
        if full != path:
            written[path] = full
    if problems:
        raise ConfigError(*problems)
    return replace(layer, values=values), written
