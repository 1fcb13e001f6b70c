"""RLlib and Ray Tune as of 2021: their names in, typed configuration and ordinary Rookery objects out.

``from rookery.compat.rllib import ray, tune`` gives the modules under their old names; `install` lets a notebook import
them as it always did. Nothing heavy is loaded before a name is used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

_MODULES = {"ray": "ray", "tune": "ray.tune", "rllib": "ray.rllib", "gym": "gym"}
"""Modules of 2021 that can be imported from here, by the name they have here."""

__all__ = ["gym", "install", "ray", "rllib", "tune"]

if TYPE_CHECKING:
    from rookery.compat.rllib.finder import install as install

    gym: Any
    ray: Any
    rllib: Any
    tune: Any


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    finder = import_module("rookery.compat.rllib.finder")
    found = finder.module(_MODULES[name]) if name in _MODULES else getattr(finder, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
