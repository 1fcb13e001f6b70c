"""`Finding`: a likely reason why a training does not learn, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Severity = Literal["error", "warning", "note"]

ORDER: tuple[Severity, ...] = ("error", "warning", "note")
"""Severities, the worst first."""

IN_ROW = ("rule", "severity", "subject", "message", "evidence", "iterations", "remedies", "metric")
"""Parts of a finding in a row of `metrics.jsonl`."""


@dataclass(frozen=True)
class Finding:
    """A likely reason why a training does not learn.

    Attributes:
        rule: Name of the rule, as ``entropy-collapsed``.
        severity: ``error``, ``warning`` or ``note``; notes are no reason to change anything by themselves.
        subject: Policy, agent or part of an observation; empty for the run.
        message: The finding in one sentence.
        evidence: Measured facts.
        iterations: First and last iteration of the evidence; None if it is not from iterations.
        curve: Values over these iterations, oldest first.
        causes: Likely causes, the most likely first.
        remedies: Settings to try as ``path=value``, or commands, in this order.
        page: Page of the documentation.
        metric: Column of the policy that is unusual, as ``kl``; empty if there is none.
    """

    rule: str
    severity: Severity
    subject: str
    message: str
    evidence: tuple[str, ...] = ()
    iterations: tuple[int, int] | None = None
    curve: tuple[float, ...] = ()
    causes: tuple[str, ...] = ()
    remedies: tuple[str, ...] = ()
    page: str = ""
    metric: str = ""

    @property
    def counts(self) -> bool:
        """Whether it is more than a note."""
        return self.severity != "note"

    def row(self) -> dict[str, Any]:
        """Returns the finding for `metrics.jsonl`, without empty parts, the curve, and the texts of its rule."""
        parts = {name: getattr(self, name) for name in IN_ROW}
        return {name: list(part) if isinstance(part, tuple) else part for name, part in parts.items() if part}

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Finding:
        """Returns the finding of a row, of this or a later version of Rookery."""
        given: dict[str, Any] = {"severity": "note", "subject": "", "message": "", **row}
        known: dict[str, Any] = {
            name: tuple(given[name]) if isinstance(given[name], list) else given[name]
            for name in IN_ROW
            if name in given
        }
        return cls(**known)
