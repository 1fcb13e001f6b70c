"""How many processor cores there are for this process, how long it and those below it have used them, and how threads
that have nothing to do are kept off them.
"""

from __future__ import annotations

import ctypes
import os
import time
from functools import cache
from pathlib import Path

from rookery.core.errors import ConfigError

LIMIT = "ROOKERY_CORES"
"""Environment variable: so many cores at most, where the operating system does not say so."""

OMP_PAUSE_SOFT = 1
"""``omp_pause_soft`` of OpenMP 5.0: threads are given back, settings stay."""


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


def end_busy_waits() -> None:
    """Ends the threads that share operations of torch with this one, if torch uses GNU's OpenMP library.

    After an operation they wait busily for the next one, for up to 15 ms, on cores that others could use. They are
    begun again, in less than 0.1 ms, by the next operation that needs them.
    """
    library = _openmp()
    if library is not None:
        library.omp_pause_resource_all(OMP_PAUSE_SOFT)


@cache
def _openmp() -> ctypes.CDLL | None:
    """GNU's OpenMP library as this process has loaded it; None if it has not, or the library cannot end threads."""
    if not hasattr(os, "RTLD_NOLOAD"):
        return None
    try:
        library = ctypes.CDLL("libgomp.so.1", mode=os.RTLD_NOW | os.RTLD_NOLOAD)
    except OSError:
        return None
    return library if hasattr(library, "omp_pause_resource_all") else None


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
