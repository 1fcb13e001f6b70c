"""What each of several processes of one machine gets: cores and GPUs, without giving one away twice."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path

GPUS = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True)
class Allotment:
    """What one worker has.

    Attributes:
        cores: Numbers of its cores; those at the ends may be shared with a neighbour.
        gpus: Names of its GPUs, as ``CUDA_VISIBLE_DEVICES`` names them; None = whatever this process sees.
    """

    cores: tuple[int, ...]
    gpus: tuple[str, ...] | None


def deal(
    cores: list[int], cpus: float, gpus: list[str], gpus_each: float, most: int | None
) -> tuple[list[Allotment], list[str]]:
    """Deals cores and GPUs out to as many trials as there is room for, at least one.

    Allotments lie side by side: with 1.5 cores each, the first trial has core 0 and half of 1, the second the rest of 1
    and 2.

    Args:
        cores: Numbers of the cores there are.
        cpus: Cores a trial.
        gpus: Names of the GPUs there are.
        gpus_each: GPUs a trial; 0 = they are not dealt out.
        most: Trials, at most; None = as many as possible.

    Returns:
        An allotment for each trial, and what a user should know.
    """
    notes = []
    room = int(len(cores) / cpus + 1e-9)
    dealt = bool(gpus_each and gpus)
    if not room:
        notes.append(f"tune.cpus = {cpus:g}: there are {len(cores)} cores here: one trial at a time has them all")
    if gpus_each and not gpus:
        notes.append(f"tune.gpus = {gpus_each:g}: there are none here: trials run without")
    elif gpus_each > len(gpus):
        notes.append(f"tune.gpus = {gpus_each:g}: there are {len(gpus)} here: one trial at a time has them all")
    if dealt:
        room = min(room, int(len(gpus) / gpus_each + 1e-9))
    count = max(min(room, most or room), 1)
    if not notes and most and most > count:
        notes.append(f"tune.max_concurrent = {most}: there is room for {count} at a time, by tune.cpus and tune.gpus")

    def part(number: int, each: float, there: int) -> range:
        """Returns what the interval of a trial touches; all there is if one trial needs more."""
        return range(int(number * each + 1e-9), min(math.ceil((number + 1) * each - 1e-9), there))

    return [
        Allotment(
            tuple(cores[core] for core in part(number, cpus, len(cores))),
            tuple(gpus[gpu] for gpu in part(number, gpus_each, len(gpus))) if dealt else None,
        )
        for number in range(count)
    ], notes


def visible_gpus() -> list[str]:
    """Returns the GPUs that this process may use, found without loading a library that would occupy them."""
    named = os.environ.get(GPUS)
    if named is not None:
        return [name.strip() for name in named.split(",") if name.strip() not in ("", "-1")]
    return [str(number) for number, _ in enumerate(Path("/proc/driver/nvidia/gpus").glob("*"))]
