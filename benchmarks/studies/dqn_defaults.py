"""Measurements by which DQN's defaults were chosen: ``dqn_defaults.py [ENV ...] [--seeds 3] [--only NAME ...]``.

Eight environments are trained with no preset of their own, at DQN's defaults, at the former ones, and with one default
at a time as it was before. Reported is the mean return of 20 greedy episodes. Existing rows are kept, so that a table
can be made in pieces. It writes `benchmarks/results/dqn_defaults.json` and `dqn_defaults.md`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.learning import machine

from rookery import Trainer

RESULTS = Path(__file__).parents[1] / "results"
FORMER: dict[str, Any] = {
    "algorithm.lr": 5e-4,
    "algorithm.n_step": 1,
    "algorithm.batch_size": 64,
    "algorithm.train_every": 4,
    "algorithm.updates_per_step": 0.25,
    "algorithm.target.every": 250,
    "algorithm.model.hidden": (64, 64),
}
SETTINGS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "former": FORMER,
    **{f"{path.removeprefix('algorithm.')} as before": {path: value} for path, value in FORMER.items()},
}
TASKS: dict[str, tuple[int, dict[str, Any]]] = {
    "CartPole-v1": (50_000, {}),
    "MountainCar-v0": (120_000, {}),
    "LunarLander-v3": (300_000, {}),
    "Acrobot-v1": (100_000, {}),
    "FrozenLake-v1": (100_000, {}),
    "CliffWalking-v1": (50_000, {"env.config": {"max_episode_steps": 200}}),
    "Taxi-v4": (200_000, {}),
    "MiniGrid-Empty-5x5-v0": (60_000, {}),
}
"""Env steps, and further settings."""


def measure(env: str, settings: dict[str, Any], seed: int) -> dict[str, float]:
    """Trains once; returns the mean return of 20 greedy episodes, and seconds."""
    began = time.perf_counter()
    env_steps, more = TASKS[env]
    config = [{"sampling.env_processes": 0, "logging.console": "quiet", **more}, settings]
    with Trainer(env, "dqn", config=config, seed=seed, preset="none") as trainer:
        trainer.train({"env_steps": env_steps})
        score = trainer.evaluate(20).return_mean
    return {"score": round(score, 2), "seconds": round(time.perf_counter() - began, 1)}


def page(found: dict[str, Any], about: dict[str, Any]) -> str:
    """Returns the page."""
    lines = ["| environment | env steps | settings | each seed | median |", "|---|---|---|---|---|"]
    for env in (name for name in TASKS if name in found):
        for name in (one for one in SETTINGS if one in found[env]):
            scores = [run["score"] for run in found[env][name]]
            each = ", ".join(f"{score:g}" for score in scores)
            lines.append(f"| {env} | {TASKS[env][0]:,} | {name} | {each} | {median(scores):g} |")
    machine_text = ", ".join(f"{name} {value}" for name, value in about.items())
    text = (__doc__ or "").split("\n\n")[1].replace("\n", " ")
    return (
        f"# How DQN's defaults were chosen\n\nMade by `python benchmarks/studies/dqn_defaults.py`. {machine_text}.\n\n"
        f"{text}\n\n" + "\n".join(lines) + "\n"
    )


def main() -> None:
    """Measures and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("envs", nargs="*", metavar="ENV", help=", ".join(TASKS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=["defaults", "former"], metavar="NAME", help=", ".join(SETTINGS))
    options = parser.parse_args()
    file = RESULTS / "dqn_defaults.json"
    for seed in range(options.seeds):
        for env in options.envs or TASKS:
            for name in options.only:
                found = json.loads(file.read_text(encoding="utf-8"))["runs"] if file.exists() else {}
                runs = found.setdefault(env, {}).setdefault(name, [])
                if len(runs) > seed:
                    continue
                runs.append(measure(env, SETTINGS[name], seed))
                print(env, name, seed, runs[-1], flush=True)
                text = json.dumps({"machine": machine(), "runs": found}, indent=1)
                file.write_text(text + "\n", encoding="utf-8")
    kept = json.loads(file.read_text(encoding="utf-8"))
    file.with_suffix(".md").write_text(page(kept["runs"], kept["machine"]), encoding="utf-8")


if __name__ == "__main__":
    main()
