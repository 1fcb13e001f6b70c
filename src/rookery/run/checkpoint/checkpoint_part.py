"""The part of a run that writes checkpoints while it trains, and when it is time for one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rookery.report.console import Reporter
from rookery.report.results import IterationResult
from rookery.run.parts import RunPart
from rookery.run.settings import CheckpointConfig

APART = 5.0
"""Seconds from one checkpoint to the next at least, where no setting says when they are due."""

SHARE = 0.05
"""Part of the time that writing such checkpoints takes at most."""


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


class CheckpointPart(RunPart):
    """Writes a checkpoint after an iteration when one is due, and after the last iteration of a training.

    Args:
        cfg: Settings of checkpoints; their time counts from now.
        save: Writes a checkpoint; returns its directory.
        reporter: Shows the name of each checkpoint.
    """

    def __init__(self, cfg: CheckpointConfig, save: Callable[[], Path], reporter: Reporter) -> None:
        self._pace = CheckpointPace(cfg)
        self._save = save
        self._reporter = reporter

    def after_report(self, result: IterationResult) -> None:
        """Writes a checkpoint if it is time, or if this was the last iteration."""
        if result.stop_reason or self._pace.is_due(result.iteration):
            with self._pace.writing():
                written = self._save()
            self._reporter.event(f"checkpoint {written.name}")
