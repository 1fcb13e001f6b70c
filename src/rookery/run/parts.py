"""Parts of a run: features that take part in its iterations, each present only if enabled in the settings.

A part overrides the methods of `RunPart` that it needs. `Parts` holds for each method the overriding ones, and the
trainer calls them one after the other: an unused feature is never called. `Trainer._make_parts` has the list, in the
order of the calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from rookery.core.batch import Rollout
from rookery.report.results import IterationResult
from rookery.rollout.worker import Sample


class RunPart:
    """A feature of a run; its constructor takes the run or parts of it."""

    def before_call(self, call: str, task: Any) -> Any:
        """Called when an iteration begins or continues; its time already counts.

        Args:
            call: Name of the method that makes it: ``train_iteration``, ``learn`` or ``collect``.
            task: The task of learning only or collecting only; None for ``train_iteration``.

        Returns:
            The task, or its replacement.
        """
        return task

    def after_call(self, call: str) -> None:
        """Called after the last round of an iteration; its time still counts."""

    def after_sample(self, sample: Sample) -> None:
        """Called after sampling; the counts of the run include it, and new policies are not made yet."""

    def in_update(self, name: str, rollout: Rollout) -> dict[str, float]:
        """Returns columns that the part adds to an update of a policy, by name."""
        return {}

    def after_update(self, name: str) -> None:
        """Called after a policy has learned from a rollout or stored it; its decisions are counted."""

    def is_learning(self, name: str) -> bool:
        """Returns whether a policy learns from current samples."""
        return True

    def before_result(self) -> None:
        """Called when an iteration is over and counted; its episodes are in `Run._finished`."""

    def in_result(self, result: IterationResult) -> IterationResult:
        """Returns a result with the values of the part, after an iteration or at any other time."""
        return result

    def after_iteration(self, result: IterationResult) -> IterationResult:
        """Returns the result of an iteration with the values of the part, before it is written."""
        return result

    def after_report(self, result: IterationResult) -> None:
        """Called after the result of an iteration is written and shown; the last one has a `stop_reason`."""


class Parts:
    """The parts of a run, and their methods by name.

    Args:
        parts: The parts in the order of their calls; None for a part that the run does not have.
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
        """Returns the methods of a name, of those parts that override it."""
        return [
            getattr(part, moment) for part in self.all if getattr(type(part), moment) is not getattr(RunPart, moment)
        ]
