"""Requests to stop a run: Ctrl-C, SIGTERM and SIGHUP, or its time limit.

The first request takes effect where a checkpoint is possible, between two vector steps or two gradient steps on replay.
A second signal stops at once.

Python handles a signal between two steps of Python code, so not while the main thread is in compiled code, which may
wait for another process. Therefore another thread also receives signals: see `SignalWatch`.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import ClassVar, Protocol
from weakref import WeakSet

from rookery.core.errors import HeadLostError
from rookery.core.process.signals import HANGUP, name_of


class Interrupted(KeyboardInterrupt):
    """A run was stopped in an orderly way after a request.

    Attributes:
        signal: Number of the signal.
    """

    def __init__(self, number: int) -> None:
        self.signal = number
        super().__init__(f"stopped by {name_of(number)}")

    def as_error(self, hint: str = "") -> BaseException:
        """Returns the exception to raise where a run has stopped.

        Args:
            hint: Remedy, for a failure.
        """
        return self


TIME_UP = 0
"""Value of `Interrupt.number` when the time limit of a training is reached; no signal has this number."""


class TimeUp(Interrupted):
    """A training stopped at its time limit."""

    def __init__(self) -> None:
        self.signal = TIME_UP
        KeyboardInterrupt.__init__(self, "the time of the training is up")


CLUSTER_LOST = 1000
"""Value of `Interrupt.number` when the run's cluster is lost; no signal has this number."""


class ClusterLost(Interrupted):
    """A run stopped because its cluster is lost.

    Args:
        problem: Description of the loss.
    """

    def __init__(self, problem: str) -> None:
        self.signal = CLUSTER_LOST
        KeyboardInterrupt.__init__(self, problem or "the cluster is lost")

    def as_error(self, hint: str = "") -> BaseException:
        """Returns the exception to raise where the run has stopped: a failure, not a request of the user."""
        return HeadLostError("; ".join(filter(None, (str(self), hint))))


class Breaker(Protocol):
    """Object that waits in compiled code, where Python handles no signals."""

    def break_waits(self) -> None:
        """Ends its waits with an error; called in another thread."""
        ...


SAID_AFTER = 1.5
"""Seconds after the first signal until a line reports the stop, if the run still runs and has not reported it."""

ENDED_AFTER = 2.0
"""Seconds after the second signal until a program that still runs is terminated."""

STOPPING = "stopping after the step under way; Ctrl-C again stops at once"

LEAVING = "stopping; Ctrl-C again stops at once"
"""Message of a program that is interrupted outside of a run, while it starts or ends."""

ENDING = "stopped at once, without another checkpoint"


class Interrupt:
    """Request to stop.

    Attributes:
        number: The received signal, `TIME_UP`, `CLUSTER_LOST`, or None.
    """

    watchers: ClassVar[list[Interrupt]] = []
    """Requests that are watching for signals, the outermost first."""

    breakers: ClassVar[WeakSet[Breaker]] = WeakSet()
    """Objects whose waits a second signal ends."""

    ends_program: ClassVar[bool] = False
    """Whether a second signal always ends the program, as on the command line."""

    problem: ClassVar[str] = ""
    """Description of the loss of a cluster."""

    second: ClassVar[int | None] = None
    """The second signal, once received and while any request is watching."""

    def __init__(self) -> None:
        self.number: int | None = None
        self._watched = False
        self.line = ""

    @contextmanager
    def watching(self, line: str = "") -> Iterator[None]:
        """Makes SIGINT, SIGTERM and SIGHUP set `number` inside; a second signal raises KeyboardInterrupt in the running
        code. A second SIGHUP does not: a closing terminal may send two, one of them by its shell. If SIGHUP is ignored,
        as under ``nohup``, it stays ignored.

        Outside the main thread Python delivers no signals, and nothing is watched. A nested call keeps the outer
        handlers. All watching requests note the first signal, so that outer code knows of a request that inner code
        handles.

        Args:
            line: Text for standard error after the first signal.
        """
        if self._watched or threading.current_thread() is not threading.main_thread():
            yield
            return

        def note(number: int, frame: FrameType | None) -> None:
            if self.number:  # not TIME_UP
                if number == HANGUP:
                    return
                raise KeyboardInterrupt
            for each in Interrupt.watchers:
                each.number = each.number or number
                if each.line:
                    say(each.line)

        watched: list[int] = [signal.SIGINT, signal.SIGTERM]
        if HANGUP is not None and signal.getsignal(HANGUP) is not signal.SIG_IGN:
            watched.append(HANGUP)
        self.number, self._watched, self.line = None, True, line
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
        """Raises `Interrupted` after a signal, `TimeUp` at the time limit, `ClusterLost` if the cluster is lost."""
        if self.number == CLUSTER_LOST:
            raise ClusterLost(Interrupt.problem)
        if self.number is not None:
            raise Interrupted(self.number) if self.number else TimeUp

    @classmethod
    def fail(cls, problem: str) -> None:
        """Requests a stop of all watching runs because the cluster is lost; called in another thread."""
        cls.problem = problem
        for each in cls.watchers:
            each.number = each.number or CLUSTER_LOST

    @staticmethod
    def check_second() -> None:
        """Raises KeyboardInterrupt after a second signal, even if Python has not handled it yet."""
        if Interrupt.second is not None:
            raise KeyboardInterrupt

    @staticmethod
    def is_requested() -> bool:
        """Returns whether a watching run has a request to stop."""
        return any(each.number for each in Interrupt.watchers)

    def time_is_up(self) -> None:
        """Requests a stop at the time limit, unless a signal has arrived."""
        if self.number is None:
            self.number = TIME_UP

    def forget_time(self) -> None:
        """Withdraws a request of `time_is_up`."""
        if self.number == TIME_UP:
            self.number = None


class SignalWatch:
    """Receives signals in a thread, even while the main thread is in compiled code.

    Args:
        numbers: The signals.
        of_program: Whether it watches for the whole program, in addition to runs, which have their own watches. It does
            nothing while `Interrupt.ends_program` is false.
    """

    _active: ClassVar[int] = -1
    """File descriptor to which Python writes signals for the innermost active watch."""

    def __init__(self, numbers: Sequence[int], of_program: bool = False) -> None:
        self._numbers, self._of_program = numbers, of_program

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Receives signals inside; does nothing in a program that already uses a wake-up file descriptor."""
        read, write = socket.socketpair()  # not a pipe: Windows waits for sockets only
        write.setblocking(False)
        before = signal.set_wakeup_fd(write.fileno(), warn_on_full_buffer=False)
        if before not in {-1, SignalWatch._active}:
            signal.set_wakeup_fd(before, warn_on_full_buffer=False)
            read.close()
            write.close()
            yield
            return
        thread = threading.Thread(target=self._watch, args=[read], name="rookery: signals", daemon=True)
        thread.start()
        SignalWatch._active = write.fileno()
        try:
            yield
        finally:
            signal.set_wakeup_fd(before)
            SignalWatch._active = before
            write.close()  # which ends the thread
            thread.join(1.0)
            Interrupt.second = None

    def _watch(self, read: socket.socket) -> None:
        first, is_said = 0, False
        with read:
            while True:
                read.settimeout(SAID_AFTER if first and not is_said else None)
                try:
                    came = read.recv(1)
                except TimeoutError:
                    is_said = True
                    if not any(each.number and each.line for each in Interrupt.watchers):
                        say(LEAVING if self._of_program else STOPPING)
                    continue
                if not came:
                    return
                if came[0] not in self._numbers or (first and came[0] == HANGUP):
                    continue
                if self._of_program and not Interrupt.ends_program:
                    continue
                if first:
                    self._end(came[0])
                    return
                first = came[0]

    def _end(self, number: int) -> None:
        """Ends waits in compiled code after the second signal, and the program if they do not end."""
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
    """Writes a line to standard error; safe in a signal handler."""
    with suppress(OSError):  # of a terminal that has closed
        os.write(2, f"{line}\n".encode())
