"""Layers of settings and their YAML form: Layer, `yaml_layer`, `override_layer`, `read_value`, `import_object`,
`flow`.
"""

from __future__ import annotations

import importlib
import io
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rookery.core.errors import ConfigError, nearest
from rookery.core.io.yaml_reader import load_with_nodes, load_yaml
from rookery.core.moved import new_name, why_removed
from rookery.core.process.tracebacks import described
from rookery.core.schedules import Schedule, write_schedule
from rookery.core.settings.fields import Settings, fields_of, object_name, show
from rookery.core.settings.repeated_keys import refuse_repeated
from rookery.core.settings.secrets import NOT_STORED, Secret
from rookery.core.settings.starting_folder import starting_folder

CLASS = "<class>"
"""Key for the class of a settings object that was converted to a mapping."""


@dataclass(frozen=True)
class Layer:
    """Values from one source.

    Attributes:
        source: What to call it in messages.
        values: Values by path. Only keys of this mapping may be dotted (``"algorithm.lr"``); in nested mappings a dot
            is part of the key. A settings object stands for the fields it was given, and chooses its class.
        lines: ``file:line`` of a dotted path, where known.
        folder: Folder where relative paths among the values begin (`core/settings/starting_folder.py`).
        stored_folders: By dotted path, another folder that is tried first: where a stored run was started. That at the
            empty path is for all values.
        stored: Whether the values are those of a stored run, where settings may have the names of an earlier version.
    """

    source: str
    values: Mapping[str, Any]
    lines: Mapping[str, str] = field(default_factory=dict)
    folder: str = field(default_factory=starting_folder, compare=False)
    stored_folders: Mapping[str, str] = field(default_factory=dict, compare=False)
    stored: bool = False

    def where(self, path: str) -> str:
        """Returns the most exact known source of `path`."""
        return self.lines.get(path, self.source)

    def sent_to(self, folder: str) -> Layer:
        """Returns the layer for another process: relative paths that do not exist in the folder of the layer start in
        this folder.
        """
        return replace(self, folder=folder, stored_folders={"": self.folder, **self.stored_folders})

    def folders(self, path: str) -> tuple[str, ...]:
        """Returns the folders in which relative paths of the value at `path` are searched, in this order."""
        stored = self.stored_folders.get(path, self.stored_folders.get("", self.folder))
        return (self.folder,) if stored == self.folder else (stored, self.folder)


def yaml_layer(path: str | Path, name: str | None = None) -> Layer:
    """Returns the layer of a YAML 1.2 file: ``3e-4`` is a number, ``on`` a text.

    Args:
        path: The file.
        name: What to call it in messages; None = its name without its folder.

    Raises:
        ConfigError: If the file cannot be read, or gives a setting twice; says where.
    """
    from ruamel.yaml.nodes import MappingNode

    name = name or Path(path).name
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read as text: {error}") from error
    lines: dict[tuple[str, ...], str] = {}

    def note(node: Any, above: tuple[str, ...]) -> None:
        for key, value in node.value if isinstance(node, MappingNode) else ():
            here = (*above, str(key.value))
            lines[here] = f"{name}:{key.start_mark.line + 1}"
            note(value, here)

    values, node = load_with_nodes(text, name)
    note(node, ())
    if values is None:
        return Layer(name, {})
    if not isinstance(values, dict):
        raise ConfigError(f"{name}:1: must be a mapping such as 'seed: 3', not {show(values)}")
    refuse_repeated(values, name, lines)
    return Layer(name, values, {".".join(keys): line for keys, line in lines.items()})


OVERRIDE = "path=value, for example algorithm.lr=3e-4"
"""Required form of an override, for error messages."""


QUOTED = """'policies."Name?team=0".lr=3e-4'"""
"""An override of a setting whose path contains a name with ``=``, quoted for a shell."""

PATH_AND_VALUE = re.compile(r'((?:"[^"]*"|[^="])*)=(.*)', re.DOTALL)
"""An override: its path, parts of which may be quoted, and its value."""


def override_layer(overrides: Iterable[str], source: str = "command line", form: str = OVERRIDE) -> Layer:
    """Returns the layer of overrides such as ``algorithm.lr=3e-4``; the value is read as YAML.

    A name with ``=`` must be quoted: ``policies."Name?team=0".lr=3e-4``.

    Args:
        overrides: The words.
        source: What to call where they come from.
        form: Required form of a word, for error messages.

    Raises:
        ConfigError: If one is malformed; names all of them.
    """
    values: dict[str, Any] = {}
    problems: list[str] = []
    for override in overrides:
        found = PATH_AND_VALUE.fullmatch(override)
        path, text = (found[1].replace('"', "").strip(), found[2]) if found else ("", "")
        if not all(path.split(".")):
            problems.append(f"{source}: {override!r} must be {form}")
            continue
        if "?" in path and "=" in text and '"' not in override:
            problems.append(f"{source}: {override!r}: a name with = stands in quotes: {QUOTED}")
            continue
        try:
            value = read_value(text)
        except ValueError:
            problems.append(
                f"{source}: {path} = {text[:80]}: the value is not YAML; a text may need quotes: {path}='\"...\"'"
            )
            continue
        # Popped first, so that the later of two overrides of a path and of a part of it comes later in the mapping too.
        values.pop(path, None)
        values[path] = value
    if problems:
        raise ConfigError(*problems)
    return Layer(source, values)


def read_value(text: str) -> Any:
    """Returns a value that is written as YAML on one line, as `flow` writes it.

    Raises:
        ValueError: If the text is not YAML.
    """
    try:
        return load_yaml(text, "value")
    except ConfigError as error:
        raise ValueError(str(error)) from None


NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
"""Part of an import path after the colon: the name of a class or function."""


def import_object(text: str) -> Any:
    """Imports the class or function ``my.module:Name``, or the present one for a former name (`core/moved.py`).

    Raises:
        ConfigError: If there is none; names what is missing, and the nearest name in the module.
    """
    if reason := why_removed(text):
        raise ConfigError(f"{text} was removed; {reason}")
    text = new_name(text)
    module_name, colon, name = text.partition(":")
    if (
        not colon or not module_name or "/" in module_name or not NAME.fullmatch(name)
    ):  # before anything of the module runs
        above, _, last = text.rpartition(".")
        example = f"write {above}:{last}" if above and not colon else "for example my_package.my_module:MyClass"
        raise ConfigError(f"{text!r} must be module:Name, {example}")
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        inside = error.name is not None and not f"{module_name}.".startswith(f"{error.name}.")
        reason = (
            f"it imports {error.name!r}, which is not installed" if inside else f"there is no module {error.name!r}"
        )
        raise ConfigError(f"{text}: {reason}") from error
    except Exception as error:
        raise ConfigError(f"{text}: importing {module_name} failed: {described(error)}") from error
    for part in name.split("."):
        if not hasattr(found, part):
            raise ConfigError(f"{text}: {module_name} has no {name!r}{nearest(part, dir(found))}")
        found = getattr(found, part)
    return found


def mapping_of(part: Any) -> dict[Any, Any]:
    """Returns a mapping, or a settings object as a mapping of the given values and its class."""
    if isinstance(part, Settings):
        return {CLASS: type(part)} | {name: getattr(part, name) for name in fields_of(type(part)) if name in part.given}
    return dict(part)


def nested(values: Mapping[Any, Any]) -> dict[str, Any]:
    """Returns a mapping by dotted paths as a tree."""
    tree: dict[str, Any] = {}
    for path, value in values.items():
        *above, last = str(path).split(".")
        node = tree
        for key in above:
            node[key] = _opened(node.get(key))
            node = node[key]
        node[last] = _over(node[last], value) if last in node else value
    return tree


def _opened(value: Any) -> dict[Any, Any]:
    """Returns the value at a path as a mapping to extend; a name or class alone becomes a mapping that only contains
    it.
    """
    if isinstance(value, str | type):
        return {"name": value}
    return mapping_of(value) if isinstance(value, Mapping | Settings) else {}


def _over(low: Any, high: Any) -> Any:
    """Merges two values that one layer gives for a path: sections are merged, otherwise the later value counts. A name
    or class beside a section becomes part of it.
    """
    sections = isinstance(low, Mapping | Settings), isinstance(high, Mapping | Settings)
    if not any(sections) or not all(isinstance(one, Mapping | Settings | str | type) for one in (low, high)):
        return high
    merged = _opened(low)
    if not sections[1]:
        merged.pop(CLASS, None)
    for key, value in _opened(high).items():
        merged[key] = _over(merged[key], value) if key in merged else value
    return merged


_LINES: dict[str, str] = {}
"""Cache of values on one line, because every run writes the same names and defaults and ruamel is slow to start."""


def flow(value: Any) -> str:
    """Returns a value as YAML on one line."""
    value = writable(value)
    printed = repr(value)  # distinguishes types, and -0.0 from 0.0
    line = _LINES.get(printed)
    if line is None:
        if len(_LINES) >= 4096:
            _LINES.clear()
        line = _LINES[printed] = _line(value)
    return line


def _line(value: Any) -> str:
    """Returns a value of YAML's own types on one line."""
    from ruamel.yaml import YAML

    if isinstance(value, str) and not value.isprintable():
        return json.dumps(value)
    writer = YAML(typ="safe", pure=True)
    writer.default_flow_style = True
    writer.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    writer.width = 1 << 30
    stream = io.StringIO()
    writer.dump(value, stream)
    return stream.getvalue().removesuffix("...\n").strip()


def writable(value: Any) -> Any:
    """Returns a value in the types of YAML; a secret is replaced by a placeholder."""
    if isinstance(value, Secret):
        return NOT_STORED
    if isinstance(value, Schedule):
        return write_schedule(value)
    if isinstance(value, Mapping):
        return {writable(key): writable(inner) for key, inner in value.items()}
    if isinstance(value, tuple | list):
        return [writable(inner) for inner in value]
    if value is None or type(value) in (bool, int, float, str):
        return value
    return object_name(value) or " ".join(repr(value).split())
