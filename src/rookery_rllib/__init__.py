"""RLlib and Ray Tune as of 2021: runs their scripts with typed settings and ordinary Rookery objects.

``from rookery_rllib import ray, tune`` returns the modules under their old names; after `install` a notebook
imports them directly. Heavy packages are loaded when a name is first used.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

import rookery

if getattr(rookery, "__distribution__", "") != "rookery-rl":
    raise ImportError(
        f"the package rookery in {getattr(rookery, '__file__', '')} is that of another program. Keep one of them: "
        "pip uninstall -y rookery rookery-rl, then pip install rookery-rl"
    )

from rookery_rllib.base.imports import module
from rookery_rllib.script.finder import install

__all__ = ["gym", "install", "ray", "rllib", "tune"]

if TYPE_CHECKING:
    gym: Any
    ray: Any
    rllib: Any
    tune: Any


class _OldModule:
    """Descriptor that always returns a module of 2021, even after another value is set.

    The subpackages `gym` and `tune` have the same names, and importing one sets an attribute of its parent, which is
    ignored: code of the package uses ``from`` imports, which do not need the attribute.
    """

    def __init__(self, path: str) -> None:
        self._path = path

    def __get__(self, package: Any, kind: Any = None) -> ModuleType:
        return module(self._path)

    def __set__(self, package: Any, room: Any) -> None:
        pass


class _Face(ModuleType):
    """Class of this package, with the modules of 2021 as attributes."""

    gym = _OldModule("gym")
    ray = _OldModule("ray")
    rllib = _OldModule("ray.rllib")
    tune = _OldModule("ray.tune")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


sys.modules[__name__].__class__ = _Face
