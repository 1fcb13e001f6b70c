"""One trial: what is tried, how far it is, and what came of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]
"""What a trial reports after an iteration: flat, JSON-ready, as a line of `metrics.jsonl`; ``iteration`` counts from
1."""


class Status(Enum):
    """Where a trial stands."""

    PENDING = "PENDING"
    """It waits for a free place; new, or to go on from its last checkpoint."""
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    """It has given its place away and waits for the scheduler."""
    TERMINATED = "TERMINATED"
    ERROR = "ERROR"

    @property
    def is_over(self) -> bool:
        """Whether it never runs again."""
        return self in (Status.TERMINATED, Status.ERROR)


@dataclass
class Trial:
    """One configuration with one seed, and its life.

    Attributes:
        name: ``00003``; with repeats over seeds ``00003-1``.
        number: Which suggestion of the search it is, from 0; repeats have the same.
        params: What was chosen for it, by path.
        folder: Where its files are.
        seed: Names its random streams.
        status: Where it stands.
        row: The last row it reported.
        known: Iterations that need not be reported again; a clone counts those of its donor.
        rows: The numbers of the metrics that matter in all rows so far, oldest first.
        reason: Why it ended, in words.
        failures: How often it raised.
        losses: How often the process it ran in was lost.
        error: The last failure, in one line.
        parents: Whom it was cloned from: (its iteration, donor), oldest first.
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
        """Iterations reported so far."""
        return int(self.row.get("iteration", 0))


SCOPES = ("last", "best", "mean", "last-5", "last-10")


def score_of(rows: list[Row], metric: str, mode: str, scope: str) -> float | None:
    """One number for a trial.

    Args:
        rows: What it reported, oldest first.
        metric: Which column.
        mode: ``max`` or ``min``: which numbers are better, for ``best``.
        scope: ``last`` row that has a number, ``best`` of all, ``mean`` of all, mean of the ``last-5`` or ``last-10``.

    Returns:
        None if it never reported a number.
    """
    known = [float(row[metric]) for row in rows if is_number(row.get(metric))]
    if not known:
        return None
    if scope == "best":
        return max(known) if mode == "max" else min(known)
    counted = {"last": known[-1:], "mean": known, "last-5": known[-5:], "last-10": known[-10:]}[scope]
    return math.fsum(counted) / len(counted)


def is_number(value: Any) -> bool:
    """Whether a metric has a value that can be compared."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
