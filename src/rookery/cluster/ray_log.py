"""Redirects Ray's own output to ``log.txt`` of the run, instead of the training output in the terminal.

Ray writes in two ways: messages of nodes by a Python function, and its own errors by C, to the stream that is standard
error when it connects. This module does not need Ray.
"""

from __future__ import annotations

import ctypes
import os
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from rookery.core.io.console_output import run_log

HELD_LINES = 1000
"""Largest number of lines that are kept before a run has a directory."""

COLORS = re.compile(r"\x1b\[[0-9;]*m")

_held: list[str] = []
_lock = threading.Lock()


def log(text: str) -> None:
    """Writes text of Ray to the log of the run, or keeps it until a log exists."""
    with _lock:
        _held.extend(f"ray: {line}\n" for line in COLORS.sub("", text).splitlines() if line.strip())
        del _held[:-HELD_LINES]
        if not _held or (path := run_log()) is None:
            return
        with suppress(OSError):  # of a full disk, or a folder that has been removed
            with path.open("a", encoding="utf-8", errors="replace") as file:
                file.writelines(_held)
            _held.clear()


def log_message(data: Mapping[str, Any], ignore_prefix: bool = False) -> None:
    """Writes a message of Ray's nodes; replaces a function of Ray, with its arguments."""
    log("\n".join(map(str, data.get("lines", ()))))


@contextmanager
def logged_errors() -> Iterator[None]:
    """Context in which compiled code that opens standard error writes to the log, and continues to do so afterwards."""
    libc = ctypes.CDLL(None)
    try:
        stream = ctypes.c_void_p.in_dll(libc, "stderr")
    except ValueError:  # another C library than GNU's
        yield
        return
    before, stream.value = stream.value, _pipe_to_log(libc)
    try:
        yield
    finally:
        stream.value = before


def _pipe_to_log(libc: ctypes.CDLL) -> int:
    """Returns a C stream whose lines are written to the log; it stays open until the process ends."""
    read, write = os.pipe()
    os.set_blocking(write, False)  # no code waits for this thread: lines may be lost
    libc.fdopen.restype = ctypes.c_void_p
    made: int = libc.fdopen(write, b"w")
    libc.setvbuf(ctypes.c_void_p(made), None, 1, 0)  # by lines

    def pass_on() -> None:
        with open(read, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                log(line)

    threading.Thread(target=pass_on, name="rookery: log of Ray", daemon=True).start()
    return made
