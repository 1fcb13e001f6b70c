"""Part of a run that looks for reasons why it does not learn."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rookery.report.finding import Finding
from rookery.report.results import IterationResult
from rookery.run.findings.diagnose import findings_of, plain_settings
from rookery.run.findings.window import Window, entry_of_result
from rookery.run.parts import RunPart
from rookery.run.run import Run


class FindingsPart(RunPart):
    """Adds findings to the results of a run, by rules that need rows and settings only.

    Args:
        run: The run.
        window: Its rows so far; changed in place.
    """

    def __init__(self, run: Run, window: Window) -> None:
        self._window, self._ignore = window, frozenset(run.config.doctor.ignore)
        self._settings = plain_settings(run.resolved)
        self._rows: list[dict[str, Any]] = []
        self._standing: tuple[Finding, ...] = ()
        """Findings of `_rows`, which are those of the window unless it was loaded meanwhile."""

    def after_iteration(self, result: IterationResult) -> IterationResult:
        """Returns the result of an iteration with the findings that stand."""
        window = self._window
        if window.takes(result.evaluation is not None) and window.add(entry_of_result(result)):
            found = findings_of(self._window, self._settings, self._ignore)
            self._window.standing = [one.row() for one in found]
        if self._window.standing is not self._rows:
            self._rows = self._window.standing
            self._standing = tuple(map(Finding.from_row, self._rows))
        return replace(result, findings=self._standing) if self._standing else result
