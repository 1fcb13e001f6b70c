"""Thresholds that end a training or a trial: a metric reaches a plain number from below, an `AtMost` from above."""

from __future__ import annotations

from collections.abc import Collection, Mapping

BUDGETS = (
    "env_steps", "iterations", "iteration", "episodes", "seconds", "minutes", "decisions", "finished_policies",
    "finished_share",
)  # fmt: skip
"""Criteria that only increase from 0; all others are metrics."""


class AtMost(float):
    """Threshold that a metric reaches from above, for metrics to be minimized."""

    __slots__ = ()


def is_reached(value: float, threshold: float) -> bool:
    """Returns whether a metric has reached a threshold."""
    return value <= threshold if isinstance(threshold, AtMost) else value >= threshold


def directed(criteria: Mapping[str, float], falling: Collection[str]) -> dict[str, float]:
    """Returns criteria with an `AtMost` for each metric to be minimized.

    Args:
        criteria: Thresholds by name, with dots or slashes.
        falling: Names of numbers of which less is better. `BUDGETS` are not changed, since they grow in any case: with
            the fewest env steps as the aim, ``env_steps: 100_000`` is still a limit.
    """
    names = {name.replace(".", "/") for name in falling} - set(BUDGETS)
    return {
        name: AtMost(one) if name.replace(".", "/") in names and type(one) in (int, float) else one
        for name, one in criteria.items()
    }
