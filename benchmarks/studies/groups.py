"""Groups: ``groups.py [--seeds 3] [--decisions 300000] [--ppo 300000] [--only Sacrifice|CarryTogether]``; writes
benchmarks/results/groups.md. MA-POCA gets `decisions` of the agents, PPO, which takes a fraction of the time, `ppo`.

PPO and MA-POCA learn two tasks whose rewards groups get, with equal settings. In Sacrifice one of three must give
itself up, which earns something only after its end: as controls PPO, which learns nothing from what comes after an end,
and MA-POCA whose agents leave their group as they end. In CarryTogether no agent sees which one earned a reward.
Reported are the mean return of 100 episodes of the most likely actions, and the decisions after which the mean of the
last 100 training episodes was 0.9 of the best.
"""

from __future__ import annotations

import argparse
import platform
from pathlib import Path
from statistics import fmean, median
from time import perf_counter
from typing import Any

import numpy as np
import torch

from rookery import PPOConfig, Trainer
from rookery.algorithms.multi_agent.poca import POCAConfig

FILE = Path(__file__).parents[1] / "results" / "groups.md"

TASKS = {"Sacrifice": 0.9, "CarryTogether": 1.0}
"""Environments and their best score."""

SETTINGS: dict[str, Any] = {
    "lr": 5e-4,
    "fragment_length": 64,
    "minibatch_size": 512,
    "epochs": 5,
    "gamma": 0.99,
    "entropy_coef": 0.01,
}
"""Settings of all runs, in 32 environments; all else has its default."""

RUNS: dict[str, list[tuple[str, PPOConfig]]] = {
    "Sacrifice": [
        ("POCA", POCAConfig(**SETTINGS)),
        ("PPO (control)", PPOConfig(**SETTINGS)),
        ("POCA, leaving at the end (control)", POCAConfig(**SETTINGS, leave_group_at_end=True)),
    ],
    "CarryTogether": [("POCA", POCAConfig(**SETTINGS)), ("PPO", PPOConfig(**SETTINGS))],
}


def train(task: str, cfg: PPOConfig, seed: int, decisions: int) -> tuple[float, int | None, float]:
    """Trains once; returns the score, the decisions after which it was 0.9 of the best in training, and seconds."""
    settings = {"sampling.env_processes": 0, "logging.console": "quiet", "stop.decisions": decisions}
    solved, began = None, perf_counter()
    with Trainer(f"rookery.tasks:{task}", cfg, num_envs=32, seed=seed, config=settings, run_dir=None) as run:
        for result in run.results():
            returns = run._windows.totals
            if solved is None and len(returns) == 100 and fmean(returns) >= 0.9 * TASKS[task]:
                solved = result.policies["main"].decisions
        return run.evaluate(episodes=100).return_mean, solved, perf_counter() - began


def table(task: str, seeds: int, budget: int, of_ppo: int) -> list[str]:
    """Returns the lines of a task."""
    lines = [
        "| algorithm | decisions | return, each seed | median | 0.9 of the best after, each seed | minutes a run |",
        "|---|---|---|---|---|---|",
    ]
    for name, cfg in RUNS[task]:
        found, decisions = [], budget if isinstance(cfg, POCAConfig) else of_ppo
        for seed in range(seeds):
            found.append(train(task, cfg, seed, decisions))
            print(task, name, seed, found[-1], flush=True)
        scores = [score + 0.0 for score, _, _ in found]
        shown = ", ".join(f"{score:.2f}" for score in scores)
        when = ", ".join("never" if at is None else f"{at:,}" for _, at, _ in found)
        minutes = median(seconds for *_, seconds in found) / 60
        lines.append(f"| {name} | {decisions:,} | {shown} | {median(scores):.2f} | {when} | {minutes:.1f} |")
    return lines


def main() -> None:
    """Measures and writes; a table that is not measured stays as it was."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--decisions", type=int, default=300_000)
    parser.add_argument("--ppo", type=int, default=300_000)
    parser.add_argument("--only", choices=tuple(TASKS))
    options = parser.parse_args()
    text = FILE.read_text(encoding="utf-8") if FILE.exists() else ""
    parts = {part.split("\n")[0]: part.strip() for part in text.split("\n\n## ")[1:]}
    versions = f"Python {platform.python_version()}, torch {torch.__version__}, NumPy {np.__version__}"
    for task, best in TASKS.items():
        if options.only in (None, task):
            lines = table(task, options.seeds, options.decisions, options.ppo)
            ran = f"Best score {best}; seeds 0 to {options.seeds - 1}; {versions}."
            parts[task] = f"{task}\n\n{ran}\n\n" + "\n".join(lines)
    shown = ", ".join(f"`{name}={value}`" for name, value in SETTINGS.items())
    head = "# Groups\n\nMade by `python benchmarks/studies/groups.py`, on two cores that other work shared. "
    head += f"Settings: {shown}."
    body = "\n\n".join(f"## {part}" for part in parts.values())
    FILE.write_text(f"{head}\n\n{body}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
