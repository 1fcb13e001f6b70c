"""A row of the table of keys, `Row`, and what makes rows: a function for each thing that can become of a key.

A key is *set* (its value goes to a path of ours), *translated* (a function of it and its neighbours gives values of
paths), *used* (the trainer itself goes by it), *cluster* (translated where workers play on a cluster that the script
has joined, ignored in one process), *ignored* (nothing would change; a line says so to whoever set it), or *refused*
(with what to use instead).

Keys are given with their defaults, or as words where another row has the default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from rookery_rllib.config.reader import Function, Reader

Keys = str | Mapping[str, Any]

NO_DEFAULT = object()
"""Stands for the default in a row that leaves it to another row."""


class ConfigKeyStatus(Enum):
    SET = "set"
    TRANSLATED = "translated"
    USED = "used"
    CLUSTER = "cluster"
    IGNORED = "ignored"
    REFUSED = "refused"


@dataclass(frozen=True)
class Row:
    """What a key is, and what becomes of it.

    Attributes:
        key: The key, with the section it stands in: ``model.use_lstm``. Keys of exploration have its type in between:
            ``exploration_config.EpsilonGreedy.final_epsilon``.
        status: What becomes of it.
        text: What it does here, or why it is ignored or refused, in a sentence.
        paths: Settings of ours that it decides.
        function: Of keys that are translated: what gives the values; None of one that the trainer goes by on a cluster.
        only: Algorithms of which this is said; empty = of all.
        fine: Values beside the default that are neither refused nor worth a line.
        default: Its value where it is not given; algorithms may change it (`algorithms.ALGORITHMS`).
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
    """A key whose value is that of a path."""
    return _rows(keys, ConfigKeyStatus.SET, text, rl2, paths=(path,), only=only)


def by(
    function: Function,
    keys: Keys,
    paths: str,
    text: str,
    only: tuple[str, ...] = (),
    rl2: str | Mapping[str, str] = "",
) -> list[Row]:
    """Keys that a function translates to paths, which are written with spaces between."""
    return _rows(keys, ConfigKeyStatus.TRANSLATED, text, rl2, paths=tuple(paths.split()), function=function, only=only)


def computed(
    value: Callable[[Reader], Any], keys: Keys, path: str, text: str, only: tuple[str, ...] = (), rl2: str = ""
) -> list[Row]:
    """Keys of which a function gives the value of one path."""
    return by(lambda reader: {path: value(reader)}, keys, path, text, only, rl2)


def on_cluster(
    function: Function | None, keys: Keys, paths: str, text: str, only: tuple[str, ...] = (), rl2: str = ""
) -> list[Row]:
    """Keys that are translated, or gone by, where workers play on a cluster, and change nothing in one process."""
    return _rows(keys, ConfigKeyStatus.CLUSTER, text, rl2, paths=tuple(paths.split()), function=function, only=only)


def used(keys: Keys, text: str, rl2: str = "") -> list[Row]:
    """Keys that the trainer itself goes by."""
    return _rows(keys, ConfigKeyStatus.USED, text, rl2)


def ignored(keys: Keys, text: str, only: tuple[str, ...] = (), fine: tuple[Any, ...] = (), rl2: str = "") -> list[Row]:
    """Keys that would change nothing here."""
    return _rows(keys, ConfigKeyStatus.IGNORED, text, rl2, only=only, fine=fine)


def refused(keys: Keys, text: str, only: tuple[str, ...] = (), fine: tuple[Any, ...] = (), rl2: str = "") -> list[Row]:
    """Keys of which only the default can be."""
    return _rows(keys, ConfigKeyStatus.REFUSED, text, rl2, only=only, fine=fine)
