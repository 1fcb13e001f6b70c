"""Objects made from a description: a class, its import path, or a dict with `type` and arguments."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rookery.face import ConfigError, load_yaml
from rookery_rllib.base import imports


def from_config(cls: Any, config: Any = None, **kwargs: Any) -> Any:
    """Builds an object; raises a ConfigError for an unknown name."""
    if config is None and isinstance(cls, Mapping | str):
        cls, config = None, cls
    elif isinstance(cls, type) and isinstance(config, cls):
        return config
    arguments: dict[str, Any] = {}
    kind = config
    if isinstance(config, Mapping):
        arguments = dict(config)
        kind = arguments.pop("type", None)
        if kind is None and isinstance(cls, str):
            kind = cls
    arguments |= kwargs
    if kind is None:
        kind = arguments.pop("type", None)
    positional = arguments.pop("_args", ())
    positional = list(positional) if isinstance(positional, list | tuple) else [positional]
    if isinstance(kind, str) and re.search(r"\.(yaml|yml|json)$", kind) and _registered(cls, kind) is None:
        return from_file(cls, kind, *positional, **arguments)
    constructor = _constructor(cls, kind)
    return constructor if constructor is False else constructor(*positional, **arguments)


def from_file(cls: Any, filename: str, *args: Any, **kwargs: Any) -> Any:
    text = Path(filename).read_text(encoding="utf-8")
    if filename.endswith(".json"):
        found = json.loads(text)
    else:
        found = load_yaml(text, filename)
    return from_config(cls, {**found, "_args": list(args)}, **kwargs)


def lookup_type(cls: Any, type_: Any) -> Any:
    """Looks a name up in ``cls.__type_registry__``, also ignoring case and punctuation; None if it is missing."""
    return _registered(cls, type_)


def _registered(cls: Any, kind: Any) -> Any:
    registry = getattr(cls, "__type_registry__", None)
    if not isinstance(registry, Mapping):
        return None
    plain = re.sub(r"[\W_]", "", kind.lower()) if isinstance(kind, str) else kind
    return registry.get(kind, registry.get(plain))


def _constructor(cls: Any, kind: Any) -> Any:
    found = _registered(cls, kind)
    if found is not None:
        return found
    if kind is None:
        default = getattr(cls, "__default_constructor__", None)
        if default is None and cls is None:
            raise ConfigError("from_config: the type is missing; give a class, or a dict with 'type'")
        return default or cls
    if kind is False or callable(kind):
        return kind
    if isinstance(kind, str):
        module, _, name = kind.rpartition(".")
        module = module or getattr(cls, "__module__", "")
        if module and (made := imported(module, name)) is not None:
            return made
    within = f", or a name in {cls.__module__}" if isinstance(cls, type) else ""
    raise ConfigError(f"from_config: {kind!r} is neither a class nor an import path 'my.module.MyClass'{within}")


def imported(module: str, name: str) -> Any:
    """Imports an attribute of a module, also of a module of 2021; None if it does not exist."""
    try:
        found = imports.module(module) if imports.is_known(module) else importlib.import_module(module)
        return getattr(found, name, None)
    except ImportError:
        return None
