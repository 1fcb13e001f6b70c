"""Secret settings: used as given, and never written."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

NAMES = ("token", "password", "api_key")
"""Names of settings and arguments that are secrets."""

NOT_STORED = "(a secret, not stored)"
"""Placeholder for a secret wherever settings are written."""


class Secret(str):
    """String of a secret that prints as a placeholder."""

    __slots__ = ()

    def __repr__(self) -> str:
        return NOT_STORED

    def __str__(self) -> str:
        return NOT_STORED

    def __format__(self, spec: str) -> str:
        return NOT_STORED


def hidden(name: Any, value: Any) -> Any:
    """Returns the value of a setting, as a `Secret` if its name is that of a secret; also inside mappings, at any
    depth.
    """
    if type(value) is dict:
        inside = {key: hidden(key, inner) for key, inner in value.items()}
        return value if all(inside[key] is inner for key, inner in value.items()) else inside
    if name not in NAMES or isinstance(value, Secret | bool) or not isinstance(value, str | int):
        return value
    return value if value == NOT_STORED else Secret(value)


def secrets_in(value: Any) -> Iterator[Secret]:
    """Returns all secrets in a value, at any depth."""
    if isinstance(value, Secret):
        yield value
    elif isinstance(value, Mapping):
        yield from secrets_in(list(value.values()))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from secrets_in(inner)


def without_secrets(text: str, secrets: Iterable[Secret]) -> str:
    """Returns a text with every secret in it replaced."""
    for secret in sorted(secrets, key=len, reverse=True):
        if secret:
            text = text.replace(str.__str__(secret), NOT_STORED)
    return text


def command_words(values: Any) -> list[str]:
    """Returns the arguments of this program, without the secrets among some values."""
    secrets = set(secrets_in(values))
    return [without_secrets(word, secrets) for word in sys.argv[1:]]
