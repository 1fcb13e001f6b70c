"""A long run in a process of its own that says how much memory it holds: ``python growing.py FOLDER STEPS``."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from rookery import PPOConfig, Trainer


def resident():
    """Megabytes of memory that this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def main(folder, steps):
    cfg = PPOConfig(fragment_length=32, epochs=1, minibatch_size=2048, model={"hidden": (16,)})
    points = []
    with Trainer("CartPole-v1", cfg, num_envs=64, seed=0, run_dir=folder) as trainer:
        for result in trainer.iterations():
            if result.iteration % 10 == 0:
                trainer.save()
            points.append((result.env_steps / 1e6, resident()))
            if result.env_steps >= int(steps):
                break
    print(json.dumps(points))


if __name__ == "__main__":
    main(*sys.argv[1:])
