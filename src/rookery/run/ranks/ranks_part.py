"""Part of a run on several learners: all of them make the same calls and report the same episodes."""

from __future__ import annotations

from typing import Any

from rookery.run.parts import RunPart
from rookery.run.run import Run


class RanksPart(RunPart):
    """Sends the settings of rank 0 to all other ranks at each call, and the episodes of each rank to all."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def before_call(self, call: str, task: Any) -> Any:
        """Receives horizon, criteria and pauses of rank 0; returns the task of rank 0.

        Raises:
            TrainingError: If rank 0 makes another call.
        """
        run = self._run
        received = run._ranks.broadcast_call(call, (run._horizon, run._criteria, run._paused, task))
        run._horizon, run._criteria, run._paused, given = received
        return given

    def before_result(self) -> None:
        """Collects the episodes of all ranks that ended in the iteration, in the order of their ends."""
        run = self._run
        every = [episode for some in run._ranks.gather(run._finished) for episode in some]
        run._finished = sorted(every, key=lambda one: (one.vector_step, one.lane))
