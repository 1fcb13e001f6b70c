"""What this process is told before it trains: how many threads torch takes, and how large blocks of memory are kept.

Neither is left to chance. Torch's default, a thread for each core, makes small networks many times slower as soon as
anything else runs; the C library's default gives every large temporary back to the system, which has to clear its
pages anew the next time.
"""

from __future__ import annotations

import ctypes
import sys

from rookery.core.process.processor import usable_cores

TORCH_WORTH_THREADS = 100e6
"""Floating-point operations of a gradient step from which on it is spread over the cores: about 1 ms on one core."""

KERNELS_WORTH_THREADS = 15e6
"""The same for two threads of kernels, of which the critic may have one: enough that waking it is small beside that.
How many of those that there are share a pass, kernels decide by its rows (`core/kernels/network.h`)."""

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # malloc.h
KEPT_BYTES = 1 << 30
MOST_OF_OLD_GLIBC = 32 << 20  # HEAP_MAX_SIZE / 2: a larger threshold is refused


def thread_rule(flops: float, worth: float) -> int:
    """Threads for gradient steps of so many floating-point operations: all cores, or one below what is worth more."""
    return usable_cores() if flops >= worth else 1


def kernel_thread_rule(flops: float) -> int:
    """The same of kernels, whose threads wait for each other often: no more than have enough to do."""
    return min(thread_rule(flops, KERNELS_WORTH_THREADS), max(1, int(2 * flops / KERNELS_WORTH_THREADS)))


def shared_cores() -> int:
    """Threads for work that torch spreads over cores: half of these, because its threads wait for each other after
    every operation. With one for each core, anything else that runs holds all of them up, and a step takes many times
    as long (docs/performance.md).
    """
    return max(1, usable_cores() // 2)


def keep_large_blocks() -> None:
    """Tells the C library (glibc) to keep freed blocks up to 1 GiB for the next use.

    A third of the time of large updates goes into page faults otherwise. The memory of the process stays at its peak.
    Without effect elsewhere.
    """
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        # the second call ends glibc's own adapting, so that the first must not have failed
        if not mallopt(M_MMAP_THRESHOLD, KEPT_BYTES):
            mallopt(M_MMAP_THRESHOLD, MOST_OF_OLD_GLIBC)
        mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)
