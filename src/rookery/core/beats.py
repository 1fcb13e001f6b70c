"""Beats: how a thread notes that its work goes on, so that another process can tell slow work from work that hangs.

The thread notes a beat when it begins a step or a reset of its environments. A beat sends nothing; `cluster/beats.py`
lets another process read the last one.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

CALL, STEP, RESET = "a call", "a step", "a reset"
"""What a beat can say that the thread has begun."""

_of_thread = threading.local()


class Beat:
    """The last beat of a thread.

    Attributes:
        what: `CALL`, `STEP` or `RESET`.
        at: When it began, by `time.monotonic`.
    """

    __slots__ = ("at", "what")

    def __init__(self) -> None:
        self.what, self.at = CALL, monotonic()


@contextmanager
def beating(beat: Beat) -> Iterator[None]:
    """While this lasts, `note_beat` in this thread writes to `beat`."""
    before = getattr(_of_thread, "beat", None)
    _of_thread.beat = beat
    try:
        yield
    finally:
        _of_thread.beat = before


def note_beat(what: str) -> None:
    """Notes what this thread begins now; does nothing where no other process waits for it.

    Args:
        what: `STEP` or `RESET`.
    """
    beat: Beat | None = getattr(_of_thread, "beat", None)
    if beat is not None:
        beat.what, beat.at = what, monotonic()


def is_beating() -> bool:
    """Whether another process waits for this thread."""
    return getattr(_of_thread, "beat", None) is not None
