"""Makes ``import mlagents_envs`` load this package in the current process: `install`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from rookery.face import nearest
from rookery_mlagents.api.mlagents_names import GONE, NAMES

HERE = __name__.rpartition(".")[0]
"""Package that targets of the tables are relative to."""

TOPS = tuple(sorted({path.partition(".")[0] for path in NAMES}))
"""Top-level packages whose names are known."""


class _NamesOfUnity(ModuleType):
    """A module of `mlagents_envs`, whose objects are looked up on first access."""

    def __getattr__(self, name: str) -> Any:
        path = self.__name__
        if name == "__all__":
            return sorted(key for key in NAMES[path] if not key.startswith("_"))
        if (target := NAMES[path].get(name)) is not None:
            place, _, attribute = target.partition(":")
            found = getattr(importlib.import_module(f"{HERE}.{place}"), attribute)
        elif f"{path}.{name}" in NAMES:
            found = importlib.import_module(f"{path}.{name}") if path in sys.modules else module(f"{path}.{name}")
        else:
            raise AttributeError(_missing(f"{path}.{name}") if not name.startswith("__") else name)
        setattr(self, name, found)
        return found

    def __dir__(self) -> Iterable[str]:
        below = f"{self.__name__}."
        inside = {key.removeprefix(below).partition(".")[0] for key in NAMES if key.startswith(below)}
        return sorted({*super().__dir__(), *self.__all__, *inside})

    def __repr__(self) -> str:
        return f"<module {self.__name__!r} of Rookery>"


class _Finder(MetaPathFinder, Loader):
    """Finds these modules; for other modules of the same packages, the error states why they are missing."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        top = fullname.partition(".")[0]
        if top not in TOPS or _is_foreign(sys.modules.get(top)):
            return None
        if fullname not in NAMES:
            raise ModuleNotFoundError(_missing(fullname), name=fullname)
        return ModuleSpec(fullname, self, origin=f"<{fullname} of Rookery>", is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return module(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Does nothing: names are looked up on access."""


_finder = _Finder()


@cache
def module(path: str) -> ModuleType:
    """Returns this package's replacement of a module of `mlagents_envs`.

    Raises:
        ImportError: If there is none; names its replacement.
    """
    if path not in NAMES:
        raise ModuleNotFoundError(_missing(path), name=path)
    made = _NamesOfUnity(path, f"Names of {path} on Rookery.")
    made.__path__ = []  # so that it counts as a package
    return made


def _missing(path: str) -> str:
    """Returns the error message for a module or a name that this package does not have."""
    if (reason := GONE.get(path)) is not None:
        return f"{path} is not supported: {reason}"
    above, _, name = path.rpartition(".")
    inside = [*NAMES.get(above, ())] + [key.removeprefix(f"{above}.") for key in NAMES if key.startswith(f"{above}.")]
    homes = [home for home, entries in NAMES.items() if name in entries]
    hint = f"; {name!r} is in {' and '.join(homes[:3])}" if homes else nearest(name, inside)
    return f"{above} has no {name!r} in Rookery{hint}"


def is_installed(top: str) -> bool:
    """Returns whether a package of that name is installed, in which case no replacement is needed."""
    return PathFinder.find_spec(top) is not None


def install(over: bool = False) -> None:
    """Makes ``import mlagents_envs`` load Rookery's package in this process; call it once, before such imports.

    Args:
        over: Whether it does so even where the package is installed; else it is that, as always.

    Raises:
        ImportError: If the installed package is to be replaced and is imported already.
    """
    if over and (loaded := [top for top in TOPS if _is_foreign(sys.modules.get(top))]):
        raise ImportError(f"{loaded[0]} is imported already; install() before it")
    if _finder in sys.meta_path:
        if not over:
            return
        sys.meta_path.remove(_finder)
    sys.meta_path.insert(0 if over else len(sys.meta_path), _finder)


def _is_foreign(found: ModuleType | None) -> bool:
    return found is not None and not isinstance(found, _NamesOfUnity)
