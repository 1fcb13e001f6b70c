"""Arguments and parameters that settings from an untrusted run may give to an environment (docs/trust.md)."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from rookery.core.errors import EnvError
from rookery.core.settings.foreign_arguments import is_ours, objections_to_arguments, why_not
from rookery.core.settings.reach import Objection, argument_hints, of_numbers
from rookery.envs.make import find_maker


def objections_to(env: Any, config: Mapping[str, Any], path: str = "env.config") -> Iterator[Objection]:
    """Yields the objections to arguments of an environment in an untrusted file.

    Args:
        env: The environment, as `make_env` takes it; one that cannot be found counts as one of another suite.
        config: The arguments.
        path: Setting path for messages.
    """
    yield from objections_to_arguments(maker_of(env), config, path)


def objections_to_parameters(env: Any, values: Mapping[str, Any], path: str = "env.parameters") -> Iterator[Objection]:
    """Yields the objections to environment parameters, which may be arguments of the constructor.

    Args:
        env: The environment.
        values: A value or a sampler, or a list of these, by parameter.
        path: Setting path for messages.
    """
    maker = maker_of(env) if values else None
    hints = argument_hints(maker) if is_ours(maker) else {}
    for name, value in values.items():
        where, drawn = f"{path}.{name}", list(drawn_values(value))
        numbers = [one for one in drawn if not isinstance(one, str)]
        if text := next((one for one in drawn if isinstance(one, str)), ""):
            yield Objection(where, value, f"gives an environment the text {text!r}, which could be a path")
        elif name in hints:
            yield from of_numbers(hints[name], numbers, where)
        elif not is_ours(maker) and (why := why_not(name, numbers)):
            yield Objection(where, value, why)


def drawn_values(value: Any) -> Iterator[Any]:
    """Yields the numbers and texts that a value or a sampler can produce, or lists of these."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key not in ("sampler", "seed"):
                yield from drawn_values(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from drawn_values(inner)
    elif value is not None:
        yield value


def maker_of(env: Any) -> Any:
    """Returns the class or function that makes an environment; None if there is none, or an id names it."""
    try:
        found = find_maker(env)
    except EnvError:
        return None
    found = getattr(found, "func", found) if isinstance(found, functools.partial) else found
    known = inspect.isclass(found) or inspect.isfunction(found)
    # EnvPool's tasks, files in C and environments of scripts of 2021 have arguments without declared types
    return found if known and not getattr(found, "takes_any_argument", False) else None
