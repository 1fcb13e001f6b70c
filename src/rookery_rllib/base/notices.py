"""Lines for the user of a script: its output (`say`), and what was adapted, mapped or left out, once (`say_once`)."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Iterable

from rookery.core.packages import is_own

_printed: set[str] = set()


class _Child:
    """Whether a child process prints its lines itself."""

    prints = False


def print_own_lines() -> None:
    """Makes a child process print its lines; its parent reads them and prints each once."""
    _Child.prints = True


def printed_lines() -> frozenset[str]:
    """Returns the lines that were printed, so that child processes need not repeat them."""
    return frozenset(_printed)


def mark_warned(lines: Iterable[str]) -> None:
    """Marks lines as printed by another process, so that this one does not repeat them."""
    _printed.update(lines)


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def say_once(line: str) -> None:
    """Prints a line to standard error, unless it was printed before; child processes print nothing by default."""
    if line in _printed or (_is_child() and not _Child.prints):
        return
    _printed.add(line)
    sys.stderr.write(f"rookery: {line}\n")
    sys.stderr.flush()


def _is_child() -> bool:
    """Whether another process started this one: through `multiprocessing`, or as a module of Rookery's own."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    module = "" if spec is None else spec.name
    own = is_own(module) and not module.endswith(".__main__")
    return own or multiprocessing.parent_process() is not None
