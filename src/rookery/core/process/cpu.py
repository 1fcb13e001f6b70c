"""CPU cores of this process: their number, the CPU time used, and the end of busy-waiting threads."""

from __future__ import annotations

import ctypes
import os
import time
from functools import cache
from pathlib import Path

from rookery.core.errors import ConfigError

LIMIT = "ROOKERY_CORES"
"""Environment variable that limits the cores, for systems without a limit."""

OMP_PAUSE_SOFT = 1
"""``omp_pause_soft`` of OpenMP 5.0: releases threads and keeps settings."""


def usable_cores() -> int:
    """Returns the cores this process may use, which can be fewer than the machine has.

    Raises:
        ConfigError: If ``ROOKERY_CORES`` is not a positive integer.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limit = os.environ.get(LIMIT) or str(cores)
    if not limit.isdecimal() or not int(limit):
        raise ConfigError(f"environment variable {LIMIT} = {limit}: it must be a whole number from 1 on; or unset it")
    return min(cores, int(limit))


def end_busy_waits() -> None:
    """Ends the threads that share operations of torch with this one, if torch uses GNU's OpenMP library.

    After an operation they wait busily for the next one, for up to 15 ms, on cores that other work could use. The next
    operation that needs them starts them again, in less than 0.1 ms.
    """
    library = _openmp()
    if library is not None:
        library.omp_pause_resource_all(OMP_PAUSE_SOFT)


@cache
def _openmp() -> ctypes.CDLL | None:
    """Returns GNU's OpenMP library if this process has loaded it; None otherwise, or if it cannot end threads."""
    if not hasattr(os, "RTLD_NOLOAD"):
        return None
    try:
        library = ctypes.CDLL("libgomp.so.1", mode=os.RTLD_NOW | os.RTLD_NOLOAD)
    except OSError:
        return None
    return library if hasattr(library, "omp_pause_resource_all") else None


def tree_seconds() -> float:
    """Returns the CPU seconds so far of this process and its descendants, including ended ones; only of this process
    without ``/proc``. The resolution is 0.01 s.
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
