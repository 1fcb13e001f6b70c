"""Central critics: ``teams_mappo.py [--seeds 3] [--only two-step spread reference] [--algorithms mappo ppo]``; writes
benchmarks/results/mappo.md.

MAPPO beside PPO on the same settings, of which those of PPO's preset are taken where there is one: the two-step game,
in which the best is found without a centralized critic, too, and two tasks of the multi-particle environments (mpe2).
Reported is the mean return of the last 100 training episodes, in which actions are still drawn. A task that is not
measured keeps its rows.
"""

from __future__ import annotations

import argparse
import platform
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import fmean, median
from time import perf_counter
from typing import Any

from rookery import Trainer
from rookery.run.presets import ENV_PRESETS

FILE = Path(__file__).parents[1] / "results" / "mappo.md"

PARTICLES: dict[str, Any] = dict(ENV_PRESETS["ppo"]["simple_spread_*"])
"""PPO's preset for simple_spread, for both tasks and algorithms."""

TWO_STEP: dict[str, Any] = {"sampling.num_envs": 16, "algorithm.fragment_length": 32, "algorithm.minibatch_size": 1024}

ALGORITHMS = ("mappo", "ppo")


@dataclass(frozen=True)
class Task:
    """A task to measure.

    Attributes:
        title: What it is called in the table.
        env: Its environment.
        settings: Of both algorithms.
        steps: Env steps.
        agents: What the return of an episode, of all agents together, is divided by.
        wanted: What MAPPO should reach.
    """

    title: str
    env: str
    settings: dict[str, Any]
    steps: int
    agents: int
    wanted: str


TASKS = {
    "two-step": Task("two-step game, the team", "rookery.tasks:MatrixGame", TWO_STEP, 20_000, 1, ">= 7.0"),
    "spread": Task("simple_spread, an agent", "mpe2.simple_spread_v3", PARTICLES, 400_000, 3, ">= -16"),
    "reference": Task("simple_reference, an agent", "mpe2.simple_reference_v3", PARTICLES, 1_000_000, 2, ">= -22"),
}


def learned(task: Task, algorithm: str, seed: int, more: dict[str, Any]) -> tuple[float, float]:
    """Trains once; returns the score and the seconds."""
    settings = {"logging.console": "quiet", **task.settings, "stop.env_steps": task.steps, **more}
    began = perf_counter()
    with Trainer(task.env, algorithm, preset="none", seed=seed, config=settings) as run:
        for _ in run.results():
            pass
        return fmean(run._windows.totals) / task.agents, perf_counter() - began


def row(task: Task, algorithm: str, seeds: int, more: dict[str, Any]) -> str:
    """A line of the table."""
    found = [learned(task, algorithm, seed, more) for seed in range(seeds)]
    scores, took = [score for score, _ in found], [seconds for _, seconds in found]
    each = ", ".join(f"{score:.2f}" for score in scores)
    seconds = ", ".join(f"{one:.0f}" for one in took)
    wanted = task.wanted if algorithm == "mappo" else ""
    line = f"| {task.title} | {algorithm} | {task.steps:,} | {wanted} | {each} | {median(scores):.2f} | {seconds} |"
    print(line, flush=True)
    return line


def main() -> None:
    """Measures and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--algorithms", nargs="+", choices=ALGORITHMS, default=list(ALGORITHMS))
    options = parser.parse_args()
    text = FILE.read_text(encoding="utf-8") if FILE.exists() else ""
    rows = {tuple(line.split(" | ")[:2]): line for line in text.splitlines() if line.startswith("| ")}
    for name in options.only:
        for algorithm in options.algorithms:
            task = TASKS[name]
            rows[f"| {task.title}", algorithm] = row(task, algorithm, options.seeds, {})
    head = "| task | algorithm | env steps | wanted | return, each seed | median | seconds |"
    order = [rows[key] for task in TASKS.values() for a in ALGORITHMS if (key := (f"| {task.title}", a)) in rows]
    here = f"Python {platform.python_version()}, torch {version('torch')}, mpe2 {version('mpe2')}"
    settings = "\n".join(f"- {name}: {task.settings}" for name, task in TASKS.items())
    FILE.write_text(
        f"# MAPPO beside PPO\n\nMade by `python benchmarks/studies/teams_mappo.py`; {here}. Mean return of the last "
        "100 training episodes; seeds from 0 on. In the two-step game critics of both see its state; elsewhere PPO's "
        f"sees what the policy does, and MAPPO's what all agents do.\n\n{head}\n|---|---|---|---|---|---|---|\n"
        + "\n".join(order)
        + "\n\n"
        f"Settings beside the defaults:\n\n{settings}\n",
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
