"""Tracebacks that begin where a user's code begins, and errors in one line."""

from __future__ import annotations

import linecache
import traceback
from types import TracebackType

from rookery.core.errors import RemoteError
from rookery.core.packages import OWN

ON_THE_WAY = (
    *OWN,
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


def described(error: BaseException) -> str:
    """Returns an error in one line: its type and text, or the line of code that raised it where it has no text."""
    name, text = type(error).__name__, str(error)
    frames = own_frames(error) or error.__traceback__
    if text.strip() or frames is None:
        return f"{name}: {text}"
    place = traceback.extract_tb(frames)[-1]
    code = linecache.getline(place.filename, place.lineno or 0).strip()
    return f"{name} at {place.filename}:{place.lineno}{code and f' ({code})'}"


def own_frames(error: BaseException) -> TracebackType | None:
    """The frames of an exception from the first one of a user's code on; None if it never got there."""
    trace = error.__traceback__
    while trace is not None:
        module = f"{trace.tb_frame.f_globals.get('__name__', '')}."
        if not any(module.startswith(f"{name}.") for name in ON_THE_WAY):
            break
        trace = trace.tb_next
    return trace
