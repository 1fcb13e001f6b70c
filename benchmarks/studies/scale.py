"""Learning at any scale: ``python benchmarks/studies/scale.py [ALGORITHM...]``, three seeds of each cell.

Ten algorithms learn CartPole or Pendulum at their defaults: as it is, with rewards times 1e-4 and 1e4, and with
observations times 1e-3 and 1e3. A cell is the median over seeds of (score - random play) / (plain - random play), where
plain is the median of the same algorithm on the environment as it is; the goal is 0.8 or more.

The page is `benchmarks/results/scale.md`; algorithms that are not named keep their rows.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from statistics import median
from typing import Any

import gymnasium
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.learning import machine

from rookery import Trainer

PAGE = Path(__file__).parents[1] / "results" / "scale.md"
SEEDS = (0, 1, 2)
CELLS = {"plain": (1.0, 1.0), "reward 1e-4": (1e-4, 1.0), "reward 1e4": (1e4, 1.0), "observation 1e-3": (1.0, 1e-3),
         "observation 1e3": (1.0, 1e3)}  # fmt: skip
"""Factors of rewards and of observations."""
POLE, SWING = ("CartPole-v1", 23.0), ("Pendulum-v1", -1230.0)
"""Environments, with the return of random play."""
RUNS: dict[str, tuple[tuple[str, float], int, dict[str, Any]]] = {
    "ppo": (POLE, 100_000, {}),
    "appo": (POLE, 300_000, {}),
    "a2c": (POLE, 300_000, {}),
    "impala": (POLE, 500_000, {}),
    "reinforce": (POLE, 300_000, {}),
    "pqn": (POLE, 300_000, {}),
    "dqn": (POLE, 50_000, {}),
    "sac": (SWING, 10_000, {}),
    "td3": (SWING, 20_000, {}),
    "ddpg": (SWING, 10_000, {}),
}
"""Environment, env steps and settings of each algorithm."""


class Scaled(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Multiplies rewards and observations, whose bounds are unknown then."""

    def __init__(self, env: gymnasium.Env[Any, Any], reward: float, obs: float) -> None:
        super().__init__(env)
        assert env.observation_space.shape is not None
        self.factors = reward, obs
        if obs != 1.0:
            self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, env.observation_space.shape, np.float32)

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """Resets the environment."""
        obs, info = self.env.reset(**options)
        return (obs * self.factors[1]).astype(np.float32), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Makes a step."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        factor, size = self.factors
        return (obs * size).astype(np.float32), float(reward) * factor, terminated, truncated, info


def score(algorithm: str, reward: float, obs: float, seed: int) -> float:
    """Trains once; returns the mean return of 20 deterministic episodes, in the units of the environment as it is."""
    (name, _), env_steps, settings = RUNS[algorithm]
    config = {"sampling.env_processes": 0, **settings}
    with Trainer(lambda: Scaled(gymnasium.make(name), reward, obs), algorithm, config=config, seed=seed) as trainer:
        trainer.train({"env_steps": env_steps})
        return trainer.evaluate(20).return_mean / reward


def main() -> None:
    """Runs the named algorithms, or all, and writes the page."""
    facts = PAGE.with_suffix(".json")
    for algorithm in sys.argv[1:] or RUNS:
        cells = {}
        for cell, factors in CELLS.items():
            cells[cell] = [round(score(algorithm, *factors, seed), 2) for seed in SEEDS]
            print(algorithm, cell, cells[cell], flush=True)
        found = {**(json.loads(facts.read_text())["scores"] if facts.exists() else {}), algorithm: cells}
        facts.write_text(json.dumps({"machine": machine(), "scores": found}, indent=1) + "\n")
        PAGE.write_text(page({name: found[name] for name in RUNS if name in found}))


def page(found: dict[str, dict[str, list[float]]]) -> str:
    """Returns the page."""
    text = (__doc__ or "").split("\n\n")[1]
    about = ", ".join(f"{name} {value}" for name, value in machine().items())
    lines = [
        "| algorithm | environment | env steps | " + " | ".join(CELLS) + " |",
        "|---|---|---|" + "---|" * len(CELLS),
    ]
    for algorithm, cells in found.items():
        (env, least), env_steps, _ = RUNS[algorithm]
        plain = median(cells["plain"])
        each = [f"{plain:g} ({', '.join(f'{one:g}' for one in cells['plain'])})"]
        each += [f"{(median(cells[cell]) - least) / (plain - least):.2f}" for cell in list(CELLS)[1:] if cell in cells]
        lines.append(f"| {algorithm} | {env} | {env_steps:,} | {' | '.join(each)} |")
    return (
        "# Learning at any scale\n\nMade by `python benchmarks/studies/scale.py` with seeds 0, 1 and 2, one torch "
        f"thread. Rows were made on several machines; the last one: {about}.\n\n{text}\n\n" + "\n".join(lines) + "\n"
    )


if __name__ == "__main__":
    main()
