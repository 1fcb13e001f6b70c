"""`gym.logger` of 2021: messages by level, on standard error."""

from __future__ import annotations

import sys
from typing import Any

DEBUG, INFO, WARN, ERROR, DISABLED = 10, 20, 30, 40, 50
MIN_LEVEL = 30
_least = [WARN]


def set_level(level: int) -> None:
    _least[0] = level


def debug(msg: str, *args: Any) -> None:
    """Logs a message of level `DEBUG`; `args` are formatted into it by ``%``."""
    _say(DEBUG, "DEBUG", msg, args)


def info(msg: str, *args: Any) -> None:
    _say(INFO, "INFO", msg, args)


def warn(msg: str, *args: Any) -> None:
    _say(WARN, "WARN", msg, args)


def error(msg: str, *args: Any) -> None:
    _say(ERROR, "ERROR", msg, args)


def _say(level: int, label: str, msg: str, args: tuple[Any, ...]) -> None:
    if level >= _least[0]:
        sys.stderr.write(f"{label}: {msg % args if args else msg}\n")
