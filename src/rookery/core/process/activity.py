"""Activity of a thread and its start time, by which another process distinguishes slow work from a hang.

Code that steps environments notes when a step or a reset begins. This only writes a thread-local variable;
`cluster/ray_heartbeats.py` sends the activity to another process. (A heartbeat shows that a process runs at all, see
`core/process/heartbeats.py`.)
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

CALL, STEP, RESET = "a call", "a step", "a reset"
"""Names of activities."""


class Activity:
    """Present activity of a thread.

    Attributes:
        what: `CALL`, `STEP` or `RESET`.
        since: Its start, by `time.monotonic`.
    """

    __slots__ = ("since", "what")

    def __init__(self) -> None:
        self.what, self.since = CALL, monotonic()


class _Thread(threading.local):
    activity: Activity | None = None
    """Record for this thread's activity; None if no other process needs it."""


_thread = _Thread()


@contextmanager
def noted_in(activity: Activity) -> Iterator[None]:
    """Context in which `note_activity` of this thread writes to `activity`."""
    before, _thread.activity = _thread.activity, activity
    try:
        yield
    finally:
        _thread.activity = before


def is_noted() -> bool:
    """Returns whether this thread is inside `noted_in`."""
    return _thread.activity is not None


def note_activity(what: str) -> None:
    """Notes the start of an activity of this thread; does nothing outside `noted_in`.

    Args:
        what: `STEP` or `RESET`.
    """
    activity = _thread.activity
    if activity is not None:
        activity.what, activity.since = what, monotonic()
