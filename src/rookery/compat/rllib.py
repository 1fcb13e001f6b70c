"""Alias of `rookery_rllib`, which had this name before version 0.2. `core/moved.py` finds the modules inside."""

import runpy
import warnings
from typing import Any

import rookery_rllib

__path__: list[str] = []

if __name__ == "__main__":
    runpy.run_module("rookery_rllib", run_name="__main__", alter_sys=True)
else:
    warnings.warn(
        "rookery.compat.rllib is now rookery_rllib: `from rookery_rllib import ray, tune`",
        DeprecationWarning,
        stacklevel=3,
    )


def __getattr__(name: str) -> Any:
    return getattr(rookery_rllib, name)


def __dir__() -> list[str]:
    return dir(rookery_rllib)
