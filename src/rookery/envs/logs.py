"""Where programs that environments start write their logs: `logs_in` says it, `log_folder` asks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from rookery.core.settings.starting_folder import absolute

PLAYER_LOGS = "run_logs"
"""Folder of a run with the logs of what its environment has started."""

_FOLDER: ContextVar[Path | None] = ContextVar("log_folder", default=None)


@contextmanager
def logs_in(run: str | Path | None) -> Iterator[None]:
    """Lets environments that are made meanwhile write logs into the folder `PLAYER_LOGS` of a run's folder; None
    changes nothing.
    """
    token = _FOLDER.set(_FOLDER.get() if run is None else absolute(run) / PLAYER_LOGS)
    try:
        yield
    finally:
        _FOLDER.reset(token)


def log_folder() -> Path | None:
    """Gives the folder for logs; None where nobody has named one."""
    return _FOLDER.get()
