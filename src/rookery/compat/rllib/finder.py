"""Shows the names of 2021 (`ray`, `gym`, `tensorflow`) to a script and to the modules of its folder, to nobody else.

Their code runs with builtins of its own, whose ``__import__`` asks the tables of `names` first. Libraries keep the
interpreter's builtins, and nothing is put into `sys.modules`: whoever looks for TensorFlow, or needs the real Ray, sees
what is installed. What cloudpickle carries to another process is given the same builtins there.
"""

from __future__ import annotations

import builtins
import importlib
import os
import pkgutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial, reduce
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import cloudpickle

from rookery.compat.rllib import names as tables
from rookery.core.errors import nearest

HERE = __name__.rpartition(".")[0]
"""The package that targets of tables are relative to."""

EVERYTHING = "*"
"""Key of a table that stands for all names that it does not list, looked up in its target."""

# -- the tables --------------------------------------------------------------------------------------------------------


@cache
def known() -> tuple[Mapping[str, Mapping[str, str]], Mapping[str, str]]:
    """Returns all tables as one: targets of names by module of 2021, and what became of names that are gone."""
    targets: dict[str, dict[str, str]] = {}
    gone: dict[str, str] = {}
    for area in pkgutil.iter_modules(tables.__path__):
        table = importlib.import_module(f"{tables.__name__}.{area.name}")
        for path, entries in getattr(table, "NAMES", {}).items():
            targets.setdefault(path, {}).update(entries)
        gone.update(getattr(table, "GONE", {}))
    for path in list(targets):
        parts = path.split(".")
        for length in range(1, len(parts)):
            targets.setdefault(".".join(parts[:length]), {})
    return targets, gone


def is_known(path: str) -> bool:
    """Says whether a dotted path is that of a module of 2021."""
    return path in known()[0]


def find(path: str) -> Any:
    """Returns what stood under a dotted path of 2021: a module, or an object in one.

    Raises:
        ImportError: If nothing of that name is here; the message says what it was, or the nearest name.
    """
    if is_known(path):
        return module(path)
    above, _, name = path.rpartition(".")
    if above and is_known(above):
        return given(module(above), name)
    raise ModuleNotFoundError(_missing(path), name=path)


def _missing(path: str) -> str:
    """What is said of a module or a name that is not here."""
    targets, gone = known()
    parts = path.split(".")
    for length in range(len(parts), 0, -1):
        if (told := gone.get(".".join(parts[:length]))) is not None:
            return f"{'.'.join(parts[:length])} is not here: {told}"
    above, _, name = path.rpartition(".")
    while above and above not in targets:
        above, _, name = above.rpartition(".")
    if not above:
        return f"there is no module {path!r}"
    inside = [key for key in targets[above] if key != EVERYTHING]
    inside += [key.removeprefix(f"{above}.") for key in targets if key.startswith(f"{above}.")]
    homes = [home for home, entries in targets.items() if name in entries and home.partition(".")[0] == parts[0]]
    homes.sort(key=lambda home: -sum(part == asked for part, asked in zip(home.split("."), parts, strict=False)))
    hint = f"; {name!r} stands in {' and '.join(homes[:3])}" if homes else nearest(name, inside)
    return f"{above} has no {name!r} in Rookery{hint}"


def _target(told: str) -> Any:
    """Returns what a table's entry stands for."""
    place, colon, attribute = told.partition(":")
    place = place[1:] if place.startswith("=") else f"{HERE}.{place}"
    if not colon and is_known(told.removeprefix("=")):
        return module(told.removeprefix("="))
    return reduce(getattr, attribute.split(".") if attribute else (), importlib.import_module(place))


# -- the modules -------------------------------------------------------------------------------------------------------


class NamesModule(ModuleType):
    """A module of 2021, whose objects are looked up in the tables when they are first asked for.

    Args:
        path: Dotted path of the module, ``ray.rllib.agents.ppo``.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path, f"Names of {path} as of 2021, on Rookery.")
        self.__path__: list[str] = []  # so that it counts as a package
        self.__file__ = f"<{path} of Rookery>"

    def __getattr__(self, name: str) -> Any:
        path = self.__name__
        targets = known()[0]
        if name == "__all__":
            return sorted(key for key in targets[path] if key != EVERYTHING and not key.startswith("_"))
        if (told := targets[path].get(name)) is not None:
            found = _target(told)
        elif f"{path}.{name}" in targets:
            found = module(f"{path}.{name}")
        elif EVERYTHING in targets[path] and not name.startswith("__"):
            found = getattr(_target(targets[path][EVERYTHING]), name, self)
            if found is self:
                raise AttributeError(_missing(f"{path}.{name}"))
        elif name.startswith("__"):
            raise AttributeError(f"module {path!r} has no attribute {name!r}")
        else:
            raise AttributeError(_missing(f"{path}.{name}"))
        setattr(self, name, found)
        return found

    def __dir__(self) -> Iterable[str]:
        below = f"{self.__name__}."
        inside = {key.removeprefix(below).partition(".")[0] for key in known()[0] if key.startswith(below)}
        return sorted({*super().__dir__(), *self.__all__, *inside})

    def __repr__(self) -> str:
        return f"<module {self.__name__!r} of Rookery>"

    def __reduce__(self) -> tuple[Callable[[str], ModuleType], tuple[str]]:
        return module, (self.__name__,)


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
def module(path: str) -> ModuleType:
    """Returns the module that stood under a dotted path of 2021.

    Raises:
        ImportError: If there is none.
    """
    if not is_known(path):
        raise ModuleNotFoundError(_missing(path), name=path)
    if above := path.rpartition(".")[0]:
        module(above)
    if (told := known()[0][path].get("__needs__")) is not None:
        _target(told)()  # says what is missing
    return NamesModule(path)


@cache
def _view(name: str) -> ModuleType:
    """Returns a module of the standard library as a script sees it."""
    if name == "random":
        from rookery.compat.rllib import chance

        return _View(importlib.import_module("random"), chance.drawn_by_whose_turn_it_is())
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


def given(found: ModuleType, name: str) -> Any:
    """Returns what a module has under a name; raises an ImportError in the words of the tables if it has nothing."""
    try:
        return getattr(found, name)
    except AttributeError as error:
        raise ImportError(str(error), name=found.__name__) from None


# -- imports of the script ---------------------------------------------------------------------------------------------

_real_import = builtins.__import__


def _ours(name: str) -> bool:
    return name in VIEWS or name.partition(".")[0] in _tops()


@cache
def _tops() -> frozenset[str]:
    return frozenset(path.partition(".")[0] for path in known()[0])


def _import(
    name: str,
    globals: Mapping[str, Any] | None = None,
    locals: Mapping[str, Any] | None = None,
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> ModuleType:
    """The ``__import__`` of scripts."""
    if level or not _ours(name):
        return _real_import(name, globals, locals, fromlist or (), level)
    leaf = _view(name) if name in VIEWS else module(name)
    if not fromlist:
        return leaf if name in VIEWS else module(name.partition(".")[0])
    if isinstance(leaf, NamesModule):
        for wanted in fromlist:
            if wanted != "*":
                given(leaf, wanted)
    return leaf


def _import_module(name: str, package: str | None = None) -> ModuleType:
    """`importlib.import_module` of scripts."""
    if name.startswith(".") or not _ours(name):
        return importlib.import_module(name, package)
    return _view(name) if name in VIEWS else module(name)


@cache
def script_builtins() -> dict[str, Any]:
    """Returns the builtins that code of scripts runs with: those of the interpreter but for ``__import__``."""
    return {**vars(builtins), "__import__": _import}


def is_script_code(namespace: Mapping[str, Any]) -> bool:
    """Says whether a module's or a function's globals are those of code that sees the names."""
    return namespace.get("__builtins__") is script_builtins()


# -- modules of the script's folder ------------------------------------------------------------------------------------


INSTALLED = ("site-packages", "dist-packages")
"""Folders of libraries: a script that lies there has no folder of its own."""


class _FolderLoader(SourceFileLoader):
    """Runs a module of the folder with the script's builtins. cloudpickle carries what it defines by value."""

    def exec_module(self, module: ModuleType) -> None:
        vars(module)["__builtins__"] = script_builtins()
        for pickling in _picklings:
            pickling.register_pickle_by_value(module)
        super().exec_module(module)


class _FolderFinder(MetaPathFinder):
    """Finds modules of the folders of scripts, before the search along `sys.path` does."""

    def __init__(self) -> None:
        self.folders: set[str] = set()
        self.packages: set[str] = set()  # those without an __init__, which have no loader to tell them by

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Returns how to load a module if the folder is where Python itself would find it, else None."""
        above = fullname.rpartition(".")[0]
        if above:
            spec_above = getattr(sys.modules.get(above), "__spec__", None)
            inside = above in self.packages or isinstance(getattr(spec_above, "loader", None), _FolderLoader)
            if not inside:
                return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or not (above or self._is_in_folder(spec)):
            return None
        if spec.loader is None or spec.origin is None:
            self.packages.add(fullname)
            return spec
        if type(spec.loader) is not SourceFileLoader:
            return None
        spec.loader = _FolderLoader(spec.loader.name, spec.loader.path)
        return spec

    def _is_in_folder(self, spec: ModuleSpec) -> bool:
        if spec.submodule_search_locations:
            places = [Path(place).parent for place in spec.submodule_search_locations]
        else:
            places = [Path(spec.origin).parent] if spec.has_location and spec.origin else []
        return any(os.path.realpath(place) in self.folders for place in places)


_folder_finder = _FolderFinder()


def show_names_in(folder: str | os.PathLike[str], first: bool = True) -> None:
    """Lets the modules of a folder, and of packages in it, see the names when they are imported from now on.

    Args:
        folder: Directory of a script.
        first: Whether the folder goes to the front of `sys.path` if it is not there, as that of a script does.
    """
    place = os.path.realpath(folder)
    if Path(place).name not in INSTALLED:
        _folder_finder.folders.add(place)
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
"""Modules with the functions of cloudpickle that carry what scripts define by value."""


def carry_names_along(pickling: Any) -> None:
    """Sees to it that functions of scripts which cloudpickle takes apart see the names where they are put together.

    Args:
        pickling: The module ``cloudpickle``, or the one that Ray has of its own.
    """
    if pickling in _picklings:
        return
    for name in _picklings[0].list_registry_pickle_by_value() if _picklings else ():
        pickling.register_pickle_by_value(sys.modules[name])
    _picklings.append(pickling)
    reduce_function = pickling.Pickler._dynamic_function_reduce

    def reduced(pickler: Any, function: FunctionType) -> tuple[Any, ...]:
        taken: tuple[Any, ...] = reduce_function(pickler, function)
        if not is_script_code(function.__globals__):
            return taken
        _, arguments, state, *items, refill = taken
        folders = tuple(sorted(_folder_finder.folders))
        return (partial(_put_together, folders), arguments, (refill, state), *items, _refilled)

    pickling.Pickler._dynamic_function_reduce = reduced


def _put_together(folders: Iterable[str], code: Any, namespace: dict[str, Any], *rest: Any) -> FunctionType:
    """Makes a function of a script from what cloudpickle carried, with builtins that know the names."""
    for folder in folders:
        show_names_in(folder)
    namespace["__builtins__"] = script_builtins()
    return FunctionType(code, namespace, *rest)


def _refilled(function: FunctionType, state: tuple[Callable[[FunctionType, Any], None], Any]) -> None:
    """Gives a function what it refers to; its globals keep the script's builtins for functions made in it later."""
    refill, carried = state
    refill(function, carried)
    function.__globals__["__builtins__"] = script_builtins()


# -- notebooks ---------------------------------------------------------------------------------------------------------


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
    for space in spaces:
        space["__builtins__"] = script_builtins()
    _ask_for_running_code()
    file = spaces[0].get("__file__")
    show_names_in(Path(file).parent if isinstance(file, str) else Path.cwd(), first=False)


@cache
def _ask_for_running_code() -> None:
    """Lets code that runs already see the names: its frame has the interpreter's builtins and keeps them."""

    def asked(
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        if globals is not None and is_script_code(globals):
            return _import(name, globals, locals, fromlist, level)
        return _real_import(name, globals, locals, fromlist or (), level)

    builtins.__import__ = asked
