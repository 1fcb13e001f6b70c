"""Propagates a thread's context to another thread that does part of its work.

Code without torch starts threads that call user code, such as environment steps, and torch has modes per thread;
`core/process/torch_modes.py` registers their propagation here.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import TypeVar

Entry = Callable[[], AbstractContextManager[None]]
"""Creates the context manager for the other thread."""

ResultT = TypeVar("ResultT")

_captures: list[Callable[[], Entry]] = []


def register_context(capture: Callable[[], Entry]) -> None:
    """Registers a function that captures part of the calling thread's context, for another thread to enter."""
    _captures.append(capture)


def in_this_context(work: Callable[[], ResultT]) -> Callable[[], ResultT]:
    """Returns a function that runs `work` in another thread, in the present context of this thread."""
    entries = [capture() for capture in _captures]

    def call() -> ResultT:
        with ExitStack() as stack:
            for entry in entries:
                stack.enter_context(entry())
            return work()

    return call
