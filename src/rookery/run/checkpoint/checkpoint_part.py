"""Part of a run that writes checkpoints during training, and their schedule."""

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
"""Minimum seconds between checkpoints if no setting schedules them."""

SHARE = 0.05
"""Maximum share of the time that is spent on writing such checkpoints."""


class CheckpointPace:
    """Schedule of checkpoints.

    Args:
        cfg: Settings. Where these name neither iterations nor seconds, checkpoints are `APART` seconds apart, and
            further if writing one takes more than `SHARE` of that.
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
        """Restarts the count of seconds."""
        self._due = time.monotonic() + self._apart

    def is_due(self, iteration: int) -> bool:
        """Returns whether to write a checkpoint after `iteration`."""
        every = self.cfg.every
        return bool(every and iteration % every == 0) or bool(self._apart and time.monotonic() >= self._due)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Context in which a checkpoint is written: measures the time, and restarts the count of seconds at its end."""
        began = time.monotonic()
        try:
            yield
        finally:
            took = time.monotonic() - began
            self.begin()
            if self._own:
                self._due += max(0.0, took / SHARE - self._apart)


class CheckpointPart(RunPart):
    """Writes scheduled checkpoints after iterations, and one after the last iteration of a training.

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
