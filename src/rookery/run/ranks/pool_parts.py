"""Parts of a run that measure the policy lag and the waits of remote or asynchronous sampling."""

from __future__ import annotations

from dataclasses import replace

from rookery.core.batch import Rollout
from rookery.report.results import IterationResult
from rookery.run.parts import RunPart
from rookery.run.run import Run


class LagPart(RunPart):
    """Adds the policy lag of the rollout to the row of each update."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def in_update(self, name: str, rollout: Rollout) -> dict[str, float]:
        """Returns the columns of an update by name; empty where workers wait for weights."""
        return self._run._pool.lag(name, rollout)


class WaitsPart(RunPart):
    """Adds the waits for remote workers to results."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def in_result(self, result: IterationResult) -> IterationResult:
        """Returns the result with seconds, bytes and shares of waits."""
        return replace(result, waits=self._run._pool.waits())
