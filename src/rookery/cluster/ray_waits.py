"""Waiting for results of Ray, through `core/process/waits.py`. This module needs Ray."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayTaskError

from rookery.core.process.waits import wait_until


def ready_of(
    refs: Sequence[Any],
    within: float = math.inf,
    *,
    at_least: int = 1,
    check: Callable[[], object] | None = None,
) -> list[Any]:
    """Waits until some of Ray's references are ready, with a value or an error.

    Args:
        refs: Distinct references.
        within: Time limit in seconds.
        at_least: How many of them must be ready; fewer are returned after the time limit.
        check: As of `wait_until`.

    Returns:
        All that are ready by then.
    """
    refs = list(refs)
    if not refs:
        return []
    wanted = min(at_least, len(refs))

    def look(left: float) -> list[Any] | None:
        ready, others = ray.wait(refs, num_returns=wanted, timeout=left)
        if len(ready) < wanted:
            return None
        if others:
            ready += ray.wait(others, num_returns=len(others), timeout=0)[0]
        return list(ready)

    found = wait_until(look, within, check)
    return list(ray.wait(refs, num_returns=len(refs), timeout=0)[0]) if found is None else found


def value_of(ref: Any, within: float = math.inf, check: Callable[[], object] | None = None) -> Any:
    """Waits for the value of one of Ray's references.

    Args:
        ref: The reference.
        within: Time limit in seconds.
        check: As of `wait_until`.

    Raises:
        GetTimeoutError: If there is no value within the time.
        RayError: If the task has failed, or its actor is gone.
    """

    def look(left: float) -> tuple[Any] | None:
        try:
            return (ray.get(ref, timeout=left),)
        except GetTimeoutError as error:
            if isinstance(error, RayTaskError):  # raised by the task itself
                raise
            return None

    found = wait_until(look, within, check)
    if found is None:
        raise GetTimeoutError(f"no answer within {within:g} seconds")
    return found[0]
