"""Environments by the import path of their code: ``my.module:MyEnv``, ``pettingzoo.mpe.simple_v3``; and wrappers."""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Callable
from types import ModuleType
from typing import Any

import gymnasium

from rookery.core.errors import EnvError, UnknownEnvError, nearest
from rookery.core.moved import new_name, why_removed
from rookery.core.process.tracebacks import described
from rookery.core.settings.trust import CodeKind, a_kind, is_ours
from rookery.envs.adapters.bundled import OURS
from rookery.envs.catalog import other_suite_hint
from rookery.envs.schemes import MODULE_NAME, EnvScheme

DATA_FILES = (".csv", ".parquet", ".npz", ".hdf5", ".h5", ".json", ".jsonl", ".demo")
"""File name extensions of recorded data."""

ENVIRONMENT = CodeKind(
    "an environment (a class with reset and step, or a function that makes one)",
    lambda found: callable(getattr(found, "reset", None)) and callable(getattr(found, "step", None)),
    functions=True,
    makers=("parallel_env", "env", "raw_env"),
)
WRAPPER = CodeKind(
    "a wrapper (a class with reset or step, or a function that wraps)",
    lambda found: any(hasattr(found, name) for name in ("reset", "step", "__getattr__")),
    functions=True,
)


class ImportPaths(EnvScheme):
    """A module with an environment, an object in a module, or an id that a module registers."""

    def matches(self, name: str) -> bool:
        """See `EnvScheme.matches`."""
        return ":" in name or bool(re.fullmatch(MODULE_NAME, name))

    def find(self, name: str) -> Any:
        """See `EnvScheme.find`."""
        what = f"env {name!r}"
        if reason := why_removed(name):
            raise UnknownEnvError(f"{what} was removed; {reason}")
        if name.endswith(DATA_FILES):
            raise UnknownEnvError(
                f"{what} is a data file: rookery replay import {name} -o DIRECTORY makes it replay, from which rookery "
                "train --algo bc --replay DIRECTORY learns"
            )
        name = new_name(name)
        module, colon, attribute = name.partition(":")
        if colon:
            imported = import_module(module, what, nearest(name, list(OURS.values())))  # which may register ids
            if attribute in gymnasium.registry and not hasattr(imported, attribute):
                return gymnasium.spec(attribute)
            return _attribute(module, attribute, what, ENVIRONMENT)
        above, _, last = name.rpartition(".")
        return import_module(name, what) if _is_module(name) else _attribute(above, last, what, ENVIRONMENT)

    def code_of(self, name: str) -> str:
        """See `EnvScheme.code_of`."""
        module, colon, attribute = name.partition(":")
        if not colon or not is_ours(name):
            return name
        try:
            imported = importlib.import_module(module)  # which may register ids
        except ImportError:
            return name
        return "" if attribute in gymnasium.registry and not hasattr(imported, attribute) else name


class Bundled(EnvScheme):
    """Short names of environments that come with Rookery."""

    def matches(self, name: str) -> bool:
        """See `EnvScheme.matches`."""
        return name in OURS

    def find(self, name: str) -> Any:
        """See `EnvScheme.find`."""
        return CODE.find(OURS[name])


CODE, BUNDLED = ImportPaths(), Bundled()


def find_wrapper(wrapper: Any) -> Callable[[Any], Any]:
    """Returns the callable of a wrapper, given as a callable or by its import path.

    Raises:
        EnvError: If there is no such wrapper.
    """
    found = wrapper
    if isinstance(wrapper, str):
        if reason := why_removed(wrapper):
            raise EnvError(f"env.wrappers: {wrapper!r} was removed; {reason}")
        module, colon, attribute = new_name(wrapper).partition(":")
        if not colon:
            raise EnvError(f"env.wrappers: {wrapper!r} is not an import path; write 'my.module:MyWrapper'")
        found = _attribute(module, attribute, f"env.wrappers: {wrapper!r}", WRAPPER)
    if not callable(found):
        raise EnvError(f"env.wrappers: {wrapper!r} is {type(found).__name__}, expected a callable or an import path")
    made: Callable[[Any], Any] = found
    return made


def _is_module(name: str) -> bool:
    """Returns whether a dotted name is a module, rather than an object in a module."""
    try:
        return importlib.util.find_spec(name) is not None
    except Exception:  # of a package above it: importing it will report the error
        return False


def import_module(module: str, what: str, hint: str = "") -> ModuleType:
    """Returns a module; `hint` is part of the message if no module has that name."""
    try:
        return importlib.import_module(module)
    except Exception as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing and f"{module}.".startswith(f"{missing}."):
            found = other_suite_hint(module)
            raise EnvError(
                f"{what}: there is no module {missing!r}{hint or found or '; is it on the Python path?'}"
            ) from error
        raise EnvError(f"{what}: importing {module} raised {described(error)}") from error


def _attribute(module: str, name: str, what: str, kind: CodeKind) -> Any:
    """Returns an object of a module by its name, if it may be called."""
    imported = import_module(module, what)
    if not hasattr(imported, name):
        known = [known for known in (*vars(imported), *getattr(imported, "__all__", ())) if not known.startswith("_")]
        hint = f"; its name is {OURS[name]!r}" if OURS.get(name, "").startswith(module) else nearest(name, known)
        raise EnvError(f"{what}: module {module} has no {name!r}{hint}")
    found = getattr(imported, name)
    if callable(found) and not kind.accepts(found):
        expected = kind.label
        raise EnvError(f"{what}: {module}:{name} is {a_kind(found)}, not {expected}")
    return found
