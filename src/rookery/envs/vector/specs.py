"""Specifications of Gymnasium ids, sent to processes that build environments.

A fresh interpreter does not know an id that a program has registered. The specifications of the ids that an environment
names are sent with it by pickle, from one process of a run to another, and are not stored in files.
"""

from __future__ import annotations

import functools
import inspect
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from itertools import islice
from types import CodeType, MappingProxyType
from typing import Any, cast

import cloudpickle
import gymnasium
from gymnasium.envs.registration import EnvCreator, EnvSpec, load_env_creator

from rookery.core.settings.fields import object_name
from rookery.core.settings.script_objects import PREFIX, ScriptRecord
from rookery.envs.process_bound import is_of_program

ONLY_HERE = (
    "the process that trains could build it: other processes have only what they can import; name an id with the "
    "module that registers it, 'my_module:MyEnv-v0', or import what is needed in the environment's constructor"
)
"""Part of a message about an environment that could be built in one process and not in another."""

CONTAINERS: tuple[type, ...] = (dict, MappingProxyType, list, tuple, CodeType, classmethod, property)
"""Types that may contain names of ids, in addition to settings and callables; no mappings that load values on access.
"""

MOST_IN_ONE, MOST_SEARCHED = 1_000, 100_000
"""Limits of the search for names of ids: parts of one object, and parts in all, the nearest first."""


class WithSpecs:
    """An object that is unpickled as another one, once the ids that an environment names are registered there.

    Args:
        value: The object. It can be called here as well, if it is a function.
        named: Values that name ids: environments as given by a user, their settings, wrappers.
    """

    def __init__(self, value: Any, *named: Any) -> None:
        self._value, self._named = value, named

    def __call__(self, *arguments: Any, **settings: Any) -> Any:
        """Calls the object."""
        return self._value(*arguments, **settings)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Returns the object and the specifications, those that can be pickled."""
        return registered, (specs_named(self._named), self._value)


def registered(specs: tuple[EnvSpec, ...], value: Any) -> Any:
    """Registers specifications in this process and returns the value."""
    gymnasium.registry.update({spec.id: spec for spec in specs})
    return value


def specs_named(*values: Any) -> tuple[EnvSpec, ...]:
    """Returns the specifications of all named ids that can be pickled.

    Args:
        values: Texts, or functions and classes of the program, in whose code ids are searched; and mappings, lists and
            partial functions of these, and settings that hold them.
    """
    found: dict[str, EnvSpec] = {}
    for spec in _specs(values):
        spec = portable(spec)
        try:
            cloudpickle.dumps(spec)
        except Exception:  # any exception of an object's pickling
            continue
        found[spec.id] = spec
    return tuple(found.values())


def portable(spec: EnvSpec) -> EnvSpec:
    """Returns a specification that another process can build from: without a text that names the program itself."""
    if isinstance(spec.entry_point, str) and spec.entry_point.startswith(PREFIX):
        with suppress(AttributeError):  # the build reports it
            return replace(spec, entry_point=cast(EnvCreator, load_env_creator(spec.entry_point)))
    return spec


def script_entry(name: Any) -> Any:
    """Returns the class or function of a script that makes the environments of an id; None if none does."""
    spec = gymnasium.registry.get(name) if isinstance(name, str) else None
    entry = portable(spec).entry_point if isinstance(spec, EnvSpec) else None
    return entry if object_name(entry).startswith(PREFIX) else None


def register_again(script: ScriptRecord, name: str) -> None:
    """Registers an id as a script does that another program ran.

    Raises:
        ConfigError: If the script is gone, or a statement that is needed raises an exception.
    """
    script.register(name)
    spec = gymnasium.registry.get(name)
    if isinstance(spec, EnvSpec) and isinstance(spec.entry_point, str) and spec.entry_point.startswith(PREFIX):
        gymnasium.registry[name] = replace(spec, entry_point=cast(EnvCreator, script.find(spec.entry_point)))


def _specs(values: Iterable[Any]) -> Iterator[EnvSpec]:
    """Yields the specifications of the ids in values, and of those that these name."""
    waiting, seen, searched = deque(values), set[int](), 0
    while waiting and searched < MOST_SEARCHED:
        value, searched = waiting.popleft(), searched + 1
        kind = type(value)  # not by isinstance, for which some objects run code
        if issubclass(kind, str):
            spec = gymnasium.registry.get(value)
            if isinstance(spec, EnvSpec) and id(spec) not in seen:
                seen.add(id(spec))
                yield spec
                waiting += (portable(spec).entry_point, spec.kwargs)
        elif id(value) not in seen and (issubclass(kind, CONTAINERS) or is_dataclass(kind) or callable(value)):
            seen.add(id(value))
            with suppress(Exception):  # any exception of an object's attributes
                waiting.extend(islice(_parts(value), MOST_IN_ONE))


def _parts(value: Any) -> Iterator[Any]:
    """Yields the parts of a value that may name ids."""
    if isinstance(value, dict | MappingProxyType):
        yield from value.values()
    elif is_dataclass(value) and not inspect.isclass(value):
        yield from (getattr(value, one.name) for one in fields(value))
    elif isinstance(value, list | tuple):
        yield from value
    elif isinstance(value, functools.partial):
        yield from (value.func, value.args, value.keywords)
    elif isinstance(value, CodeType):
        yield from value.co_consts
    elif isinstance(value, property):
        yield value.fget
    elif inspect.ismethod(value) or isinstance(value, staticmethod | classmethod):
        yield value.__func__
    elif inspect.isfunction(value) and is_of_program(value.__module__):
        yield from (value.__code__, value.__defaults__ or (), value.__kwdefaults__ or {})
        for cell in value.__closure__ or ():
            with suppress(ValueError):  # it is still empty
                yield cell.cell_contents
        yield from _globals(value.__code__, value.__globals__)
    elif inspect.isclass(value) and is_of_program(value.__module__):
        yield from (*value.__bases__, *vars(value).values())
    elif callable(value) and is_of_program(type(value).__module__) and not inspect.isclass(value):
        yield from (type(value), vars(value) if hasattr(value, "__dict__") else {})


def _globals(code: CodeType, known: Mapping[str, Any]) -> Iterator[Any]:
    """Yields the globals named by code, including the code of nested functions."""
    for name in code.co_names:
        if name in known:
            yield known[name]
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield from _globals(part, known)
