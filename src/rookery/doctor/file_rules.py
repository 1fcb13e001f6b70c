"""Rules about the files of a run: its time, disk, checkpoints, and runs that differ only in their seed."""

from __future__ import annotations

import shutil
import time
from statistics import median

from rookery.core.io.files import FOLDER
from rookery.core.process.runtime import shared_cores
from rookery.doctor.stored_run import CONFIG, StoredRun, last_of, own_seed_aside, read_run
from rookery.report.finding import Finding
from rookery.report.metrics_file import METRICS
from rookery.run.findings.catalog import finding

SLOW = 0.6
"""Share of the time in the environment from which on it is named."""

LITTLE_TIME = 10.0
"""Seconds of training below which the time is not judged."""

FREE, FREE_SHARE = 2**30, 0.02
"""Bytes and share of the disk that should be free."""

OLD, OLD_SHARE = 900.0, 0.25
"""Seconds and share of the training since the last checkpoint."""

FEWEST_SEEDS = 3
SIBLINGS = 20
"""Fewest and most runs that are compared."""

LENGTHS_APART = 0.2
"""Difference of env steps, as a share of those of this run, up to which runs are compared."""

APART = 0.5
"""Share of the largest gain of a seed below which another one has failed."""


def file_findings(run: StoredRun) -> list[Finding]:
    """Returns the findings of the files of a run."""
    found = [env_slow(run), disk_full(run), checkpoint_old(run), seeds_disagree(run)]
    return [one for one in found if one is not None]


def env_slow(run: StoredRun) -> Finding | None:
    """Finds a run that waits for one process of environments while other cores are idle."""
    seconds: dict[str, float] = {}
    for row in run.timers.rows():
        seconds[row.label] = seconds.get(row.label, 0.0) + row.seconds
    total, played = seconds.get("train_iteration", 0.0), seconds.get("env.step", 0.0)
    cores = shared_cores()
    if total < LITTLE_TIME or played < SLOW * total or cores < 4 or run.settings.get("sampling.env_processes"):
        return None
    line = f"{100 * played / total:.0f} % of the time is spent in env.step, in one process; {cores} cores are here"
    return finding("env-slow", line, f"{played:.0f} of {total:.0f} s; rookery timers {run.folder}")


def disk_full(run: StoredRun) -> Finding | None:
    """Finds a disk that is nearly full."""
    disk = shutil.disk_usage(run.folder)
    if disk.free > max(FREE, FREE_SHARE * disk.total) or disk.free > 10 * FREE:
        return None
    used = sum(path.stat().st_size for path in run.folder.rglob("*") if path.is_file())
    line = f"{disk.free / 2**20:,.0f} MB of {disk.total / 2**30:,.0f} GB are free on the disk of the run"
    return finding("disk-full", line, f"this run takes {used / 2**20:,.0f} MB")


def checkpoint_old(run: StoredRun) -> Finding | None:
    """Finds a run in progress that has written no checkpoint for long."""
    rows, last = run.folder / METRICS, last_of(run.folder)
    if not rows.is_file() or not (run.folder / FOLDER).is_dir():
        return None
    newest = rows.stat().st_mtime
    if time.time() - newest > OLD:
        return None  # the run is over
    trained = float(run.rows[-1].get("time/seconds") or 0.0) if run.rows else 0.0
    age = trained if last is None else newest - last.stat().st_mtime
    if age < max(OLD, OLD_SHARE * trained):
        return None
    since = "there is no checkpoint yet" if last is None else f"the newest checkpoint is {last.name}"
    return finding("checkpoint-old", f"{since}; the run has trained for {age / 60:.0f} minutes since")


def last_step(run: StoredRun) -> int:
    """Returns the env steps of a run."""
    return int(run.rows[-1].get("env_steps", 0)) if run.rows else 0


def seeds_disagree(run: StoredRun) -> Finding | None:
    """Finds runs beside this one that differ only in their seed, and are about as long, with very different returns.

    Environments of scripts have equal names in different scripts, so that their runs are not compared.
    """
    if run.env.startswith("__main__:"):
        return None
    mine, length, scores = own_seed_aside(run.settings), last_step(run), {}
    places = sorted(run.folder.parent.glob(f"*/{CONFIG}"), key=lambda path: path.stat().st_mtime)[-SIBLINGS:]
    seeds = set()
    for place in places:
        other = run if place.parent == run.folder else read_run(place.parent)
        returns = [row["return_mean"] for row in other.rows if row.get("return_mean") is not None]
        is_as_long = abs(last_step(other) - length) <= LENGTHS_APART * length
        if own_seed_aside(other.settings) == mine and is_as_long and len(returns) > 1:
            scores[other.folder.name] = (returns[0], returns[-1])
            seeds.add(other.settings.get("seed"))
    if len(seeds) < FEWEST_SEEDS:
        return None
    first = median(begun for begun, _ in scores.values())
    ends = {name: end for name, (_, end) in scores.items()}
    best, worst = max(ends, key=ends.__getitem__), min(ends, key=ends.__getitem__)
    gain = ends[best] - first
    if gain <= 0.1 * abs(first) or ends[worst] - first > (1.0 - APART) * gain:
        return None
    return finding(
        "seeds-disagree",
        f"{len(ends)} runs that differ only in their seed end between {ends[worst]:.4g} and {ends[best]:.4g}",
        f"best {best}, worst {worst}; they began at about {first:.4g}",
    )
