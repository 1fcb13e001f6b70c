"""Policies that earn nothing yet: ``python benchmarks/studies/no_signal.py``, about 15 minutes on one core.

Each row runs with and without the least deviation of advantages (`signals/return_spread.py`), in turn:

- Entropy over 200,000 steps on a lake of 12 x 12 whose goal is out of reach, relative to random actions.
- Entropy at the start of imitation by GAIL with the reward `airl`, and no reward of the environment.
- Return after 1,000,000 steps on a lake of 8 x 8 without holes, of which random actions find the goal in 6.4e-4 of
  the episodes.

The page is `benchmarks/results/no_signal.md`.
"""

from __future__ import annotations

import math
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.learning import machine

from rookery import PPOConfig, Trainer
from rookery.signals.return_spread import ReturnSpread

PAGE = Path(__file__).parents[1] / "results" / "no_signal.md"
SEEDS = (0, 1, 2)
MEASURED = ReturnSpread.least_deviation
STALE = {"sampling.env_processes": 2, "sampling.staleness": 1}
ASYNCHRONOUS = {"sampling.workers": 2, "sampling.asynchronous": True, "cluster.ray": "here"}


def lake(size: int) -> dict[str, Any]:
    """Returns the settings of a lake without holes, with 20 steps an episode."""
    rows = ["S" + "F" * (size - 1), *["F" * size] * (size - 2), "F" * (size - 1) + "G"]
    return {"env.config": {"desc": rows, "is_slippery": False, "max_episode_steps": 20}}


def without_floor(self: ReturnSpread, *_: Any) -> float:
    """The control: advantages are always normalized to a standard deviation of 1."""
    return 0.0


def entropies(env: str, algorithm: Any, settings: Mapping[str, Any], seed: int, env_steps: int, actions: int) -> str:
    """Returns the lowest and the last entropy of a run, relative to random actions."""
    with Trainer(env, algorithm, config=settings, seed=seed) as trainer:
        found = [
            result.policies["main"].learning["entropy"] / math.log(actions)
            for result in trainer.results({"env_steps": env_steps})
            if "entropy" in result.policies["main"].learning
        ]
    return f"{min(found):.3f}, {found[-1]:.3f}"


def found_goal(settings: Mapping[str, Any], seed: int) -> str:
    """Returns the evaluation return of APPO after 1,000,000 steps on the lake of 8 x 8."""
    with Trainer("FrozenLake-v1", "appo", config={**lake(8), **settings}, seed=seed) as trainer:
        trainer.train({"env_steps": 1_000_000})
        return f"{trainer.evaluate(20).return_mean:g}"


def expert(folder: str) -> str:
    """Trains PPO on CartPole and records 10 episodes; returns the path of the replay."""
    from benchmarks.studies import imitation

    with Trainer("CartPole-v1", "ppo", preset="auto", seed=100) as trainer:
        trainer.train({"env_steps": 100_000})
        episodes = imitation.play("CartPole-v1", imitation.expert(trainer.policies["main"]), 10, 1000)
    return imitation.keep(Path(folder, "expert"), "CartPole-v1", episodes)


def main() -> None:
    """Runs everything and writes the page."""
    with tempfile.TemporaryDirectory() as folder:
        gail = PPOConfig(
            signals={"gail": {"replay": [expert(folder)], "reward": "airl"}, "extrinsic": {"strength": 0.0}}
        )
        far = "FrozenLake-v1"
        rows = {
            "entropy, PPO, no reward, 200,000 steps": lambda s: entropies(far, "ppo", lake(12), s, 200_000, 4),
            "entropy, APPO, staleness 1": lambda s: entropies(far, "appo", {**lake(12), **STALE}, s, 200_000, 4),
            "entropy, APPO, 2 asynchronous workers": (
                lambda s: entropies(far, "appo", {**lake(12), **ASYNCHRONOUS}, s, 200_000, 4)
            ),
            "entropy, PPO and GAIL `airl`, 1,024 steps": lambda s: entropies("CartPole-v1", gail, {}, s, 1_024, 2),
            "return, APPO, 8 x 8, staleness 1": lambda s: found_goal(STALE, s),
            "return, APPO, 8 x 8, 2 asynchronous workers": lambda s: found_goal(ASYNCHRONOUS, s),
        }
        lines = []
        for name, run in rows.items():
            columns = []
            for floor in (without_floor, MEASURED):
                ReturnSpread.least_deviation = floor  # type: ignore[method-assign]
                columns.append("; ".join(run(seed) for seed in SEEDS))
            lines.append(f"| {name} | {columns[0]} | {columns[1]} |")
            print(lines[-1], flush=True)
    head = ["| what | without | with |", "|---|---|---|"]
    text = __doc__.split("\n\n", 1)[1].replace("The page is `benchmarks/results/no_signal.md`.\n", "")
    PAGE.write_text(
        "# Policies that earn nothing yet\n\nMade by `python benchmarks/studies/no_signal.py` with seeds 0, 1 and 2. "
        + ", ".join(f"{name} {value}" for name, value in machine().items())
        + f".\n\n{text.strip()}\n\nEntropies are the lowest and the last one of each seed.\n\n"
        + "\n".join(head + lines)
        + "\n"
    )


if __name__ == "__main__":
    main()
