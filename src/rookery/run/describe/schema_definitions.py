"""Definitions of a JSON Schema: parts that stand in several places are written once, below ``$defs``."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

Schema = dict[str, Any]

SHORTEST = 72
"""Characters from which a repeated part becomes a definition."""

BY_NAME = ("properties", "patternProperties")
LISTED = ("anyOf", "oneOf", "prefixItems")
SINGLE = ("items", "additionalProperties")
"""Keywords whose values are mappings of schemas, lists of them, or one."""


def with_definitions(schema: Schema) -> Schema:
    """Returns an equal schema in which each longer part that occurs several times is a reference to a definition.

    A definition has the name of the class or of the setting that it describes first, with a number if the name is
    taken.
    """
    counts: Counter[str] = Counter()
    names: dict[str, str] = {}
    definitions: Schema = dict(schema.get("$defs", {}))

    def count(part: Any, _: str) -> Any:
        text = json.dumps(part)
        counts[text] += 1
        return _mapped(part, "", count) if counts[text] == 1 else part

    def written(part: Any, name: str) -> Any:
        text = json.dumps(part)
        if counts[text] < 2 or len(text) < SHORTEST:
            return _mapped(part, name, written)
        if text not in names:
            word = str(part.get("title", name)).replace(" ", "-")
            number = 1 + sum(known.partition(".")[0] == word for known in definitions)
            names[text] = word if number == 1 else f"{word}.{number}"
            definitions[names[text]] = {}  # keeps the name while the parts inside are written
            definitions[names[text]] = _mapped(part, name, written)
        return {"$ref": f"#/$defs/{names[text]}"}

    root = {key: value for key, value in schema.items() if key != "$defs"}
    count(root, "")
    return {**_mapped(root, "", written), "$defs": definitions}


def _mapped(part: Any, name: str, change: Callable[[Any, str], Any]) -> Any:
    """Returns a schema whose direct parts are replaced by the results of a function of them and their names."""
    if not isinstance(part, dict):
        return part
    found = dict(part)
    for key, value in part.items():
        if key in BY_NAME:
            found[key] = {inner: change(one, inner) for inner, one in value.items()}
        elif key in LISTED:
            found[key] = [change(one, name) for one in value]
        elif key in SINGLE and isinstance(value, dict):
            found[key] = change(value, name)
    return found


def schema_text(schema: Schema) -> str:
    """Returns a schema as JSON, each of its settings and definitions on a line."""
    lines = []
    for key, value in schema.items():
        if key in ("properties", "$defs"):
            inside = ",\n".join(f"  {json.dumps(name)}: {json.dumps(part)}" for name, part in value.items())
            lines.append(f" {json.dumps(key)}: {{\n{inside}\n }}")
        else:
            lines.append(f" {json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(lines) + "\n}"
