"""What is borne from environments that raise, hang, or die with their process; and the errors of all back ends."""

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
    """How much goes wrong before a run stops.

    Attributes:
        on_error: An environment that raises stops the run, or its lane begins its next episode.
        max_restarts: How many helper processes may be replaced.
        step_timeout_seconds: How long a vector step of a helper process may take.
        reset_timeout_seconds: How long a reset, or building the copies, may take there.
    """

    on_error: Literal["stop", "restart"]
    max_restarts: int
    step_timeout_seconds: float
    reset_timeout_seconds: float


STRICT = Tolerance("stop", 0, math.inf, math.inf)
"""Nothing is borne."""

BROKEN_IN_A_ROW = 3
"""So many episodes of a lane in a row that end by raising stop the run in any case."""

BROKEN_PER_MILLION = 100
"""So many in a million environment steps, too."""

LOSSES_IN_A_ROW = 3
"""So many helpers lost one after the other, without a step in between, stop the run."""

GIVEN_UP_IN_A_ROW = 10
"""So many episodes of a lane in a row that are given up because their helper was lost stop the run, too."""


class Missing(Exception):
    """The episode of a lane cannot be found again, so it is given up in the next step."""


def ordinal(number: int) -> str:
    """Returns a number as its place in an order: ``3rd``."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def check_counts(name: str, given: Sequence[np.ndarray], waiting: Sequence[np.ndarray]) -> None:
    """Raises an EnvError if there is not an action for each row that waits."""
    if len(given) != len(waiting) or any(map(ne, map(len, given), map(len, waiting))):
        got, expected = list(map(len, given)), list(map(len, waiting))
        raise EnvError(f"{name}: step() got {got} actions by kind, expected {expected}")


def count_lost(slab: Slab, vector_steps: int, name: str) -> dict[str, int]:
    """The counters of episodes that broke or were given up so far; empty if none was.

    Raises:
        EnvError: If too many broke.
    """
    if not (np.count_nonzero(slab.broken) or np.count_nonzero(slab.discarded)):
        return {}
    broken, discarded = int(slab.broken.sum()), int(slab.discarded.sum())
    if broken > BROKEN_PER_MILLION * (1 + vector_steps * slab.num_lanes // 1_000_000):
        raise EnvError(
            f"{name}: raised in {broken} episodes, more than env.on_error=restart bears "
            f"({BROKEN_PER_MILLION} in a million environment steps); set env.on_error=stop to see the first"
        )
    return {"episodes_broken": broken, "steps_discarded": discarded}


def foreign_state(name: str) -> EnvError:
    """The error for a saved state that does not fit."""
    return EnvError(f"{name}: the saved state is of another environment, or of other settings")
