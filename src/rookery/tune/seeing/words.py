"""How parameters are called and shown: short names for paths, values in a few characters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rookery.core.layers import flow


def short_names(paths: Iterable[str]) -> dict[str, str]:
    """For each path its shortest ending that no other path has: ``algorithm.lr`` is ``lr``."""
    split = {path: path.split(".") for path in paths}
    names = {}
    for path, parts in split.items():
        others = [other for known, other in split.items() if known != path]
        length = next(
            (size for size in range(1, len(parts)) if not any(other[-size:] == parts[-size:] for other in others)),
            len(parts),
        )
        names[path] = ".".join(parts[-length:])
    return names


def varying(params: Sequence[Mapping[str, Any]]) -> list[str]:
    """Paths whose values are not the same everywhere, in the order they first appear; all of them for fewer than two.

    Args:
        params: Parameters by path, of each trial.
    """
    paths = dict.fromkeys(path for one in params for path in one)
    return [path for path in paths if len(params) < 2 or len({repr(one.get(path)) for one in params}) > 1]


def told(value: Any) -> str:
    """A value in a few characters: four digits of a number, ``64,64`` for a list."""
    if isinstance(value, bool) or value is None:
        return flow(value)
    if isinstance(value, float):
        return f"{value:.4g}".replace("e-0", "e-").replace("e+0", "e+")
    if isinstance(value, list | tuple):
        return ",".join(told(item) for item in value)
    return value if isinstance(value, str) else flow(value)


def told_params(params: Mapping[str, Any], paths: Iterable[str], names: Mapping[str, str]) -> str:
    """Parameters in one line: ``lr 0.0005, hidden 64,64``.

    Args:
        params: By path.
        paths: Which, in this order.
        names: What each is called.
    """
    return ", ".join(f"{names[path]} {told(params[path])}" for path in paths if path in params)
