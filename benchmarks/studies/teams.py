"""Teams as one: ``teams.py [--seeds 10] [--steps 20000] [--only VDN]``; writes benchmarks/results/teams.md.

The two-step game (Rashid et al. 2018, section 5): the first member's choice leads to a matrix whose entries are all 7,
or to one with 8 where both choose the second action and at most 1 elsewhere. VDN and QMIX learn from play at random
(epsilon = 1), as in the paper, so that what differs is what their values can represent; MADDPG explores by its own
actions. Reported is the return without exploration after so many env steps, by run and as the median.

The control is the mean return of all episodes that VDN learned from, in which members act at random. Its network before
learning, without exploration, is no control: it plays the same episode again and again, which earns 7 or 8 in five of
eight cases by chance. Rows that are not measured stay as they were.
"""

from __future__ import annotations

import argparse
import platform
from dataclasses import dataclass
from os import cpu_count
from pathlib import Path
from statistics import fmean, median
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

LEARNERS: dict[str, tuple[AlgorithmConfig, float, float]] = {
    "QMIX": (QMIXConfig(**VALUES), 7.9, 8.0),
    "VDN": (VDNConfig(**VALUES), 6.9, 7.1),  # no sum of values represents the second matrix
    "QMIX, no sharing": (QMIXConfig(**VALUES, share=False), 7.9, 8.0),
    "MADDPG": (
        MADDPGConfig(batch_size=64, learning_starts=500, train_every=16, updates_per_step=0.125, gamma=0.99),
        7.0,
        8.0,
    ),
}
"""What is compared, and the least and the highest return of the claim, which holds if all seeds are within."""


@dataclass(frozen=True)
class Played:
    """Mean returns of one training.

    Attributes:
        before: Without exploration, nothing learned.
        exploring: Of all episodes of the training.
        after: Without exploration, at the end.
        seconds: Time of the training.
    """

    before: float
    exploring: float
    after: float
    seconds: float


def played(cfg: AlgorithmConfig, seed: int, steps: int) -> Played:
    """Trains once."""
    with Trainer(ENV, cfg, teams={"team": ["a", "b"]}, seed=seed, num_envs=16, env_processes=0) as trainer:
        before = trainer.evaluate(episodes=20).return_mean
        trainer._windows.kept = []
        begin = perf_counter()
        trainer.train({"env_steps": steps})
        seconds = perf_counter() - begin
        exploring = fmean(episode.total for episode in trainer._windows.kept)
        return Played(before, exploring, trainer.evaluate(episodes=20).return_mean, seconds)


def row(name: str, returns: list[float], low: float | None, high: float | None, seconds: str) -> str:
    """A line of the table: `low` and `high` bound the return of each seed; without either it is only recorded."""
    each = ", ".join(f"{value:.2f}" for value in returns)
    bounds = [*([f">= {low:g}"] if low is not None else []), *([f"<= {high:g}"] if high is not None else [])]
    inside = all((low is None or value >= low) and (high is None or value <= high) for value in returns)
    held = ("yes" if inside else "no") if bounds else ""
    line = f"| {name} | {median(returns):.2f} | {each} | {', '.join(bounds) or 'recorded'} | {held} | {seconds} |"
    print(line, flush=True)
    return line


READ = """
What is asked is asked of every seed. Members that act at random earn 4.75 on average: 7 in half of the episodes, and
(0 + 1 + 1 + 8) / 4 in the others. That is the control. A network that has learned nothing repeats one episode without
exploration, and by chance that is often one of 7 or 8, so the least return of VDN and MADDPG with one seed would not
show that anything was learned, nor would the median of three.

VDN's least return holds, its highest does not: three of ten seeds earn 8. No sum has the payoffs 0, 1, 1, 8, but what
the team plays follows from the larger of two values, 7 and the best sum. Least squares put that at 6.5. With Huber's
loss, of which all sums with errors of at least 1 are minima, it is anything from 5 to 7, and by the noise of learning
it may come out above 7: after 20,000 env steps of seed 4 it was 7.2, and the other sums -2.6, 2.1 and 2.5.
"""
"""What the page says below the table."""


def machine() -> str:
    """Returns the machine and the versions of the measurements."""
    versions = f"Python {platform.python_version()}, torch {torch.__version__}, numpy {np.__version__}"
    return f"{platform.machine()}, {cpu_count()} cores, {versions}."


def main() -> None:
    """Measures, and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--only", nargs="*", choices=tuple(LEARNERS), default=tuple(LEARNERS))
    given = parser.parse_args()
    text = FILE.read_text(encoding="utf-8") if FILE.exists() else ""
    rows = {line.split(" | ")[0][2:]: line for line in text.splitlines() if line.startswith("| ")}
    rows = {name: line for name, line in rows.items() if name != "learner"}
    for name in given.only:
        cfg, low, high = LEARNERS[name]
        runs = [played(cfg, seed, given.steps) for seed in range(given.seeds)]
        rows[name] = row(name, [run.after for run in runs], low, high, f"{median(run.seconds for run in runs):.0f}")
        if name == "VDN":
            for control, returns, limit in (
                ("random members: the episodes VDN learned from (control)", [run.exploring for run in runs], low),
                ("VDN before learning, without exploration", [run.before for run in runs], None),
            ):
                rows[control] = row(control, returns, None, limit, "")
    lines = [
        "# Teams as one",
        "",
        f"`python benchmarks/studies/teams.py`: the two-step game, 16 copies, return of 20 episodes without "
        f"exploration after {given.steps:,} env steps, by seed from 0 on.",
        "",
        machine(),
        "",
        "| learner | median | by seed | asked | held | seconds a run |",
        "|---|---|---|---|---|---|",
        *rows.values(),
    ]
    FILE.write_text("\n".join([*lines, READ]), encoding="utf-8")


if __name__ == "__main__":
    main()
