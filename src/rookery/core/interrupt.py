"""Requests to stop a run: Ctrl-C, SIGTERM and SIGHUP, or the end of its time.

The first request is acted on where a checkpoint can stand, between two vector steps or two gradient steps on replay. A
second signal stops at once.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import ClassVar


class Interrupted(KeyboardInterrupt):
    """A run was asked to stop, and stopped in good order.

    Attributes:
        signal: Number of the signal.
    """

    def __init__(self, number: int) -> None:
        self.signal = number
        super().__init__(f"stopped by {signal.Signals(number).name}")


TIME_UP = 0
"""The value of `Interrupt.number` when the time of a training is up; no signal has this number."""


class TimeUp(Interrupted):
    """A training stopped because its time is up."""

    def __init__(self) -> None:
        self.signal = TIME_UP
        KeyboardInterrupt.__init__(self, "the time of the training is up")


class Interrupt:
    """A request to stop.

    Attributes:
        number: The signal that came, `TIME_UP`, or None.
    """

    watchers: ClassVar[list[Interrupt]] = []
    """Who watches now, the outermost first."""

    def __init__(self) -> None:
        self.number: int | None = None
        self._watched = False
        self.told = ""

    @contextmanager
    def watching(self, told: str = "") -> Iterator[None]:
        """While this lasts, SIGINT, SIGTERM and SIGHUP set `number`; a second one raises KeyboardInterrupt where the
        code is. A second SIGHUP does not: a terminal that closes may send two, one of them by its shell. Where SIGHUP
        is ignored, as under ``nohup``, it stays ignored.

        Outside the main thread Python gives no signals: nothing is watched there. Watched twice, the first goes on. All
        that watch note the first signal, so that a request that comes inside is known outside, whoever acts on it.

        Args:
            told: What a user is told, on standard error, when the first signal has come.
        """
        if self._watched or threading.current_thread() is not threading.main_thread():
            yield
            return

        def note(number: int, frame: FrameType | None) -> None:
            if self.number:  # not TIME_UP
                if number == signal.SIGHUP:
                    return
                raise KeyboardInterrupt
            for each in Interrupt.watchers:
                each.number = each.number or number
                if each.told:
                    with suppress(OSError):  # of a terminal that has closed
                        os.write(2, f"{each.told}\n".encode())

        watched = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            watched.append(signal.SIGHUP)
        self.number, self._watched, self.told = None, True, told
        Interrupt.watchers.append(self)
        before = {number: signal.signal(number, note) for number in watched}
        try:
            yield
        finally:
            self._watched = False
            Interrupt.watchers.remove(self)
            for number, handler in before.items():
                signal.signal(number, signal.SIG_DFL if handler is None else handler)  # None: not set by Python

    def check(self) -> None:
        """Raises `Interrupted` if a signal has come, or `TimeUp` if the time is up."""
        if self.number is not None:
            raise Interrupted(self.number) if self.number else TimeUp

    def time_is_up(self) -> None:
        """Requests a stop because the time is up, unless a signal has come."""
        if self.number is None:
            self.number = TIME_UP

    def forget_time(self) -> None:
        """Withdraws a request of `time_is_up`."""
        if self.number == TIME_UP:
            self.number = None
