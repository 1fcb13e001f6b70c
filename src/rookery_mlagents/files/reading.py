"""`Reader`: converts the nodes of a file to sections, checks every key and value, and stores its line."""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from rookery.face import ConfigError, alternatives, bare, check, nearest, optional, show
from rookery_mlagents.files.yaml_file import Node, Scalar, number_of

SectionT = TypeVar("SectionT")

NONE_TEXT = "None"
"""Text form of Python's None, which YAML reads as a text."""

NONE = "is a text in YAML, as Python prints nothing: write null, or leave the key out"
"""Problem of ``None``, which is in lines printed by ML-Agents."""

TRUTH = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
"""Texts that are accepted as booleans."""

ELSEWHERE = {
    "trainer": "trainer_type",
    "encoding_size": "network_settings.hidden_units of the reward signal",
    "use_recurrent": "network_settings.memory",
    "sequence_length": "network_settings.memory.sequence_length",
    "memory_size": "network_settings.memory.memory_size",
    "num_update": "hyperparameters.steps_per_update",
    "train_interval": "hyperparameters.steps_per_update",
    "reward_signal_num_update": "hyperparameters.reward_signal_steps_per_update",
    "play_against_current_self_ratio": "play_against_latest_model_ratio",
    "play_against_current_best_ratio": "play_against_latest_model_ratio",
    "pretraining": "behavioral_cloning",
    "gamma": "reward_signals.extrinsic.gamma",
    "parameter_randomization": "environment_parameters",
    "curriculum": "environment_parameters",
}
"""Keys of older versions and of other sections, each with its present replacement."""


def hints_in(section: Any) -> Mapping[str, Any]:
    """Returns the type of each key of a section."""
    return get_type_hints(section, include_extras=True)


def keys_of(section: Any) -> Mapping[str, Field[Any]]:
    """Returns the keys of a section."""
    return {one.name: one for one in fields(section)}


class Reader:
    """Reads sections, and collects their problems.

    Attributes:
        problems: A line for each mistake.
        places: Where each key was given, by its dotted path.
        notes: Lines that a user should read once.
        known: Other sections of each key, for hints: by key, the section's path.
    """

    def __init__(self, known: Mapping[str, str]) -> None:
        self.problems: list[str] = []
        self.places: dict[str, str] = {}
        self.notes: list[str] = []
        self.known = known

    def refuse(self, node: Node, path: str, why: str) -> None:
        """Adds a problem."""
        self.problems.append(f"{node.place or 'default'}: {path} = {show(node.written())}: {why}")

    def section(self, cls: type[SectionT], node: Node, path: str, skip: Sequence[str] = ()) -> SectionT:
        """Reads a section whose class is known.

        Args:
            cls: The class.
            node: Node of the file.
            path: Its dotted path.
            skip: Keys that another function reads.
        """
        values: dict[str, Any] = {}
        inside = self.mapping(node, path)
        self.refuse_unknown(inside, [*keys_of(cls), *skip], path)
        hints = hints_in(cls)
        for name in keys_of(cls):
            if name in inside and name not in skip:
                found = self.value(hints[name], inside[name], f"{path}.{name}" if path else name)
                if found is not MISSING:
                    values[name] = found
        return cls(**values)

    def mapping(self, node: Node, path: str) -> Mapping[str, Node]:
        """Returns the keys of a section; adds a problem and returns none if it is not a section."""
        if node.section is None:
            self.refuse(node, path, "must be a section of keys, as in `key: value` on lines that stand further right")
            return {}
        if path and node.place:
            self.places.setdefault(path, node.place)
        return node.section

    def refuse_unknown(self, inside: Mapping[str, Node], known: Iterable[str], path: str) -> None:
        """Adds a problem for unknown keys of a section, with the nearest known key or the right section."""
        names = list(dict.fromkeys(known))
        for key in inside:
            if key in names:
                continue
            hint = nearest(key, names)
            if key in ELSEWHERE:
                hint = f"; today it is {ELSEWHERE[key]}"
            elif not hint and key in self.known:
                hint = f"; it belongs into {self.known[key]}"
            here = f"{path}.{key}" if path else key
            where = f"the section {path}" if path else "a configuration"
            there = "" if hint else f"; there are {', '.join(names)}"
            self.problems.append(f"{inside[key].place}: {here}: there is no such key in {where}{hint}{there}")

    def value(self, hint: Any, node: Node, path: str) -> Any:
        """Reads a value of a type; MISSING after a problem."""
        kinds = [part for part in alternatives(hint) if part is not types.NoneType]
        if node.value is None and optional(hint):
            self.note_place(path, node)
            return None
        if node.value == NONE_TEXT and optional(hint):
            self.refuse(node, path, NONE)
            return MISSING
        if len(kinds) == 1 and is_dataclass(bare(kinds[0])):
            return self.section(bare(kinds[0]), node, path)
        if get_origin(bare(kinds[0])) is tuple and isinstance(node.value, list):
            raw: object = [one.written() for one in node.value]
            raw = tuple(str(one) for one in raw)  # type: ignore[attr-defined]
        elif get_origin(bare(kinds[0])) is tuple and isinstance(node.value, str):
            raw = tuple(node.value.split())
        else:
            raw = node.written()
            if not isinstance(raw, list | dict):
                raw = as_wanted(kinds, node.value)  # type: ignore[arg-type]
        found, wrong = check(hint, raw)
        if wrong:
            self.refuse(node, path, wrong)
            return MISSING
        self.note_place(path, node)
        return found

    def note_place(self, path: str, node: Node) -> None:
        """Stores the line of a key."""
        if node.place:
            self.places[path] = node.place

    def done(self) -> None:
        """Raises a ConfigError with a line for each problem, if there are any."""
        if self.problems:
            raise ConfigError(*dict.fromkeys(self.problems))


def as_wanted(kinds: Sequence[Any], value: Scalar) -> Scalar:
    """Converts a scalar to the types of a key: a text to a number, ``5.0e5`` to an integer, a number to a text, ``yes``
    to a boolean.
    """
    wanted = {bare(kind) for kind in kinds}
    choices = [one for kind in kinds if get_origin(bare(kind)) is Literal for one in get_args(bare(kind))]
    if bool in wanted:
        if isinstance(value, str):
            return TRUTH.get(value.strip().lower(), value)
        return bool(value) if type(value) is int and value in (0, 1) else value
    if wanted & {int, float}:
        if isinstance(value, str):
            number = number_of(value.strip())
            value = value if number is None else number
        if int in wanted and isinstance(value, float) and value.is_integer():
            return int(value)
        return value
    if (str in wanted or choices) and isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return value
