"""Configurations of algorithms in checkpoints, as JSON: reading one runs no code and imports nothing.

Classes and functions are stored by their names, and found again among those of the script that reads the checkpoint.
Those without a name, such as a lambda, are found if this process has made the configuration; else they have to be given
again.
"""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Iterator, Mapping
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium

from rookery.face import ConfigError, FileError, space_from_json, space_to_json
from rookery.script.importer import importer_of
from rookery_rllib.policy.policies import PolicySpec
from rookery_rllib.rllib2.modules.rl_modules import DefaultModelConfig, MultiRLModuleSpec, RLModuleSpec

FILE = "algorithm.json"
"""File of the configuration in a checkpoint."""

OWN = "rookery_rllib."
"""Modules of which stored names may be, beside those of the script."""

RECORDS: dict[str, type] = {
    cls.__name__: cls for cls in (PolicySpec, DefaultModelConfig, RLModuleSpec, MultiRLModuleSpec)
}
"""Classes whose objects are stored by their fields."""

_made: dict[str, Mapping[str, Any]] = {}
"""Configurations that this process has made, by their number."""


class Missing(NamedTuple):
    """An object that cannot be found again."""

    path: str
    text: str


def remember(given: Mapping[str, Any]) -> str:
    """Keeps a configuration for checkpoints that this process reads; returns its number."""
    number = uuid.uuid4().hex
    _made[number] = given
    return number


def write_config(folder: Path, name: str, given: Mapping[str, Any], old_stack: bool, number: str) -> None:
    """Writes the configuration of an algorithm into a checkpoint."""
    content = {"algorithm": name, "old_stack": old_stack, "number": number, "config": _encoded(dict(given))}
    (folder / FILE).write_text(json.dumps(content) + "\n", encoding="utf-8")


def read_config(folder: Path, given_again: Mapping[str, Any]) -> tuple[str, dict[str, Any], bool]:
    """Returns name, keys and stack of an algorithm.

    Args:
        folder: The checkpoint.
        given_again: Keys that replace stored ones.

    Raises:
        FileError: If the checkpoint has no configuration.
        ConfigError: If an object of the configuration has no name, and was not given again.
    """
    try:
        content = json.loads((folder / FILE).read_text(encoding="utf-8"))
        name, old_stack, stored = str(content["algorithm"]), bool(content["old_stack"]), content["config"]
    except FileNotFoundError:
        raise FileError(f"{folder}: holds no configuration of an algorithm ({FILE})") from None
    except (ValueError, KeyError, TypeError):
        raise FileError(f"{folder / FILE}: is damaged") from None
    config = _decoded(stored, _made.get(str(content.get("number")), {}), "")
    for key, value in given_again.items():
        section, _, last = key.rpartition(".")
        (config.setdefault(section, {}) if section else config)[last] = value
    problems = [f"{one.path} = {one.text}: give it again" for one in _missing(config)]
    if problems:
        raise ConfigError(*(f"from_checkpoint: {line}: build the algorithm by its configuration, and call "
                            "algo.restore_from_path(path)" for line in problems))  # fmt: skip
    return name, config, old_stack


def _encoded(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"dict": {key: _encoded(part) for key, part in value.items()}}
    if isinstance(value, dict):
        return {"pairs": [[_encoded(key), _encoded(part)] for key, part in value.items()]}
    if type(value).__name__ in RECORDS and type(value) is RECORDS[type(value).__name__]:
        fields = value._asdict() if isinstance(value, PolicySpec) else vars(value)
        return {"record": type(value).__name__, "fields": {key: _encoded(part) for key, part in fields.items()}}
    for kind in (list, tuple, set, frozenset):
        if type(value) is kind:
            return {kind.__name__: [_encoded(part) for part in value]}
    if isinstance(value, gymnasium.Space):
        try:
            return {"space": space_to_json(value)}
        except Exception:  # a space of the script's own
            return {"missing": repr(value)[:80]}
    name = getattr(value, "__qualname__", "")
    if name and "<" not in name:
        return {"object": [value.__module__, name]}
    return {"missing": repr(value)[:80], "place": _place(value)}


def _decoded(stored: Any, made: Any, path: str) -> Any:
    """Returns a stored value; objects without a name are taken from the configuration that was made here."""
    if not isinstance(stored, dict):
        return stored
    kind, body = next(iter(stored.items()))

    def inside(key: Any) -> Any:
        try:
            return made[key]
        except (KeyError, IndexError, TypeError):
            return getattr(made, str(key), None)

    def below(key: Any, part: Any) -> Any:
        return _decoded(part, inside(key), f"{path}.{key}" if path else str(key))

    if kind == "dict":
        return {key: below(key, part) for key, part in body.items()}
    if kind == "pairs":
        return {(name := _decoded(key, None, path)): below(name, part) for key, part in body}
    if kind == "record":
        return RECORDS[body](**{key: below(key, part) for key, part in stored["fields"].items()})
    if kind in ("list", "tuple"):
        return (list if kind == "list" else tuple)(below(place, part) for place, part in enumerate(body))
    if kind in ("set", "frozenset"):
        return {_decoded(part, None, path) for part in body}
    if kind == "space":
        return space_from_json(body)
    if made is not None:
        return made
    if kind == "object":
        return _named(str(body[0]), str(body[1]), path)
    place = stored.get("place")
    known = (each for given in _made.values() for each in _objects(given) if place and _place(each) == place)
    return next(known, Missing(path, str(body)))


def _place(value: Any) -> list[Any]:
    """Returns where a function or class without a name is defined; empty for other objects."""
    code = getattr(value, "__code__", None)
    if code is not None:
        return [code.co_filename, code.co_firstlineno, code.co_qualname]
    return [value.__module__, value.__qualname__] if isinstance(value, type) else []


def _objects(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for part in value:
            yield from _objects(part)
    else:
        yield value


def _named(module: str, name: str, path: str) -> Any:
    """Returns an object of the script, or of this package, by its name; nothing is imported."""
    found = sys.modules.get(module)
    space = {} if found is None else vars(found)
    if module == "__main__" or module.startswith(OWN) or importer_of(space) is not None:
        try:
            return reduce(getattr, name.split("."), found)
        except AttributeError:
            pass
    return Missing(path, f"{module}.{name}, which is not in this script")


def _missing(value: Any) -> list[Missing]:
    if isinstance(value, Missing):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return [one for part in parts for one in _missing(part)]
