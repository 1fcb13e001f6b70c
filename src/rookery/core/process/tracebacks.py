"""Tracebacks that begin with user code, and one-line descriptions of errors."""

from __future__ import annotations

import linecache
import traceback
from types import TracebackType

from rookery.core.errors import RemoteError
from rookery.core.packages import OWN

CALLING_MODULES = (
    *OWN,
    "importlib",
    "_frozen_importlib",
    "gymnasium.core",
    "gymnasium.wrappers",
    "gymnasium.envs.registration",
)
"""Modules that call user code: their frames are left out at the beginning of a traceback."""


def own_traceback(error: BaseException) -> str:
    """Returns the traceback of an exception, starting at the first line of user code; empty without user code."""
    if isinstance(error, RemoteError):
        return str(error)
    trace = own_frames(error)
    if trace is None:
        return ""
    return "".join(traceback.format_exception(type(error), error.with_traceback(trace), trace))


def described(error: BaseException) -> str:
    """Returns an error in one line: its type and text, or the line of code that raised it if it has no text."""
    name, text = type(error).__name__, str(error)
    frames = own_frames(error) or error.__traceback__
    if text.strip() or frames is None:
        return f"{name}: {text}"
    place = traceback.extract_tb(frames)[-1]
    code = linecache.getline(place.filename, place.lineno or 0).strip()
    return f"{name} at {place.filename}:{place.lineno}{code and f' ({code})'}"


def own_frames(error: BaseException) -> TracebackType | None:
    """Returns the frames of an exception, starting at the first one of user code; None without user code."""
    trace = error.__traceback__
    while trace is not None:
        module = f"{trace.tb_frame.f_globals.get('__name__', '')}."
        if not any(module.startswith(f"{name}.") for name in CALLING_MODULES):
            break
        trace = trace.tb_next
    return trace
