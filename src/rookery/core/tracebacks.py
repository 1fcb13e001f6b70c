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
    trace = own_frames(error)
    if trace is None:
        return ""
    return "".join(traceback.format_exception(type(error), error.with_traceback(trace), trace))


def own_frames(error: BaseException) -> TracebackType | None:
    """The frames of an exception from the first one of a user's code on; None if it never got there."""
    trace = error.__traceback__
    while trace is not None:
        module = f"{trace.tb_frame.f_globals.get('__name__', '')}."
        if not any(module.startswith(f"{name}.") for name in ON_THE_WAY):
            break
        trace = trace.tb_next
    return trace
