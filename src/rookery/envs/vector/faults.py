"""Tolerance of environments that raise, hang, or die with their process; and the errors of all back ends."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import ne
from typing import Literal

import numpy as np

from rookery.core.errors import EnvError
from rookery.envs.vector.slab import Slab


@dataclass(frozen=True)
class Tolerance:
    """Limits of failures before a run stops.

    Attributes:
        on_error: Whether an exception of an environment stops the run, or its lane begins its next episode.
        max_restarts: Number of helper processes that may be replaced.
        step_timeout_seconds: Longest vector step of a helper process.
        reset_timeout_seconds: Longest reset, or construction of the environments, in a helper process.
    """

    on_error: Literal["stop", "restart"]
    max_restarts: int
    step_timeout_seconds: float
    reset_timeout_seconds: float


STRICT = Tolerance("stop", 0, math.inf, math.inf)
"""No failure is tolerated."""

BROKEN_IN_A_ROW = 3
"""Number of consecutive episodes of a lane ended by exceptions at which the run stops in any case."""

BROKEN_PER_MILLION = 100
"""Number of episodes ended by exceptions, per million environment steps, at which the run stops, too."""

LOSSES_IN_A_ROW = 3
"""Number of helpers lost in a row, without a step in between, at which the run stops."""

GIVEN_UP_IN_A_ROW = 10
"""Number of consecutive episodes of a lane given up with their helper at which the run stops, too."""


class Missing(Exception):
    """Raised if a lane's episode cannot be restored; it is then given up in the next step."""


def ordinal(number: int) -> str:
    """Returns an ordinal number: ``3rd``."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def check_counts(name: str, given: Sequence[np.ndarray], waiting: Sequence[np.ndarray]) -> None:
    """Raises an EnvError if the actions do not match the waiting rows."""
    if len(given) != len(waiting) or any(map(ne, map(len, given), map(len, waiting))):
        got, expected = list(map(len, given)), list(map(len, waiting))
        raise EnvError(f"{name}: step() got {got} actions by kind, expected {expected}")


def count_lost(slab: Slab, vector_steps: int, name: str) -> dict[str, int]:
    """Returns the counters of broken and given-up episodes so far; empty if there are none.

    Raises:
        EnvError: If too many broke.
    """
    if not (np.count_nonzero(slab.broken) or np.count_nonzero(slab.discarded)):
        return {}
    broken, discarded = int(slab.broken.sum()), int(slab.discarded.sum())
    if broken > BROKEN_PER_MILLION * (1 + vector_steps * slab.num_lanes // 1_000_000):
        raise EnvError(
            f"{name}: raised in {broken} episodes, more than env.on_error=restart tolerates ({BROKEN_PER_MILLION} in "
            "a million environment steps); set env.on_error=stop to see the first"
        )
    return {"episodes_broken": broken, "steps_discarded": discarded}


def foreign_state(name: str) -> EnvError:
    """Returns the error for a saved state that does not fit."""
    return EnvError(f"{name}: the saved state is of another environment, or of other settings")
