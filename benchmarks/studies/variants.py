"""Variants of SAC and DQN beside the algorithm itself: TQC and CrossQ on HalfCheetah after 50,000 env steps, IQN and
Munchausen DQN on MinAtar Breakout after 1,000,000.

Each run has the default settings of its algorithm, without the environment preset, and one process.
``variants.py [ENV ...] [--seeds 0 1 2]`` runs what is missing in `benchmarks/results/variants.json`, and writes
`benchmarks/results/variants.md`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.learning import machine

from rookery import Trainer
from rookery.report.statistics import mean_interval

PAGE = Path(__file__).resolve().parents[1] / "results" / "variants.md"
FIGURES = PAGE.with_suffix(".json")
EPISODES = 20


class Task(NamedTuple):
    """Environment, algorithm, budget, and the settings of each variant; the first is the algorithm itself."""

    env: str
    algorithm: str
    env_steps: int
    variants: dict[str, dict[str, Any]]


TASKS = (
    Task("HalfCheetah-v5", "sac", 50_000, {
        "SAC": {},
        "TQC": {"algorithm.critic.quantiles": 25},
        "CrossQ": {"algorithm.critic.norm": "batch"},
    }),
    Task("MinAtar/Breakout-v1", "dqn", 1_000_000, {
        "DQN": {"algorithm.n_step": 1},
        "IQN": {"algorithm.n_step": 1, "algorithm.values.kind": "implicit", "algorithm.values.quantiles": 16},
        "M-DQN": {"algorithm.n_step": 1, "algorithm.munchausen.weight": 0.9},
    }),
)  # fmt: skip
HEAD = """# Variants of SAC and DQN

Made by `python benchmarks/studies/variants.py`. Machine: {about}.

Mean return of {episodes} deterministic evaluation episodes, with the default settings of the algorithm (no environment
preset), one process and one torch thread. An interval is that of the mean over seeds (95 %, Student's t); "holds" says
whether the mean is not below the lower end of the algorithm's own interval. Other processes used the machine too.

| environment | env steps | algorithm | settings | return, mean | interval | by seed | holds | CPU seconds a run |
|---|---|---|---|---|---|---|---|---|
"""


def run(task: Task, settings: dict[str, Any], seed: int) -> tuple[float, float]:
    """Returns the score of a run, and its CPU seconds."""
    config = {"algorithm.name": task.algorithm, "sampling.env_processes": 0, "logging.console": "quiet", **settings}
    began = time.process_time()
    with Trainer(task.env, config=config, seed=seed, stop={"env_steps": task.env_steps}) as trainer:
        trainer.train()
        seconds = time.process_time() - began
        return trainer.evaluate(EPISODES).return_mean, seconds


def page(figures: dict[str, dict[str, dict[str, tuple[float, float]]]]) -> str:
    """Returns the page of all runs so far."""
    lines = []
    for task in TASKS:
        known = figures.get(task.env, {})
        names = list(task.variants)
        for name in names:
            runs = known.get(name, {}).values()
            if not runs:
                continue
            scores = [score for score, _ in runs]
            first = [score for score, _ in known.get(names[0], {}).values()]
            holds = ""
            if name != names[0] and len(first) > 1:
                holds = "yes" if fmean(scores) >= mean_interval(first)[0] else "NO"
            bounds = " to ".join(f"{bound:.4g}" for bound in mean_interval(scores)) if len(scores) > 1 else ""
            about = f"{task.env} | {task.env_steps:,} | {name}"
            words = " ".join(
                f"{path.removeprefix('algorithm.')}={value}" for path, value in task.variants[name].items()
            )
            lines.append(
                f"| {about} | {words and f'`{words}`'} | {fmean(scores):.4g} | {bounds} "
                f"| {', '.join(f'{score:.4g}' for score in scores)} | {holds} "
                f"| {', '.join(f'{seconds:.0f}' for _, seconds in runs)} |"
            )
    about = ", ".join(f"{name} {value}" for name, value in machine().items())
    return HEAD.format(about=about, episodes=EPISODES) + "\n".join(lines) + "\n"


def stored() -> dict[str, dict[str, dict[str, tuple[float, float]]]]:
    """Returns score and CPU seconds of each stored run, by environment, variant and seed."""
    return json.loads(FIGURES.read_text()) if FIGURES.exists() else {}


def main() -> None:
    """Runs what is missing, and writes the figures and the page after each run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("envs", nargs="*", default=[task.env for task in TASKS])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    given = parser.parse_args()
    for task in TASKS:
        for seed in given.seeds if task.env in given.envs else []:
            for name, settings in task.variants.items():
                if str(seed) not in stored().get(task.env, {}).get(name, {}):
                    score = run(task, settings, seed)
                    print(task.env, name, seed, *(round(number, 1) for number in score), flush=True)
                    figures = stored()  # another process may have added runs of another environment
                    figures.setdefault(task.env, {}).setdefault(name, {})[str(seed)] = score
                    FIGURES.write_text(json.dumps(figures, indent=1) + "\n")
                    PAGE.write_text(page(figures))


if __name__ == "__main__":
    main()
