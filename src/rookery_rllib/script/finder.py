"""Makes the names of 2021 (`ray`, `gym`, `tensorflow`) visible to a script and the modules of its folder only.

`rookery.script` runs scripts and calls `IMPORTER`, which looks names up in the tables of `imports`. A script also gets
some library modules in their form of 2021 (`VIEWS`).
"""

from __future__ import annotations

import ast
import builtins
import importlib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from types import ModuleType
from typing import Any

from rookery.script import importer
from rookery.script.importer import Importer
from rookery_rllib.base import imports, release
from rookery_rllib.base.imports import lookup, module, top_packages


class _View(ModuleType):
    """A module with some names replaced, for scripts."""

    def __init__(self, seen: ModuleType, replaced: Mapping[str, Any]) -> None:
        super().__init__(seen.__name__, seen.__doc__)
        self.__dict__.update(replaced)
        self.__dict__["_seen"] = seen

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_seen"], name)

    def __dir__(self) -> Iterable[str]:
        return dir(self.__dict__["_seen"])

    def __reduce__(self) -> tuple[Callable[[str], ModuleType], tuple[str]]:
        return _view, (self.__name__,)


@cache
def _view(name: str) -> ModuleType:
    """Returns a module of the standard library in the form for scripts."""
    if name == "random":
        from rookery_rllib.base import per_env_rng

        return _View(importlib.import_module("random"), per_env_rng.patched_random_functions())
    if name == "numpy":
        numpy = importlib.import_module("numpy")
        old = {gone: getattr(numpy, today) for gone, today in NUMPY.items() if hasattr(numpy, today)}
        return _View(numpy, {**old, **vars(numpy), **{name: getattr(builtins, name) for name in PYTHON_TYPES}})
    return _View(importlib, {"import_module": _import_module})


VIEWS = ("importlib", "numpy", "random")
"""Modules that differ for scripts: imports by name find the names of 2021, NumPy has its old names, and `random` draws
from the current environment's generator.
"""

NUMPY = {
    "product": "prod", "cumproduct": "cumprod", "alltrue": "all", "sometrue": "any", "in1d": "isin",
    "row_stack": "vstack", "round_": "round", "trapz": "trapezoid", "float_": "float64", "complex_": "complex128",
    "bool8": "bool_", "string_": "bytes_", "unicode_": "str_", "Inf": "inf", "Infinity": "inf", "infty": "inf",
    "PINF": "inf", "NaN": "nan", "NAN": "nan",
}  # fmt: skip
"""Names in 2021 of functions and types that NumPy has under other names now."""

PYTHON_TYPES = ("bool", "int", "float", "complex", "object", "str")
"""Python types that NumPy of 2021 exported."""


OF_2_X = "rllib2."
"""Start of the targets of names that only RLlib 2.x has."""


def find_for_script(name: str, wanted: Sequence[str] = ()) -> ModuleType | None:
    """Returns the module for an import in a script; None for the installed one.

    Args:
        name: Dotted name of the module.
        wanted: Names that are imported from it.

    Raises:
        ImportError: If there is no such module of 2021, or if it has no such name.
    """
    if name in VIEWS:
        return _view(name)
    if name.partition(".")[0] not in top_packages():
        return None
    found = module(name)
    for each in wanted:
        if each != "*":
            lookup(found, each)
    _note_import(name, wanted)
    return found


def _note_import(name: str, wanted: Sequence[str]) -> None:
    targets = imports.known()[0].get(name, {})
    later = [f"{name}.{each}" for each in wanted if targets.get(each, "").startswith(OF_2_X)]
    release.note_import((name, *(f"{name}.{each}" for each in wanted)), later)


def note_imports_of(source: str) -> None:
    """Records the first import of a script that only one RLlib has, before any name that both have is looked up.

    Args:
        source: Text of the script; one that is not Python has no imports.
    """
    try:
        nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Import | ast.ImportFrom)]
    except (SyntaxError, ValueError):
        return
    for node in sorted(nodes, key=lambda node: node.lineno):
        names = [each.name for each in node.names]
        if isinstance(node, ast.ImportFrom) and not node.level and node.module:
            _note_import(node.module, names)
        elif isinstance(node, ast.Import):
            release.note_import(names)
        if release.is_decided():
            return


def _import_module(name: str, package: str | None = None) -> ModuleType:
    found = None if name.startswith(".") else find_for_script(name)
    return importlib.import_module(name, package) if found is None else found


IMPORTER = Importer(find_for_script, (imports.__name__, __name__))


def install(namespace: dict[str, Any] | None = None) -> None:
    """Makes the names of 2021 importable in a notebook or a plain Python module; call it once before such imports.

    Modules of its folder that are imported later see the names too; libraries do not.

    Args:
        namespace: Globals of the code that gets the names; None = those of the caller and of the notebook's cells.
    """
    spaces = [sys._getframe(1).f_globals if namespace is None else namespace]
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if namespace is None and shell is not None:
        spaces += [shell.user_ns, shell.user_global_ns]
    importer.install(IMPORTER, *spaces)
