"""`Logger`: writer of further metric files, chosen by name in the table `LOGGERS` of `core/plugins.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rookery.core.errors import ConfigError, nearest
from rookery.core.plugins import LOGGERS
from rookery.core.settings.layers import Layer
from rookery.rollout.hooks import EpisodeListener


def _of_no_run(folder: Path) -> Sequence[EpisodeListener]:
    return ()


@dataclass(frozen=True)
class Logger:
    """Writer of further files of a run.

    Attributes:
        make: Makes the callback that writes them, for a run that names the logger in `logging.loggers`; None if runs
            cannot name it.
        of_run: Returns the callbacks that continue the files of a run that does not name the logger, by its folder.
        begin_anew: Makes the trainer of a run that has such files and no checkpoint yet, given its folder, the layers
            of its settings, and the callbacks of `of_run`; None = as for any run.
    """

    make: Callable[[], EpisodeListener] | None
    of_run: Callable[[Path], Sequence[EpisodeListener]] = _of_no_run
    begin_anew: Callable[[Path, Sequence[Layer], Sequence[EpisodeListener]], Any] | None = None


def named_loggers(names: Sequence[str]) -> list[EpisodeListener]:
    """Returns the callbacks of the loggers that `logging.loggers` names.

    Raises:
        ConfigError: If there is no such logger, it cannot be imported, or runs cannot name it.
    """
    made = []
    for name in names:
        logger: Logger | None = LOGGERS.load(name) if name in LOGGERS else None
        if logger is None or logger.make is None:
            known = list(LOGGERS.added)
            there = f"there are {', '.join(known)}" if known else "no installed package adds one"
            raise ConfigError(f"logging.loggers: {name!r} is not a logger{nearest(name, known)}; {there}")
        made.append(logger.make())
    return made
