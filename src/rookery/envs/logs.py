"""Folder for the logs of programs that environments start: `logs_in` sets it, `log_folder` returns it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from rookery.core.settings.starting_folder import absolute

PLAYER_LOGS = "run_logs"
"""Folder in the run directory for logs of programs that the environment has started."""

_FOLDER: ContextVar[Path | None] = ContextVar("log_folder", default=None)


@contextmanager
def logs_in(run: str | Path | None) -> Iterator[None]:
    """Makes environments that are created in the context write logs to the folder `PLAYER_LOGS` of a run; None changes
    nothing.
    """
    token = _FOLDER.set(_FOLDER.get() if run is None else absolute(run) / PLAYER_LOGS)
    try:
        yield
    finally:
        _FOLDER.reset(token)


def log_folder() -> Path | None:
    """Returns the folder for logs; None if not set."""
    return _FOLDER.get()
