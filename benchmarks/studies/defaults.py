"""Measurements by which PPO's defaults were chosen: ``defaults.py [ENV ...] [--seeds 3] [--only NAME ...]``.

Environments of the learning claims are trained with no preset of their own, by several settings in turn: those before,
and candidates. Reported are the mean return of the last 100 training episodes, and how far an update moved the policy
at the end: KL divergence and clip fraction, means over the last tenth of the iterations. Existing rows are kept, so
that a table can be made in pieces. It writes `benchmarks/results/defaults.json` and `defaults.md`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any

from rookery import MultiAgentArena, Trainer
from rookery.core.schedules import Linear

RESULTS = Path(__file__).parents[1] / "results"
BEFORE: dict[str, Any] = {
    "algorithm.normalize_values": False,
    "algorithm.epochs": 10,
    "algorithm.lr": 3e-4,
    "algorithm.target_kl": None,
}
VALUES: dict[str, Any] = {**BEFORE, "algorithm.normalize_values": True}
SETTINGS: dict[str, dict[str, Any]] = {
    "before": BEFORE,
    "values": VALUES,
    "values, lr to 0": {**VALUES, "algorithm.lr": Linear(3e-4, 0.0)},
    "values, lr to a third": {**VALUES, "algorithm.lr": Linear(3e-4, 1e-4)},
    "values, lr 6e-4 to 0": {**VALUES, "algorithm.lr": Linear(6e-4, 0.0)},
    "values, lr 6e-4 to 0, kl 0.02": {**VALUES, "algorithm.lr": Linear(6e-4, 0.0), "algorithm.target_kl": 0.02},
    "values, kl 0.02": {**VALUES, "algorithm.target_kl": 0.02},
    "values, kl 0.01": {**VALUES, "algorithm.target_kl": 0.01},
    "values, 4 epochs": {**VALUES, "algorithm.epochs": 4},
}


@dataclass(frozen=True)
class Task:
    """An environment.

    Attributes:
        env: What `Trainer` takes.
        env_steps: Budget.
        settings: Further settings.
    """

    env: Any
    env_steps: int
    settings: dict[str, Any]


WORDS = """Made by `python benchmarks/studies/defaults.py`. No preset is used: everything else has PPO's defaults.
`before` is what was the default; `values` adds value normalization; the others change the learning rate, which falls
in a straight line over the run, the epochs, or end an update early (`target_kl`). Screened on Reacher, connect_four
(self-play, whose return says nothing) and simple_spread; then measured with three seeds on ten environments. Chosen
is `values, lr to a third`: at the end of a run an update moves the policy half as far or less, scores are those of a
constant rate, more even over seeds, and better where the policy remembers. Of MiniGrid, where reward is rare, one of
six seeds loses what it has found and ends at 0, as one of three does that ends updates early; with a constant rate
none of six does."""

NOTHING: dict[str, Any] = {}
TASKS: dict[str, Task] = {
    "CartPole-v1": Task("CartPole-v1", 100_000, NOTHING),
    "Pendulum-v1": Task("Pendulum-v1", 150_000, NOTHING),
    "LunarLander-v3": Task("LunarLander-v3", 300_000, NOTHING),
    "MiniGrid-Empty-5x5-v0": Task("MiniGrid-Empty-5x5-v0", 60_000, NOTHING),
    "InvertedPendulum-v5": Task("InvertedPendulum-v5", 200_000, NOTHING),
    "HalfCheetah-v5": Task("HalfCheetah-v5", 400_000, NOTHING),
    "Hopper-v5": Task("Hopper-v5", 400_000, NOTHING),
    "Reacher-v5": Task("Reacher-v5", 200_000, NOTHING),
    "simple_spread": Task("mpe2.simple_spread_v3", 200_000, NOTHING),
    "arena": Task(MultiAgentArena, 100_000, NOTHING),
    "StatelessCartPole": Task("StatelessCartPole", 150_000, {"algorithm.model.memory.kind": "lstm"}),
    "connect_four": Task("pettingzoo.classic.connect_four_v3", 24_000, NOTHING),
}


def measure(task: Task, settings: dict[str, Any], seed: int) -> dict[str, float]:
    """Trains once; returns the score, how far updates moved the policy at the end, and seconds."""
    began = time.perf_counter()
    plain = {
        "algorithm.name": "ppo",
        "sampling.env_processes": 0,
        "logging.console": "quiet",
        "stop.env_steps": task.env_steps,
    }
    with Trainer(task.env, config=[plain, task.settings, settings], seed=seed) as trainer:
        rows = [next(iter(result.policies.values())).learning for result in trainer.results()]
        score = fmean(trainer._windows.totals)
    last = rows[-max(1, len(rows) // 10) :]
    mean: Callable[[str], float] = lambda name: fmean(row[name] for row in last if row.get(name) is not None)  # noqa: E731
    found = {name: mean(name) for name in ("kl", "clip_fraction", "explained_variance")}
    return {"score": score, **found, "seconds": time.perf_counter() - began}


def table(found: dict[str, dict[str, list[dict[str, float]]]]) -> str:
    """The table, a row for each environment and setting."""
    lines = ["| environment | env steps | settings | return, each seed | median | KL | clipped | explained variance |"]
    lines.append("|---|---|---|---|---|---|---|---|")
    for env, by_setting in found.items():
        for name, runs in by_setting.items():
            scores = [run["score"] for run in runs]
            shown = ", ".join(f"{score:.4g}" for score in scores)
            also = [fmean(run[key] for run in runs) for key in ("kl", "clip_fraction", "explained_variance")]
            numbers = " | ".join(f"{number:.3f}" for number in also)
            lines.append(f"| {env} | {TASKS[env].env_steps:,} | {name} | {shown} | {median(scores):.4g} | {numbers} |")
    return "\n".join(lines)


def main() -> None:
    """Measures and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("envs", nargs="*", metavar="ENV", help=", ".join(TASKS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=list(SETTINGS), metavar="NAME", help=", ".join(SETTINGS))
    parser.add_argument("--table", action="store_true", help="measure nothing, write the table of the rows there are")
    parser.add_argument("--file", type=Path, default=RESULTS / "defaults.json")
    options = parser.parse_args()
    found = json.loads(options.file.read_text(encoding="utf-8")) if options.file.exists() else {}
    for seed in range(0 if options.table else options.seeds):
        for env in options.envs or TASKS:
            for name in options.only:
                runs = found.setdefault(env, {}).setdefault(name, [])
                if len(runs) > seed:
                    continue
                runs.append(measure(TASKS[env], SETTINGS[name], seed))
                print(env, name, seed, {key: round(value, 4) for key, value in runs[-1].items()}, flush=True)
                options.file.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    heading = f"# How PPO's defaults were chosen\n\n{WORDS}\n\n"
    options.file.with_suffix(".md").write_text(heading + table(found) + "\n", encoding="utf-8")
    print(table(found))


if __name__ == "__main__":
    main()
