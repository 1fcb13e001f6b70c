"""Alias of `rookery_mlagents`, which had this name before version 0.2. `core/moved.py` finds the modules inside."""

import runpy
import warnings
from typing import Any

import rookery_mlagents

__path__: list[str] = []

if __name__ == "__main__":
    runpy.run_module("rookery_mlagents", run_name="__main__", alter_sys=True)
else:
    warnings.warn(
        "rookery.compat.mlagents is now rookery_mlagents: `from rookery_mlagents import mlagents_envs`",
        DeprecationWarning,
        stacklevel=3,
    )


def __getattr__(name: str) -> Any:
    return getattr(rookery_mlagents, name)


def __dir__() -> list[str]:
    return dir(rookery_mlagents)
