"""Registries of names that scripts register: environments, trainables, models, and parts of models.

The tables are sent to child processes, so that those know the same names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rookery.face import ConfigError

_TABLES: dict[str, dict[str, Any]] = {}


def table(kind: str) -> dict[str, Any]:
    """Returns the registry of a kind: objects by name."""
    return _TABLES.setdefault(kind, {})


ENVIRONMENTS: dict[str, Callable[..., Any]] = table("environments")


def register_env(name: str, env_creator: Callable[..., Any]) -> None:
    if not callable(env_creator):
        raise ConfigError(f"register_env({name!r}): takes a function of env_config, not {type(env_creator).__name__}")
    ENVIRONMENTS[name] = env_creator


def registered_env(name: str) -> Callable[..., Any] | None:
    """Returns the function that makes an environment; None if no environment of that name is registered."""
    return ENVIRONMENTS.get(name)


INPUTS: dict[str, Callable[..., Any]] = table("inputs")


def register_input(name: str, input_creator: Callable[..., Any]) -> None:
    if not callable(input_creator):
        raise ConfigError(f"register_input({name!r}): takes a function of an IOContext, which returns an InputReader")
    INPUTS[name] = input_creator


def registered_input(name: str) -> Callable[..., Any] | None:
    """Returns the function that makes a reader; None if no input of that name is registered."""
    return INPUTS.get(name)


def registered() -> dict[str, Mapping[str, Any]]:
    """Returns all registries by kind, to be sent to other processes."""
    return {kind: dict(entries) for kind, entries in _TABLES.items()}


def register_all(known: Mapping[str, Mapping[str, Any]]) -> None:
    for kind, entries in known.items():
        table(kind).update(entries)
