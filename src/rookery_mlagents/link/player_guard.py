"""Supervises a Unity player, so that it does not outlive the training that has started it.

``python guard.py LOG PROGRAM ARGUMENTS...`` starts the program in a process group of its own, its output going to the
file LOG, and ends as it ends. Standard input is a pipe of which the training alone has the other end: where that
closes, however the training has ended, the program is ended too, and on POSIX what it has started. It needs nothing but
the standard library.
"""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress

GRACE = 2.0
"""Seconds for a program to end after a request, before it is killed."""


PR_SET_PDEATHSIG = 1


ENDING = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
"""Signals that ask a program to end."""


def main(log: str, command: list[str]) -> int:
    """Runs a program until it ends, or until the other end of standard input is closed.

    Args:
        log: File that the program's output is added to.
        command: The program and its arguments.

    Returns:
        The exit code of the program; of one that was ended by a signal, 128 and the number of that.
    """
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)  # the end of the pipe ends the program
    with open(log, "ab") as out:
        try:
            program = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
                preexec_fn=None if sys.platform == "win32" else _before_program,
            )
        except OSError as error:
            out.write(f"{command[0]} cannot be started: {error.strerror}\n".encode())
            return 127

    def watch() -> None:
        while os.read(0, 1):
            pass
        if sys.platform == "win32":
            program.kill()
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(program.pid, number)
            except (ProcessLookupError, PermissionError):
                return
            deadline = time.monotonic() + GRACE
            while number == signal.SIGTERM and program.poll() is None and time.monotonic() < deadline:
                time.sleep(0.02)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    code = program.wait()
    if sys.platform != "win32":
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(program.pid, signal.SIGKILL)  # processes it has started and not ended
    return code if code >= 0 else 128 - code


def _before_program() -> None:
    """Makes a program end at signals that this process ignores, and at the end of this process."""
    for number in ENDING:
        signal.signal(number, signal.SIG_DFL)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
