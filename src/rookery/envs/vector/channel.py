"""Communication between a helper process and its driver: words of shared memory and a bell.

Rare messages are frames (`core/process/child_process.py`); a step needs none. `Signal` is how one side waits for the
other: it polls a word of shared memory for about the usual duration, then sleeps until the bell rings. Only x86
guarantees that another core sees stores in order, so elsewhere every signal is a byte through the bell, which the
kernel orders.
"""

from __future__ import annotations

import mmap
import os
import platform
import select
import socket
import tempfile
import threading
from time import monotonic, perf_counter
from typing import IO

from rookery.core.process.child_process import ConnectionClosed

IN_ORDER = platform.machine().lower() in ("x86_64", "amd64", "i386", "i686")
"""Whether other cores see stores in order."""

SPIN_LIMIT = 400e-6
"""Longest wait in seconds without sleep: several times the cost of waking up, and of a forward pass of a policy."""

POLLS = 32
"""Polls of a spinning waiter between two reads of the clock."""

BACKSTOP_MS = 200
"""Interval in ms at which a sleeping waiter checks by itself."""

WORDS = 8
COMMAND, HELPER_SLEEPS, ANSWER, DRIVER_SLEEPS, KIND, STATUS, RESETTING, STEPS, MADE = (WORDS * i for i in range(9))
"""Words of the control page, each in its own cache line."""

PAGE = 4096

STEP, TALK, BURST = 0, 1, 2
"""Kinds of commands: a step, whose actions are in the slab; a call, which follows as a frame; a burst of `STEPS` steps,
of which `MADE` counts the finished ones.
"""

ENDS, GROWN, SPEAKS = 1, 2, 4
"""Bits of the status of a step: an episode ended, an agent appeared, a frame follows."""

_fence = threading.Lock()


class SharedMemory:
    """Anonymous memory that two processes map; freed with the last of them.

    Args:
        size: Bytes, zeroed.
        file: Existing memory to map.
    """

    def __init__(self, size: int, file: IO[bytes] | None = None) -> None:
        if file is None:
            if hasattr(os, "memfd_create"):
                file = os.fdopen(os.memfd_create("rookery"), "r+b", buffering=0)
            else:
                file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  # open as long as this object
            file.truncate(size)
        self.file = file
        self.size = size
        self.map = mmap.mmap(file.fileno(), size)

    def words(self) -> memoryview:
        """Returns the memory as 64-bit integers."""
        return memoryview(self.map).cast("q")


class Signal:
    """One direction of the channel: a word that the other side increments, and how to wait for it."""

    def __init__(self, words: memoryview, word: int, sleeps: int, bell: socket.socket, spins: bool) -> None:
        """Combines the parts.

        Args:
            words: Control page.
            word: Index of the word that is incremented.
            sleeps: Index of the word that is set while the waiter sleeps.
            bell: This side's end of the bell, non-blocking.
            spins: Whether a core is free for spinning.
        """
        self._words, self._word, self._sleeps, self._bell, self._spins = words, word, sleeps, bell, spins
        self._usual = SPIN_LIMIT / 2  # seconds a wait takes, a running mean of waits cut at twice the limit
        self._poll = select.poll()
        self._poll.register(bell, select.POLLIN)

    def send(self, value: int) -> None:
        """Sets the word, and wakes the other side if it sleeps. The end of the other side is detected in `wait`."""
        self._words[self._word] = value
        if IN_ORDER:
            _fence.acquire()  # an atomic operation: the store above is visible before the load below
            _fence.release()
            if not self._words[self._sleeps]:
                return
        try:
            self._bell.send(b"\0")
        except (BlockingIOError, BrokenPipeError, ConnectionError):
            return

    def wait(self, value: int, deadline: float) -> bool:
        """Waits until the word is `value`; returns False if it is not by `deadline` on the monotonic clock.

        Raises:
            ConnectionClosed: If the other side is gone.
        """
        if not IN_ORDER:
            return self._receive(deadline)
        words, word = self._words, self._word
        if words[word] == value:
            return True
        began = perf_counter()
        if self._spins and self._usual < SPIN_LIMIT:
            until = began + min(2.0 * self._usual + 20e-6, SPIN_LIMIT)
            while perf_counter() < until:
                for _ in range(POLLS):
                    if words[word] == value:
                        self._note(perf_counter() - began)
                        return True
        words[self._sleeps] = 1
        _fence.acquire()
        _fence.release()
        try:
            while words[word] != value:
                if self._poll.poll(BACKSTOP_MS):
                    self._drain()
                elif monotonic() > deadline:
                    return False
        finally:
            words[self._sleeps] = 0
        self._note(perf_counter() - began)
        return True

    def _note(self, seconds: float) -> None:
        self._usual += 0.1 * (min(seconds, 2 * SPIN_LIMIT) - self._usual)

    def _drain(self, most: int = 64) -> bool:
        """Reads the bytes of the bell, up to a limit; returns False if there were none."""
        try:
            if not self._bell.recv(most):
                raise ConnectionClosed
        except BlockingIOError:
            return False
        except ConnectionError:
            raise ConnectionClosed from None
        return True

    def _receive(self, deadline: float) -> bool:
        while monotonic() <= deadline:
            if self._poll.poll(BACKSTOP_MS) and self._drain(1):
                return True
        return False


def signals(words: memoryview, bell: socket.socket, spins: bool) -> tuple[Signal, Signal]:
    """Returns the signals of commands and of answers, in the same form for both sides."""
    bell.setblocking(False)
    commands = Signal(words, COMMAND, HELPER_SLEEPS, bell, spins)
    return commands, Signal(words, ANSWER, DRIVER_SLEEPS, bell, spins)
