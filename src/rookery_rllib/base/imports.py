"""The modules of 2021 (`ray`, `gym`, `tensorflow`): tables of their names, and modules made of these.

Objects are looked up when a name is first used, so the tables may name objects of higher layers.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from functools import cache, reduce
from types import ModuleType
from typing import Any

from rookery.face import nearest
from rookery_rllib.base import names as tables
from rookery_rllib.base import release

HERE = __name__.partition(".")[0]
"""The package that targets of tables are relative to."""

EVERYTHING = tables.EVERYTHING
"""Key of a table for all names that it does not list, which are looked up in its target."""

# -- the tables --------------------------------------------------------------------------------------------------------


@cache
def known() -> tuple[Mapping[str, Mapping[str, str]], Mapping[str, str]]:
    """Returns all tables as one: targets of names by module of 2021, and hints for names that no longer exist."""
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


@cache
def of_2_x() -> Mapping[str, Mapping[str, str]]:
    """Returns the targets of names that mean something else to scripts of RLlib 2.x, by module."""
    found: dict[str, dict[str, str]] = {}
    for area in pkgutil.iter_modules(tables.__path__):
        table = importlib.import_module(f"{tables.__name__}.{area.name}")
        for path, entries in getattr(table, "NAMES_OF_2_X", {}).items():
            found.setdefault(path, {}).update(entries)
    return found


def is_known(path: str) -> bool:
    """Returns whether a dotted path is a module of 2021."""
    return path in known()[0]


def find(path: str) -> Any:
    """Returns the module or object of a dotted path of 2021.

    Raises:
        ImportError: If it does not exist here; the message explains what it was, or suggests the nearest name.
    """
    if is_known(path):
        return module(path)
    above, _, name = path.rpartition(".")
    if above and is_known(above):
        return lookup(module(above), name)
    raise ModuleNotFoundError(_missing(path), name=path)


def _missing(path: str) -> str:
    """Returns the error message for a module or a name that does not exist here."""
    targets, gone = known()
    parts = path.split(".")
    for length in range(len(parts), 0, -1):
        if (entry := gone.get(".".join(parts[:length]))) is not None:
            return f"{'.'.join(parts[:length])} is not supported: {entry}"
    above, _, name = path.rpartition(".")
    while above and above not in targets:
        above, _, name = above.rpartition(".")
    if not above:
        return f"there is no module {path!r}"
    inside = [key for key in targets[above] if key != EVERYTHING]
    inside += [key.removeprefix(f"{above}.") for key in targets if key.startswith(f"{above}.")]
    homes = [home for home, entries in targets.items() if name in entries and home.partition(".")[0] == parts[0]]
    alike = {home: sum(part == wanted for part, wanted in zip(home.split("."), parts, strict=False)) for home in homes}
    homes.sort(key=lambda home: (-alike[home], home.count(".")))
    hint = f"; {name!r} is in {' and '.join(homes[:3])}" if homes else nearest(name, inside)
    return f"{above} has no {name!r} in Rookery{hint}"


def _target(entry: str) -> Any:
    """Returns the module or object that an entry of a table names."""
    place, colon, attribute = entry.partition(":")
    place = place[1:] if place.startswith("=") else f"{HERE}.{place}"
    if not colon and is_known(entry.removeprefix("=")):
        return module(entry.removeprefix("="))
    return reduce(getattr, attribute.split(".") if attribute else (), importlib.import_module(place))


# -- the modules -------------------------------------------------------------------------------------------------------


class NamesModule(ModuleType):
    """A module of 2021, whose objects are looked up in the tables on first access."""

    def __init__(self, path: str) -> None:
        super().__init__(path, f"Names of {path} as of 2021, on Rookery.")
        self.__path__: list[str] = []  # so that it counts as a package
        self.__file__ = f"<{path} of Rookery>"

    def __getattr__(self, name: str) -> Any:
        path = self.__name__
        targets = known()[0]
        if release.is_2_x() and (entry := of_2_x().get(path, {}).get(name)) is not None:
            return _target(entry)
        if name == "__all__":
            return sorted(key for key in targets[path] if key != EVERYTHING and not key.startswith("_"))
        if (entry := targets[path].get(name)) is not None:
            found = _target(entry)
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
        if name not in of_2_x().get(path, {}):
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


@cache
def module(path: str) -> ModuleType:
    """Returns the module of a dotted path of 2021; raises an ImportError if there is none."""
    if not is_known(path):
        raise ModuleNotFoundError(_missing(path), name=path)
    if above := path.rpartition(".")[0]:
        module(above)
    if (entry := known()[0][path].get("__needs__")) is not None:
        _target(entry)()  # raises with a hint
    return NamesModule(path)


def lookup(found: ModuleType, name: str) -> Any:
    """Returns an attribute of a module; raises an ImportError with the hint of the tables if it does not exist."""
    try:
        return getattr(found, name)
    except AttributeError as error:
        raise ImportError(str(error), name=found.__name__) from None


@cache
def top_packages() -> frozenset[str]:
    """Returns the packages that the modules of 2021 are in: ``ray``, ``gym``, ``tensorflow``."""
    return frozenset(path.partition(".")[0] for path in known()[0])
