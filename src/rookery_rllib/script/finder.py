"""Shows the names of 2021 (`ray`, `gym`, `tensorflow`) to a script and to the modules of its folder, to no other code.

`rookery.script` runs scripts and asks `IMPORTER`, which looks names up in the tables of `imports`. A script also sees
some modules of the libraries as they were in 2021 (`VIEWS`).
"""

from __future__ import annotations

import builtins
import importlib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from types import ModuleType
from typing import Any

from rookery.script import importer
from rookery.script.importer import Importer
from rookery_rllib.base import imports
from rookery_rllib.base.imports import lookup, module, top_packages


class _View(ModuleType):
    """Another module as the script sees it: some names are replaced, all others are the module's own."""

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
    """Returns a module of the standard library as a script sees it."""
    if name == "random":
        from rookery_rllib.base import per_env_rng

        return _View(importlib.import_module("random"), per_env_rng.patched_random_functions())
    if name == "numpy":
        numpy = importlib.import_module("numpy")
        old = {gone: getattr(numpy, today) for gone, today in NUMPY.items() if hasattr(numpy, today)}
        return _View(numpy, {**old, **vars(numpy), **{name: getattr(builtins, name) for name in PYTHON_TYPES}})
    return _View(importlib, {"import_module": _import_module})


VIEWS = ("importlib", "numpy", "random")
"""Modules that a script sees otherwise: imports by name find the same names, NumPy has the names of 2021, and whose
turn it is decides who draws.
"""

NUMPY = {
    "product": "prod", "cumproduct": "cumprod", "alltrue": "all", "sometrue": "any", "in1d": "isin",
    "row_stack": "vstack", "round_": "round", "trapz": "trapezoid", "float_": "float64", "complex_": "complex128",
    "bool8": "bool_", "string_": "bytes_", "unicode_": "str_", "Inf": "inf", "Infinity": "inf", "infty": "inf",
    "PINF": "inf", "NaN": "nan", "NAN": "nan",
}  # fmt: skip
"""What functions and types were called in 2021 that NumPy has under other names only."""

PYTHON_TYPES = ("bool", "int", "float", "complex", "object", "str")
"""Types of Python that NumPy of 2021 had as its own."""


def find_for_script(name: str, wanted: Sequence[str] = ()) -> ModuleType | None:
    """Returns the module that an import in a script gets; None if it gets the one that is installed.

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
    return found


def _import_module(name: str, package: str | None = None) -> ModuleType:
    found = None if name.startswith(".") else find_for_script(name)
    return importlib.import_module(name, package) if found is None else found


IMPORTER = Importer(find_for_script, (imports.__name__, __name__))


def install(namespace: dict[str, Any] | None = None) -> None:
    """Lets a notebook, or a module of plain Python, import the names of 2021: once, before such imports.

    The modules of its folder see the names too, if they are imported later. Code of libraries does not.

    Args:
        namespace: Globals of the code that is to see the names; None: those of the caller and of the notebook's cells.
    """
    spaces = [sys._getframe(1).f_globals if namespace is None else namespace]
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if namespace is None and shell is not None:
        spaces += [shell.user_ns, shell.user_global_ns]
    importer.install(IMPORTER, *spaces)
