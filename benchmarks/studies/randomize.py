"""Generalization by drawn parameters: ``randomize.py [--seeds 3] [--steps 400000]``.

Pendulum-v1, learned by PPO: once with mass, length and gravity at their usual values (the control), once with all three
drawn for every episode. Both are then measured on the same fixed grid of values, none of which a drawn episode is
likely to have had: inside the ranges, and outside. The score is (return - random) / (nominal - random), where nominal
is the best return at the usual values of all runs, and random that of random actions at the point of the grid. Writes
benchmarks/results/randomize.md.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
from pathlib import Path
from statistics import fmean, median
from textwrap import fill
from typing import Any

import gymnasium
import numpy as np

from rookery import Trainer

FILE = Path(__file__).parents[1] / "results" / "randomize.md"

USUAL = {"mass": 1.0, "length": 1.0, "gravity": 10.0}
RANGES = {"mass": (0.8, 1.4), "length": (0.8, 1.25), "gravity": (9.0, 15.0)}
INSIDE = {"mass": (0.87, 1.13, 1.33), "length": (0.87, 1.03, 1.2), "gravity": (9.6, 12.1, 14.4)}
OUTSIDE = {"mass": (0.5, 1.6), "length": (0.6, 1.4), "gravity": (7.0, 17.0)}
EPISODES = 10


def points(grid: dict[str, tuple[float, ...]]) -> list[dict[str, float]]:
    """Returns all combinations of the values of a grid."""
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def random_return(point: dict[str, float], episodes: int) -> float:
    """Returns the mean return of random actions, in the environment itself and without Rookery."""
    env = gymnasium.make("Pendulum-v1")
    env.unwrapped.m, env.unwrapped.l, env.unwrapped.g = point["mass"], point["length"], point["gravity"]
    rng, totals = np.random.default_rng(0), []
    for episode in range(episodes):
        env.reset(seed=episode)
        total, over = 0.0, False
        while not over:
            _, reward, terminated, truncated, _ = env.step(rng.uniform(-2, 2, 1).astype(np.float32))
            total, over = total + float(reward), terminated or truncated
        totals.append(total)
    return fmean(totals)


def train(parameters: dict[str, Any], seed: int, steps: int, folder: Path) -> Path:
    """Trains once and returns the checkpoint."""
    settings = {
        "env.parameters": parameters,
        "stop.env_steps": steps,
        "algorithm.lr": {"start": 1e-3, "end": 0.0},
        "logging.console": "quiet",
    }
    with Trainer(
        "Pendulum-v1", "ppo", preset="auto", config=settings, seed=seed, num_envs=4, env_processes=0
    ) as trainer:
        trainer.train()
        return trainer.save(folder)


def measure(checkpoint: Path, point: dict[str, float], episodes: int = EPISODES) -> float:
    """Returns the mean return of a trained policy with parameters that do not change."""
    with Trainer.load(checkpoint, config={"env.parameters": point}) as trainer:
        return trainer.evaluate(episodes).return_mean


def main() -> None:
    """Trains, measures and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=400_000)
    options = parser.parse_args()
    drawn = {name: {"sampler": "uniform", "low": low, "high": high} for name, (low, high) in RANGES.items()}
    grids = {"inside": points(INSIDE), "outside": points(OUTSIDE)}
    random = {where: [random_return(point, 2 * EPISODES) for point in grid] for where, grid in grids.items()}
    measured: dict[tuple[str, str], list[list[float]]] = {}
    returns: dict[str, list[float]] = {"fixed": [], "drawn": []}
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(1, options.seeds + 1):
            trained = {
                name: train(parameters, seed, options.steps, Path(folder) / f"{name}{seed}")
                for name, parameters in (("fixed", USUAL), ("drawn", drawn))
            }
            for name, checkpoint in trained.items():
                returns[name].append(measure(checkpoint, USUAL, 100))
                for where, grid in grids.items():
                    found = [measure(checkpoint, point) for point in grid]
                    measured.setdefault((name, where), []).append(found)
                    print(f"seed {seed}, {name}, {where}: return {fmean(found):.0f}", flush=True)
    nominal = max(max(found) for found in returns.values())
    scores, worst = {}, {}
    for (name, where), runs in measured.items():
        parts = [
            [(value - base) / (nominal - base) for value, base in zip(run, random[where], strict=True)] for run in runs
        ]
        scores[name, where], worst[name, where] = [fmean(part) for part in parts], [min(part) for part in parts]
    write(options, scores, worst, returns)


def write(
    options: argparse.Namespace,
    scores: dict[tuple[str, str], list[float]],
    worst: dict[tuple[str, str], list[float]],
    returns: dict[str, list[float]],
) -> None:
    """Writes the page."""
    ranges = ", ".join(f"{name} from {low:g} to {high:g}" for name, (low, high) in RANGES.items())
    shown, far = (
        "; ".join(f"{name} {', '.join(f'{value:g}' for value in values)}" for name, values in grid.items())
        for grid in (INSIDE, OUTSIDE)
    )
    lines = [
        "# Drawn parameters",
        "",
        f"`python benchmarks/studies/randomize.py --seeds {options.seeds} --steps {options.steps}`",
        "",
        fill(
            f"Pendulum-v1, PPO with its preset and a learning rate that falls to 0, {options.steps:,} env steps, "
            f"{options.seeds} seeds. Drawn: {ranges}, uniform, for every episode; fixed: 1, 1 and 10, which is the "
            "control. The policy does not observe the parameters. Measured on a fixed grid, "
            f"{EPISODES} episodes a point: inside the ranges {shown} (27 points), outside {far} (8 points). "
            "Score: (return - random) / (nominal - random), with the best return of all runs at the usual values as "
            "nominal, and that of random actions at the same point as random. Where the pendulum is lighter than "
            "usual, more than 1 is possible.",
            120,
        ),
        "",
        "| trained on | measured | score, each seed | median | worst point, each seed | return at the usual values |",
        "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for (name, where), found in scores.items():
        each = ", ".join(f"{value:.3f}" for value in found)
        low = ", ".join(f"{value:.2f}" for value in worst[name, where])
        usual = ", ".join(f"{value:.0f}" for value in returns[name])
        lines.append(f"| {name} | {where} | {each} | {median(found):.3f} | {low} | {usual} |")
    FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
