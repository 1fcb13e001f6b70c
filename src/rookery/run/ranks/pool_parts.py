"""Parts of a run that measure what playing elsewhere, or playing while learning, costs."""

from __future__ import annotations

from dataclasses import replace

from rookery.core.batch import Rollout
from rookery.report.results import IterationResult
from rookery.run.parts import RunPart
from rookery.run.run import Run


class LagPart(RunPart):
    """Adds to the row of each update how old the weights were that played its rollout."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def in_update(self, name: str, rollout: Rollout) -> dict[str, float]:
        """Returns the columns of an update by name; empty where workers wait for weights."""
        return self._run.pool.lag(name, rollout)


class WaitsPart(RunPart):
    """Adds to results for what the run has waited, whose workers are other processes."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def in_result(self, result: IterationResult) -> IterationResult:
        """Returns a result with seconds, bytes and shares of waits."""
        return replace(result, waits=self._run.pool.waits())
