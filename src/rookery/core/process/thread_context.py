"""The context of a thread, and its propagation to another thread that does a part of its work.

Rooms without torch start threads that call code of the user's, such as steps of environments, and torch has modes of
each thread; `core/process/torch_modes.py` registers here how these are propagated.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import TypeVar

Entry = Callable[[], AbstractContextManager[None]]
"""Makes the context manager in which the other thread works."""

ResultT = TypeVar("ResultT")

_captures: list[Callable[[], Entry]] = []


def register_context(capture: Callable[[], Entry]) -> None:
    """Adds a function that captures a part of the context of the thread that calls it, for another thread to enter."""
    _captures.append(capture)


def in_this_context(work: Callable[[], ResultT]) -> Callable[[], ResultT]:
    """Returns a function that does `work` in another thread, in the context that this thread has now."""
    entries = [capture() for capture in _captures]

    def call() -> ResultT:
        with ExitStack() as stack:
            for entry in entries:
                stack.enter_context(entry())
            return work()

    return call
