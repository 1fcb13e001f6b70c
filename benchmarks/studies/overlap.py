"""Gain of `sampling.staleness` = 1: the same trainings without and with it, in turn.

``python benchmarks/studies/overlap.py`` prints the table of docs/how-to/asynchronous-sampling.md.
Run it on an otherwise idle machine.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from rookery import PPOConfig, Trainer

sys.path.append(str(Path(__file__).parents[1]))
from envs import Busy, loops_for


class Sleepy(Busy):
    """Waits for so many seconds a step without computing, like an environment that talks to another program."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Waits, then steps as a `Busy` without work."""
        time.sleep(self.seconds)
        return super().step(action)


@dataclass(frozen=True)
class Workload:
    """A training to measure.

    Attributes:
        env: What is played.
        algorithm: How it is learned.
        copies: Of the environment.
        config: Arguments of the environment.
        batched: Whether all copies step in one call; else a loop steps them.
    """

    env: Any
    algorithm: PPOConfig
    copies: int = 8
    config: dict[str, Any] = field(default_factory=dict)
    batched: bool = False


LIGHT = PPOConfig(epochs=4, minibatch_size=256)
HEAVY = PPOConfig(epochs=10, minibatch_size=256, model={"hidden": [256, 256]})
WORKLOADS = {
    "CartPole-v1, batched, 8 copies": Workload("CartPole-v1", LIGHT, batched=True),
    "CartPole-v1, batched, 64 copies": Workload("CartPole-v1", LIGHT.replace(minibatch_size=2048), 64, batched=True),
    "Python environment of 50 us, 32 copies": Workload(
        Busy, LIGHT.replace(minibatch_size=1024), 32, {"loops": loops_for(50)}
    ),
    "Python environment of 50 us, 32 copies, large": Workload(
        Busy, HEAVY.replace(minibatch_size=1024), 32, {"loops": loops_for(50)}
    ),
    "HalfCheetah-v5, 8 copies": Workload("HalfCheetah-v5", LIGHT),
    "HalfCheetah-v5, 8 copies, large": Workload("HalfCheetah-v5", HEAVY),
    "waits 0.1 ms, 8 copies": Workload(Sleepy, LIGHT, config={"seconds": 1e-4}),
    "waits 1 ms, 8 copies, large": Workload(Sleepy, HEAVY, config={"seconds": 1e-3}),
}
"""Trainings by name. ``large``: 10 epochs and layers of 256 instead of 4 epochs and layers of 64."""


def measure(work: Workload, repeats: int, seconds: float) -> tuple[list[list[float]], float, float]:
    """One training without and one with staleness, in turn, each until its iterations have taken `seconds`.

    Returns:
        Environment steps a second of each turn, for each staleness; and the seconds that the one without spent with
        playing and with learning.
    """
    settings = {"env.config": work.config, "env.implementation": "batched" if work.batched else "serial"}
    trainers = [
        Trainer(work.env, work.algorithm, num_envs=work.copies, seed=0, config={**settings, "sampling.staleness": age})
        for age in (0, 1)
    ]
    rates: list[list[float]] = [[], []]
    for turn in range(repeats + 1):
        for trainer, kept in zip(trainers, rates, strict=True):
            first, began = trainer.env_steps, time.perf_counter()
            while time.perf_counter() - began < seconds:
                trainer.train_iteration()
            trainer._pool.settle()  # nothing plays while the other is measured
            if turn:  # the first one warms up
                kept.append((trainer.env_steps - first) / (time.perf_counter() - began))
    parts = trainers[0].timers.root.children["train_iteration"].children
    for trainer in trainers:
        trainer.close()
    return rates, parts["sample"].seconds, parts["training_step"].seconds


def main() -> None:
    """Measures everything and prints the table, a row as soon as it is known."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--only", default="", help="workloads whose name contains this")
    arguments = parser.parse_args()
    print("| training | playing : learning | steps/s | with staleness 1 | gain | at most |")
    print("|---|---|---|---|---|---|")
    for name, work in WORKLOADS.items():
        if arguments.only in name:
            rates, play, learn = measure(work, arguments.repeats, arguments.seconds)
            shown = [f"{median(each):,.0f} ({min(each):,.0f}-{max(each):,.0f})" for each in rates]
            gains = [after / before for before, after in zip(*rates, strict=True)]
            shares = f"{100 * play / (play + learn):.0f} : {100 * learn / (play + learn):.0f}"
            gain = f"{median(gains):.2f} ({min(gains):.2f}-{max(gains):.2f})"
            bound = f"{(play + learn) / max(play, learn):.2f}"
            print(f"| {name} | {shares} | {shown[0]} | {shown[1]} | {gain} | {bound} |", flush=True)


if __name__ == "__main__":
    main()
