"""Notes on the iterations of a run, each shown once."""

from __future__ import annotations

from rookery.report.results import IterationResult
from rookery.run.evaluate.episode_limit import EndlessNote
from rookery.run.evaluate.evaluation import limit_of
from rookery.run.parts import RunPart
from rookery.run.run import Run


class Remarks(RunPart):
    """Shows notes after an iteration: episodes without end, advice of algorithms on settings."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._endless = EndlessNote()
        self._advised: set[str] = set()
        """Policies whose algorithms have given advice."""

    def after_report(self, result: IterationResult) -> None:
        """Shows each note once."""
        run = self._run
        if line := self._endless.line(result, limit_of(run)):
            run._note(line)
        for name, learner in run.learners.items():
            if name not in self._advised and (line := learner.advice()):
                self._advised.add(name)
                run._note(line)
