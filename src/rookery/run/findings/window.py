"""`Window`: the bounded memory of a run's rows from which rules draw their findings.

It holds the last rows, a thinned selection of all rows, and the last evaluations. Its contents depend on rows alone, so
a resumed run, and a reader of `metrics.jsonl`, have the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from rookery.core.state import Stateful
from rookery.report.results import IterationResult

RECENT = 20
"""Number of latest rows."""

PAST = 48
"""Largest number of rows that are selected from the whole run."""

EVALUATIONS = 6
"""Number of latest evaluations."""

EACH = 100
"""Iterations up to twice of which every row belongs into the window; later every second, third and so on, so that very
short iterations cost little.
"""

FIRST = 10
"""Iteration of the second look at the rows; the first one is after the first row, for settings that no row changes."""

GROWTH = 3
"""A look is followed by the next one after this fraction of the iterations so far: looks become rarer, so that their
cost stays below a hundredth of any iteration.
"""

RUN_COLUMNS = ("iteration", "env_steps", "episodes", "return_mean", "return_min", "return_max", "length_mean",
               "running_length")  # fmt: skip

POLICY_COLUMNS = frozenset(
    ("return_mean", "decisions", "valid_rows", "kl", "clip_fraction", "entropy", "explained_variance", "policy_loss",
     "value_loss", "critic_loss", "grad_norm", "critic_grad_norm", "actor_grad_norm", "lr", "clip", "skipped_steps",
     "q_mean", "epsilon", "alpha", "gradient_steps", "updates")
)  # fmt: skip
"""Columns of a policy that rules read."""

Entry = dict[str, Any]
"""Part of a row that rules read: columns of the run, ``agents`` by name, ``policies`` by name and column."""


class Window(Stateful):
    """Bounded memory of a run's rows.

    Attributes:
        recent: The last rows, oldest first.
        past: Rows of the whole run, evenly thinned, oldest first.
        evaluations: The last rows with an evaluation.
        stride: Rows of the window between two of `past`.
        rows: Number of rows so far.
        taken: Number of them that were added to the window.
        next_look: Number of rows after which rules look at them again.
        standing: Findings of the last look, as rows.
    """

    saved: ClassVar[tuple[str, ...]] = ("recent", "past", "evaluations", "stride", "rows", "taken", "next_look",
                                   "standing")  # fmt: skip

    def __init__(self) -> None:
        self.recent: deque[Entry] = deque(maxlen=RECENT)
        self.past: list[Entry] = []
        self.evaluations: deque[Entry] = deque(maxlen=EVALUATIONS)
        self.stride = 1
        self.rows = self.taken = 0
        self.next_look = 1
        self.standing: list[dict[str, Any]] = []

    def takes(self, has_evaluation: bool) -> bool:
        """Counts a row; returns whether it belongs into the window."""
        self.rows += 1
        return has_evaluation or self.rows % max(self.rows // EACH, 1) == 0

    def add(self, entry: Entry) -> bool:
        """Adds a row that `takes` has counted; returns whether it is time for a look at the rows."""
        self.recent.append(entry)
        if self.taken % self.stride == 0:
            self.past.append(copy_of(entry))
            if len(self.past) > PAST:
                self.past, self.stride = self.past[::2], 2 * self.stride
        if "evaluation" in entry:
            self.evaluations.append(copy_of(entry))
        self.taken += 1
        if self.rows < self.next_look:
            return False
        self.next_look = max(self.rows + max(self.rows // GROWTH, 1), FIRST)
        return True

    def add_row(self, row: Mapping[str, Any]) -> bool:
        """Counts a row of `metrics.jsonl` and adds it if it belongs into the window; returns as `add` does."""
        return self.takes(row.get("evaluation/return_mean") is not None) and self.add(entry_of_row(row))


def copy_of(entry: Entry) -> Entry:
    """Returns a copy of a row, so that each of the window's lists has rows of its own, as after a checkpoint."""
    own = {name: list(value) if isinstance(value, list) else value for name, value in entry.items()}
    policies = {name: dict(columns) for name, columns in entry["policies"].items()}
    return {**own, "agents": dict(entry["agents"]), "policies": policies}


def entry_of_result(result: IterationResult) -> Entry:
    """Returns the part of a result that rules read."""
    entry: Entry = {name: getattr(result, name) for name in RUN_COLUMNS}
    entry["agents"] = dict(result.agents)
    entry["policies"] = policies = {}
    for name, policy in result.policies.items():
        own = {key: value for key, value in policy.learning.items() if key in POLICY_COLUMNS}
        own["return_mean"], own["decisions"], own["valid_rows"] = (
            policy.return_mean, policy.decisions, policy.valid_rows)  # fmt: skip
        policies[name] = own
    measured = result.evaluation
    if measured is not None:
        entry["evaluation"] = [measured.return_mean, *measured.return_interval]
    if result.self_play:
        entry["self_play"] = True
    return entry


def entry_of_row(row: Mapping[str, Any]) -> Entry:
    """Returns the part of a row of `metrics.jsonl` that rules read."""
    entry: Entry = {name: row.get(name) for name in RUN_COLUMNS}
    agents: dict[str, Any] = {}
    policies: dict[str, dict[str, Any]] = {}
    for column, value in row.items():
        section, _, rest = column.partition("/")
        name, _, key = rest.rpartition("/")
        if section == "policies" and key in POLICY_COLUMNS:
            policies.setdefault(name, {})[key] = value
        elif section == "agents" and key == "return_mean":
            agents[name] = value
        elif section == "self_play":
            entry["self_play"] = True
    entry |= {"agents": agents, "policies": policies}
    if row.get("evaluation/return_mean") is not None:
        entry["evaluation"] = [row.get(f"evaluation/return_{name}") for name in ("mean", "low", "high")]
    return entry


def windows_of(rows: Sequence[Mapping[str, Any]]) -> Window:
    """Returns the window after all rows of a run."""
    window = Window()
    for row in rows:
        window.add_row(row)
    return window
