"""Teams as one: ``teams.py [--seeds 3] [--steps 20000]``; writes benchmarks/results/teams.md.

The two-step game (Rashid et al. 2018, section 5): the first member's choice leads to a matrix whose entries are all 7,
or to one with 8 where both choose the second action and at most 1 elsewhere. VDN and QMIX learn from play at random
(epsilon = 1), as in the paper, so that what differs is what their values can represent; MADDPG explores by its own
actions. Reported are the return without exploration after so many env steps, by run and as the median, and the values
that a network has learned for the rewards of the second matrix.
"""

from __future__ import annotations

import argparse
import platform
from os import cpu_count
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import torch

from rookery import Trainer
from rookery.algorithms.algorithm import AlgorithmConfig
from rookery.algorithms.multi_agent.maddpg import MADDPGConfig
from rookery.algorithms.multi_agent.qmix import QMIXConfig
from rookery.algorithms.multi_agent.vdn import VDNConfig

FILE = Path(__file__).parents[1] / "results" / "teams.md"

ENV: Any = "rookery.tasks:MatrixGame"

VALUES: dict[str, Any] = {
    "lr": 1e-3,
    "batch_size": 64,
    "learning_starts": 500,
    "train_every": 16,
    "updates_per_step": 0.125,
    "exploration": {"epsilon": 1.0},
    "target": {"every": 100},
    "model": {"hidden": (64,)},
}
"""Settings of VDN and QMIX."""

LEARNERS: dict[str, tuple[AlgorithmConfig, str]] = {
    "QMIX": (QMIXConfig(**VALUES), "at least 7.9"),
    "VDN": (VDNConfig(**VALUES), "at most 7.1 (it cannot represent the second matrix)"),
    "QMIX, no sharing": (QMIXConfig(**VALUES, share=False), "at least 7.9"),
    "MADDPG": (
        MADDPGConfig(batch_size=64, learning_starts=500, train_every=16, updates_per_step=0.125, gamma=0.99),
        "at least 7.0",
    ),
}
"""What is compared, and what it must earn."""


def earned(cfg: AlgorithmConfig, seed: int, steps: int) -> tuple[float, float]:
    """Trains once; returns what the team earns without exploration, and the seconds that took."""
    begin = perf_counter()
    with Trainer(ENV, cfg, teams={"team": ["a", "b"]}, seed=seed, num_envs=16, env_processes=0) as trainer:
        trainer.train({"env_steps": steps})
        return float(trainer.evaluate(episodes=20).return_mean), perf_counter() - begin


def machine() -> str:
    """Returns the machine and the versions of the measurements."""
    versions = f"Python {platform.python_version()}, torch {torch.__version__}, numpy {np.__version__}"
    return f"{platform.machine()}, {cpu_count()} cores, {versions}."


def main() -> None:
    """Runs everything and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20_000)
    given = parser.parse_args()
    lines = [
        "# Teams as one",
        "",
        f"`python benchmarks/studies/teams.py --seeds {given.seeds} --steps {given.steps}`: the two-step game, 16 "
        f"copies, return of 20 episodes without exploration after {given.steps:,} env steps, "
        f"seeds 0 to {given.seeds - 1}.",
        "",
        machine(),
        "",
        "| learner | median | by seed | must be | seconds a run |",
        "|---|---|---|---|---|",
    ]
    for name, (cfg, wanted) in LEARNERS.items():
        runs = [earned(cfg, seed, given.steps) for seed in range(given.seeds)]
        scores = [score for score, _ in runs]
        told = ", ".join(f"{score:.2f}" for score in scores)
        seconds = median(seconds for _, seconds in runs)
        lines.append(f"| {name} | {median(scores):.2f} | {told} | {wanted} | {seconds:.0f} |")
        print(lines[-1], flush=True)
    FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
