"""`read_tree`: a YAML file as a tree that stores the line of every key and value.

Files are read as ML-Agents reads them, by YAML 1.1 where that makes a difference: aliases and merge keys count, and
``3e-4`` may be a text. Unlike there, a duplicate key in a section is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rookery.face import ConfigError, compose_yaml

if TYPE_CHECKING:
    from ruamel.yaml.nodes import Node as YamlNode

Scalar = bool | int | float | str | None
"""A value that is neither a section nor a list."""

MERGE = "<<"
"""Key whose value is a section, or a list of sections, to merge into the present one."""


@dataclass(frozen=True)
class Node:
    """A part of a file.

    Attributes:
        value: A scalar; a section, by key; or a list.
        place: Where it was given, ``ball.yaml:12`` with the path as the user wrote it, or ``--seed``; empty where
            it was not given.
    """

    value: Scalar | Mapping[str, Node] | list[Node]
    place: str

    @property
    def section(self) -> Mapping[str, Node] | None:
        """Keys of a section; None for other nodes. A section without entries is an empty text in a file."""
        if self.value is None:
            return {}
        return self.value if isinstance(self.value, Mapping) else None

    def written(self) -> object:
        """Returns the value as plain Python objects."""
        if isinstance(self.value, Mapping):
            return {key: node.written() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.written() for node in self.value]
        return self.value


def read_tree(path: str | Path) -> Node:
    """Reads a file.

    Raises:
        ConfigError: If it cannot be read, is no YAML, or has a key twice in a section; says in which line.
    """
    name = str(path)
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such file") from None
    except IsADirectoryError:
        raise ConfigError(f"{path}: is a folder; name the file in it") from None
    except UnicodeDecodeError:
        raise ConfigError(
            f"{path}: is no text in UTF-8: save it as UTF-8 if it is text, such as UTF-16 of another editor or shell; "
            "models (.nn, .onnx, .pt) are no configuration"
        ) from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None
    problems: list[str] = []
    found = compose_yaml(text, name)
    tree = Node({}, f"{name}:1") if found is None else _node(found, name, "", problems)
    if problems:
        raise ConfigError(*problems)
    return tree


def merged(low: Node, high: Node) -> Node:
    """Merges a section over another, key by key and recursively; other values are replaced."""
    if not isinstance(low.value, Mapping) or not isinstance(high.value, Mapping):
        return high
    values = dict(low.value)
    for key, node in high.value.items():
        values[key] = merged(values[key], node) if key in values else node
    return Node(values, high.place)


def _node(found: YamlNode, name: str, path: str, problems: list[str]) -> Node:
    """Returns a node of the file."""
    from ruamel.yaml.nodes import MappingNode, ScalarNode

    place = f"{name}:{found.start_mark.line + 1}"
    if isinstance(found, ScalarNode):
        return Node(_scalar(found.value, quoted=found.style is not None), place)
    if not isinstance(found, MappingNode):
        return Node([_node(one, name, path, problems) for one in found.value], place)
    values: dict[str, Node] = {}
    started: dict[str, Node] = {}
    for key, value in found.value:
        if not isinstance(key, ScalarNode):
            raise ConfigError(f"{name}:{key.start_mark.line + 1}: {path}: a key must be a text, not a section or list")
        here = f"{path}.{key.value}" if path else str(key.value)
        node = _node(value, name, here, problems)
        if key.value == MERGE:
            for one in node.value if isinstance(node.value, list) else [node]:
                if one.section is None:
                    problems.append(f"{one.place}: {here}: must be a section to start from, or a list of them")
                started = {**dict(one.section or {}), **started}
            continue
        line = f"{name}:{key.start_mark.line + 1}"
        if key.style is None and key.value != key.value.strip():
            problems.append(
                f"{line}: {here.strip()}: a space of another kind stands beside the key, as pages of the web have: "
                "write the spaces of this line anew"
            )
        if key.value in values:
            problems.append(f"{line}: {here}: the key stands twice, first in {values[key.value].place}: leave one out")
        values[str(key.value)] = Node(node.value, line)
    return Node({**started, **values}, place)


def _scalar(text: str, *, quoted: bool) -> Scalar:
    """Returns the value of a scalar: null, a boolean or a number, unless it is quoted."""
    if quoted:
        return text
    if text in ("", "~", "null", "Null", "NULL"):
        return None
    if text.lower() in ("true", "false", "yes", "no", "on", "off"):
        return text.lower() in ("true", "yes", "on")
    number = number_of(text)
    return text if number is None else number


def number_of(text: str) -> int | float | None:
    """Parses a number such as ``5``, ``3e-4``, ``5.0e5``; None if the text is not a number."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return None
