"""Parts of a run: features that take part in its iterations, each in the list only where settings ask for it.

A part overrides those moments of `RunPart` that it needs. `Parts` holds for each moment the methods that override it,
and the trainer calls these one after the other: a feature that a run does not use is never entered. The list, in the
order of the calls, is `Trainer._make_parts`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from rookery.core.batch import Rollout
from rookery.report.results import IterationResult
from rookery.rollout.worker import Sample


class RunPart:
    """A feature of a run; its constructor is given the run, or what it needs of it."""

    def before_call(self, call: str, task: Any) -> Any:
        """An iteration begins or continues; its time already counts.

        Args:
            call: Name of the method that makes it: ``train_iteration``, ``learn`` or ``collect``.
            task: The task of learning alone or playing alone; None for ``train_iteration``.

        Returns:
            The task, or what takes its place.
        """
        return task

    def after_call(self, call: str) -> None:
        """The last round of an iteration is over; its time still counts."""

    def after_sample(self, sample: Sample) -> None:
        """The pool has played; the counts of the run include it, and policies that are missing do not exist yet."""

    def in_update(self, name: str, rollout: Rollout) -> dict[str, float]:
        """Returns columns that the part adds to an update of a policy from a rollout, by name."""
        return {}

    def after_update(self, name: str) -> None:
        """A policy has learned from a rollout, or stored it; its decisions are counted."""

    def is_learning(self, name: str) -> bool:
        """Returns whether a policy learns from what is played now."""
        return True

    def before_result(self) -> None:
        """An iteration is over and counted; its episodes are in `Run.finished`."""

    def in_result(self, result: IterationResult) -> IterationResult:
        """Returns a result with what the part adds, after an iteration or at any other time."""
        return result

    def after_iteration(self, result: IterationResult) -> IterationResult:
        """Returns the result of an iteration with what the part adds, before it is written."""
        return result

    def after_report(self, result: IterationResult) -> None:
        """The result of an iteration is written and shown; it says in `stop_reason` if it was the last."""


class Parts:
    """The parts of a run, and their methods by moment.

    Args:
        parts: The parts in the order of their calls; None stands for a part that is not asked for.
    """

    def __init__(self, parts: Iterable[RunPart | None] = ()) -> None:
        self.all = tuple(part for part in parts if part is not None)
        self.before_call: list[Callable[[str, Any], Any]] = self._methods("before_call")
        self.after_call: list[Callable[[str], None]] = self._methods("after_call")
        self.after_sample: list[Callable[[Sample], None]] = self._methods("after_sample")
        self.in_update: list[Callable[[str, Rollout], dict[str, float]]] = self._methods("in_update")
        self.after_update: list[Callable[[str], None]] = self._methods("after_update")
        self.is_learning: list[Callable[[str], bool]] = self._methods("is_learning")
        self.before_result: list[Callable[[], None]] = self._methods("before_result")
        self.in_result: list[Callable[[IterationResult], IterationResult]] = self._methods("in_result")
        self.after_iteration: list[Callable[[IterationResult], IterationResult]] = self._methods("after_iteration")
        self.after_report: list[Callable[[IterationResult], None]] = self._methods("after_report")

    def _methods(self, moment: str) -> list[Callable[..., Any]]:
        """Returns the methods of a moment, of those parts that override it."""
        return [
            getattr(part, moment) for part in self.all if getattr(type(part), moment) is not getattr(RunPart, moment)
        ]
