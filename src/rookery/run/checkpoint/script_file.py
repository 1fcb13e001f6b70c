"""The script that defines classes and functions of a run, recorded in its checkpoints and in ``script.json``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from rookery.core.config import Resolved
from rookery.core.io.json_text import parse_json
from rookery.core.io.signing import is_signed, signed
from rookery.core.settings.fields import Settings, object_name
from rookery.core.settings.script_objects import PREFIX, ScriptRecord
from rookery.core.settings.secrets import command_words
from rookery.envs.vector.specs import script_entry
from rookery.run.settings import RunConfig

SCRIPT = "script.json"
"""File in the directory of a run."""

KIND = "script"
"""Kind of its signature."""


def script_record(resolved: Resolved[RunConfig]) -> ScriptRecord | None:
    """Returns the script that defines classes and functions among the settings of a run, or registers its environment;
    None if none does, or if they are of a notebook.
    """
    values = [given[-1][1] for given in resolved.history.values()]
    found = [one for one in (*_parts(values), *_classes(resolved.config)) if object_name(one).startswith(PREFIX)]
    if (entry := script_entry(resolved.config.env.name)) is not None:
        found.append(entry)
    return ScriptRecord.of(found, command_words(values)) if found else None


def with_classes(value: Any, script: ScriptRecord | None, path: str = "") -> Any:
    """Returns stored settings with the classes of a script in place of the names that choose a class.

    Args:
        value: Settings as a tree, or the value of one.
        script: The script; None if there is none, or it is not the user's.
        path: Path of the value.

    Raises:
        ConfigError: If the script or a name is gone, or a statement that is needed raises an exception.
    """
    if isinstance(value, Mapping):
        return {name: with_classes(one, script, f"{path}.{name}".lstrip(".")) for name, one in value.items()}
    is_class = isinstance(value, str) and value.startswith(PREFIX) and path.endswith(".name")
    is_class = is_class and not path.startswith("env.config.")  # texts for the constructor of the environment
    return script.find(value) if is_class and script is not None else value


def script_text(record: ScriptRecord) -> str:
    """Returns the text of the file `SCRIPT`, with the user's signature."""
    return json.dumps(signed(KIND, record.facts()), indent=1)


def stored_script(folder: Path) -> ScriptRecord | None:
    """Returns the script of a run from the file in its directory; None if there is none, or if it is not the user's."""
    try:
        facts = parse_json((folder / SCRIPT).read_text(encoding="utf-8"))
        return ScriptRecord.read(facts) if is_signed(KIND, facts) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _classes(value: Any) -> Iterator[type]:
    """Yields the classes of settings and of those in them."""
    if isinstance(value, Settings):
        yield type(value)
        value = vars(value)
    if isinstance(value, Mapping):
        for one in value.values():
            yield from _classes(one)


def _parts(value: Any) -> Iterator[Any]:
    """Yields the values in lists, mappings and calls of `functools.partial`, at any depth."""
    if isinstance(value, partial):
        value = [value.func, value.args, value.keywords]
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for one in value:
            yield from _parts(one)
    else:
        yield value
