"""Environments whose `close` raises: issues a warning with the line that raised, so that the results of a run are
kept.
"""

from __future__ import annotations

import traceback
import warnings
from dataclasses import dataclass
from typing import Any

from rookery.core.process.tracebacks import described, own_frames

_shown: dict[Any, Any] = {}
"""Warnings that were shown, as the module `warnings` stores them: one for each line of code."""


@dataclass(frozen=True)
class CloseProblem:
    """An exception of an environment's `close`.

    Attributes:
        text: The environment and its error, in one line.
        file: The file of the line that raised.
        line: Number of this line.
    """

    text: str
    file: str
    line: int

    def warn(self) -> None:
        """Issues a RuntimeWarning, once for each line of code."""
        warnings.warn_explicit(self.text, RuntimeWarning, self.file, self.line, registry=_shown)


def close_problem(env: Any, name: str) -> CloseProblem | None:
    """Closes an environment; returns the exception of its `close`, or None.

    Args:
        env: The environment; one without `close` is ignored.
        name: Name of the environment for messages.
    """
    close = getattr(env, "close", None)
    if not callable(close):
        return None
    try:
        close()
    except Exception as error:
        place = traceback.extract_tb(own_frames(error) or error.__traceback__)[-1]
        text = f"{name}: close() raised {described(error)}; the results are kept"
        return CloseProblem(text, place.filename, place.lineno or 0)
    return None


def close_env(env: Any, name: str) -> None:
    """Closes an environment; an exception of its `close` becomes a warning.

    Args:
        env: The environment, single or vectorized; without `close` it is ignored.
        name: Name of the environment for messages.
    """
    if problem := close_problem(env, name):
        problem.warn()
