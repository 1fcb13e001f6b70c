"""The end of the program: whoever keeps it from ending when its work is done is named, and ended after a time."""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import suppress
from multiprocessing import active_children

SAID_AFTER = 2.0
"""Seconds after the last of the work until those who are left are named."""

ENDED_AFTER = 10.0
"""Seconds after that until the process ends without them."""


def end_in_time(code: int, said_after: float, ended_after: float) -> None:
    """Sees to it that this process ends, whatever an environment has left behind. Call it when the work is done.

    Args:
        code: Exit code of the process.
        said_after: Seconds from the end of the main thread until those who are left are named, on standard error.
        ended_after: Seconds from then until the process ends.
    """

    def watch() -> None:
        threading.main_thread().join()
        time.sleep(said_after)
        if not (names := left_behind()):
            return
        sys.stderr.write(
            f"note: the work is done, but what was left running keeps the program from ending: {'; '.join(names)}. "
            f"End it in the environment's close(); the program ends in {ended_after:g} seconds\n"
        )
        sys.stderr.flush()
        time.sleep(ended_after)
        for child in active_children():
            child.terminate()
        with suppress(OSError):
            sys.stdout.flush()
        os._exit(code)

    threading.Thread(target=watch, name="rookery: end in time", daemon=True).start()


def left_behind() -> list[str]:
    """The threads and processes that the interpreter waits for at its end: name, and where they are in the code."""
    frames = sys._current_frames()
    names = []
    for thread in threading.enumerate():
        if thread.daemon or thread is threading.main_thread():
            continue
        frame, first = frames.get(thread.ident or 0), ""
        while frame is not None:
            code = frame.f_code
            if code.co_filename != threading.__file__:  # the outermost of these is what the thread was made to do
                first = f" in {code.co_qualname} ({code.co_filename}:{code.co_firstlineno})"
            frame = frame.f_back
        names.append(f"thread {thread.name!r}{first}")
    return names + [f"process {child.name!r} (number {child.pid})" for child in active_children() if not child.daemon]
