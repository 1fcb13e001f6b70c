"""Thresholds that end a training or a trial: a number reaches one from below or, an `AtMost`, from above."""

from __future__ import annotations

from collections.abc import Collection, Mapping

BUDGETS = (
    "env_steps", "iterations", "iteration", "episodes", "seconds", "minutes", "decisions", "finished_policies",
    "finished_share",
)  # fmt: skip
"""Criteria that grow from 0; metrics may be anything."""


class AtMost(float):
    """A threshold of a number of which less is better: it is reached where the number is not above it."""

    __slots__ = ()


def is_reached(value: float, threshold: float) -> bool:
    """Returns whether a number has reached a threshold."""
    return value <= threshold if isinstance(threshold, AtMost) else value >= threshold


def directed(criteria: Mapping[str, float], falling: Collection[str]) -> dict[str, float]:
    """Returns criteria of which those on some numbers are reached from above.

    Args:
        criteria: Thresholds by name, with dots or slashes.
        falling: Names of numbers of which less is better. One of `BUDGETS` grows all the same, so that its criterion
            stays a limit: the fewest env steps to a target, and 100,000 at most.
    """
    names = {name.replace(".", "/") for name in falling} - set(BUDGETS)
    return {
        name: AtMost(one) if name.replace(".", "/") in names and type(one) in (int, float) else one
        for name, one in criteria.items()
    }
