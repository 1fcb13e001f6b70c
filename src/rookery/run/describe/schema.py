"""JSON Schema (draft 2020-12) of configuration files, for editors; generated from the settings classes."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field
from typing import Any, Literal, get_args, get_origin

from rookery.algorithms.names import ALGORITHMS
from rookery.core.config import mapping_hint, polymorphic
from rookery.core.settings.fields import (
    InPercent,
    Settings,
    bare,
    default_of,
    describe,
    fields_of,
    hints_of,
    is_scheduled,
    limits_of,
    object_name,
    plain_parts,
    settings_class,
)
from rookery.core.settings.layers import import_object, writable
from rookery.core.source import field_texts
from rookery.run.describe.schema_definitions import Schema, with_definitions
from rookery.run.presets import ENV_PRESETS
from rookery.run.settings import RunConfig

IMPORT_PATH: Schema = {"type": "string", "pattern": "^[A-Za-z_][\\w.]*:[A-Za-z_][\\w.]*$"}


def closed_mapping(properties: Schema, required: list[str]) -> Schema:
    """Describes a mapping that may have these keys and no others."""
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


BY: Schema = {
    "enum": ["env_steps", "decisions"],
    "default": "env_steps",
    "description": "What a step is: one of the run, or a decision that the policy has learned from.",
}

RAMP: Schema = {
    "start": {"type": "number", "description": "Value at step 0."},
    "end": {"type": "number", "description": "Value at the last step, and after it."},
    "steps": {
        "type": ["integer", "null"], "minimum": 1, "description": "Length in env steps; none = stop.env_steps."
    },
    "by": BY,
    "shape": {"enum": ["linear", "exponential"], "default": "linear"},
}  # fmt: skip

POINTS: Schema = {
    "type": "array",
    "minItems": 1,
    "items": {"type": "array", "prefixItems": [{"type": "number"}] * 2, "minItems": 2, "maxItems": 2},
    "description": "[step, value] with ascending steps.",
}

SCHEDULE: Schema = {
    "description": "A number that changes while training.",
    "oneOf": [closed_mapping(RAMP, ["start", "end"]), closed_mapping({"points": POINTS, "by": BY}, ["points"])],
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
    type: IMPORT_PATH,
    Callable: IMPORT_PATH,
}

LIMITS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}


@dataclass(frozen=True)
class SchemaWriter:
    """Turns settings classes into JSON Schema.

    Attributes:
        names: Import paths of settings classes by short name, for each field whose class is chosen by name.
        everywhere: A schema allowed in place of any value; None = no such schema.
    """

    names: Mapping[str, Mapping[str, str]]
    everywhere: Schema | None = None
    _sections: dict[tuple[type[Settings], str], Schema] = field(default_factory=dict, init=False, repr=False)

    def section(self, cls: type[Settings], without: str = "") -> Schema:
        """Describes a settings class: nothing but its fields (`without` one of them), or null for an empty section."""
        if (cls, without) not in self._sections:
            self._sections[cls, without] = self._section(cls, without)
        return dict(self._sections[cls, without])

    def _section(self, cls: type[Settings], without: str) -> Schema:
        texts, hints = field_texts(object_name(cls)), hints_of(cls)
        properties = {}
        for name, one in fields_of(cls).items():
            if name == without:
                continue
            properties[name] = self.chosen(name, hints[name]) if polymorphic(hints[name]) else self.value(hints[name])
            if name in texts:
                properties[name]["description"] = texts[name].replace("``", "`")
            default = default_of(one)
            if default is not MISSING and not isinstance(default, Settings):
                properties[name]["default"] = writable(default)
        return {"type": ["object", "null"], "properties": properties, "additionalProperties": False}

    def chosen(self, field: str, hint: Any) -> Schema:
        """Describes a field whose class is chosen by the key ``name``, or a mapping of such sections."""
        marker = polymorphic(hint)
        assert marker is not None
        if not mapping_hint(hint):
            return {"oneOf": self.kinds(field, {}, lambda name: name == marker.default)}
        # A policy without a name has that of the section `algorithm`, which cannot be said here: any may fit.
        beside = self.section(marker.entry, without=marker.inherits)["properties"] if marker.entry else {}
        return {
            "type": ["object", "null"],
            "additionalProperties": {"anyOf": self.kinds(field, beside, lambda name: True)},
        }

    def kinds(self, field: str, beside: Schema, optional: Callable[[str], bool]) -> list[Schema]:
        """Describes each class that a field may choose, and a custom class, whose settings are not checked.

        Args:
            field: A key of `names`.
            beside: Keys allowed beside the settings of the class.
            optional: Whether the class of a short name is chosen where no name is given.
        """
        found = []
        for name, path in self.names[field].items():
            body = self.section(import_object(path))
            properties = {
                "name": {"const": name, "description": "Chooses the settings."},
                **body["properties"],
                **beside,
            }
            needed = {} if optional(name) else {"type": "object", "required": ["name"]}
            found.append({**body, "title": name, "properties": properties, **needed})
        own = {"name": {**IMPORT_PATH, "description": "Import path of a settings class."}, **beside}
        return [*found, {"title": "your own", "type": "object", "properties": own, "required": ["name"]}]

    def value(self, hint: Any) -> Schema:
        """Describes the values of a type."""
        if section := settings_class(hint):
            return self.section(section)
        kinds = [*map(self.plain, plain_parts(hint)), *[SCHEDULED] * is_scheduled(hint)]
        found = kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
        return {"anyOf": [found, self.everywhere]} if self.everywhere else found

    def plain(self, hint: Any) -> Schema:
        """Describes a type that is not a union."""
        kind = bare(hint)
        origin, args = get_origin(kind), get_args(kind)
        if origin is Literal:
            return {"enum": list(args)}
        plain = [key for key in (kind, origin) if key in PLAIN]
        known = PLAIN[plain[0]] if plain else {"description": describe(hint)}
        limits = {word: getattr(item, key) for item in limits_of(hint) for key, word in LIMITS.items()
                  if hasattr(item, key)}  # fmt: skip
        if mapping := mapping_hint(hint):
            return {"type": ["object", "null"], "additionalProperties": self.value(mapping[1])}
        if origin is tuple and args[-1] is not ...:
            inside = {"prefixItems": [self.value(arg) for arg in args], "minItems": len(args), "maxItems": len(args)}
        else:
            inside = {"items": self.value(args[0])} if origin in (tuple, list) else {}
        found = {**known, **inside, **limits}
        in_percent = any(isinstance(item, InPercent) for item in limits_of(hint))
        return {"anyOf": [found, {"type": "string", "pattern": "%$"}]} if in_percent else found


SCHEDULED = {"$ref": "#/$defs/schedule"}


def config_schema() -> Schema:
    """Returns the schema of a run's configuration file. Names that only a run knows, such as metrics, are left open."""
    return with_definitions(run_schema())


def run_schema(everywhere: Schema | None = None) -> Schema:
    """Returns the schema of `config_schema` with every part written where it belongs.

    Args:
        everywhere: A schema allowed in place of any value; None = no such schema.
    """
    algorithms = {**ALGORITHMS.own, **{name: ALGORITHMS[name] for name in ALGORITHMS.load_added()}}
    names: dict[str, Mapping[str, str]] = {"algorithm": algorithms, "policies": algorithms, "own": {}}
    root = SchemaWriter(names, everywhere).section(RunConfig)
    known = dict.fromkeys(name for presets in ENV_PRESETS.values() for name in presets if "*" not in name)
    root["properties"]["env"]["properties"]["name"]["examples"] = list(known)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Rookery run",
        **root,
        "patternProperties": {"^[^.]+\\..": {"description": "A path with dots, as on the command line."}},
        "$defs": {"schedule": SCHEDULE},
    }
