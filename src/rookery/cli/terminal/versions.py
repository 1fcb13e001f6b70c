"""Versions of what a training depends on, for ``rookery --version``."""

from __future__ import annotations

import platform
from importlib.metadata import version

from rookery import __version__


def versions() -> list[str]:
    """Returns a line each for Rookery, Python with the machine, PyTorch, and the kernels that run on this CPU."""
    try:
        from rookery.core.native import best_build, why_none
    except ImportError as error:
        pytorch = kernels = f"not available ({error})"
    else:
        build = best_build()
        pytorch, kernels = version("torch"), build.name if build else f"none ({why_none()})"
    return [
        f"rookery {__version__}",
        f"python  {platform.python_version()} ({platform.system()} {platform.machine()})",
        f"torch   {pytorch}",
        f"kernels {kernels}",
    ]
