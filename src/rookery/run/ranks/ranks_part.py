"""The part of a run that has several learners: all of them make the same calls and report the same episodes."""

from __future__ import annotations

from typing import Any

from rookery.run.parts import RunPart
from rookery.run.run import Run


class RanksPart(RunPart):
    """Gives the settings of rank 0 to all other ranks at each call, and the episodes of each rank to all."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def before_call(self, call: str, task: Any) -> Any:
        """Takes horizon, criteria and pauses from rank 0; returns the task of rank 0.

        Raises:
            TrainingError: If rank 0 makes another call.
        """
        run = self._run
        announced = run.ranks.broadcast_call(call, (run.horizon, run.criteria, run.paused, task))
        run.horizon, run.criteria, run.paused, given = announced
        return given

    def before_result(self) -> None:
        """Collects the episodes that ended in the iteration at all ranks, in the order in which they ended."""
        run = self._run
        every = [episode for some in run.ranks.gather(run.finished) for episode in some]
        run.finished = sorted(every, key=lambda one: (one.vector_step, one.lane))
