"""Process-wide settings for training: threads of torch and kernels, and reuse of large memory blocks.

Torch's default, one thread per core, makes small networks many times slower if anything else runs; the C library's
default returns every large temporary to the system, which must clear its pages again the next time.
"""

from __future__ import annotations

import ctypes
import sys

from rookery.core.process.cpu import usable_cores

TORCH_WORTH_THREADS = 100e6
"""Floating-point operations of a gradient step above which it uses several cores: about 1 ms on one core."""

KERNELS_WORTH_THREADS = 15e6
"""Floating-point operations for two threads of kernels, one of which may run the critic: enough to outweigh waking a
thread. Kernels decide by the rows of a pass how many threads share it (`core/kernels/network.h`).
"""

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # malloc.h
KEPT_BYTES = 1 << 30
MOST_OF_OLD_GLIBC = 32 << 20  # HEAP_MAX_SIZE / 2: a larger threshold is refused


def thread_rule(flops: float, worth: float) -> int:
    """Returns the threads for gradient steps of `flops` operations: all cores, or one below `worth`."""
    return usable_cores() if flops >= worth else 1


def kernel_thread_rule(flops: float) -> int:
    """Returns the threads of kernels for `flops` operations: only as many as have enough work, because they wait for
    each other often.
    """
    return min(thread_rule(flops, KERNELS_WORTH_THREADS), max(1, int(2 * flops / KERNELS_WORTH_THREADS)))


def shared_cores() -> int:
    """Returns the threads for work that torch spreads over cores: half of the cores, because its threads wait for each
    other after every operation. With one per core, any other process delays all of them, and a step takes many times as
    long (docs/performance.md).
    """
    return max(1, usable_cores() // 2)


def keep_large_blocks() -> None:
    """Makes the C library (glibc) keep freed blocks up to 1 GiB for the next use.

    Otherwise page faults take a third of the time of large updates. The memory of the process stays at its peak. Has no
    effect with other C libraries.
    """
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        # the second call disables glibc's own adaptation, so the first must have succeeded
        if not mallopt(M_MMAP_THRESHOLD, KEPT_BYTES):
            mallopt(M_MMAP_THRESHOLD, MOST_OF_OLD_GLIBC)
        mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)
