"""Signals that not every operating system has, and whether a process exists.

Windows has neither SIGHUP nor SIGKILL nor process groups; a signal that is sent there ends the process at once, even
signal 0.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

HANGUP: int | None = getattr(signal, "SIGHUP", None)
"""The signal of a terminal that closes; None on Windows."""

KILL: int = getattr(signal, "SIGKILL", signal.SIGTERM)
"""A signal that ends a process, which cannot refuse."""

OF_TERMINAL: Sequence[int] = [signal.SIGINT, *([] if HANGUP is None else [HANGUP])]
"""Signals that a terminal sends to all its processes."""

SYNCHRONIZE, WAIT_TIMEOUT = 0x0010_0000, 0x102
"""Right to wait for a process, and the answer of a wait for one that runs, on Windows."""


def name_of(number: int) -> str:
    """Returns the name of a signal, as ``SIGTERM``."""
    return signal.Signals(number).name


def is_alive(process: int) -> bool:
    """Returns whether a process with this number runs on this machine."""
    if sys.platform == "win32":
        windll = ctypes.windll
        handle = windll.kernel32.OpenProcess(SYNCHRONIZE, False, process & 0xFFFF_FFFF)
        if not handle:
            return False
        is_running = windll.kernel32.WaitForSingleObject(handle, 0) == WAIT_TIMEOUT
        windll.kernel32.CloseHandle(handle)
        return bool(is_running)
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True
