"""The configuration file as JSON Schema (draft 2020-12), for editors: made from the settings classes, never by hand."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, get_args, get_origin

from annotated_types import Ge, GroupedMetadata, Gt, Le, Lt

from rookery.algorithms.names import ALGORITHMS
from rookery.core.schedules import Schedule, write_schedule
from rookery.core.settings import (
    Scheduled,
    Settings,
    alternatives,
    bare,
    default_of,
    describe,
    fields_of,
    hints_of,
    object_name,
)
from rookery.core.source import field_texts
from rookery.training.presets import ENV_PRESETS
from rookery.training.settings import PolicyEntry, RunConfig, algorithm_class

Schema = dict[str, Any]

MARK = type(get_args(Scheduled)[1])
"""What a field that takes a schedule carries."""

IMPORT_PATH = "^[A-Za-z_][\\w.]*:[A-Za-z_][\\w.]*$"

SCHEDULE: Schema = {
    "description": "A number that changes while training.",
    "oneOf": [
        {
            "type": "object",
            "properties": {
                "start": {"type": "number", "description": "Value at step 0."},
                "end": {"type": "number", "description": "Value at the last step, and after it."},
                "steps": {
                    "type": ["integer", "null"],
                    "minimum": 1,
                    "description": "Length in env steps; none = stop.env_steps.",
                },
                "shape": {"enum": ["linear", "exponential"], "default": "linear"},
            },
            "required": ["start", "end"],
            "additionalProperties": False,
        },
        {
            "type": "object",
            "properties": {
                "points": {
                    "type": "array",
                    "minItems": 1,
                    "items": {"type": "array", "prefixItems": [{"type": "number"}] * 2, "minItems": 2, "maxItems": 2},
                    "description": "[step, value] with ascending steps.",
                }
            },
            "required": ["points"],
            "additionalProperties": False,
        },
    ],
}

PLAIN: dict[Any, Schema] = {
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    str: {"type": "string"},
    types.NoneType: {"type": "null"},
    Any: {},
    dict: {"type": "object"},
    list: {"type": "array"},
    tuple: {"type": "array"},
    type: {"type": "string", "pattern": IMPORT_PATH},
    Callable: {"type": "string", "pattern": IMPORT_PATH},
}


def config_schema() -> Schema:
    """The schema of a whole file. What only a run can know, such as names of metrics, it leaves open."""
    root = section(RunConfig)
    known = dict.fromkeys(name for presets in ENV_PRESETS.values() for name in presets if "*" not in name)
    root["properties"]["env"]["properties"]["name"]["examples"] = list(known)
    named = {name: section(algorithm_class(name)) for name in ALGORITHMS}
    default = get_args(hints_of(RunConfig)["algorithm"])[1].default
    root["properties"]["algorithm"] |= {
        "oneOf": [algorithm(name, body, {}, optional=name == default) for name, body in named.items()] + [own({})]
    }
    beside = {key: value for key, value in section(PolicyEntry)["properties"].items() if key != "algorithm"}
    root["properties"]["policies"] |= {
        "type": ["object", "null"],
        "additionalProperties": {
            # a policy without a name has that of the section algorithm, which cannot be said here: any may fit
            "anyOf": [algorithm(name, body, beside, optional=True) for name, body in named.items()] + [own(beside)]
        },
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Rookery run",
        **root,
        "patternProperties": {"^[^.]+\\..": {"description": "A path with dots, as on the command line."}},
        "$defs": {"schedule": SCHEDULE},
    }


def section(cls: type[Settings]) -> Schema:
    """A settings class: nothing but its fields, or null for an empty one."""
    hints = hints_of(cls)
    texts: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        texts |= field_texts(object_name(base)) if dataclasses.is_dataclass(base) else {}
    properties = {}
    for name, field in fields_of(cls).items():
        properties[name] = value(hints[name])
        if name in texts:
            properties[name]["description"] = texts[name].replace("``", "`")
        default = default_of(field)
        if default is not dataclasses.MISSING and not isinstance(default, Settings):
            properties[name]["default"] = _written(default)
    return {"type": ["object", "null"], "properties": properties, "additionalProperties": False}


def algorithm(name: str, body: Schema, beside: Schema, *, optional: bool) -> Schema:
    """The settings of one algorithm with its name, and what may stand `beside` them."""
    properties = {"name": {"const": name, "description": "Which algorithm."}, **body["properties"], **beside}
    found = {**body, "title": name, "properties": properties}
    return found if optional else {**found, "type": "object", "required": ["name"]}


def own(beside: Schema) -> Schema:
    """An algorithm from outside, by import path: its settings are its own affair."""
    name = {"type": "string", "pattern": IMPORT_PATH, "description": "Import path of a settings class."}
    return {"title": "your own", "type": "object", "properties": {"name": name, **beside}, "required": ["name"]}


def value(hint: Any) -> Schema:
    """What a field of a type may hold."""
    parts = alternatives(hint)
    if any(isinstance(item, MARK) for item in get_args(hint)[1:]):
        plain = [value(part) for part in parts if part is not Any]
        return {"anyOf": [*plain, {"$ref": "#/$defs/schedule"}]}
    if len(parts) > 1:
        return {"anyOf": [value(part) for part in parts]}
    kind = bare(hint)
    origin, args = get_origin(kind), get_args(kind)
    if origin is Literal:
        return {"enum": list(args)}
    if isinstance(kind, type) and issubclass(kind, Settings):
        return section(kind)
    known = next((PLAIN[key] for key in (kind, origin) if key in PLAIN), {"description": describe(hint)})
    found = dict(known)
    if origin is tuple and args[-1] is ...:
        found["items"] = value(args[0])
    elif origin is tuple:
        found |= {"prefixItems": [value(arg) for arg in args], "minItems": len(args), "maxItems": len(args)}
    elif origin is list:
        found["items"] = value(args[0])
    elif origin in (dict, Mapping):
        found |= {"type": ["object", "null"], "additionalProperties": value(args[1])}
    for limit in _limits(hint):
        for kind_of, key, attribute in (
            (Ge, "minimum", "ge"),
            (Gt, "exclusiveMinimum", "gt"),
            (Le, "maximum", "le"),
            (Lt, "exclusiveMaximum", "lt"),
        ):
            if isinstance(limit, kind_of):
                found[key] = getattr(limit, attribute)
    return found


def _limits(hint: Any) -> Iterator[Any]:
    """The single limits of an annotated type."""
    for item in get_args(hint)[1:] if hint is not bare(hint) else ():
        yield from item if isinstance(item, GroupedMetadata) else [item]


def _written(value: Any) -> Any:
    """A default as a file has it."""
    if isinstance(value, Schedule):
        return write_schedule(value)
    return list(value) if isinstance(value, tuple) else value
