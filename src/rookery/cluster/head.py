"""Watches the head of a Ray cluster: checks periodically that it answers, and stops the run if it does not.

Ray waits for a minute without a message, in which calls that need the head do not return, and then ends the process. So
a run stops before: it writes a checkpoint of what it can reach, and names how to resume.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from rookery.cluster.address import answers
from rookery.core.errors import HeadLostError
from rookery.core.io.console_output import run_log
from rookery.core.process.interrupt import Interrupt, say

LOOK_SECONDS = 2.0
"""Seconds between two requests to the head, and the time limit for an answer."""

RAY_SECONDS = float(os.environ.get("RAY_gcs_rpc_server_reconnect_timeout_s", "60"))  # noqa: SIM112  (Ray's own name)
"""Seconds without a head after which Ray ends this process."""

SAID_AFTER = RAY_SECONDS / 10
"""Seconds without an answer after which a note is printed."""

LOST_AFTER = RAY_SECONDS / 4
"""Seconds without an answer after which the head counts as lost."""

ENDED_AFTER = RAY_SECONDS * 0.85
"""Seconds without an answer after which a program that still runs is ended, before Ray ends it without a message."""

Answer = TypeVar("Answer")


class HeadWatch:
    """Checks periodically, in a thread, that the head of a cluster answers.

    Args:
        address: Its address, ``HOST:PORT``.
        is_needed: Returns whether this process is still connected to it.
        ask: Returns whether a head answers at an address within some seconds.

    Attributes:
        silence: Seconds since it last answered, counted while this process runs.
    """

    def __init__(
        self,
        address: str,
        is_needed: Callable[[], bool],
        ask: Callable[[str, float], bool] = answers,
    ) -> None:
        self._address, self._is_needed, self._ask = address, is_needed, ask
        self._is_over = threading.Event()
        self.silence = 0.0
        self._thread = threading.Thread(target=self._watch, name="rookery: head of the cluster", daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._is_over.wait(LOOK_SECONDS) and self._is_needed():
            begun = time.monotonic()
            is_there = self._ask(self._address, LOOK_SECONDS)
            passed = LOOK_SECONDS + min(time.monotonic() - begun, LOOK_SECONDS)
            before, self.silence = self.silence, 0.0 if is_there else self.silence + passed
            for seconds, act in (SAID_AFTER, self._say), (LOST_AFTER, self._stop), (ENDED_AFTER, self._end):
                if before < seconds <= self.silence:
                    act()

    def watches(self, address: str) -> bool:
        """Returns whether this object watches the head at an address."""
        return self._address == address and not self._is_over.is_set() and self._thread.is_alive()

    def problem(self) -> str:
        """Returns a message with the time since the head last answered."""
        return f"the head of the Ray cluster at {self._address} has not answered for {self.silence:.3g} seconds"

    def _say(self) -> None:
        say(f"note: {self.problem()}; the run stops after {LOST_AFTER:g}")

    def _stop(self) -> None:
        Interrupt.fail(self.problem())

    def _end(self) -> None:
        if Interrupt.ends_program:
            say(f"error: {self.problem()}{how_to_resume()}")
            os._exit(HeadLostError.exit_code)

    def close(self) -> None:
        """Stops the checks."""
        self._is_over.set()


def how_to_resume() -> str:
    """Returns how to resume from the last checkpoint; empty if there is no run directory yet."""
    if (log := run_log()) is None:
        return ""
    return f"; resume from the last checkpoint: rookery resume {log.parent} (an experiment: rookery tune resume)"


_watches: list[HeadWatch] = []
"""The watch of the cluster that this process is connected to, if any."""


def watch(address: str, is_needed: Callable[[], bool]) -> None:
    """Watches the head of the cluster that this process is connected to; arguments as of `HeadWatch`."""
    if not (_watches and _watches[0].watches(address)):
        for one in _watches:
            one.close()
        _watches[:] = [HeadWatch(address, is_needed)]


def lost_head() -> str:
    """Returns a description of a head that counts as lost; empty while it answers."""
    return next((one.problem() for one in _watches if one.silence >= LOST_AFTER), "")


def within(seconds: float, ask: Callable[[], Answer]) -> Answer:
    """Calls the head in a thread, because Ray waits for a minute if the head is gone.

    Args:
        seconds: Time limit.
        ask: Asks, and returns the answer.

    Raises:
        HeadLostError: If there is no answer within this time.
        Exception: The exception of `ask`.
    """
    found: list[Answer] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            found.append(ask())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="rookery: a question to the head", daemon=True)
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    if not found:
        raise HeadLostError(f"the head of the Ray cluster has not answered within {seconds:g} seconds")
    return found[0]
