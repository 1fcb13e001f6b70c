"""Requests to stop a run: Ctrl-C, SIGTERM and SIGHUP, or the end of its time.

The first request is acted on where a checkpoint can stand, between two vector steps or two gradient steps on replay. A
second signal stops at once.

Python acts on a signal between two steps of Python code, so not while the main thread is in compiled code, which may
wait for another process. A thread beside it therefore learns of signals too: see `SignalWatch`.
"""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import ClassVar, Protocol
from weakref import WeakSet

from rookery.core.errors import HeadLostError


class Interrupted(KeyboardInterrupt):
    """A run was asked to stop, and stopped in good order.

    Attributes:
        signal: Number of the signal.
    """

    def __init__(self, number: int) -> None:
        self.signal = number
        super().__init__(f"stopped by {signal.Signals(number).name}")

    def as_error(self, hint: str = "") -> BaseException:
        """Returns what is raised where a run has stopped.

        Args:
            hint: What can be done, for a failure.
        """
        return self


TIME_UP = 0
"""The value of `Interrupt.number` when the time of a training is up; no signal has this number."""


class TimeUp(Interrupted):
    """A training stopped because its time is up."""

    def __init__(self) -> None:
        self.signal = TIME_UP
        KeyboardInterrupt.__init__(self, "the time of the training is up")


STRANDED = 1000
"""The value of `Interrupt.number` when the cluster is lost on which the run stands; no signal has this number."""


class Stranded(Interrupted):
    """A run stopped because the cluster is lost on which it stands.

    Args:
        problem: What has happened.
    """

    def __init__(self, problem: str) -> None:
        self.signal = STRANDED
        KeyboardInterrupt.__init__(self, problem or "the cluster is lost")

    def as_error(self, hint: str = "") -> BaseException:
        """Returns what is raised where the run has stopped: a failure, and no request of a user."""
        return HeadLostError("; ".join(filter(None, (str(self), hint))))


class Breaker(Protocol):
    """Waits in compiled code, where Python acts on no signal."""

    def break_waits(self) -> None:
        """Ends all these waits with an error; called in another thread."""
        ...


SAID_AFTER = 1.5
"""Seconds after the first signal until a line says that the run stops, if none has said so and it still runs."""

ENDED_AFTER = 2.0
"""Seconds after the second signal until a program that still runs is ended."""

STOPPING = "stopping after the step under way; Ctrl-C again stops at once"

LEAVING = "stopping; Ctrl-C again stops at once"
"""The line of a program in which no run is under way, because it starts or ends."""

ENDING = "stopped at once, without another checkpoint"


class Interrupt:
    """A request to stop.

    Attributes:
        number: The signal that came, `TIME_UP`, `STRANDED`, or None.
    """

    watchers: ClassVar[list[Interrupt]] = []
    """Who watches now, the outermost first."""

    breakers: ClassVar[WeakSet[Breaker]] = WeakSet()
    """Whose waits a second signal ends."""

    ends_program: ClassVar[bool] = False
    """Whether a second signal ends the program in any case: it does on the command line."""

    problem: ClassVar[str] = ""
    """What has happened to a cluster that is lost."""

    second: ClassVar[int | None] = None
    """The second signal, once it has come and as long as anything watches."""

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
                    say(each.told)

        watched = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            watched.append(signal.SIGHUP)
        self.number, self._watched, self.told = None, True, told
        Interrupt.watchers.append(self)
        before = {number: signal.signal(number, note) for number in watched}
        try:
            if Interrupt.watchers[0] is self:
                with SignalWatch(watched).watching():
                    yield
            else:
                yield
        finally:
            self._watched = False
            Interrupt.watchers.remove(self)
            for number, handler in before.items():
                signal.signal(number, signal.SIG_DFL if handler is None else handler)  # None: not set by Python

    def check(self) -> None:
        """Raises `Interrupted` if a signal has come, `TimeUp` if the time is up, `Stranded` if the cluster is lost."""
        if self.number == STRANDED:
            raise Stranded(Interrupt.problem)
        if self.number is not None:
            raise Interrupted(self.number) if self.number else TimeUp

    @classmethod
    def fail(cls, problem: str) -> None:
        """Requests that all who watch now stop because the cluster is lost; called in another thread."""
        cls.problem = problem
        for each in cls.watchers:
            each.number = each.number or STRANDED

    @staticmethod
    def check_second() -> None:
        """Raises KeyboardInterrupt if a second signal has come, also where Python has not acted on it yet."""
        if Interrupt.second is not None:
            raise KeyboardInterrupt

    @staticmethod
    def is_requested() -> bool:
        """Returns whether a run that is watching was asked to stop."""
        return any(each.number for each in Interrupt.watchers)

    def time_is_up(self) -> None:
        """Requests a stop because the time is up, unless a signal has come."""
        if self.number is None:
            self.number = TIME_UP

    def forget_time(self) -> None:
        """Withdraws a request of `time_is_up`."""
        if self.number == TIME_UP:
            self.number = None


class SignalWatch:
    """Learns of signals in a thread, also while the main thread is in compiled code.

    Args:
        numbers: Which signals.
        of_program: Whether it watches from the start of the program to its end, beside the runs in it, which watch for
            themselves. It does nothing while `Interrupt.ends_program` is false.
    """

    _active: ClassVar[int] = -1
    """Where Python writes signals for the innermost of these that is watching."""

    def __init__(self, numbers: Sequence[int], of_program: bool = False) -> None:
        self._numbers, self._of_program = numbers, of_program

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Learns of signals as a context; does nothing in a program that already learns of them by such means."""
        read, write = os.pipe()
        os.set_blocking(write, False)
        before = signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        if before not in {-1, SignalWatch._active}:
            signal.set_wakeup_fd(before, warn_on_full_buffer=False)
            os.close(read)
            os.close(write)
            yield
            return
        thread = threading.Thread(target=self._watch, args=[read], name="rookery: signals", daemon=True)
        thread.start()
        SignalWatch._active = write
        try:
            yield
        finally:
            signal.set_wakeup_fd(before)
            SignalWatch._active = before
            os.close(write)  # which ends the thread
            thread.join(1.0)
            Interrupt.second = None

    def _watch(self, read: int) -> None:
        first, is_said = 0, False
        with open(read, "rb", buffering=0) as signals:
            while True:
                if not select.select([signals], [], [], SAID_AFTER if first and not is_said else None)[0]:
                    is_said = True
                    if not any(each.number and each.told for each in Interrupt.watchers):
                        say(LEAVING if self._of_program else STOPPING)
                    continue
                if not (came := signals.read(1)):
                    return
                if came[0] not in self._numbers or (first and came[0] == signal.SIGHUP):
                    continue
                if self._of_program and not Interrupt.ends_program:
                    continue
                if first:
                    self._end(came[0])
                    return
                first = came[0]

    def _end(self, number: int) -> None:
        """Ends waits in compiled code after the second signal, and the program if that is not enough."""
        Interrupt.second = number

        def end() -> None:
            time.sleep(ENDED_AFTER)
            say(ENDING)
            os._exit(128 + number)

        if Interrupt.ends_program:
            threading.Thread(target=end, name="rookery: end at once", daemon=True).start()
        for breaker in list(Interrupt.breakers):
            breaker.break_waits()


def say(line: str) -> None:
    """Writes a line to standard error, as a handler of signals can."""
    with suppress(OSError):  # of a terminal that has closed
        os.write(2, f"{line}\n".encode())
