"""Measures the RAM that data take that are larger than they may: an HDF5 file is imported, and learned from.

    python benchmarks/studies/data_memory.py                 # 4 GB under a limit of 500 MB; 13 GB of disk, minutes
    python benchmarks/studies/data_memory.py --gigabytes 0.4 --limit 50
    python benchmarks/studies/data_memory.py --csv 500       # a CSV file of 500 MB is imported; about a minute

Reported is the largest growth of the memory of the process over the value after the same work with little data. The
files lie in --folder while this runs, and so do the rows of the replay buffer (TMPDIR).
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np

from rookery import TD3BCConfig, Trainer, import_replay

NUMBERS, LENGTH = 500, 1000
"""Numbers of an observation, and decisions of an episode."""

RESULT = Path(__file__).parents[1] / "results" / "data-memory.md"
PAGE = os.sysconf("SC_PAGE_SIZE")


def resident() -> int:
    """Bytes of RAM of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def growth(work: Callable[[], object]) -> tuple[float, float]:
    """By how many megabytes the process grows at most while something is done, and its seconds."""
    before, largest, done = resident(), [0], threading.Event()

    def look() -> None:
        while not done.wait(0.002):
            largest[0] = max(largest[0], resident())

    thread = threading.Thread(target=look)
    thread.start()
    start = time.perf_counter()
    try:
        work()
    finally:
        seconds = time.perf_counter() - start
        done.set()
        thread.join()
    return (max(largest[0], resident()) - before) / 1e6, seconds


def write(path: Path, episodes: int) -> None:
    """Makes a file of random episodes, each cut off by a timeout, part by part."""
    rng = np.random.default_rng(0)
    with h5py.File(path, "w") as file:
        rows = episodes * LENGTH
        shapes = {"observations": (rows, NUMBERS), "actions": (rows, 4), "rewards": (rows,)}
        sets = {name: file.create_dataset(name, shape, "f4") for name, shape in shapes.items()}
        for name in ("terminals", "timeouts"):
            sets[name] = file.create_dataset(name, (rows,), bool)
        for start in range(0, rows, LENGTH):
            mine = slice(start, start + LENGTH)
            sets["observations"][mine] = rng.normal(size=(LENGTH, NUMBERS)).astype(np.float32)
            sets["actions"][mine] = rng.uniform(-1, 1, (LENGTH, 4)).astype(np.float32)
            sets["rewards"][mine] = rng.normal(size=LENGTH).astype(np.float32)
            sets["timeouts"][start + LENGTH - 1] = True


def write_csv(path: Path, megabytes: float) -> None:
    """Makes a table of so many megabytes: a hundred random episodes of 28 numbers a decision, again and again."""
    rng = np.random.default_rng(0)
    names = [*(f"obs_{number}" for number in range(22)), *(f"action_{number}" for number in range(4))]
    rows = rng.normal(size=(100 * LENGTH, len(names) + 1)).round(6)
    ends = (np.arange(1, len(rows) + 1) % LENGTH == 0).tolist()
    lines = (",".join(map(str, [*row, int(end)])) + "\n" for row, end in zip(rows.tolist(), ends, strict=True))
    text = "".join(lines) if megabytes >= 25 else "".join(next(lines) for _ in range(2 * LENGTH))
    with path.open("w") as file:
        file.write(",".join([*names, "reward", "truncated"]) + "\n")
        while file.tell() < megabytes * 1e6:
            file.write(text)


def import_table(folder: Path, megabytes: float) -> None:
    """Measures the import of a table."""
    write_csv(folder / "little.csv", 0.1)
    import_replay(folder / "little.csv", folder / "little")
    write_csv(folder / "large.csv", megabytes)
    size = (folder / "large.csv").stat().st_size / 1e6
    grown, seconds = growth(lambda: import_replay(folder / "large.csv", folder / "large"))
    print(f"import of {size:.0f} MB of CSV: {seconds:.0f} s, grown by {grown:.0f} MB", flush=True)


def learn(data: Path, limit: int, steps: int) -> None:
    """Makes gradient steps on data of which so many megabytes may be in RAM."""
    replay = {"start_from": (str(data),), "memory_mb": limit}
    cfg = TD3BCConfig(replay=replay, model={"hidden": (64, 64)}, learning_starts=0)
    with Trainer(None, cfg, seed=0) as trainer:
        trainer.learn(steps)


def main() -> None:
    """Measures, and adds a line to the results if it is the full size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=4.0)
    parser.add_argument("--limit", type=int, default=500, help="megabytes of RAM that the rows may take")
    parser.add_argument("--steps", type=int, default=500, help="gradient steps")
    parser.add_argument("--csv", type=float, metavar="MB", help="a CSV file of this size is imported instead")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    words = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=words.folder))
    tempfile.tempdir = str(folder)  # where the rows of the replay buffer lie
    try:
        if words.csv is not None:
            import_table(folder, words.csv)
            return
        write(folder / "little.hdf5", 2)
        import_replay(folder / "little.hdf5", folder / "little")
        learn(folder / "little", words.limit, 5)
        write(folder / "large.hdf5", round(words.gigabytes * 1e9 / (4 * NUMBERS * LENGTH)))
        size = (folder / "large.hdf5").stat().st_size / 1e9
        imported = growth(lambda: import_replay(folder / "large.hdf5", folder / "large"))
        print(f"import: {imported[1]:.0f} s, grown by {imported[0]:.0f} MB", flush=True)
        learned = growth(lambda: learn(folder / "large", words.limit, words.steps))
        print(f"training: {words.steps} steps in {learned[1]:.0f} s, grown by {learned[0]:.0f} MB", flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if words.gigabytes >= 4:
        note(size, words.limit, words.steps, imported, learned)


def note(size: float, limit: int, steps: int, imported: tuple[float, float], learned: tuple[float, float]) -> None:
    """Adds a line to the results."""
    if not RESULT.exists():
        RESULT.write_text(
            "# Data that are larger than the RAM they may take\n\n"
            "By `python benchmarks/studies/data_memory.py`: an HDF5 file of random episodes is imported, and TD3+BC\n"
            "learns from it with `replay.memory_mb`. Reported is the largest growth of the memory of the process\n"
            "(RSS) over the value after the same work with little data.\n\n"
            "| data | limit | importing | seconds | learning | seconds, with copying | gradient steps | machine |\n"
            "|---|---|---|---|---|---|---|---|\n"
        )
    machine = f"{os.cpu_count()} cores, Python {platform.python_version()}"
    with RESULT.open("a") as file:
        file.write(
            f"| {size:.2f} GB | {limit} MB | +{imported[0]:.0f} MB | {imported[1]:.0f} | +{learned[0]:.0f} MB | "
            f"{learned[1]:.0f} | {steps:,} | {machine} |\n"
        )


if __name__ == "__main__":
    main()
