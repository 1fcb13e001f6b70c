"""Measurements of a process by itself: speed, memory, start-up. Standard library only: every peer can use it.

A script notes `seconds_since_start` when its libraries are loaded, makes a `Meter` of it, calls `iteration` at the end
of every iteration (sample and learn), and `report` once: one line of JSON.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from statistics import median
from typing import Any

TICK = os.sysconf("SC_CLK_TCK")
PROC = Path("/proc")


class Meter:
    """Times the iterations of one training in this process.

    Args:
        import_seconds: From the start of the process until its libraries were loaded.
        seconds: Time to measure for, counted from the end of the first iteration.
        target: Mean return at which the run ends; None = run for `seconds`. With a target, `seconds` is the longest
            wait for it.
    """

    def __init__(self, import_seconds: float, seconds: float, target: float | None) -> None:
        self.born = time.perf_counter() - seconds_since_start()
        self.import_seconds = import_seconds
        self.seconds = seconds
        self.target = target
        self.points: list[tuple[float, int]] = []
        self.reached: dict[str, float] | None = None
        self.best_return: float | None = None

    def iteration(self, env_steps: int, return_mean: float | None) -> bool:
        """An iteration is over.

        Args:
            env_steps: Steps of single copies since the start.
            return_mean: Mean of the last 100 finished episodes, None before one has finished.

        Returns:
            Whether enough has been measured: the target is reached or the time is over, and an iteration after the
            first was timed.
        """
        now = time.perf_counter() - self.born
        self.points.append((now, env_steps))
        if return_mean is not None:
            self.best_return = return_mean if self.best_return is None else max(self.best_return, return_mean)
            if self.target is not None and self.reached is None and return_mean >= self.target:
                self.reached = {"env_steps": env_steps, "wall_seconds": now, "after_import": now - self.import_seconds}
        over = now - self.points[0][0] >= self.seconds or self.reached is not None
        return over and len(self.points) > 1

    def report(self, **more: Any) -> None:
        """Prints the line: everything measured, and `more`."""
        pss, rss = memory(process_tree(os.getpid()))
        steps = [after[0] - before[0] for before, after in zip(self.points, self.points[1:], strict=False)]
        line = {
            "steps_per_second": round(steady_rate(self.points), 1),
            "iteration_seconds": round(median(steps), 4),
            "iterations": len(self.points),
            "env_steps": self.points[-1][1],
            "wall_seconds": round(time.perf_counter() - self.born, 3),
            "import_seconds": round(self.import_seconds, 3),
            "first_iteration_seconds": round(self.points[0][0], 3),
            "pss_mb": round(pss, 1),
            "rss_mb": round(rss, 1),
            "best_return": self.best_return,
            "reached": self.reached,
        }
        print(json.dumps({**line, **more}), flush=True)


def steady_rate(points: list[tuple[float, int]]) -> float:
    """Steps a second: the least-squares slope of steps over time after the start has been dropped.

    Dropped are the first iteration, and then 2 seconds or a tenth of the rest, whichever is longer (where the rest is
    short, no more than a third of it).

    Args:
        points: ``(seconds, steps)`` at the end of each iteration, at least two.
    """
    first, last = points[0][0], points[-1][0]
    begin = first + max(0.1 * (last - first), min(2.0, (last - first) / 3))
    kept = [point for point in points if point[0] >= begin]
    if len(kept) < 2:
        kept = points[-2:]
    mean_time = sum(seconds for seconds, _ in kept) / len(kept)
    mean_steps = sum(steps for _, steps in kept) / len(kept)
    covariance = sum((seconds - mean_time) * (steps - mean_steps) for seconds, steps in kept)
    return covariance / sum((seconds - mean_time) ** 2 for seconds, _ in kept)


def seconds_since_start() -> float:
    """Age of this process, to a hundredth of a second."""
    started = int((PROC / "self" / "stat").read_text().rpartition(")")[2].split()[19]) / TICK
    return float((PROC / "uptime").read_text().split()[0]) - started


def process_tree(root: int) -> list[int]:
    """`root` and all processes below it."""
    children: dict[int, list[int]] = {}
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            fields = _stat(int(entry.name))
            if fields is not None:
                children.setdefault(int(fields[1]), []).append(int(entry.name))
    found = [root]
    for pid in found:
        found.extend(children.get(pid, ()))
    return found


def memory(pids: list[int]) -> tuple[float, float]:
    """Proportional (PSS: shared pages counted once in all) and resident (RSS) memory of processes together, in MB."""
    totals = {"Pss:": 0, "Rss:": 0}
    for pid in pids:
        try:
            text = (PROC / str(pid) / "smaps_rollup").read_text()
        except OSError:  # it has just ended
            continue
        for line in text.splitlines():
            name, *rest = line.split()
            if name in totals:
                totals[name] += int(rest[0])
    return totals["Pss:"] / 1024, totals["Rss:"] / 1024


def cpu_seconds(pids: list[int]) -> float:
    """Processor time of processes and of those of their children that have ended."""
    found = [fields for pid in pids if (fields := _stat(pid)) is not None]
    return sum(sum(map(int, fields[11:15])) for fields in found) / TICK


def machine_busy_seconds() -> float:
    """Processor time that all processes of the machine have used, and that its host has taken away."""
    user, nice, system, _, _, irq, softirq, steal = map(int, (PROC / "stat").read_text().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / TICK


def _stat(pid: int) -> list[str] | None:
    """The fields of ``/proc/PID/stat`` from the state on; None if it has ended."""
    try:
        return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
