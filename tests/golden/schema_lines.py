"""The JSON Schema of configuration files as lines: a setting, its kind and its default.

A section that stands in several places is written once, and named by its first place afterwards.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from rookery.run.describe.schema import config_schema
from rookery.tune.schema import experiment_schema

Schema = dict[str, Any]

WORDS = {
    "minimum": ">=",
    "exclusiveMinimum": ">",
    "maximum": "<=",
    "exclusiveMaximum": "<",
    "pattern": "like ",
    "minItems": "items >=",
    "maxItems": "items <=",
}


class SchemaText:
    """Writes a schema as lines."""

    def __init__(self) -> None:
        self.places: dict[str, str] = {}
        self.kinds: dict[str, tuple[str, Schema]] = {}

    def lines(self, path: str, schema: Schema) -> Iterator[str]:
        """Yields the lines of a setting or section, and of what is inside."""
        like = self.like(path, schema)
        inside = list(self.inside(path, schema, like))
        if inside or like:
            first = self.places.setdefault(json.dumps(schema), path)
            if first != path:
                yield f"{path}: as {first}"
                return
        yield f"{path}: {self.kind(schema)}{self.default(schema)}{f', as {like} and more' if like else ''}"
        for below, part in inside:
            yield from self.lines(below, part)

    def like(self, path: str, schema: Schema) -> str:
        """Returns the place of a section of the same title all of whose settings are in this one, too; or nothing."""
        properties = schema.get("properties", {})
        if not schema.get("title") or len(properties) < 2:
            return ""
        first, known = self.kinds.setdefault(schema["title"], (path, properties))
        return first if first != path and known.items() <= properties.items() else ""

    def inside(self, path: str, schema: Schema, like: str) -> Iterator[tuple[str, Schema]]:
        """Yields what a section holds: settings, the value of a mapping, and classes that a name chooses.

        Args:
            path: Where it stands.
            schema: The section.
            like: Title of one whose settings need no lines of their own here, if not empty.
        """
        known = self.kinds[schema["title"]][1] if like else {}
        properties = {name: part for name, part in schema.get("properties", {}).items() if name not in known}
        for name, part in properties.items():
            yield f"{path}.{name}".strip("."), part
        if isinstance(schema.get("additionalProperties"), dict):
            yield f"{path}.*", schema["additionalProperties"]
        for part in (*schema.get("oneOf", ()), *schema.get("anyOf", ())):
            if "title" in part:
                yield f"{path}[{part['title']}]", part
            elif part.get("properties") or isinstance(part.get("additionalProperties"), dict):
                yield f"{path}[{' '.join(part.get('properties', '*'))}]", part

    def kind(self, schema: Schema) -> str:
        """Returns what a value may be."""
        if "enum" in schema or "const" in schema:
            return " | ".join(map(json.dumps, schema.get("enum", [schema.get("const")])))
        if "$ref" in schema:
            return str(schema["$ref"].rpartition("/")[2])
        parts = [part for part in (*schema.get("oneOf", ()), *schema.get("anyOf", ())) if "title" not in part]
        if parts:
            return " | ".join(dict.fromkeys(map(self.kind, parts)))
        types = schema.get("type", "section" if schema.get("properties") else "anything")
        found = " | ".join([types] if isinstance(types, str) else types)
        found = found.replace("object", "section") + "".join(
            f" {word}{schema[key]}" for key, word in WORDS.items() if key in schema
        )
        if isinstance(schema.get("items"), dict):
            found += f" of {self.kind(schema['items'])}"
        if "prefixItems" in schema:
            found += f" of ({', '.join(map(self.kind, schema['prefixItems']))})"
        if schema.get("required"):
            found += f", needs {' '.join(schema['required'])}"
        return found

    def default(self, schema: Schema) -> str:
        """Returns what a setting is if nothing is given."""
        return f" = {json.dumps(schema['default'])}" if "default" in schema else ""


OWN = ("schedule", "domain")
"""Definitions that are kinds of values, and not repeated parts."""


def expanded(part: Any, definitions: Schema) -> Any:
    """Returns a schema in which the references to repeated parts are replaced by these."""
    if isinstance(part, list):
        return [expanded(one, definitions) for one in part]
    if not isinstance(part, dict):
        return part
    name = str(part.get("$ref", "")).rpartition("/")[2]
    if name and name not in OWN:
        return expanded(definitions[name], definitions)
    return {key: expanded(value, definitions) for key, value in part.items()}


def whole(schema: Schema) -> Schema:
    """Returns a schema without definitions of repeated parts."""
    rest = {key: expanded(value, schema["$defs"]) for key, value in schema.items() if key != "$defs"}
    return {**rest, "$defs": {name: schema["$defs"][name] for name in OWN if name in schema["$defs"]}}


def schema_lines() -> list[str]:
    """Returns the settings of a training, and of an experiment beside them."""
    run, experiment = whole(config_schema()), whole(experiment_schema())
    text = SchemaText()
    found = [line for name, part in run["properties"].items() for line in text.lines(name, part)]
    found += [line for name, part in run["$defs"].items() for line in text.lines(f"<{name}>", part)]
    found += text.lines("tune", experiment["properties"]["tune"])
    found += text.lines("<domain>", experiment["$defs"]["domain"])
    return found
