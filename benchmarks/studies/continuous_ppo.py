"""Stability of PPO with continuous actions: ``continuous_ppo.py [ENV ...] [--seeds 3] [--only NAME ...]``.

Ten environments are trained with no preset of their own: with the log standard deviation of actions free, as it was
before, between its bounds (the default), and with updates that end early by their KL divergence. Reported are the mean
return of the last 100 training episodes, the largest mean KL divergence of an update, the largest norm of a gradient,
and the range of the log standard deviation over the run. Existing rows are kept, so that a table can be made in pieces.
Where the log standard deviation stays between its bounds, -4 and 1, free and bounded runs are equal bit by bit, so the
other two forms have one seed there. No update has a mean KL divergence above 0.05, so updates do not end early by
default. Noise that is held over steps (gSDE) was not measured: PPO does not have it.

It writes `benchmarks/results/continuous_ppo.json` and `continuous_ppo.md`.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from statistics import fmean, median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.learning import machine

from rookery import Trainer

RESULTS = Path(__file__).parents[1] / "results"
FREE: dict[str, Any] = {"algorithm.log_std_min": -20.0, "algorithm.log_std_max": 2.0}
SETTINGS: dict[str, dict[str, Any]] = {
    "free": FREE,
    "bounds": {},
    "free, KL stop": {**FREE, "algorithm.target_kl": 0.03},
}
TASKS: dict[str, tuple[str, int, dict[str, Any]]] = {
    "Pendulum": ("Pendulum-v1", 150_000, {}),
    "Pendulum, LSTM": ("Pendulum-v1", 150_000, {"algorithm.model.memory.kind": "lstm"}),
    "MountainCarContinuous": ("MountainCarContinuous-v0", 600_000, {}),
    "LunarLanderContinuous": ("LunarLanderContinuous-v3", 200_000, {}),
    "InvertedPendulum": ("InvertedPendulum-v5", 150_000, {}),
    "InvertedDoublePendulum": ("InvertedDoublePendulum-v5", 150_000, {}),
    "Reacher": ("Reacher-v5", 200_000, {}),
    "Swimmer": ("Swimmer-v5", 200_000, {}),
    "Hopper": ("Hopper-v5", 200_000, {}),
    "HalfCheetah": ("HalfCheetah-v5", 200_000, {}),
}
"""Environment, env steps, and further settings."""


def measure(task: str, settings: dict[str, Any], seed: int) -> dict[str, float]:
    """Trains once; returns the columns of the table."""
    env, env_steps, more = TASKS[task]
    plain = {"sampling.env_processes": 0, "logging.console": "quiet", "stop.env_steps": env_steps}
    kl, norm, low, high = 0.0, 0.0, 0.0, 0.0
    with Trainer(env, "ppo", config=[plain, more, settings], seed=seed, preset="none") as trainer:
        log_std = trainer.policies["main"].head.log_std
        for result in trainer.results():
            row = result.policies["main"].learning
            kl, norm = max(kl, row.get("kl") or 0.0), max(norm, row.get("grad_norm") or 0.0)
            low, high = min(low, float(log_std.min())), max(high, float(log_std.max()))
        score = fmean(trainer._windows.totals)
    found = {"score": score, "kl": kl, "grad_norm": norm, "log_std_min": low, "log_std_max": high}
    return {name: round(value, 4) for name, value in found.items()}


def page(found: dict[str, Any], about: dict[str, Any]) -> str:
    """Returns the page."""
    lines = [
        "| environment | env steps | settings | return, each seed | median | largest KL | gradient norm | log std |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for task in (name for name in TASKS if name in found):
        for name in (one for one in SETTINGS if one in found[task]):
            runs = found[task][name]
            scores = [run["score"] for run in runs]
            low, high = min(run["log_std_min"] for run in runs), max(run["log_std_max"] for run in runs)
            cells = [
                f"{TASKS[task][1]:,}",
                name,
                ", ".join(f"{score:.4g}" for score in scores),
                f"{median(scores):.4g}",
                f"{max(run['kl'] for run in runs):.3f}",
                f"{max(run['grad_norm'] for run in runs):.3g}",
                f"{low:.2f} to {high:.2f}",
            ]
            lines.append(f"| {task} | {' | '.join(cells)} |")
    machine_text = ", ".join(f"{name} {value}" for name, value in about.items())
    text = (__doc__ or "").split("\n\n")[1]
    return (
        "# PPO with continuous actions\n\nMade by `python benchmarks/studies/continuous_ppo.py`. "
        f"{machine_text}.\n\n{text}\n\n" + "\n".join(lines) + "\n"
    )


def main() -> None:
    """Measures and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", metavar="ENV", help=", ".join(TASKS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=list(SETTINGS), metavar="NAME", help=", ".join(SETTINGS))
    options = parser.parse_args()
    file = RESULTS / "continuous_ppo.json"
    for seed in range(options.seeds):
        for task in options.tasks or TASKS:
            for name in options.only:
                found = json.loads(file.read_text(encoding="utf-8"))["runs"] if file.exists() else {}
                runs = found.setdefault(task, {}).setdefault(name, [])
                if len(runs) > seed:
                    continue
                runs.append(measure(task, SETTINGS[name], seed))
                print(task, name, seed, runs[-1], flush=True)
                file.write_text(json.dumps({"machine": machine(), "runs": found}, indent=1) + "\n", encoding="utf-8")
    kept = json.loads(file.read_text(encoding="utf-8"))
    file.with_suffix(".md").write_text(page(kept["runs"], kept["machine"]), encoding="utf-8")


if __name__ == "__main__":
    main()
