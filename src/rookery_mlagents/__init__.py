"""ML-Agents' files on Rookery's engine: its configuration, its results folder, its ONNX files; and its low-level API.

``from rookery_mlagents import mlagents_envs`` imports the package under its old name; after `install`, every ``import
mlagents_envs`` in this process finds it. Nothing heavy is loaded before a name is used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

import rookery

if getattr(rookery, "__distribution__", "") != "rookery-rl":
    raise ImportError(
        f"the package rookery in {getattr(rookery, '__file__', '')} is that of another program. Keep one of them: "
        "pip uninstall -y rookery rookery-rl, then pip install rookery-rl"
    )

__all__ = ["install", "mlagents_envs"]

if TYPE_CHECKING:
    from rookery_mlagents.api.importing import install as install

    mlagents_envs: Any


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    importing = import_module("rookery_mlagents.api.importing")
    found = importing.install if name == "install" else importing.module("mlagents_envs")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
