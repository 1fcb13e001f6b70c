"""Part of a run that moves the lessons of its environment parameters."""

from __future__ import annotations

from dataclasses import replace

from rookery.envs.groups import groups_of
from rookery.report.results import IterationResult
from rookery.rollout.worker import Sample
from rookery.run.parts import RunPart
from rookery.run.run import Run


class LessonsPart(RunPart):
    """Passes episodes and results of a run to its curriculum, and new lessons to its pool."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def after_sample(self, sample: Sample) -> None:
        """Counts finished episodes."""
        self._run._curriculum.on_episodes(sample.finished, groups_of(self._run.env))

    def after_iteration(self, result: IterationResult) -> IterationResult:
        """Moves the lessons; returns the result with the progress of each course."""
        run = self._run
        standing = run._curriculum.update(result, run._horizon, run._note, run._pool.change_lessons)
        return replace(result, lessons=standing)
