"""How many processor cores there are for this process, and how long it and those below it have used them."""

from __future__ import annotations

import os
import time
from pathlib import Path

from rookery.core.errors import ConfigError

LIMIT = "ROOKERY_CORES"
"""Environment variable: so many cores at most, where the operating system does not say so."""


def usable_cores() -> int:
    """Cores this process may use, which can be fewer than the machine has.

    Raises:
        ConfigError: If ``ROOKERY_CORES`` is no whole number from 1 on.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limit = os.environ.get(LIMIT) or str(cores)
    if not limit.isdecimal() or not int(limit):
        raise ConfigError(f"environment variable {LIMIT} = {limit}: a whole number from 1 on is allowed; or unset it")
    return min(cores, int(limit))


def tree_seconds() -> float:
    """Counts the processor seconds of this process and of all processes below it so far, those that have ended
    included; those of this process alone where there is no ``/proc``. The system counts in hundredths.
    """
    parents: dict[int, int] = {}
    spent: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        number = int(path.parent.name)
        parents[number] = int(fields[1])
        spent[number] = sum(int(field) for field in fields[11:15])
    here = os.getpid()
    if here not in spent:
        return time.process_time()
    found = {here}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return sum(spent[number] for number in found) / os.sysconf("SC_CLK_TCK")
