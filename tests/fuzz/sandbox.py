"""Readers tried in a forked process with a limit of memory and of time: a hang, a crash and a traceback are faults.

The process tries seed after seed and notes which one it is at, so that the one it dies of is known.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

MEMORY = 2 << 30
"""Bytes that a reader may take besides what the process has."""

SECONDS = 20.0
"""CPU seconds and, three times over, seconds that an input may take."""


@dataclass
class Outcome:
    """Outcome of an input: ``read``, ``refused``, or what is wrong."""

    seed: int
    kind: str
    said: str = ""

    @property
    def is_fault(self) -> bool:
        return self.kind not in ("read", "refused")


def tried(attempt: Callable[[int, Path], None], seeds: Iterable[int], until: float = float("inf")) -> list[Outcome]:
    """Tries seeds one after the other until a moment of `time.monotonic`; continues in a new process after a fault."""
    waiting, found = list(seeds), []
    while waiting and time.monotonic() < until:
        some = _in_child(attempt, waiting, until)
        if not some:
            break
        found += some
        waiting = waiting[len(some) :]
    return found


def _in_child(attempt: Callable[[int, Path], None], seeds: list[int], until: float) -> list[Outcome]:
    ours, theirs = os.pipe()
    with tempfile.TemporaryDirectory(prefix="rookery-fuzz-") as folder:
        child = os.fork()
        if child == 0:
            os.close(ours)
            try:
                _serve(attempt, seeds, until, Path(folder), theirs)
            finally:
                os._exit(0)
        os.close(theirs)
        content, hung, last = b"", False, time.monotonic()
        while True:
            ready, _, _ = select.select([ours], [], [], 1.0)
            piece = os.read(ours, 1 << 16) if ready else b""
            if ready and not piece:
                break
            if piece:
                content, last = content + piece, time.monotonic()
            elif time.monotonic() - last > 3 * SECONDS:
                hung = True
                os.kill(child, signal.SIGKILL)
                break
        os.close(ours)
        _, status = os.waitpid(child, 0)
    found = [Outcome(*json.loads(line)) for line in content.splitlines()]
    died = hung or os.waitstatus_to_exitcode(status) != 0
    if died and len(found) < len(seeds):
        how = (
            f"no answer after {3 * SECONDS:g} s" if hung else f"the process ended: {os.waitstatus_to_exitcode(status)}"
        )
        found.append(Outcome(seeds[len(found)], "hang" if hung else "crash", how))
    return found


def _serve(attempt: Callable[[int, Path], None], seeds: list[int], until: float, folder: Path, out: int) -> None:
    import torch

    torch.set_num_threads(1)  # threads of the process that was forked are not there
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)

    def too_long(signum: int, frame: object) -> None:
        raise TimeoutError(f"more than {SECONDS:g} CPU seconds")

    signal.signal(signal.SIGPROF, too_long)
    for seed in seeds:
        if time.monotonic() > until:
            return
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            kind, said = _attempted(attempt, seed, folder)
        except TimeoutError as error:
            kind, said = "slow", str(error)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        os.write(out, json.dumps([seed, kind, said]).encode() + b"\n")
        if kind not in ("read", "refused"):
            return  # in a process of its own it leaves nothing behind


def _attempted(attempt: Callable[[int, Path], None], seed: int, folder: Path) -> tuple[str, str]:
    from rookery.core.errors import RookeryError

    try:
        attempt(seed, folder)
    except RookeryError as error:
        lines = str(error)
        if "damaged" not in lines:
            return "no file named", lines[:300]
        return "refused", lines[:300]
    except TimeoutError:
        raise
    except BaseException:
        return "traceback", "".join(traceback.format_exception(*sys.exc_info())[-6:])
    return "read", ""
