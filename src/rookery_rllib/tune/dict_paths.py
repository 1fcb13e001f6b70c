"""Nested dicts by paths, under the names of ``ray.tune.utils``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rookery_rllib.tune.stopper import value_at
from rookery_rllib.tune.trial import experiment_tag

_NOTHING = object()


def unflattened_lookup(flat_key: str, lookup: Mapping[str, Any], delimiter: str = "/", **kwargs: Any) -> Any:
    """Returns what stands in nested dicts at a path; `default` if it is given and nothing does.

    Raises:
        KeyError: If nothing does, and there is no default.
    """
    value = value_at(lookup, flat_key.replace(delimiter, "/"), missing=_NOTHING)
    if value is not _NOTHING:
        return value
    if "default" in kwargs:
        return kwargs["default"]
    raise KeyError(flat_key)


def format_vars(resolved_vars: Mapping[Any, Any]) -> str:
    """Writes the values chosen for a trial as they stand in its name."""
    paths = {
        "/".join(map(str, path)) if isinstance(path, tuple) else path: part for path, part in resolved_vars.items()
    }
    return experiment_tag(0, paths).partition("_")[2]
