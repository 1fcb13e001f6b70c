"""What a thread of ours takes over from the thread that gives it work of the user's, such as steps of environments.

Rooms without torch start such threads, and torch has modes of each thread; `core/torch_modes.py` registers here how
these are taken over.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import TypeVar

TakeOver = Callable[[], AbstractContextManager[None]]
"""Makes the context in which the other thread works."""

ResultT = TypeVar("ResultT")

_carriers: list[Callable[[], TakeOver]] = []


def register(carrier: Callable[[], TakeOver]) -> None:
    """Adds a function that is called in the thread that gives work, and returns what the other thread takes over."""
    _carriers.append(carrier)


def carrying(work: Callable[[], ResultT]) -> Callable[[], ResultT]:
    """Returns `work` as another thread has to call it, with what it takes over from this one as it is now."""
    taken = [carrier() for carrier in _carriers]

    def call() -> ResultT:
        with ExitStack() as stack:
            for take_over in taken:
                stack.enter_context(take_over())
            return work()

    return call
