"""Environments in C beside those in Python: ``c_envs.py [--seconds 0.4]``; writes benchmarks/results/c_envs.md.

Stepping alone, with random actions that are drawn beforehand, episodes that end and begin included: env steps a second
of the template of ``rookery envs new --c`` and of CartPole, beside its twin in NumPy and Gymnasium's own vector
environment. Then PPO trains in the template. All are measured in turn, five times; the medians are reported. It needs
a C compiler.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import gymnasium
import numpy as np

from rookery.core.process.cpu import usable_cores
from rookery.core.seeding import Role, Streams
from rookery.envs.make import make_env
from rookery.envs.native.c_env import c_env_of
from rookery.envs.native.template_files import write_template

sys.path.append(str(Path(__file__).parents[1]))
from ours import trainer
from workloads import BEST

FILE = Path(__file__).parents[1] / "results" / "c_envs.md"
LANES = (8, 64, 256, 1024)
REPEATS = 5
KINDS_OF_ACTIONS = 50
"""Arrays of actions that are played in turn."""

COPIES = 1024
"""In training."""
TRAINED = 3_000_000
"""Env steps of one training."""

Stepper = Callable[[np.ndarray], Any]


def ours(env: Any, lanes: int, implementation: str = "auto", **config: Any) -> Stepper:
    """Makes a function that steps one of Rookery's vector environments."""
    made = make_env(env, config, (), lanes, implementation)
    made.reset(Streams(0).episodes(Role.ENV))
    return lambda actions: made.step((actions,))


def gymnasiums(lanes: int) -> Stepper:
    """Makes a function that steps Gymnasium's CartPole for many copies."""
    made = gymnasium.make_vec("CartPole-v1", lanes, vectorization_mode="vector_entry_point")
    made.reset(seed=0)
    return made.step


def rate(step: Stepper, lanes: int, seconds: float) -> float:
    """Env steps a second."""
    rng = np.random.default_rng(0)
    actions = [rng.integers(0, 2, lanes) for _ in range(KINDS_OF_ACTIONS)]
    steps, began = 0, perf_counter()
    while perf_counter() - began < seconds:
        for one in actions:
            step(one)
        steps += KINDS_OF_ACTIONS
    return lanes * steps / (perf_counter() - began)


def training(env: Any, seed: int) -> tuple[float, float, str]:
    """Trains; gives the env steps a second after the first iteration, the return at the end, and what was set."""
    settings = replace(BEST["rookery-256"], num_envs=COPIES, minibatch_size=512)
    with trainer(settings, seed, env, paths={"threads": usable_cores()}) as made:
        first = made.train_iteration().env_steps
        began = perf_counter()
        while (result := made.train_iteration()).env_steps < TRAINED:
            pass
        rate = (result.env_steps - first) / (perf_counter() - began)
    assert result.return_mean is not None
    words = (
        f"{COPIES:,} copies x {settings.fragment_length} steps, one pass in minibatches of {settings.minibatch_size}"
    )
    return rate, result.return_mean, words


def main() -> None:
    """Measures and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=0.4, help="of one measurement")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        template = c_env_of(write_template(Path(folder) / "my_env")[0])
        made: dict[str, Callable[[int], Stepper]] = {
            "template, C": lambda lanes: ours(template, lanes),
            "template, C, 2 threads": lambda lanes: ours(template, lanes, threads=2),
            "CartPole-v1, C": lambda lanes: ours("CartPole-v1", lanes, "c"),
            "CartPole-v1, NumPy": lambda lanes: ours("CartPole-v1", lanes, "batched"),
            "CartPole-v1, Gymnasium": gymnasiums,
        }
        rates: dict[tuple[str, int], list[float]] = {}
        for lanes in LANES:
            steppers = {name: make(lanes) for name, make in made.items()}
            for name, step in steppers.items():
                rate(step, lanes, options.seconds / 4)  # the first steps are slower
                rates[name, lanes] = []
            for _ in range(REPEATS):
                for name, step in steppers.items():
                    rates[name, lanes].append(rate(step, lanes, options.seconds))
        trained = [training(template, seed) for seed in range(REPEATS)]
    lines = [f"| env steps a second | {' | '.join(f'{lanes:,} lanes' for lanes in LANES)} |", "|---" * 5 + "|"]
    for name in made:
        cells = [f"{median(rates[name, lanes]) / 1e6:.2f} M" for lanes in LANES]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    spread = max(max(one) / min(one) for one in rates.values())
    about = f"Made by `python benchmarks/studies/c_envs.py`: medians of {REPEATS}, in turn; the table: stepping alone."
    noise = f"The fastest and the slowest of five differ by up to {spread:.1f} x: other work ran on the machine beside."
    fastest, returns = median(one[0] for one in trained), [round(one[1]) for one in trained]
    told = [
        f"PPO trains in the template at {fastest:,.0f} env steps a second ({usable_cores()} cores, median of",
        f"{REPEATS} seeds; {trained[0][2]}; two networks of 2 x 64).",
        f"After {TRAINED / 1e6:.0f} million steps the mean returns are {', '.join(map(str, returns))}.",
    ]
    text = "\n".join(["# Environments in C", "", about, *([noise] if spread > 1.5 else []), "", *lines, "", *told, ""])
    FILE.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
