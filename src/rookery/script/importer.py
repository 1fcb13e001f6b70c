"""Gives a script and the modules of its folder access to modules that other code cannot import: `Importer`.

The code runs with its own builtins, whose ``__import__`` calls an importer first. Libraries keep the interpreter's
builtins, and nothing is put into `sys.modules`: they find the installed modules. Functions that cloudpickle sends to
another process get the same builtins there.
"""

from __future__ import annotations

import builtins
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import cloudpickle


@dataclass(frozen=True)
class Importer:
    """Modules that only the imports of a script find.

    Attributes:
        find: Function of a dotted name and of the names that are imported from it (empty for ``import name``). Returns
            the module, or None for an ordinary import; raises an ImportError if one of the names is missing. It must be
            a function of a module, which other processes import.
        lookups: Names of the modules that look names up, which tracebacks of scripts leave out.
    """

    find: Callable[[str, Sequence[str]], ModuleType | None]
    lookups: tuple[str, ...] = ()


# -- builtins ----------------------------------------------------------------------------------------------------------

_real_import = builtins.__import__

_builtins: dict[Importer, dict[str, Any]] = {}


def script_builtins(importer: Importer) -> dict[str, Any]:
    """Returns the builtins for the code of scripts: those of the interpreter with a replaced ``__import__``."""
    if importer not in _builtins:
        _builtins[importer] = {**vars(builtins), "__import__": partial(_import, importer)}
    return _builtins[importer]


def importer_of(namespace: Mapping[str, Any]) -> Importer | None:
    """Returns the importer of code with these globals, of a module or a function; None if it has none."""
    found = namespace.get("__builtins__")
    return next((importer for importer, made in _builtins.items() if made is found), None)


def _import(
    importer: Importer,
    name: str,
    globals: Mapping[str, Any] | None = None,
    locals: Mapping[str, Any] | None = None,
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> ModuleType:
    """Replaces ``__import__`` in scripts."""
    found = None if level else importer.find(name, fromlist or ())
    if found is None:
        return _real_import(name, globals, locals, fromlist or (), level)
    top = found if fromlist or "." not in name else importer.find(name.partition(".")[0], ())
    return found if top is None else top


# -- modules of the script's folder ------------------------------------------------------------------------------------


INSTALLED = ("site-packages", "dist-packages")
"""Folders of libraries: modules next to a script in such a folder do not belong to the script."""


class _FolderLoader(SourceFileLoader):
    """Runs a module of the folder with the script's builtins. cloudpickle pickles its definitions by value."""

    importer: Importer

    def exec_module(self, module: ModuleType) -> None:
        vars(module)["__builtins__"] = script_builtins(self.importer)
        for pickling in _picklings:
            pickling.register_pickle_by_value(module)
        super().exec_module(module)


class _FolderFinder(MetaPathFinder):
    """Finds modules of the folders of scripts, before the search along `sys.path` does."""

    def __init__(self) -> None:
        self.folders: dict[str, Importer] = {}
        self.packages: dict[str, Importer] = {}  # those without an __init__, which have no loader

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Returns the spec of a module if Python itself would find it in the folder, else None."""
        importer: Importer | None = None
        above = fullname.rpartition(".")[0]
        if above:
            loader = getattr(getattr(sys.modules.get(above), "__spec__", None), "loader", None)
            importer = loader.importer if isinstance(loader, _FolderLoader) else self.packages.get(above)
            if importer is None:
                return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None:
            return None
        importer = importer or self._of_folder(spec)
        if importer is None:
            return None
        if spec.loader is None or spec.origin is None:
            self.packages[fullname] = importer
            return spec
        if type(spec.loader) is not SourceFileLoader:
            return None
        spec.loader = _FolderLoader(spec.loader.name, spec.loader.path)
        spec.loader.importer = importer
        return spec

    def _of_folder(self, spec: ModuleSpec) -> Importer | None:
        if spec.submodule_search_locations:
            places = [Path(place).parent for place in spec.submodule_search_locations]
        else:
            places = [Path(spec.origin).parent] if spec.has_location and spec.origin else []
        found = (self.folders.get(os.path.realpath(place)) for place in places)
        return next((importer for importer in found if importer is not None), None)


_folder_finder = _FolderFinder()


def show_names_in(importer: Importer, folder: str | os.PathLike[str], first: bool = True) -> None:
    """Makes an importer's names visible to modules of a folder, and of packages in it, that are imported from now on.

    Args:
        importer: The importer.
        folder: Directory of a script.
        first: Whether to put the folder at the front of `sys.path` if it is missing there, as for a script.
    """
    place = os.path.realpath(folder)
    if Path(place).name not in INSTALLED:
        _folder_finder.folders[place] = importer
    if _folder_finder not in sys.meta_path:
        at = sys.meta_path.index(PathFinder) if PathFinder in sys.meta_path else len(sys.meta_path)
        sys.meta_path.insert(at, _folder_finder)
    if first and place not in sys.path:
        sys.path.insert(0, place)
    carry_names_along(cloudpickle)
    if (of_ray := sys.modules.get("ray.cloudpickle")) is not None:
        carry_names_along(of_ray)


# -- code of scripts in other processes --------------------------------------------------------------------------------


_picklings: list[Any] = []
"""Modules with the functions of cloudpickle, which pickle the definitions of scripts by value."""


def carry_names_along(pickling: Any) -> None:
    """Patches cloudpickle so that unpickled functions of scripts have their importer's names.

    Args:
        pickling: The module ``cloudpickle``, or Ray's own version of it.
    """
    if pickling in _picklings:
        return
    for name in _picklings[0].list_registry_pickle_by_value() if _picklings else ():
        pickling.register_pickle_by_value(sys.modules[name])
    _picklings.append(pickling)
    reduce_function = pickling.Pickler._dynamic_function_reduce

    def reduced(pickler: Any, function: FunctionType) -> tuple[Any, ...]:
        taken: tuple[Any, ...] = reduce_function(pickler, function)
        importer = importer_of(function.__globals__)
        if importer is None:
            return taken
        _, arguments, state, *items, refill = taken
        folders = tuple(sorted(place for place, shown in _folder_finder.folders.items() if shown == importer))
        together = partial(_put_together, importer, folders)
        return (together, arguments, (refill, state, importer), *items, _refilled)

    pickling.Pickler._dynamic_function_reduce = reduced


def _put_together(
    importer: Importer, folders: Iterable[str], code: Any, namespace: dict[str, Any], *rest: Any
) -> FunctionType:
    """Makes a function of a script from its pickled parts, with the builtins of its importer."""
    for folder in folders:
        show_names_in(importer, folder)
    namespace["__builtins__"] = script_builtins(importer)
    return FunctionType(code, namespace, *rest)


def _refilled(function: FunctionType, state: tuple[Callable[[FunctionType, Any], None], Any, Importer]) -> None:
    """Restores the references of a function; its globals contain the script's builtins for functions created in it
    later.
    """
    refill, carried, importer = state
    refill(function, carried)
    function.__globals__["__builtins__"] = script_builtins(importer)


# -- code that runs already --------------------------------------------------------------------------------------------


def install(importer: Importer, *namespaces: dict[str, Any]) -> None:
    """Makes an importer's names visible to running code, and to modules of its folder that are imported later.

    Args:
        importer: The importer.
        namespaces: Globals of the code, such as those of a module of plain Python, or of the cells of a notebook. The
            folder is that of ``__file__`` in the first, else the working directory.
    """
    for namespace in namespaces:
        namespace["__builtins__"] = script_builtins(importer)
    _ask_for_running_code()
    file = namespaces[0].get("__file__")
    show_names_in(importer, Path(file).parent if isinstance(file, str) else Path.cwd(), first=False)


@cache
def _ask_for_running_code() -> None:
    """Patches ``__import__`` of the interpreter for running code, whose frame keeps the interpreter's builtins."""

    def patched(
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        importer = None if globals is None else importer_of(globals)
        if importer is None:
            return _real_import(name, globals, locals, fromlist or (), level)
        return _import(importer, name, globals, locals, fromlist, level)

    builtins.__import__ = patched
