"""Heartbeats: how a process shows another one that it is alive, however long its work takes.

A thread sends a byte each second, so work itself has no bound. A process that is frozen (SIGSTOP, a machine that is
suspended or cut off) sends none. The other side counts the silence in looks of its own, so that a time in which it was
frozen itself is not held against others.
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

from rookery.core.process.child_process import Gone, describe_end, receive_frame
from rookery.core.process.waits import wait_until

HEARTBEAT_SECONDS = 1.0
"""Seconds between two heartbeats."""

SILENT_SECONDS = 60.0
"""Seconds without a heartbeat after which a process counts as frozen."""

LONGEST_LOOK = 2 * HEARTBEAT_SECONDS
"""The most seconds of silence that are counted between two looks: who looks may have been frozen or busy itself."""

BUSY_AFTER = 5.0
"""Seconds of silence from which on it is checked whether the process computes: compiled code may hold Python's lock."""


def send_heartbeats(line: socket.socket) -> None:
    """Sends heartbeats from a thread, until the other end of `line` is closed or this process ends."""
    line.setblocking(False)

    def send() -> None:
        with suppress(OSError):
            while True:
                with suppress(BlockingIOError):  # the other side does not look for a while
                    line.send(b".")
                time.sleep(HEARTBEAT_SECONDS)

    threading.Thread(target=send, name="rookery: heartbeats", daemon=True).start()


class Heartbeats:
    """The heartbeats of a process, where they arrive.

    Args:
        line: Where they arrive.
        process: Its number if it is on this machine: while it computes it is not frozen, even without heartbeats,
            because compiled code may hold Python's lock. None = it is on another machine.
    """

    def __init__(self, line: socket.socket, process: int | None = None) -> None:
        line.setblocking(False)
        self._line, self._process = line, process
        self._silence, self._looked, self._computed = 0.0, time.monotonic(), ""

    def is_frozen(self) -> bool:
        """Returns whether none has come for `SILENT_SECONDS`, counted over calls of this function: call it often."""
        now = time.monotonic()
        passed, self._looked = min(now - self._looked, LONGEST_LOOK), now
        self._silence = 0.0 if self._has_come() else self._silence + passed
        if self._silence >= BUSY_AFTER and self._process is not None:
            before, self._computed = self._computed, processor_time(self._process)
            if self._computed != before:
                self._silence = BUSY_AFTER
        return self._silence >= SILENT_SECONDS

    def _has_come(self) -> bool:
        try:
            return not self._line.recv(1 << 12) or True  # nothing: it has ended, which is no silence
        except BlockingIOError:
            return False
        except OSError:
            return True


class ChildHeartbeats(Heartbeats):
    """The heartbeats of a process of this machine that this one has started.

    Args:
        process: Its number.

    Attributes:
        far: What the child has to get, for `send_heartbeats`; to be closed here then.
    """

    def __init__(self, process: int) -> None:
        line, self.far = socket.socketpair()
        super().__init__(line, process)

    def receive(self, line: socket.socket) -> Any:
        """Receives a message from the process, as `receive_frame`; raises a Gone if it is frozen."""

        def check() -> None:
            if self.is_frozen():
                raise Gone

        wait_until(lambda seconds: select.select([line], [], [], seconds)[0] or None, check=check)
        return receive_frame(line)[0]

    def describe_end(self, process: subprocess.Popen[bytes]) -> str:
        """Returns how the process has ended, or that it is frozen, in words."""
        return describe_frozen() if self.is_frozen() else describe_end(process)


def describe_frozen() -> str:
    """Returns what is to be said of a process that is frozen, behind its name."""
    return f"is frozen: it has sent no heartbeat for {SILENT_SECONDS:g} seconds"


def processor_time(process: int) -> str:
    """Returns the time that the processor has spent on a process, as the system writes it; empty where that is not
    known.
    """
    with suppress(OSError):
        return " ".join(Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[11:13])
    return ""
