"""A task that is only learned with lessons: ``curriculum.py [--seeds 3] [--steps 150000]``.

WallCurriculum, learned by PPO with its defaults: with the wall as high and the block as far as they are by default (the
control), with both drawn from all their values, and with lessons. Measured on the last lesson, which is the default.
Writes benchmarks/results/curriculum.md.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from statistics import median
from textwrap import fill
from typing import Any

import numpy as np

from rookery import Trainer
from rookery.tasks.wall_curriculum import WallCurriculum

FILE = Path(__file__).parents[1] / "results" / "curriculum.md"

SOLVED = 0.8
LESSONS: dict[str, Any] = {
    "wall_height": {"lessons": [1.0, 4.0], "threshold": SOLVED, "min_episodes": 50},
    "block_distance": {
        "lessons": [
            {"value": 0, "measure": "curriculum/wall_height/lesson", "threshold": 2, "smoothing": False},
            *({"value": {"sampler": "uniform", "low": 0, "high": far}} for far in (0.4, 2, 4, 6, 8, 10, 13, 16)),
            16,
        ],
        "threshold": SOLVED,
        "min_episodes": 50,
    },
}
DRAWN = {
    "wall_height": {"sampler": "uniform", "low": 0, "high": 4},
    "block_distance": {"sampler": "uniform", "low": 0, "high": 16},
}
RUNS: dict[str, dict[str, Any]] = {
    "the whole task from the start": {},
    "parameters drawn from all values": {"env.parameters": DRAWN},
    "lessons": {"curriculum": LESSONS},
}


def train(settings: dict[str, Any], seed: int, steps: int) -> tuple[float, str]:
    """Trains once; returns the return on the whole task, and when the last lesson began."""
    config = {"stop.env_steps": steps, "logging.console": "quiet", **settings}
    began: dict[str, int] = {}
    with Trainer("WallCurriculum", "ppo", config=config, seed=seed, num_envs=16) as trainer:
        for result in trainer.results():
            for name, lesson in result.lessons.items():
                if lesson.lesson == lesson.lessons:
                    began.setdefault(name, result.env_steps)
        if "env.parameters" in settings:
            with tempfile.TemporaryDirectory() as folder:
                saved = trainer.save(Path(folder) / "drawn")
                whole = {"env.parameters": {"wall_height": 4.0, "block_distance": 16}}
                with Trainer.load(saved, config=whole) as again:
                    return again.evaluate(100).return_mean, ""
        told = ", ".join(f"{name} at {steps:,}" for name, steps in began.items())
        return trainer.evaluate(100).return_mean, told or ("none" if settings else "")


def random_return(episodes: int) -> tuple[float, int]:
    """Returns the mean return of random actions on the whole task, and how many episodes came to the goal."""
    env, rng = WallCurriculum(), np.random.default_rng(0)
    total, goals = 0.0, 0
    for episode in range(episodes):
        env.reset(seed=episode)
        over = False
        while not over:
            _, reward, terminated, truncated, _ = env.step(int(rng.integers(4)))
            total, over = total + reward, terminated or truncated
        goals += terminated
    return total / episodes, goals


def main() -> None:
    """Trains, measures and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=150_000)
    options = parser.parse_args()
    score, goals = random_return(2000)
    lines = [
        "# Lessons",
        "",
        f"`python benchmarks/studies/curriculum.py --seeds {options.seeds} --steps {options.steps}`",
        "",
        fill(
            f"WallCurriculum, PPO with its defaults, 16 copies, {options.steps:,} env steps, {options.seeds} seeds; "
            "greedy return of 100 episodes of the whole task (a wall of 4, the block 16 columns away). The best is "
            f"0.884 on average; random actions get {score:.3f} and reach the goal in {goals} of 2,000 episodes. Solved "
            f"is {SOLVED} or more.",
            120,
        ),
        "",
        "| trained on | return, each seed | median | last lesson began (env steps), each seed |",
        "|---|---|---|---|",
    ]  # fmt: skip
    for name, settings in RUNS.items():
        found = []
        for seed in range(1, options.seeds + 1):
            found.append(train(settings, seed, options.steps))
            print(name, seed, found[-1], flush=True)
        each = ", ".join(f"{value:.3f}" for value, _ in found)
        lessons = "; ".join(told for _, told in found) if "curriculum" in settings else ""
        lines.append(f"| {name} | {each} | {median(value for value, _ in found):.3f} | {lessons} |")
    FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
