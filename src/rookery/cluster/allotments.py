"""Divides cores and GPUs of one machine among several processes, without assigning one twice."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path

GPUS = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True)
class Allotment:
    """Resources of one worker.

    Attributes:
        cores: Numbers of its cores; those at the ends may be shared with a neighbour.
        gpus: Names of its GPUs, as ``CUDA_VISIBLE_DEVICES`` names them; None = all that this process sees.
    """

    cores: tuple[int, ...]
    gpus: tuple[str, ...] | None


def deal(
    cores: list[int], cpus: float, gpus: list[str], gpus_each: float, most: int | None
) -> tuple[list[Allotment], list[str]]:
    """Assigns cores and GPUs to as many trials as fit, at least one.

    Allotments are adjacent: with 1.5 cores each, the first trial has core 0 and half of 1, the second the rest of 1 and
    2.

    Args:
        cores: Numbers of the available cores.
        cpus: Cores per trial.
        gpus: Names of the available GPUs.
        gpus_each: GPUs per trial; 0 = they are not assigned.
        most: Largest number of trials; None = as many as possible.

    Returns:
        An allotment for each trial, and notes for the user.
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
        """Returns the units in the interval of a trial; all of them if one trial needs more."""
        return range(int(number * each + 1e-9), min(math.ceil((number + 1) * each - 1e-9), there))

    return [
        Allotment(
            tuple(cores[core] for core in part(number, cpus, len(cores))),
            tuple(gpus[gpu] for gpu in part(number, gpus_each, len(gpus))) if dealt else None,
        )
        for number in range(count)
    ], notes


def visible_gpus() -> list[str]:
    """Returns the GPUs that this process may use, without loading a library that would occupy them."""
    named = os.environ.get(GPUS)
    if named is not None:
        return [name.strip() for name in named.split(",") if name.strip() not in ("", "-1")]
    return [str(number) for number, _ in enumerate(Path("/proc/driver/nvidia/gpus").glob("*"))]
