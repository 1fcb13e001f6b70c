"""`OldFile`: reads files of ML-Agents 0.13 to 0.18, detects their kind, and reads sections of a trainer configuration.

A trainer configuration is flat: a section for each behaviour, copied over the section ``default``. Curricula and
samplers are read by `rookery_mlagents.old.old_parameters`; `rookery_mlagents.old.convert` makes today's file of
all of them.
"""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rookery.face import (
    ConfigError,
    DuplicateKeyError,
    compose_yaml,
    construct_yaml,
    nearest,
    refuse,
    unique_keys,
    yaml_layer,
)
from rookery_mlagents.old.old_keys import KEYS, SPOKEN

OLD = "ML-Agents 0.13 to 0.18"
"""Name of the supported releases in messages."""

CURRENT = (
    "behaviors", "default_settings", "env_settings", "engine_settings", "environment_parameters",
    "checkpoint_settings", "torch_settings", "debug",
)  # fmt: skip
"""Sections of a present-format file."""

CALLED = {"trainer": "a trainer configuration", "curriculum": "a curriculum", "sampler": "a sampler file"}
"""Names of the kinds of old files in messages."""


# -- files -------------------------------------------------------------------------------------------------------------


@dataclass
class OldFile:
    """Old file and its problems.

    Attributes:
        source: Its name, for messages.
        values: Content of the file.
        lines: Where: dotted path -> ``file:line``.
        problems: Mistakes found so far; `check` raises them all at once.
        notes: Notes for the user.
        path: Where it lies, as a user gave it.
    """

    source: str
    values: Mapping[Any, object]
    lines: Mapping[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    path: str = ""

    def place(self, path: str) -> str:
        """Returns ``file:line`` of a dotted path, or of the section that contains it."""
        while path and path not in self.lines:
            path = path.rpartition(".")[0]
        return self.lines.get(path, self.source)

    def wrong(self, path: str, message: str) -> None:
        """Adds a problem."""
        self.problems.append(f"{self.place(path)}: {path}{message}")

    def check(self) -> None:
        """Raises a ConfigError with all problems, if there are any."""
        refuse(dict.fromkeys(self.problems))

    def section(self, path: str, value: object) -> Mapping[Any, object]:
        """Returns a value that must be a mapping; otherwise adds a problem and returns an empty one."""
        if isinstance(value, Mapping):
            return value
        if value is not None:
            self.wrong(path, f" = {value!r}: must be a section of keys")
        return {}

    def read(self, path: str, value: object, kind: str) -> object:
        """Converts a value to its kind; otherwise adds a problem and returns None."""
        found: object = None
        if kind == "section":
            return self.section(path, value)
        if kind == "whole":
            number = number_of(value)
            found = int(number) if number is not None and float(number).is_integer() else None
        elif kind == "number":
            found = number_of(value)
        elif kind == "numbers":
            if isinstance(value, list):
                each = [number_of(one) for one in value]
                found = None if None in each else each
        elif kind == "flag":
            found = value if isinstance(value, bool) else SPOKEN.get(str(value).lower())
        elif kind == "text":
            found = str(value) if value is not None and not isinstance(value, Mapping | list) else None
        else:
            found = value if value in kind.split("|") else None
        if found is None:
            near = nearest(str(value), kind.split("|")) if "|" in kind else ""
            self.wrong(path, f" = {value!r}: must be {KINDS.get(kind) or 'one of ' + kind.replace('|', ', ')}{near}")
        return found

    def keys(self, path: str, values: Mapping[Any, object], kinds: Mapping[str, str]) -> dict[str, object]:
        """Returns the values of a section, each converted to its kind, and adds problems for unknown keys."""
        found = {}
        for key, value in values.items():
            if key in kinds:
                found[str(key)] = self.read(f"{path}.{key}" if path else str(key), value, kinds[str(key)])
            else:
                self.unknown(path, key, kinds)
        return found

    def unknown(self, path: str, key: object, known: Iterable[str]) -> None:
        """Adds a problem for an unknown key."""
        names = list(known)
        near = nearest(str(key), names) or f"; known are {', '.join(names)}"
        self.wrong(f"{path}.{key}" if path else str(key), f": there is no such key{near}")


KINDS = {
    "whole": "a whole number",
    "number": "a number",
    "numbers": "a list of numbers",
    "flag": "true or false",
    "text": "a text",
}
"""Names of the kinds of values in messages."""


def number_of(value: object) -> int | float | None:
    """Returns a finite number, also from a text that YAML 1.1 did not read as a number."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    if not math.isfinite(found):
        return None
    return found if isinstance(value, str) else value


def read_trainer(path: str | Path) -> OldFile:
    """Reads a trainer configuration; of duplicate keys the last one counts, as in the old releases.

    Raises:
        ConfigError: If it cannot be read; says where.
    """
    try:
        return read_file(path)
    except ConfigError as error:
        if "found duplicate key" not in str(error):
            raise
    from ruamel.yaml.nodes import MappingNode, Node

    lines: dict[str, str] = {}
    notes: list[str] = []
    found = OldFile(str(path), {}, lines, notes=notes, path=str(path))

    def note(node: Node, above: str) -> None:
        last = {}
        for key, value in node.value if isinstance(node, MappingNode) else ():
            here, line = f"{above}{key.value}", f"{found.source}:{key.start_mark.line + 1}"
            if here in lines:
                notes.append(f"{line}: {here} stands twice; this one counts, as it did, and not {lines[here]}")
            lines[here], last[key.value] = line, (key, value)
            note(value, f"{here}.")
        if isinstance(node, MappingNode):
            node.value = list(last.values())

    text = Path(path).read_text(encoding="utf-8")
    tree = compose_yaml(text, found.source)
    if tree is not None:
        note(tree, "")
    found.values = construct_yaml(tree, text, found.source)
    return found


def read_file(path: str | Path) -> OldFile:
    """Reads an old file: JSON if its suffix is ``.json``, else YAML.

    Raises:
        ConfigError: If it cannot be read; says where.
    """
    place = Path(path)
    if place.suffix.lower() != ".json":
        layer = yaml_layer(place, str(path))
        return OldFile(layer.source, dict(layer.values), layer.lines, path=str(path))
    try:
        text = place.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read as text: {error}") from None
    try:
        values = json.loads(text, object_pairs_hook=unique_keys)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{path}:{error.lineno}: not JSON: {error.msg}") from None
    except DuplicateKeyError as error:
        line = _last_line_of(text, error.key)
        raise ConfigError(f"{path}:{line}: not JSON: key {error.key!r} stands twice in one section") from None
    except RecursionError:
        raise ConfigError(f"{path}: not JSON: it is nested too deeply") from None
    if not isinstance(values, dict):
        raise ConfigError(f'{path}:1: must be an object such as {{"measure": "reward", ...}}')
    return OldFile(str(path), values, dict(_lines_of(text, str(path), values, "", 0)), path=str(path))


def _last_line_of(text: str, key: str) -> int:
    return text.count("\n", 0, max(text.rfind(json.dumps(key)), 0)) + 1


def _lines_of(text: str, name: str, values: Mapping[str, object], above: str, start: int) -> Iterator[tuple[str, str]]:
    """Yields the lines of keys in a JSON text, in reading order."""
    for key, value in values.items():
        found = re.compile(re.escape(json.dumps(key, ensure_ascii=False)) + r"\s*:").search(text, start)
        start = found.end() if found else start
        line = text.count("\n", 0, found.start() if found else start) + 1
        yield f"{above}{key}", f"{name}:{line}"
        if isinstance(value, Mapping):
            yield from _lines_of(text, name, value, f"{above}{key}.", start)


def kind_of(document: Mapping[Any, object]) -> str:
    """Detects the kind of a file by its keys.

    Returns:
        ``current`` (a file of today), ``between`` (of 0.17 and 0.18: today's behaviours, curricula and samplers as they
        were before), ``trainer``, ``curriculum`` or ``sampler`` of 0.13 to 0.16, or ``unknown``.
    """
    keys = {str(key) for key in document}
    sections = [{str(key) for key in value} for value in document.values() if isinstance(value, Mapping)]
    if ("behaviors" in keys and keys & {"curriculum", "parameter_randomization"}) or has_flat_behaviors(document):
        return "between"
    if keys & set(CURRENT):
        return "current"
    if "resampling-interval" in keys or any({"sampler-type", "sampler_type"} & section for section in sections):
        return "sampler"
    marks = {"measure", "thresholds", "min_lesson_length", "parameters"}
    if len(keys & marks) > 1 or any(len(section & marks) > 1 for section in sections):
        return "curriculum"
    if "default" in keys or len(keys & KEYS.keys()) > 1 or any(section & KEYS.keys() for section in sections):
        return "trainer"
    return "unknown"


def has_flat_behaviors(document: Mapping[Any, object]) -> bool:
    """Returns whether ``behaviors`` contains behaviours with the earlier flat keys, as in 0.17."""
    behaviors = document.get("behaviors")
    each = behaviors.values() if isinstance(behaviors, Mapping) else ()
    return any(isinstance(one, Mapping) and "trainer" in one for one in each)


def is_old(document: Mapping[Any, object]) -> bool:
    """Returns whether a file is from ML-Agents 0.13 to 0.18, which `rookery mlagents convert` reads."""
    return kind_of(document) not in ("current", "unknown")


def convert_command(path: str | Path) -> str:
    """Returns the command that converts an old file, with the path as given by the user."""
    place = Path(path)
    return f"rookery mlagents convert {shlex.join([str(place), '-o', str(place.with_name(f'{place.stem}.new.yaml'))])}"


def old_file_message(path: str | Path, document: Mapping[Any, object]) -> str:
    """Returns the message for an old file in place of one of the present format."""
    name, place = str(path), Path(path)
    kind = kind_of(document)
    if kind in ("curriculum", "sampler"):
        command = f"rookery mlagents convert TRAINER_CONFIG.yaml --{kind} {shlex.quote(str(place))} -o NEW.yaml"
        return f"{name}:1: this is {CALLED[kind]} of {OLD}; put it into a file of today: {command}"
    command = convert_command(path)
    if kind == "between":
        line = "it has curriculum or parameter_randomization; today it is environment_parameters"
        return f"{name}:1: this is {CALLED['trainer']} of ML-Agents 0.17 or 0.18: {line}; convert it: {command}"
    return f"{name}:1: this is {CALLED['trainer']} of {OLD}; convert it: {command}"


# -- sections of behaviours --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Given:
    """Value and its dotted path in an old file."""

    value: object
    path: str


Section = dict[str, Given]
"""Keys of a behaviour, merged over those of ``default``."""


def sections(file: OldFile) -> tuple[Section | None, dict[str, Section]]:
    """Returns ``default`` and all behaviours of a trainer configuration, each as its trainer received it.

    A behaviour's keys replace those of ``default`` one by one, sections among them whole. A behaviour that is the name
    of another takes that one's keys.

    Raises:
        ConfigError: If it is no trainer configuration of these releases.
    """
    _refuse_others(file)
    below = _given(file, "default", file.values["default"]) if "default" in file.values else None
    found = {}
    for name in file.values:
        if name != "default":
            key = _followed(file, str(name))
            own = _given(file, key, file.values.get(key)) if key != "default" else {}
            found[str(name)] = {**(below or {}), **own}
    file.check()
    return below, found


def _refuse_others(file: OldFile) -> None:
    kind = kind_of(file.values)
    if kind == "current":
        raise ConfigError(
            f"{file.source}:1: this file is of today's form: there is nothing to convert; "
            f"run it: rookery mlagents learn {shlex.quote(file.path or file.source)}"
        )
    if kind in ("curriculum", "sampler"):
        raise ConfigError(
            f"{file.source}:1: this is {CALLED[kind]}: give it as --{kind}, beside a trainer configuration"
        )
    if kind == "trainer" and (flat := [key for key in file.values if key in KEYS and key != "default"]):
        raise ConfigError(
            f"{file.place(str(flat[0]))}: {flat[0]} stands outside of any section: put the keys of a behaviour under "
            "its name, or under default:"
        )
    if kind == "unknown" or not file.values:
        raise ConfigError(
            f"{file.source}:1: this is no trainer configuration of {OLD}: it has neither default: nor "
            "behaviors:, nor a section of a behaviour with keys such as trainer or max_steps"
        )


def _given(file: OldFile, name: str, value: object) -> Section:
    return {str(key): Given(one, f"{name}.{key}") for key, one in file.section(name, value).items()}


def _followed(file: OldFile, name: str) -> str:
    """Returns the section with a behaviour's keys: its own, or the one that it names."""
    trail = [name]
    while isinstance(target := file.values.get(trail[-1]), str):
        if target not in file.values:
            near = nearest(target, [str(key) for key in file.values])
            file.wrong(trail[-1], f" = {target!r}: there is no section of that name{near}")
            return name
        if target in trail:
            file.wrong(name, f": {' -> '.join([*trail, target])}: these sections name each other, and none has keys")
            return name
        trail.append(target)
    return trail[-1]
