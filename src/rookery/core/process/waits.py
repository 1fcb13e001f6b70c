"""Waits for other processes, in short intervals with checks of signals and a deadline.

Every wait for another process goes through `wait_until`; `tests/test_waits.py` finds those that do not.
"""

from __future__ import annotations

import math
import subprocess
from collections.abc import Callable
from time import monotonic
from typing import TypeVar

SLICE_SECONDS = 0.25
"""Maximum seconds that a wait blocks before signals, checks and the deadline are examined."""

Found = TypeVar("Found")


def wait_until(
    look: Callable[[float], Found | None], within: float = math.inf, check: Callable[[], object] | None = None
) -> Found | None:
    """Waits until `look` returns a result.

    Python handles signals between two slices, so a second Ctrl-C ends any wait. The first one only sets
    `Interrupt.number`: pass `Interrupt.check`, or a function that reads the number, if a wait must end then.

    Args:
        look: Blocks for at most the given seconds and returns a result, or None.
        within: Seconds after which the wait ends; infinite = no limit. `look` is called at least once.
        check: Called after every slice without a result. An error that it raises ends the wait: for example because a
            process has sent no heartbeat for too long, or after a signal.

    Returns:
        The result of `look`; None after the deadline.
    """
    deadline = monotonic() + within
    while True:
        left = max(deadline - monotonic(), 0.0)
        found = look(min(left, SLICE_SECONDS))
        if found is not None:
            return found
        if check is not None:
            check()
        if left <= 0.0:
            return None


def exit_code_of(process: subprocess.Popen[bytes], within: float = math.inf) -> int | None:
    """Waits until a child process has ended.

    Args:
        process: The child.
        within: Maximum seconds to wait.

    Returns:
        Its exit code, negative for a signal; None if it still runs.
    """

    def look(left: float) -> int | None:
        try:
            return process.wait(left)
        except subprocess.TimeoutExpired:
            return None

    return wait_until(look, within)
