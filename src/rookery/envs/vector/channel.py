"""What a helper process and its driver talk through: words of shared memory and a bell.

Rare messages are frames (`core/process/child_process.py`); a step needs none. `Signal` is how one side waits for the
other: it looks at a word of shared memory for about as long as it usually takes the other, then sleeps until the bell
rings. Only x86 shows the stores of another core in the order they were made, so elsewhere every signal is a byte
through the bell, which the kernel orders.
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

from rookery.core.process.child_process import Gone

IN_ORDER = platform.machine().lower() in ("x86_64", "amd64", "i386", "i686")
"""Whether other cores see stores in the order they were made."""

SPIN_LIMIT = 400e-6
"""Longest wait in seconds without sleep: several times what waking up costs, and a forward pass of a policy."""

POLLS = 32
"""How often a spinning waiter looks between two looks at the clock."""

BACKSTOP_MS = 200
"""A sleeping waiter looks by itself this often."""

WORDS = 8
COMMAND, HELPER_SLEEPS, ANSWER, DRIVER_SLEEPS, KIND, STATUS, RESETTING, STEPS, MADE = (WORDS * i for i in range(9))
"""Words of the control page, each in a cache line of its own."""

PAGE = 4096

STEP, TALK, BURST = 0, 1, 2
"""Kinds of command: a step, whose actions are in the slab; a call, which follows as a frame; a burst of as many steps
as `STEPS` says, of which `MADE` counts those that were made."""

ENDS, GROWN, SPEAKS = 1, 2, 4
"""Bits of the status of a step: an episode ended, an agent appeared, a frame follows."""

_fence = threading.Lock()


class SharedMemory:
    """Memory without a name that two processes map; gone with the last of them.

    Args:
        size: Bytes, zeroed.
        file: Memory made elsewhere, to map here.
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
        """The memory as 64-bit integers."""
        return memoryview(self.map).cast("q")


class Signal:
    """One direction of the channel: a word that the other side counts up, and how to wait for it."""

    def __init__(self, words: memoryview, word: int, sleeps: int, bell: socket.socket, spins: bool) -> None:
        """Ties the parts together.

        Args:
            words: Control page.
            word: Index of the word that is counted up.
            sleeps: Index of the word that says whether the waiter sleeps.
            bell: This side's end of the bell, non-blocking.
            spins: Whether there is a core to wait on.
        """
        self._words, self._word, self._sleeps, self._bell, self._spins = words, word, sleeps, bell, spins
        self._usual = SPIN_LIMIT / 2  # seconds a wait takes, a running mean of waits cut at twice the limit
        self._poll = select.poll()
        self._poll.register(bell, select.POLLIN)

    def send(self, value: int) -> None:
        """Sets the word, and wakes the other side if it sleeps. That it is gone is noticed by whoever waits for it."""
        self._words[self._word] = value
        if IN_ORDER:
            _fence.acquire()  # an atomic operation: the store above is seen before the load below is made
            _fence.release()
            if not self._words[self._sleeps]:
                return
        try:
            self._bell.send(b"\0")
        except (BlockingIOError, BrokenPipeError, ConnectionError):
            return

    def wait(self, value: int, deadline: float) -> bool:
        """Waits until the word is `value`; False if it is not by `deadline` on the monotonic clock.

        Raises:
            Gone: If the other side is gone.
        """
        if not IN_ORDER:
            return self._hear(deadline)
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
        """Takes what the bell has rung, at most so often; False if it was nothing."""
        try:
            if not self._bell.recv(most):
                raise Gone
        except BlockingIOError:
            return False
        except ConnectionError:
            raise Gone from None
        return True

    def _hear(self, deadline: float) -> bool:
        while monotonic() <= deadline:
            if self._poll.poll(BACKSTOP_MS) and self._drain(1):
                return True
        return False


def signals(words: memoryview, bell: socket.socket, spins: bool) -> tuple[Signal, Signal]:
    """Returns the signals of commands and of answers, as either side has them."""
    bell.setblocking(False)
    commands = Signal(words, COMMAND, HELPER_SLEEPS, bell, spins)
    return commands, Signal(words, ANSWER, DRIVER_SLEEPS, bell, spins)
