"""The wall time of a training, and when it is time for a checkpoint."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rookery.run.settings import CheckpointConfig

APART = 5.0
"""Seconds from one checkpoint to the next at least, where no setting says when they are due."""

SHARE = 0.05
"""Part of the time that writing such checkpoints takes at most."""


class Clock:
    """A clock counts wall time in laps that leave nothing out while a training runs.

    Writing checkpoints, evaluations, callbacks and reports are part of the time. While no training runs, a lap begins
    where it is said to.
    """

    def __init__(self) -> None:
        self._since = 0.0
        self._held: float | None = None
        self._running = False

    @contextmanager
    def running(self) -> Iterator[None]:
        """Makes laps follow each other without a gap while this lasts."""
        self._since, self._running = time.perf_counter(), True
        try:
            yield
        finally:
            self._running = False

    @contextmanager
    def held(self) -> Iterator[None]:
        """Leaves out the time while this lasts: somebody else has the control of a generator."""
        self._held = began = time.perf_counter()
        try:
            yield
        finally:
            self._since += time.perf_counter() - began
            self._held = None

    @property
    def is_held(self) -> bool:
        """Whether the clock is held."""
        return self._held is not None

    def passed(self) -> float:
        """Returns the seconds of the lap so far; may be called from another thread."""
        return (self._held or time.perf_counter()) - self._since

    def begin(self) -> None:
        """Begins a lap now, unless a training runs, whose laps begin where the one before ended."""
        if not self._running:
            self._since = time.perf_counter()

    def lap(self) -> float:
        """Ends a lap, and returns its length in seconds."""
        now = time.perf_counter()
        length, self._since = now - self._since, now
        return length


class CheckpointPace:
    """A pace says when a checkpoint is due.

    Args:
        cfg: Settings. Where these name neither iterations nor seconds, checkpoints are `APART`, and further if
            writing one takes more than `SHARE` of that.
    """

    def __init__(self, cfg: CheckpointConfig) -> None:
        self.cfg = cfg
        self._apart = APART if cfg.every is None else 0.0
        if cfg.every_seconds is not None:
            self._apart = cfg.every_seconds
        self._own = cfg.every is None and cfg.every_seconds is None
        self._due = 0.0
        self.begin()

    def begin(self) -> None:
        """Counts the seconds from now."""
        self._due = time.monotonic() + self._apart

    def is_due(self, iteration: int) -> bool:
        """Says whether a checkpoint is due after `iteration`."""
        every = self.cfg.every
        return bool(every and iteration % every == 0) or bool(self._apart and time.monotonic() >= self._due)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Measures what writing a checkpoint takes, which is what this lasts for, and counts on from its end."""
        began = time.monotonic()
        try:
            yield
        finally:
            took = time.monotonic() - began
            self.begin()
            if self._own:
                self._due += max(0.0, took / SHARE - self._apart)
