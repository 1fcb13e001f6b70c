"""Cost of replay memories in checkpoints: ``python benchmarks/studies/memory_files.py``.

Fills memories with made-up decisions, saves them as a checkpoint does, adds some and saves again, loads them, and
writes the seconds and bytes to `benchmarks/results/memory-files.md`.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from rookery.core.batch import Rollout
from rookery.core.io.files import mapped_files, read_manifest, write_directory
from rookery.core.spaces.arrays import action_spec, obs_spec
from rookery.replay.buffer import ReplayBuffer, ReplayConfig
from rookery.run.checkpoint.replays import SavedReplays

PAGE = Path(__file__).parents[1] / "results" / "memory-files.md"

NUMBERS = spaces.Box(-np.inf, np.inf, (17,), np.float32)
FRAMES = spaces.Box(0, 255, (4, 84, 84), np.uint8)

CASES = {
    "17 numbers, 6 actions": (NUMBERS, spaces.Box(-1, 1, (6,), np.float32), 1_000_000, (1_000, 10_000, 100_000)),
    "4 frames of 84 x 84": (FRAMES, spaces.Discrete(6), 100_000, (1_000, 10_000)),
}
SLOTS, EPISODE = 8, 500


class Play:
    """Slots that walk at random in episodes of one length; pictures are noise."""

    def __init__(self, obs: Any, action: Any, capacity: int) -> None:
        self.rng = np.random.default_rng(0)
        self.memory = ReplayBuffer(
            obs_spec(obs, action), action_spec(action), ReplayConfig(capacity=capacity), self.rng, memory_size=0,
            memory_every=1,
        )  # fmt: skip
        self.clock = 0
        self.last = self.see(np.zeros(SLOTS, bool), None)

    def see(self, begins: np.ndarray, before: np.ndarray | None) -> np.ndarray:
        """The next observation of each slot."""
        shape = self.memory.obs_spec.space.shape
        if self.memory.obs_spec.space.dtype != np.uint8:
            return self.rng.standard_normal((SLOTS, *shape), dtype=np.float32)
        frame = self.rng.integers(0, 256, (SLOTS, 1, *shape[1:]), dtype=np.uint8)
        fresh = np.repeat(frame, shape[0], axis=1)
        return fresh if before is None or begins.all() else np.concatenate((before[:, 1:], frame), axis=1)

    def add(self, rows: int) -> None:
        """Plays, and adds about so many rows."""
        for _ in range(0, rows, 64 * SLOTS):
            steps = min(64, -(-rows // SLOTS))
            seen, ended = [], np.zeros((steps, SLOTS), bool)
            for t in range(steps):
                seen.append(self.last)
                ended[t] = (self.clock + t + 1) % EPISODE == 0
                self.last = self.see(ended[t], self.last)
            kind = self.memory.action_spec
            action = torch.zeros((steps, SLOTS, *kind.shape), dtype=torch.float32 if kind.num_numbers else torch.int64)
            zeros, no = torch.zeros(steps, SLOTS), torch.zeros(steps, SLOTS, dtype=torch.bool)
            number = torch.arange(SLOTS)
            self.memory.add(
                Rollout(
                    obs={"obs": torch.from_numpy(np.stack(seen))}, action=action, logp=zeros, reward=zeros + 1,
                    terminated=torch.from_numpy(ended), truncated=no, last_obs={"obs": torch.from_numpy(self.last)},
                    final_obs={"obs": torch.from_numpy(self.last[:0])}, boot_index=torch.zeros(0, 2, dtype=torch.int64),
                    slot=number, clock=torch.full((SLOTS,), self.clock), length=torch.full((SLOTS,), steps),
                    first=torch.full((SLOTS,), self.clock % EPISODE == 0), version=torch.zeros_like(number),
                )
            )  # fmt: skip
            self.clock += steps


def measure(name: str, folder: Path) -> list[str]:
    """Rows of the table for one case."""
    obs, action, capacity, steps = CASES[name]
    play, memories, lines = Play(obs, action, capacity), SavedReplays(), []
    learners: Any = {"main": SimpleNamespace(own=play.memory)}
    before: set[int] = set()

    def save(what: str, number: int) -> Path:
        place = folder / f"{number:06d}"
        began = time.perf_counter()
        files, facts = memories.files(learners)
        write_directory(place, files, facts)
        memories.note_checkpoint(place)
        seconds = time.perf_counter() - began
        new = [path for path in place.glob("memory-*") if path.stat().st_ino not in before]
        before.update(path.stat().st_ino for path in new)
        size = sum(path.stat().st_size for path in new)
        shared = len(list(place.glob("memory-*"))) - len(new)
        lines.append(f"| {name} | {what} | {seconds:.3f} | {size / 1e6:,.1f} MB | {len(new)} | {shared} |")
        print(lines[-1], flush=True)
        return place

    play.add(capacity)
    place = save(f"first save, {len(play.memory):,} decisions", 0)
    for number, new in enumerate(steps, 1):
        had = play.memory.total
        play.add(new)
        place = save(f"save, {play.memory.total - had:,} new", number)
    place = save("save, nothing new", len(steps) + 1)
    twin = Play(obs, action, capacity).memory
    twin.load_state_dict(play.memory.state_dict())
    manifest = read_manifest(place)
    saved: Any = SimpleNamespace(path=place, facts=manifest, memories=mapped_files(place, manifest))
    began = time.perf_counter()
    SavedReplays().restore(saved, {"main": SimpleNamespace(own=twin)}, print)  # type: ignore[dict-item]
    seconds = time.perf_counter() - began
    size = sum(path.stat().st_size for path in place.glob("memory-*"))
    lines.append(f"| {name} | load, {len(twin):,} decisions | {seconds:.3f} | {size / 1e6:,.1f} MB read | | |")
    print(lines[-1], flush=True)
    return lines


def main() -> None:
    """Measures all cases and writes the page."""
    lines = []
    for name in CASES:
        folder = Path(tempfile.mkdtemp(prefix="memory-files-"))
        try:
            lines += measure(name, folder)
        finally:
            shutil.rmtree(folder)
    cpu = next(
        (x.partition(":")[2].strip() for x in Path("/proc/cpuinfo").read_text().splitlines() if "model n" in x), ""
    )
    load = os.getloadavg()[0]
    PAGE.write_text(
        "\n".join(
            [
                "# Replay memories in checkpoints",
                "",
                "Written by `python benchmarks/studies/memory_files.py`. What is saved is flushed to the disk; what is "
                "loaded was written just before, so that it comes from the page cache. Every byte is hashed (SHA-256), "
                "when it is written and when it is read.",
                "",
                "| observations | what | seconds | new bytes | files written | files shared |",
                "|---|---|---|---|---|---|",
                *lines,
                "",
                f"{cpu}, {os.cpu_count()} cores (load {load:.1f} at the end: above {os.cpu_count()} it was contended), "
                f"{platform.system()} {platform.release()}, Python {sys.version.split()[0]}, NumPy {np.__version__}.",
                "",
            ]
        ),
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
