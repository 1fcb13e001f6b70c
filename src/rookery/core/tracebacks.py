"""Tracebacks that begin where other people's code begins."""

from __future__ import annotations

import traceback
from types import TracebackType

from rookery.core.errors import RemoteError

ON_THE_WAY = (
    "rookery",
    "importlib",
    "_frozen_importlib",
    "gymnasium.core",
    "gymnasium.wrappers",
    "gymnasium.envs.registration",
)
"""Modules on the way to a user's code: where a traceback begins with them, they are left out."""


def own_traceback(error: BaseException) -> str:
    """The traceback of an exception from the first line of a user's code on; empty if it never got there."""
    if isinstance(error, RemoteError):
        return str(error)
    trace: TracebackType | None = error.__traceback__
    while trace is not None and _leads_there(trace.tb_frame.f_globals.get("__name__", "")):
        trace = trace.tb_next
    if trace is None:
        return ""
    return "".join(traceback.format_exception(type(error), error.with_traceback(trace), trace))


def _leads_there(module: str) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in ON_THE_WAY)
