"""One trial: its parameters, status, rows and score."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from rookery.report.experiment import is_number

Row = Mapping[str, Any]
"""Metrics of one iteration: a flat mapping, JSON-ready, as a line of `metrics.jsonl`; ``iteration`` counts from 1."""


class Status(StrEnum):
    """Status of a trial."""

    PENDING = "PENDING"
    """The trial waits for a free worker; it is new, or will resume from its last checkpoint."""
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    """The trial has freed its worker and waits for the scheduler."""
    TERMINATED = "TERMINATED"
    ERROR = "ERROR"

    @property
    def is_over(self) -> bool:
        """Whether the trial never runs again."""
        return self in (Status.TERMINATED, Status.ERROR)


@dataclass
class Trial:
    """One configuration with one seed, and its history.

    Attributes:
        name: ``00003``; with repeats over seeds ``00003-1``.
        number: Number of the suggestion of the search, from 0; repeats have the same.
        params: Chosen parameters by path.
        folder: Folder of the trial's files.
        seed: Seed of the trial's random streams.
        status: Status of the trial.
        row: The last row that the trial reported.
        known: Number of iterations in the journal; for a clone, those of its donor.
        rows: Rows so far with the columns kept in the journal, oldest first.
        reason: Why the trial ended, as text.
        failures: Number of exceptions of the trial.
        losses: Number of lost processes of the trial.
        error: The last failure, in one line.
        parents: Donors that the trial was cloned from: (its iteration, donor), oldest first.
    """

    name: str
    number: int
    params: dict[str, Any]
    folder: Path
    seed: int
    status: Status = Status.PENDING
    row: Row = field(default_factory=dict)
    known: int = 0
    rows: list[Row] = field(default_factory=list)
    reason: str = ""
    failures: int = 0
    losses: int = 0
    error: str = ""
    parents: list[tuple[int, str]] = field(default_factory=list)

    @property
    def iteration(self) -> int:
        """Number of iterations reported so far."""
        return int(self.row.get("iteration", 0))

    @property
    def facts(self) -> dict[str, Any]:
        """Fields of a `TrialSummary` beside status, scores and history."""
        names = ("name", "number", "params", "reason", "error", "folder")
        return {"last": self.row, **{name: getattr(self, name) for name in names}}


SCOPES = ("last", "best", "mean", "last-5", "last-10")


def score_of(rows: Sequence[Row], metric: str, mode: str, scope: str) -> float | None:
    """Returns the score of a trial; None if it never reported a number.

    Args:
        rows: Rows that the trial reported, oldest first.
        metric: Column of the rows.
        mode: ``max`` or ``min``, for the scope ``best``.
        scope: ``last`` row with a number, ``best`` of all, ``mean`` of all, mean of the ``last-5`` or ``last-10``.
    """
    known = [float(row[metric]) for row in rows if is_number(row.get(metric))]
    if not known:
        return None
    if scope == "best":
        return max(known) if mode == "max" else min(known)
    counted = {"last": known[-1:], "mean": known, "last-5": known[-5:], "last-10": known[-10:]}[scope]
    return math.fsum(counted) / len(counted)


def per_metric(metric: str | Sequence[str], mode: str | Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns all metrics, and a mode for each of them, from settings with one or several."""
    metrics = (metric,) if isinstance(metric, str) else tuple(metric)
    modes = (mode,) if isinstance(mode, str) else tuple(mode)
    return metrics, modes * len(metrics) if len(modes) == 1 else modes
