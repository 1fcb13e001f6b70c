"""Critics on returns of any size: ``critics.py [--seeds 3] [--steps 60000]``; writes benchmarks/results/critics.md.

CartPole with rewards multiplied by powers of ten, and two tasks of several agents with rewards as they come, learned
by PPO and A2C with their defaults, with `normalize_values` and without. Reported are the mean return of the last 100
training episodes, in the units of the task itself, and the mean explained variance of the last tenth of the iterations.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import Any

import gymnasium

from rookery import Trainer

FILE = Path(__file__).parents[1] / "results" / "critics.md"
SIZES = (1e-4, 1e-2, 1.0, 1e2, 1e4)


def multiplied(by: float) -> gymnasium.Env[Any, Any]:
    """CartPole whose rewards are multiplied."""
    return gymnasium.wrappers.TransformReward(gymnasium.make("CartPole-v1"), lambda reward: reward * by)


def measure(env: Any, algorithm: str, normalize: bool, seed: int, steps: int) -> tuple[float, float]:
    """Trains once; returns the score and the explained variance."""
    settings = {
        "algorithm.name": algorithm,
        "algorithm.normalize_values": normalize,
        "sampling.env_processes": 0,
        "logging.console": "quiet",
        "stop.env_steps": steps,
    }
    with Trainer(env, config=settings, seed=seed) as trainer:
        rows = [next(iter(result.policies.values())).learning for result in trainer.results()]
        score = fmean(trainer._windows.totals)
    last = rows[-max(1, len(rows) // 10) :]
    return score, fmean(row["explained_variance"] or 0.0 for row in last)


def main() -> None:
    """Measures and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=60_000)
    options = parser.parse_args()
    tasks: list[tuple[str, Any, float, str, int]] = [
        (f"CartPole-v1, rewards x {size:g}", partial(multiplied, size), size, algorithm, options.steps)
        for algorithm in ("ppo", "a2c")
        for size in SIZES
    ]
    for name in ("simple_reference_v3", "simple_spread_v3"):
        tasks.append((name, f"mpe2.{name}", 1.0, "ppo", 2 * options.steps))
    lines = ["| task | algorithm | env steps | `normalize_values` | return, each seed | median | explained variance |"]
    lines.append("|---|---|---|---|---|---|---|")
    for task, env, size, algorithm, steps in tasks:
        for normalize in (False, True):
            found = [measure(env, algorithm, normalize, seed, steps) for seed in range(options.seeds)]
            scores = [score / size for score, _ in found]
            shown, explained = ", ".join(f"{score:.4g}" for score in scores), fmean(each for _, each in found)
            values = f"{str(normalize).lower()} | {shown} | {median(scores):.4g} | {explained:.2f} |"
            lines.append(f"| {task} | {algorithm} | {steps:,} | {values}")
            print(lines[-1], flush=True)
    heading = "# Critics on returns of any size\n\nMade by `python benchmarks/studies/critics.py`"
    FILE.write_text(f"{heading}, seeds 0 to {options.seeds - 1}.\n\n" + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
