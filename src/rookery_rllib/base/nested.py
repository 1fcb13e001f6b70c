"""Nested dicts, lists and tuples: flattening, rebuilding and mapping, with sorted dict keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any


def _keys(structure: Mapping[Any, Any]) -> list[Any]:
    try:
        return sorted(structure)
    except TypeError:  # keys of several types
        return list(structure)


def _is_named_tuple(structure: Any) -> bool:
    return isinstance(structure, tuple) and hasattr(structure, "_fields")


def flatten(structure: Any) -> list[Any]:
    """Returns the leaves of a structure: everything that is not a dict, list or tuple."""
    if isinstance(structure, Mapping):
        return [leaf for key in _keys(structure) for leaf in flatten(structure[key])]
    if isinstance(structure, list | tuple):
        return [leaf for part in structure for leaf in flatten(part)]
    return [structure]


def unflatten_as(structure: Any, leaves: Iterable[Any]) -> Any:
    """Rebuilds a structure with other leaves, which come in the order of `flatten`."""
    given = iter(leaves)
    return _rebuilt(structure, given)


def _rebuilt(structure: Any, leaves: Iterator[Any]) -> Any:
    if isinstance(structure, Mapping):
        filled = {key: _rebuilt(structure[key], leaves) for key in _keys(structure)}
        return type(structure)((key, filled[key]) for key in structure)  # type: ignore[call-arg]
    if isinstance(structure, list | tuple):
        parts = [_rebuilt(part, leaves) for part in structure]
        return type(structure)(*parts) if _is_named_tuple(structure) else type(structure)(parts)
    return next(leaves)


def map_structure(function: Callable[..., Any], structure: Any, *others: Any) -> Any:
    """Applies a function to the leaves of structures of one form, and returns the structure of the results."""
    rows = zip(*(flatten(one) for one in (structure, *others)), strict=True)
    return unflatten_as(structure, [function(*row) for row in rows])
