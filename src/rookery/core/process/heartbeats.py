"""Heartbeats, which show another process that this one is alive during work of any length.

A thread sends a byte each second, so work itself has no time limit. A frozen process (SIGSTOP, a suspended or
disconnected machine) sends none. The receiver adds up the silence between its own checks, so that a time in which the
receiver was frozen does not count.
"""

from __future__ import annotations

import select
import socket
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from rookery.core.process.child_process import ConnectionClosed, describe_end, receive_frame
from rookery.core.process.waits import wait_until

HEARTBEAT_SECONDS = 1.0
"""Seconds between two heartbeats."""

SILENT_SECONDS = 60.0
"""Seconds without a heartbeat after which a process counts as frozen."""

LONGEST_LOOK = 2 * HEARTBEAT_SECONDS
"""Maximum seconds of silence counted between two checks, because the receiver itself may have been frozen or busy."""

BUSY_AFTER = 5.0
"""Seconds of silence after which the CPU time of the process is checked: compiled code may hold Python's lock."""


def send_heartbeats(line: socket.socket) -> None:
    """Sends heartbeats from a thread, until the other end of `line` is closed or this process ends."""
    line.setblocking(False)

    def send() -> None:
        with suppress(OSError):
            while True:
                with suppress(BlockingIOError):  # the receiver does not read for a while
                    line.send(b".")
                time.sleep(HEARTBEAT_SECONDS)

    threading.Thread(target=send, name="rookery: heartbeats", daemon=True).start()


class Heartbeats:
    """Receives the heartbeats of a process.

    Args:
        line: Connection on which they arrive.
        process: Its process id if it is on this machine: while it uses the CPU it is not frozen, even without
            heartbeats, because compiled code may hold Python's lock. None = it is on another machine.
    """

    def __init__(self, line: socket.socket, process: int | None = None) -> None:
        line.setblocking(False)
        self._line, self._process = line, process
        self._silence, self._looked, self._computed = 0.0, time.monotonic(), ""

    def is_frozen(self) -> bool:
        """Returns whether no heartbeat has arrived for `SILENT_SECONDS`, counted over calls of this function: call it
        often.
        """
        now = time.monotonic()
        passed, self._looked = min(now - self._looked, LONGEST_LOOK), now
        self._silence = 0.0 if self._has_come() else self._silence + passed
        if self._silence >= BUSY_AFTER and self._process is not None:
            before, self._computed = self._computed, cpu_time(self._process)
            if self._computed != before:
                self._silence = BUSY_AFTER
        return self._silence >= SILENT_SECONDS

    def _has_come(self) -> bool:
        try:
            return not self._line.recv(1 << 12) or True  # empty: the process has ended, which is not silence
        except BlockingIOError:
            return False
        except OSError:
            return True


class ChildHeartbeats(Heartbeats):
    """Receives the heartbeats of a child process.

    Args:
        process: Its process id.

    Attributes:
        far: The child's end of the connection, for `send_heartbeats`; close it here after the start.
    """

    def __init__(self, process: int) -> None:
        line, self.far = socket.socketpair()
        super().__init__(line, process)

    def receive(self, line: socket.socket) -> Any:
        """Receives a message from the process like `receive_frame`; raises ConnectionClosed if the process is
        frozen.
        """

        def check() -> None:
            if self.is_frozen():
                raise ConnectionClosed

        wait_until(lambda seconds: select.select([line], [], [], seconds)[0] or None, check=check)
        return receive_frame(line)[0]

    def describe_end(self, process: subprocess.Popen[bytes]) -> str:
        """Describes how the process has ended, or that it is frozen."""
        return describe_frozen() if self.is_frozen() else describe_end(process)


def describe_frozen() -> str:
    """Returns the predicate of a message about a frozen process."""
    return f"is frozen: it has sent no heartbeat for {SILENT_SECONDS:g} seconds"


def cpu_time(process: int) -> str:
    """Returns the CPU time of a process in the system's format; empty if unknown."""
    with suppress(OSError):
        return " ".join(Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[11:13])
    return ""
