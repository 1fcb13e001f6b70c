"""A row of the table of keys, `Row`, and a function for each status that makes rows.

A key is *set* (its value goes to one of our settings), *translated* (a function of it and its neighbours sets several
paths), *used* (by the trainer itself), *cluster* (translated if workers run on a cluster that the script has joined,
ignored in one process), *ignored* (no effect; a line says so if it is set), or *refused* (with a replacement).

Keys are given with their defaults, or as words if another row has the default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from rookery_rllib.config.reader import Function, Reader

Keys = str | Mapping[str, Any]

NO_DEFAULT = object()
"""Placeholder of the default in a row if another row has it."""


class ConfigKeyStatus(Enum):
    SET = "set"
    TRANSLATED = "translated"
    USED = "used"
    CLUSTER = "cluster"
    IGNORED = "ignored"
    REFUSED = "refused"


@dataclass(frozen=True)
class Row:
    """Row of the key table: a key, its status and its translation.

    Attributes:
        key: The key with its section: ``model.use_lstm``. Keys of exploration have its type in between:
            ``exploration_config.EpsilonGreedy.final_epsilon``.
        status: How it is handled.
        text: Its effect here, or the reason why it is ignored or refused, in a sentence.
        paths: Our settings that it sets.
        function: For translated keys: returns the values; None for a key that the trainer uses on a cluster.
        only: Algorithms that the row is for; empty = all.
        fine: Values other than the default that are neither refused nor noted.
        default: Its value if it is not given; algorithms may change it (`algorithms.ALGORITHMS`).
        methods: Methods of RLlib 2 that take it as an argument.
    """

    key: str
    status: ConfigKeyStatus
    text: str
    paths: tuple[str, ...] = ()
    function: Function | None = None
    only: tuple[str, ...] = ()
    fine: tuple[Any, ...] = ()
    default: Any = NO_DEFAULT
    methods: tuple[str, ...] = ()


def _rows(keys: Keys, status: ConfigKeyStatus, text: str, rl2: str | Mapping[str, str], **parts: Any) -> list[Row]:
    """Returns a row for each key; `rl2` has the methods of RLlib 2, of all of them or by key."""
    defaults = dict.fromkeys(keys.split(), NO_DEFAULT) if isinstance(keys, str) else keys
    methods = rl2 if isinstance(rl2, Mapping) else dict.fromkeys(defaults, rl2)
    return [
        Row(key, status, text, default=default, methods=tuple(methods.get(key, "").split()), **parts)
        for key, default in defaults.items()
    ]


def to(keys: Keys, path: str, text: str, only: tuple[str, ...] = (), rl2: str = "") -> list[Row]:
    """Returns rows of keys whose value is copied to a path."""
    return _rows(keys, ConfigKeyStatus.SET, text, rl2, paths=(path,), only=only)


def by(
    function: Function,
    keys: Keys,
    paths: str,
    text: str,
    only: tuple[str, ...] = (),
    rl2: str | Mapping[str, str] = "",
) -> list[Row]:
    """Returns rows of keys that a function translates to paths, separated by spaces."""
    return _rows(keys, ConfigKeyStatus.TRANSLATED, text, rl2, paths=tuple(paths.split()), function=function, only=only)


def computed(
    value: Callable[[Reader], Any], keys: Keys, path: str, text: str, only: tuple[str, ...] = (), rl2: str = ""
) -> list[Row]:
    """Returns rows of keys from which a function computes the value of one path."""
    return by(lambda reader: {path: value(reader)}, keys, path, text, only, rl2)


def on_cluster(
    function: Function | None, keys: Keys, paths: str, text: str, only: tuple[str, ...] = (), rl2: str = ""
) -> list[Row]:
    """Returns rows of keys that have an effect only if workers run on a cluster."""
    return _rows(keys, ConfigKeyStatus.CLUSTER, text, rl2, paths=tuple(paths.split()), function=function, only=only)


def used(keys: Keys, text: str, only: tuple[str, ...] = (), rl2: str = "") -> list[Row]:
    """Returns rows of keys that the trainer itself uses."""
    return _rows(keys, ConfigKeyStatus.USED, text, rl2, only=only)


def ignored(keys: Keys, text: str, only: tuple[str, ...] = (), fine: tuple[Any, ...] = (), rl2: str = "") -> list[Row]:
    """Returns rows of keys without an effect here."""
    return _rows(keys, ConfigKeyStatus.IGNORED, text, rl2, only=only, fine=fine)


def refused(keys: Keys, text: str, only: tuple[str, ...] = (), fine: tuple[Any, ...] = (), rl2: str = "") -> list[Row]:
    """Returns rows of keys that accept only their default."""
    return _rows(keys, ConfigKeyStatus.REFUSED, text, rl2, only=only, fine=fine)
