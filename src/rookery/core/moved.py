"""Former names of modules, classes and functions, as found in stored runs, settings files, command lines and pickles.

Three tables in `core.former_names` hold the rows: `MOVED`, `MOVED_NAMES` and `REMOVED`. `new_name` reads them where a
text names code. `OldNames` reads them where Python imports a module: for pickles, ``import`` statements and
``python -m``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import cache, partial
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import find_spec
from types import CodeType, ModuleType
from typing import Any

from rookery.core.former_names.attributes import MOVED_NAMES, REMOVED
from rookery.core.former_names.modules import MOVED
from rookery.core.settings.hints import NAMES


def new_name(name: str) -> str:
    """Returns the present name of a module or of ``module:Name``; other texts are returned unchanged."""
    *_, last = _names(name)
    return last


def why_removed(name: str) -> str:
    """Returns the replacement of a removed module or ``module:Name``; otherwise an empty string."""
    for one in _names(name):
        module, _, inside = one.partition(":")
        for row in (f"{module}:{inside.partition('.')[0]}", *_upwards(module)):
            if row in REMOVED:
                return REMOVED[row]
    return ""


def new_names(tree: Any) -> Any:
    """Returns a tree of mappings, lists and plain values in which former names are replaced by present ones."""
    if isinstance(tree, str):
        return new_name(tree)
    if isinstance(tree, dict):
        return {key: new_names(value) for key, value in tree.items()}
    return [new_names(value) for value in tree] if isinstance(tree, list) else tree


def attribute(module: str, name: str) -> Any:
    """Returns the attribute that a module had under a name in an older version.

    Raises:
        AttributeError: If there was nothing, or it was removed.
    """
    old = f"{module}:{name}"
    new, reason = new_name(old), why_removed(old)
    if reason or new == old:
        reason = reason or (NAMES.get(name, "") if module == "rookery" else "")
        raise AttributeError(f"module {module!r} has no attribute {name!r}{reason and f': {reason}'}")
    place, _, now = new.partition(":")
    return getattr(import_module(place), now)


class OldNames:
    """Finds modules by their old names; an entry of `sys.meta_path`.

    A module that exists under the name is found first. It is given the names that have left it.
    """

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Returns the specification of a module with an old name or old attributes; None for all others.

        Raises:
            ModuleNotFoundError: If the module was removed; names the replacement.
            ImportError: For ``from rookery import X`` with a name of another library; with the name here.
        """
        parent, _, last = name.rpartition(".")
        if parent == "rookery" and last in NAMES and PathFinder.find_spec(name, path) is None:
            raise ImportError(f"cannot import name {last!r} from 'rookery': {NAMES[last]}")
        if not name.startswith("rookery") or (name not in _have_rows() and new_name(name) == name):
            return None
        present = PathFinder.find_spec(name, path, target)
        if present is not None and present.origin is not None:  # not a folder that is empty but for a cache
            if type(present.loader) is SourceFileLoader:
                present.loader = _PresentModule(name, present.loader.path)
            return present
        if reason := why_removed(name):
            raise ModuleNotFoundError(f"No module named {name!r}: {reason}", name=name)
        moved = find_spec(new_name(name)) if new_name(name) != name else None
        if moved is None:
            return None
        had_modules = any(old.startswith(f"{name}.") for old in MOVED)
        is_package = had_modules or moved.submodule_search_locations is not None
        loader: Any = _OldModule(moved)
        return ModuleSpec(name, loader, origin=moved.origin, is_package=is_package)


class _PresentModule(SourceFileLoader):
    """Loads a module that some former names have left, with support for those names."""

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        own = vars(module).get("__getattr__")

        def found(name: str) -> Any:
            row = _left().get(module.__name__, {}).get(name)
            if row is not None:
                return attribute(row.partition(":")[0], name)
            return attribute(module.__name__, name) if own is None else own(name)

        vars(module)["__getattr__"] = found


class _OldModule:
    """Loads a module under its old name.

    This is the present module itself. For a package it is a module of its own, which takes every attribute from the
    present one: Python would look for modules below a package under the package's present name.
    """

    def __init__(self, moved: ModuleSpec) -> None:
        self.moved = moved

    def create_module(self, spec: ModuleSpec) -> None:
        """Returns None, so that Python creates an empty module."""

    def exec_module(self, module: ModuleType) -> None:
        """Fills the module that Python has created, or replaces it by the present one."""
        if hasattr(module, "__path__"):
            vars(module)["__getattr__"] = partial(attribute, module.__name__)
        else:
            sys.modules[module.__name__] = import_module(self.moved.name)

    def get_code(self, name: str) -> CodeType | None:
        """Returns the code that ``python -m`` runs."""
        loader: Any = self.moved.loader
        code: CodeType | None = loader.get_code(self.moved.name)
        return code


def _names(name: str) -> Iterator[str]:
    """Yields a name and its later names, the present one last."""
    yield name
    for _ in range(len(MOVED) + len(MOVED_NAMES)):
        following = _next_name(name)
        if following == name:
            return
        name = following
        yield name


def _next_name(name: str) -> str:
    module, colon, inside = name.partition(":")
    first, dot, rest = inside.partition(".")
    if (row := f"{module}:{first}") in MOVED_NAMES:
        return f"{MOVED_NAMES[row]}{dot}{rest}"
    for above in _upwards(module):
        if above in MOVED and not (above != module and MOVED[above].startswith(f"{above}.")):
            return f"{MOVED[above]}{module.removeprefix(above)}{colon}{inside}"
    return name


def _upwards(module: str) -> Iterator[str]:
    """Yields the names of a module and of its parent packages."""
    while module:
        yield module
        module = module.rpartition(".")[0]


@cache
def _have_rows() -> frozenset[str]:
    """Returns the modules that have a row, and the present modules that classes or functions with a row have left."""
    rows = [row.partition(":") for table in (MOVED, MOVED_NAMES, REMOVED) for row in table]
    return frozenset(module for module, _, _ in rows) | {new_name(module) for module, _, name in rows if name}


@cache
def _left() -> dict[str, dict[str, str]]:
    """Returns the rows of the names that have left a present module, by module and name. A row may have the present
    name of the module or a former one.
    """
    by_module: dict[str, dict[str, str]] = {}
    present = cache(new_name)
    for row in (*MOVED_NAMES, *REMOVED):
        module, _, name = row.partition(":")
        if name:
            by_module.setdefault(present(module), {})[name] = row
    return by_module
