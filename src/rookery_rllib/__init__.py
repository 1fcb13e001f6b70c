"""RLlib and Ray Tune as of 2021: their names in, typed configuration and ordinary Rookery objects out.

``from rookery_rllib import ray, tune`` gives the modules under their old names; `install` lets a notebook import
them as it always did. Nothing heavy is loaded before a name is used.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from rookery_rllib.base.imports import module
from rookery_rllib.script.finder import install

__all__ = ["gym", "install", "ray", "rllib", "tune"]

if TYPE_CHECKING:
    gym: Any
    ray: Any
    rllib: Any
    tune: Any


class _OldModule:
    """An attribute that is a module of 2021, whatever is set.

    Rooms of this package are called `gym` and `tune` too, and the import of one sets an attribute of its parent, which
    is not taken here: code of the package gets its rooms by ``from`` imports, which do not need the attribute.
    """

    def __init__(self, path: str) -> None:
        self._path = path

    def __get__(self, package: Any, kind: Any = None) -> ModuleType:
        return module(self._path)

    def __set__(self, package: Any, room: Any) -> None:
        pass


class _Face(ModuleType):
    """This package, with the modules of 2021 as attributes."""

    gym = _OldModule("gym")
    ray = _OldModule("ray")
    rllib = _OldModule("ray.rllib")
    tune = _OldModule("ray.tune")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


sys.modules[__name__].__class__ = _Face
