"""Activity: what a thread does now and since when, by which another process tells slow work from work that hangs.

Rooms that step environments note when a step or a reset begins. That is a look at the thread's own variable, and sends
nothing; `cluster/ray_heartbeats.py` carries the activity to another process. (A heartbeat shows that a process runs at
all, see `core/process/heartbeats.py`.)
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

CALL, STEP, RESET = "a call", "a step", "a reset"
"""What a thread can be doing."""


class Activity:
    """What a thread does.

    Attributes:
        what: `CALL`, `STEP` or `RESET`.
        since: When it began, by `time.monotonic`.
    """

    __slots__ = ("since", "what")

    def __init__(self) -> None:
        self.what, self.since = CALL, monotonic()


class _Thread(threading.local):
    activity: Activity | None = None
    """Where this thread notes what it does; None where no other process wants to know."""


_thread = _Thread()


@contextmanager
def noted_in(activity: Activity) -> Iterator[None]:
    """While this lasts, `note_activity` in this thread writes to `activity`."""
    before, _thread.activity = _thread.activity, activity
    try:
        yield
    finally:
        _thread.activity = before


def is_noted() -> bool:
    """Returns whether this thread is inside `noted_in`."""
    return _thread.activity is not None


def note_activity(what: str) -> None:
    """Notes what this thread begins now; does nothing outside `noted_in`.

    Args:
        what: `STEP` or `RESET`.
    """
    activity = _thread.activity
    if activity is not None:
        activity.what, activity.since = what, monotonic()
