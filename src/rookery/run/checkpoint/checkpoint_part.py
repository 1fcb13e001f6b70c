"""The part of a run that writes checkpoints while it trains."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rookery.report.console import Reporter
from rookery.report.results import IterationResult
from rookery.run.clock import CheckpointPace
from rookery.run.parts import RunPart
from rookery.run.settings import CheckpointConfig


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
