"""How many processor cores there are for this process."""

from __future__ import annotations

import os

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
