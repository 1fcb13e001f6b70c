"""Lines for the user of a script: its output (`say`), and what was adapted, mapped or left out, once (`say_once`)."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Iterable

from rookery.core.packages import is_own

_said: set[str] = set()


class _Helper:
    """Whether a process that helps another prints lines of its own."""

    speaks = False


def speak() -> None:
    """Lets a process that helps another print its lines: whoever has started it reads them, and says each once."""
    _Helper.speaks = True


def said() -> frozenset[str]:
    """Returns the lines that were printed, for processes that need not say them again."""
    return frozenset(_said)


def take_as_said(lines: Iterable[str]) -> None:
    """Prints none of some lines from now on: another process has."""
    _said.update(lines)


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def say_once(line: str) -> None:
    """Prints a line on standard error, unless it was printed before; processes that help another print nothing."""
    if line in _said or (_helps() and not _Helper.speaks):
        return
    _said.add(line)
    sys.stderr.write(f"rookery: {line}\n")
    sys.stderr.flush()


def _helps() -> bool:
    """Whether another process started this one: through `multiprocessing`, or as a module of Rookery's own."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    module = "" if spec is None else spec.name
    own = is_own(module) and not module.endswith(".__main__")
    return own or multiprocessing.parent_process() is not None
