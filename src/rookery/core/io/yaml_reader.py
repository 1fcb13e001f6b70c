"""YAML reader with limits on size, depth and aliases: `compose_yaml`, `load_yaml`.

Without bounds, a file of a few hundred bytes whose aliases repeat aliases stands for gigabytes of values, and deep
nesting ends in a RecursionError. Time and memory grow with the bytes of the text here.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from rookery.core.errors import ConfigError
from rookery.core.settings.yaml_words import yaml_problem

if TYPE_CHECKING:
    from ruamel.yaml import YAML
    from ruamel.yaml.nodes import Node

MAX_CHARACTERS = 2 << 20
"""Maximum number of characters of a text."""

MAX_DEPTH = 64
"""Maximum depth of nested sections and lists."""

MAX_REPEATED = 1 << 18
"""Characters that aliases may add to any text; a text longer than a tenth of this may grow tenfold."""

NODE_WEIGHT = 16
"""Characters that each value counts in addition to its own."""

MAX_DIGITS = 400
"""Maximum number of characters of an integer; larger integers fit no float."""

BOUND = "a bound is exceeded"
"""Context in errors about YAML that is well-formed but exceeds a limit."""

INT_TAG = "tag:yaml.org,2002:int"


def load_yaml(text: str, name: str) -> Any:
    """Returns the value of a YAML 1.2 text: ``3e-4`` is a number, ``on`` a text; None for an empty one.

    Args:
        text: The text.
        name: Name of the text in messages.

    Raises:
        ConfigError: If it is not YAML, or exceeds a bound; gives the line.
    """
    return load_with_nodes(text, name)[0]


def load_with_nodes(text: str, name: str) -> tuple[Any, Node | None]:
    """Returns the value of a text as `load_yaml` does, and its nodes, which have line numbers.

    Args:
        text: The text.
        name: Name of the text in messages.

    Raises:
        ConfigError: If it is not YAML, or exceeds a bound; gives the line.
    """
    node = compose_yaml(text, name)
    return construct_yaml(node, text, name), node


def compose_yaml(text: str, name: str) -> Node | None:
    """Returns the nodes of a text with their lines; a section may contain duplicate keys; None for an empty text.

    Args:
        text: The text.
        name: Name of the text in messages.

    Raises:
        ConfigError: If it is not YAML, or exceeds a bound; gives the line.
    """
    from ruamel.yaml.error import YAMLError

    if len(text) > MAX_CHARACTERS:
        line = text.count("\n", 0, MAX_CHARACTERS) + 1
        raise ConfigError(
            f"{name}:{line}: not read beyond this line: the file has {len(text):,} characters, and at most "
            f"{MAX_CHARACTERS:,} are read"
        )
    try:
        found: Node | None = _reader().compose(text)
    except YAMLError as error:
        raise _refused(error, text, name) from None
    return found


def construct_yaml(node: Node | None, text: str, name: str) -> Any:
    """Returns the value of nodes from `compose_yaml`.

    Args:
        node: The nodes.
        text: The text.
        name: Name of the text in messages.

    Raises:
        ConfigError: If a section has a key twice, or a value does not match its tag; names the line.
    """
    from ruamel.yaml.error import YAMLError

    if node is None:
        return None
    try:
        return _reader().constructor.construct_document(node)
    except YAMLError as error:
        raise _refused(error, text, name) from None
    except (ValueError, TypeError, KeyError, OverflowError, AttributeError) as error:  # a date such as 2020-13-45
        raise ConfigError(f"{name}: not YAML: {error}") from None


def _refused(error: Exception, text: str, name: str) -> ConfigError:
    line, column, reason = yaml_problem(error, text)
    kind = "" if getattr(error, "context", None) == BOUND else "not YAML: "
    return ConfigError(f"{name}:{line}: {kind}{reason} (column {column})")


def _reader() -> YAML:
    """Returns a reader of plain values that enforces the limits."""
    from ruamel.yaml import YAML

    reader = YAML(typ="safe", pure=True)
    reader.Composer = _bounded_composer()  # type: ignore[assignment]
    return reader


@cache
def _bounded_composer() -> type:
    """Returns the class that composes nodes of a text; ruamel is imported on first use."""
    from ruamel.yaml.composer import Composer, ComposerError
    from ruamel.yaml.events import AliasEvent, ScalarEvent

    class BoundedComposer(Composer):
        """Counts levels, and the size of nodes with and without their aliases expanded."""

        def __init__(self, loader: Any = None) -> None:
            super().__init__(loader=loader)
            self._level = 0
            self._written = self._expanded = 0
            self._weights: dict[str, int] = {}  # by anchor; one that is still open has none

        def compose_node(self, parent: Any, index: Any) -> Any:
            event = self.parser.peek_event()
            if isinstance(event, AliasEvent):
                self._repeat(event)
                return super().compose_node(parent, index)
            if self._level > MAX_DEPTH:
                problem = f"sections or lists are nested too deeply: more than {MAX_DEPTH} levels"
                raise ComposerError(BOUND, None, problem, event.start_mark)
            before = self._expanded
            weight = NODE_WEIGHT + (len(event.value) if isinstance(event, ScalarEvent) else 0)
            self._written += weight
            self._expanded += weight
            if event.anchor is not None:
                self._weights.pop(event.anchor, None)
            self._level += 1
            node = super().compose_node(parent, index)
            self._level -= 1
            if event.anchor is not None:
                self._weights[event.anchor] = self._expanded - before
            if isinstance(event, ScalarEvent) and len(event.value) > MAX_DIGITS and node.tag == INT_TAG:
                problem = f"a whole number has {len(event.value):,} characters, and {MAX_DIGITS} are the most"
                raise ComposerError(BOUND, None, problem, event.start_mark)
            return node

        def _repeat(self, event: Any) -> None:
            """Counts the nodes of an alias."""
            if event.anchor in self.anchors and event.anchor not in self._weights:
                problem = f"*{event.anchor}: the section or list contains itself"
                raise ComposerError(BOUND, None, problem, event.start_mark)
            self._expanded += self._weights.get(event.anchor, 0)
            if self._expanded > max(self._written + MAX_REPEATED, 10 * self._written):
                problem = (
                    f"*{event.anchor}: with its aliases written out the text would be "
                    f"{self._expanded / self._written:,.0f} times as long; write fewer aliases"
                )
                raise ComposerError(BOUND, None, problem, event.start_mark)

    return BoundedComposer
