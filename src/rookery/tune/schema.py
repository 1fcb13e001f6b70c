"""The file of an experiment as JSON Schema: that of a training, where any value may be a domain, and section tune."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rookery.core.layers import import_object
from rookery.training.schema import Schema, config_schema, own, section
from rookery.tune.names import SCHEDULERS, SEARCHES
from rookery.tune.settings import SECTION, TuneConfig
from rookery.tune.space import FUNCTIONS
from rookery.tune.spec import LISTS

DOMAIN = {"$ref": "#/$defs/domain"}

KEPT = ("description", "default", "examples")
"""What editors show of a value, whatever it may be."""


def experiment_schema() -> Schema:
    """The schema of a file for ``rookery tune``."""
    schema = config_schema()
    body = section(TuneConfig)
    for name, known in (("search", SEARCHES), ("scheduler", SCHEDULERS)):
        kinds = [_named(short, section(import_object(path))) for short, path in known.items()]
        body["properties"][name] |= {"oneOf": [{"enum": list(known)}, *kinds, own({})]}
    properties = {key: _open(part) for key, part in schema["properties"].items()}
    return {
        **schema,
        "title": "Rookery experiment",
        "properties": {
            **properties,
            SECTION: {**body, "description": "What is tried, how, and where."},
        },
        "$defs": {**schema["$defs"], "domain": _domain()},
    }


def _named(name: str, body: Schema) -> Schema:
    properties = {"name": {"const": name}, **body["properties"]}
    return {**body, "title": name, "type": "object", "properties": properties, "required": ["name"]}


def _domain() -> Schema:
    """A mapping with one key, the name of a function."""
    kinds = []
    for name, function in FUNCTIONS.items():
        arguments: Schema = {"type": "array", "minItems": 1} if name in LISTS else {}
        text = (function.__doc__ or "").splitlines()[0]
        inside = {name: {**arguments, "description": text}}
        kinds.append({"type": "object", "properties": inside, "required": [name], "additionalProperties": False})
    return {"description": "A value that is still to be chosen.", "oneOf": kinds}


def _open(schema: Any) -> Any:
    """A schema that takes a domain too, where it takes a value; sections stay what they are."""
    if not isinstance(schema, Mapping):
        return schema
    inner = {key: _opened_parts(key, part) for key, part in schema.items()}
    if "properties" in schema or any(key in schema for key in ("oneOf", "$ref")):
        return inner
    told = {key: part for key, part in inner.items() if key in KEPT}
    return {**told, "anyOf": [{key: part for key, part in inner.items() if key not in KEPT}, DOMAIN]}


def _opened_parts(key: str, part: Any) -> Any:
    """What stands under a key of a schema, opened where it is a schema itself."""
    if key == "properties":
        return {name: part[name] if name == "name" else _open(part[name]) for name in part}
    if key in ("oneOf", "anyOf") and any(isinstance(each, Mapping) and "properties" in each for each in part):
        return [_open(each) for each in part]
    return _open(part) if key == "additionalProperties" else part
