"""Dicts of settings merged into each other, lists made of anything, classes with mixins."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any

from rookery.face import ConfigError, nearest


def merge_dicts(d1: Mapping[Any, Any], d2: Mapping[Any, Any]) -> dict[Any, Any]:
    return deep_update(copy.deepcopy(dict(d1)), d2, True)


def deep_update(
    original: dict[Any, Any],
    new_dict: Mapping[Any, Any],
    new_keys_allowed: bool = False,
    allow_new_subkey_list: Iterable[str] | None = None,
    override_all_if_type_changes: Iterable[str] | None = None,
) -> dict[Any, Any]:
    free, whole = set(allow_new_subkey_list or ()), set(override_all_if_type_changes or ())
    for key, value in new_dict.items():
        if key not in original and not new_keys_allowed:
            hint = nearest(str(key), [str(known) for known in original])
            raise ConfigError(f"Unknown config parameter `{key}`{hint}")
        old = original.get(key)
        if not isinstance(old, dict) or not isinstance(value, Mapping):
            original[key] = value
            continue
        types = old.get("type"), value.get("type")
        if key in whole and None not in types and types[0] != types[1]:
            original[key] = value
        else:
            deep_update(old, value, new_keys_allowed or key in free)
    return original


def flatten_dict(dt: Mapping[str, Any], delimiter: str = "/", prevent_delimiter: bool = False) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in dt.items():
        if prevent_delimiter and isinstance(key, str) and delimiter in key:
            raise ValueError(f"key {key!r} has {delimiter!r} in it, which separates the keys of a path")
        if isinstance(value, Mapping) and value:
            inner = flatten_dict(value, delimiter, prevent_delimiter)
            flat |= {f"{key}{delimiter}{path}": one for path, one in inner.items()}
        else:
            flat[key] = value
    return flat


def unflatten_dict(dt: Mapping[str, Any], delimiter: str = "/") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path, value in dt.items():
        *above, last = path.split(delimiter)
        place = found
        for key in above:
            place = place.setdefault(key, {})
        place[last] = value
    return found


def force_list(elements: Any = None, to_tuple: bool = False) -> Any:
    kind: Any = tuple if to_tuple else list
    if elements is None:
        return kind()
    return kind(elements if type(elements) in (list, tuple) else [elements])


def force_tuple(elements: Any = None, to_tuple: bool = True) -> Any:
    return force_list(elements, to_tuple)


def add_mixins(base: type, mixins: Iterable[type] | None, reversed: bool = False) -> type:
    order = list(mixins or ())
    for mixin in order if reversed else order[::-1]:
        base = type("new_base", (mixin, base), {})
    return base


class NullContextManager:
    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None
