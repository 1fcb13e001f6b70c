"""Lines that are said once: what was adapted, mapped, or left out."""

from __future__ import annotations

import multiprocessing
import sys

_said: set[str] = set()


def say_once(line: str) -> None:
    """Prints a line on standard error, unless it was printed before; processes that others started print nothing."""
    if line in _said or multiprocessing.parent_process() is not None:
        return
    _said.add(line)
    sys.stderr.write(f"rookery: {line}\n")
    sys.stderr.flush()
