"""End of the program: threads and processes that keep it running after its work are named, then killed."""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import suppress
from typing import Any

NAMED_AFTER = 2.0
"""Seconds from the end of the work until remaining threads and processes are named."""

ENDED_AFTER = 10.0
"""Seconds from then until the process exits without them."""


def end_in_time(code: int, said_after: float, ended_after: float) -> None:
    """Ends this process even if an environment has left threads or processes running. Call it after the work.

    Args:
        code: Exit code of the process.
        said_after: Seconds from the end of the main thread until these are named, on standard error.
        ended_after: Seconds from then until the process exits.
    """

    def watch() -> None:
        threading.main_thread().join()
        time.sleep(said_after)
        if not (names := still_running()):
            return
        sys.stderr.write(
            f"note: the work is done, but threads or processes still run: {'; '.join(names)}. End them in the "
            f"environment's close(); the program exits in {ended_after:g} seconds\n"
        )
        sys.stderr.flush()
        time.sleep(ended_after)
        for child in child_processes():
            child.terminate()
        with suppress(OSError):
            sys.stdout.flush()
        os._exit(code)

    threading.Thread(target=watch, name="rookery: end in time", daemon=True).start()


def still_running() -> list[str]:
    """Returns the threads and processes that the interpreter waits for at exit: name, and place in the code."""
    frames = sys._current_frames()
    names = []
    for thread in threading.enumerate():
        if thread.daemon or thread is threading.main_thread():
            continue
        frame, first = frames.get(thread.ident or 0), ""
        while frame is not None:
            code = frame.f_code
            if code.co_filename != threading.__file__:  # the outermost one is the thread's target
                first = f" in {code.co_qualname} ({code.co_filename}:{code.co_firstlineno})"
            frame = frame.f_back
        names.append(f"thread {thread.name!r}{first}")
    return names + [f"process {child.name!r} (number {child.pid})" for child in child_processes() if not child.daemon]


def child_processes() -> list[Any]:
    """Returns the running children that `multiprocessing` has started; it is not imported for this."""
    module: Any = sys.modules.get("multiprocessing")
    return [] if module is None else list(module.active_children())
