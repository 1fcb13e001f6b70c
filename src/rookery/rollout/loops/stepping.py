"""How a worker steps its environments: in modes of torch of the user, and with a note of its activity."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rookery.core.process.activity import STEP, is_noted, note_activity
from rookery.core.process.torch_modes import in_users_modes, keep_own, users_differ

Stepping = Callable[[Callable[[Any], Any], Any], Any]
"""Calls the function that steps environments with the actions of all agents, and returns what it returns."""


@contextmanager
def stepping() -> Iterator[Stepping | None]:
    """Yields how environments are stepped inside; None where the function itself is to be called."""
    yield (_in_users_modes if users_differ() else _noted if is_noted() else None)
    keep_own()


def _noted(step: Callable[[Any], Any], actions: Any) -> Any:
    note_activity(STEP)
    return step(actions)


def _in_users_modes(step: Callable[[Any], Any], actions: Any) -> Any:
    note_activity(STEP)
    return in_users_modes(step, actions)
