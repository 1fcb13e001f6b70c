"""`Rule`: a check of the rows and settings of a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rookery.report.finding import Finding
from rookery.run.findings.history import History

SOON = 10
"""Fewest rows of a check."""

LATER = 30
"""Fewest iterations of a check for which a training must have had the time to learn something."""


@dataclass(frozen=True)
class Rule:
    """A check of rows and settings.

    Attributes:
        name: Its name in the catalog.
        check: Returns its finding for a policy, or None; a rule of the run is called once, with an empty name.
        needs: Columns of the policy that it reads; it is not called for a policy without one of them.
        of_run: Whether it is a rule of the run, and not of each policy.
    """

    name: str
    check: Callable[[History, str], Finding | None]
    needs: tuple[str, ...] = ()
    of_run: bool = False
