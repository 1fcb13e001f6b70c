"""Results with nothing named: ``python benchmarks/studies/newcomer.py [ENV...]`` trains 16 environments.

Each is trained as ``rookery train ENV`` does: the rule and the presets choose algorithm and settings, for the env steps
of the preset, or 1,000,000 without one. The score is the mean return of 20 deterministic episodes (100 of MiniGrid,
FrozenLake and ConnectFour), seeds 0, 1 and 2; the goal is that of the median. ConnectFour plays 1,000 games against
random play as first player, and its score is the share won.

The page is `benchmarks/results/newcomer.md`; environments that are not named keep their rows.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.learning import machine
from benchmarks.studies.games import LANES, chance, play

from rookery import Trainer, tasks

PAGE = Path(__file__).parents[1] / "results" / "newcomer.md"
SEEDS = (0, 1, 2)
NO_BUDGET = 1_000_000


class Row(NamedTuple):
    """An environment with its goal.

    Attributes:
        goal: Smallest median score.
        episodes: Episodes of an evaluation.
        env_steps: Budget; None = that of the preset, or `NO_BUDGET`.
    """

    goal: float
    episodes: int = 20
    env_steps: int | None = None


ROWS = {
    "CartPole-v1": Row(475),
    "Acrobot-v1": Row(-100),
    "MountainCar-v0": Row(-115),
    "MountainCarContinuous-v0": Row(90),
    "Pendulum-v1": Row(-200),
    "FrozenLake-v1": Row(0.7, 100),
    "CliffWalking-v1": Row(-15),
    "Taxi-v4": Row(7),
    "LunarLander-v3": Row(200),
    "LunarLanderContinuous-v3": Row(200),
    "InvertedPendulum-v5": Row(900),
    "HalfCheetah-v5": Row(1400, 20, 500_000),
    "Hopper-v5": Row(1800, 20, 500_000),
    "MiniGrid-Empty-5x5-v0": Row(0.9, 100),
    "MiniGrid-DoorKey-5x5-v0": Row(0.9, 100),
    "ConnectFour": Row(0.9, 1000),
}


def won(trainer: Trainer, games: int) -> float:
    """Returns the share of games of ConnectFour that the policy wins as first player against random play."""
    env = tasks.ConnectFour(LANES)
    policy = trainer.policies["main"]

    def mine(obs: dict[str, np.ndarray], _: np.random.Generator) -> np.ndarray:
        memory = policy.initial_memory(len(next(iter(obs.values())))) if policy.memory_size else None
        return policy.env_actions(obs, memory, deterministic=True)

    earned, _ = play(env, [mine, chance(env)], games)
    return float(np.mean(earned.sum(axis=0)[:, 0] > 0))


def measure(env: str, seed: int) -> dict[str, Any]:
    """Trains once; returns the score with the algorithm, the env steps and the seconds."""
    row, began = ROWS[env], time.perf_counter()
    with Trainer(env, preset="auto", seed=seed) as trainer:
        steps = row.env_steps or trainer.config.stop.get("env_steps", NO_BUDGET)
        result = trainer.train({"env_steps": steps})
        score = won(trainer, row.episodes) if env == "ConnectFour" else trainer.evaluate(row.episodes).return_mean
        algorithm = type(trainer.learners["main"]).__name__.lower()
    seconds = round(time.perf_counter() - began, 1)
    return {"algorithm": algorithm, "env_steps": result.env_steps, "score": round(score, 3), "seconds": seconds}


def main() -> None:
    """Trains the named environments, or all, and writes the page."""
    facts = PAGE.with_suffix(".json")
    for env in sys.argv[1:] or ROWS:
        runs = [measure(env, seed) for seed in SEEDS]
        print(env, runs, flush=True)
        found = {**(json.loads(facts.read_text())["rows"] if facts.exists() else {}), env: runs}
        facts.write_text(json.dumps({"machine": machine(), "rows": found}, indent=1) + "\n")
        PAGE.write_text(page({name: found[name] for name in ROWS if name in found}))


def page(found: dict[str, list[dict[str, Any]]]) -> str:
    """Returns the page."""
    text = (__doc__ or "").split("\n\n", 1)[1].rpartition("\n\n")[0]
    about = ", ".join(f"{name} {value}" for name, value in machine().items())
    lines = ["| environment | algorithm | env steps | goal | median | each seed | seconds, each | reached |",
             "|---|---|---|---|---|---|---|---|"]  # fmt: skip
    reached = 0
    for env, runs in found.items():
        scores = [run["score"] for run in runs]
        reaches = median(scores) >= ROWS[env].goal
        reached += reaches
        each, seconds = (", ".join(f"{one:g}" for one in ones) for ones in (scores, [run["seconds"] for run in runs]))
        lines.append(
            f"| {env} | {runs[0]['algorithm']} | {runs[0]['env_steps']:,} | {ROWS[env].goal:g} | {median(scores):g} "
            f"| {each} | {seconds} | {'yes' if reaches else 'NO'} |"
        )
    return (
        "# Results with nothing named\n\nMade by `python benchmarks/studies/newcomer.py`, one torch thread. "
        f"Rows were made on several machines and at several times; the last one: {about}.\n\n{text}\n\n"
        + "\n".join(lines)
        + f"\n\n{reached} of {len(found)} reach their goal.\n"
    )


if __name__ == "__main__":
    main()
