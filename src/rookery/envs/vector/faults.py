"""What is borne from environments that raise, hang, or die with their process."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal


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


def too_many_broken(broken: int, env_steps: int) -> bool:
    """Whether more episodes broke than are borne in so many steps."""
    return broken > BROKEN_PER_MILLION * (1 + env_steps // 1_000_000)


class Missing(Exception):
    """The episode of a lane cannot be found again, so it is given up in the next step."""
