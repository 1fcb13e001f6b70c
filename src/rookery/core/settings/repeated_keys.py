"""Settings that a file or mapping gives twice, by a dotted key and in a section: `refuse_repeated`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from rookery.core.errors import refuse
from rookery.core.settings.fields import Settings, fields_of, show

Keys = tuple[str, ...]
"""Keys on the way to a value, as written: ``("algorithm", "lr")`` or ``("algorithm.lr",)``."""


class _Leaf(NamedTuple):
    """A value or empty section, with its path and the keys that give it."""

    path: Keys
    keys: Keys
    value: Any

    @property
    def place(self) -> Keys:
        """Path that no other value may have; for a text or class in place of a section, the path of the section's
        name.
        """
        return (*self.path, "name") if isinstance(self.value, str | type) else self.path

    @property
    def is_empty(self) -> bool:
        """Whether this is an empty section, beside which others are allowed."""
        return isinstance(self.value, Mapping)


def refuse_repeated(values: Mapping[Any, Any], source: str, lines: Mapping[Keys, str] | None = None) -> None:
    """Raises an error for values that would silently replace each other.

    Args:
        values: Values by path, as of a `Layer`; keys of the mapping itself may be dotted.
        source: What to call it in messages.
        lines: What to call keys in messages, such as ``file:line``; others are called by the source and the first key.

    Raises:
        ConfigError: With a line for each setting that is given twice; names both places.
    """
    groups: dict[str, list[Any]] = {}
    for key in values:
        groups.setdefault(str(key).partition(".")[0], []).append(key)
    problems: dict[str, None] = {}
    for keys in groups.values():
        given: dict[Keys, _Leaf] = {}
        around: dict[Keys, _Leaf] = {}
        for key in keys if len(keys) > 1 else ():
            leaves = list(_leaves(values[key], tuple(str(key).split(".")), (str(key),)))
            for leaf in leaves:
                above = (leaf.place[:depth] for depth in range(1, len(leaf.place) + 1))
                inside = None if leaf.is_empty else around.get(leaf.place)
                other = next((given[at] for at in above if at in given), inside)
                if other is not None and not (isinstance(leaf.value, type) and leaf.value is other.value):
                    problems[_problem(leaf, other, source, lines)] = None
            for leaf in leaves:
                if not leaf.is_empty:
                    given[leaf.place] = leaf
                around |= {leaf.place[:depth]: leaf for depth in range(1, len(leaf.place) + leaf.is_empty)}
    refuse(problems)


def _leaves(value: Any, path: Keys, keys: Keys) -> Iterator[_Leaf]:
    """Yields all values and empty sections; for a settings object, its given values and its class."""
    if isinstance(value, Settings):
        if "name" not in fields_of(type(value)):
            yield _Leaf(path, keys, type(value))
        value = {name: getattr(value, name) for name in fields_of(type(value)) if name in value.given}
    if isinstance(value, Mapping) and value:
        for key, part in value.items():
            yield from _leaves(part, (*path, str(key)), (*keys, str(key)))
    else:
        yield _Leaf(path, keys, value)


def _problem(leaf: _Leaf, other: _Leaf, source: str, lines: Mapping[Keys, str] | None) -> str:
    """Returns the message for two values of the same setting."""

    def where(keys: Keys) -> str:
        known = (lines[keys[:depth]] for depth in range(len(keys), 0, -1) if keys[:depth] in lines) if lines else ()
        return next(iter(known), f"{source}, key {keys[0]!r}")

    (here, there), (value, before) = (map(".".join, (leaf.path, other.path)), map(show, (leaf.value, other.value)))
    return f"{where(leaf.keys)}: {here} = {value}: {where(other.keys)} sets {there} = {before}; leave one of them out"
