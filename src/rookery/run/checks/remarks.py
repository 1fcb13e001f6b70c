"""Lines that the iterations of a run give reason for, each told once."""

from __future__ import annotations

from rookery.report.results import IterationResult
from rookery.run.evaluate.episode_limit import EndlessNote
from rookery.run.evaluate.evaluation import limit_of
from rookery.run.run import Run


class Remarks:
    """Looks at each iteration for what a user should know: episodes without end, settings that do not fit."""

    def __init__(self) -> None:
        self._endless = EndlessNote()
        self._advised: set[str] = set()
        """Policies whose algorithms have given their advice."""

    def lines(self, run: Run, result: IterationResult) -> list[str]:
        """Returns the lines to tell after an iteration.

        Args:
            run: The run.
            result: The iteration.
        """
        found = [self._endless.line(result, limit_of(run))]
        for name, learner in run.learners.items():
            if name not in self._advised and (line := learner.advice()):
                self._advised.add(name)
                found.append(line)
        return [line for line in found if line]
