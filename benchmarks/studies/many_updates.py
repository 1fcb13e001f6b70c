"""Env steps to -200 on Pendulum by SAC at one gradient step per decision, and by REDQ and DroQ at twenty.

All have networks of width 64 and equal `learning_starts`; each is evaluated on ten episodes after every 250 env steps.
Writes `benchmarks/results/many_updates.md`.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.learning import machine

from rookery import ModelConfig, SACConfig, Trainer
from rookery.algorithms.off_policy.critics import CriticConfig

PAGE = Path(__file__).resolve().parents[1] / "results" / "many_updates.md"
GOAL, EVERY = -200.0, 250
SHARED = {"learning_starts": 300, "train_every": 1, "model": ModelConfig(hidden=(64, 64), activation="relu")}
MANY = {"updates_per_step": 20.0, "policy_delay": 20, "target_critics": 2}
KINDS = {
    "SAC": ({}, 10_000),
    "REDQ": ({**MANY, "critic": CriticConfig(number=10)}, 3_000),
    "DroQ": ({**MANY, "critic": CriticConfig(dropout=0.01, norm="layer")}, 3_000),
}
"""Settings, and the most env steps of a run."""
HEAD = """# Many gradient steps per decision

Made by `python benchmarks/studies/many_updates.py --seeds {seeds}`. Machine: {about}.

Pendulum-v1, networks of width 64, `learning_starts` 300, otherwise default settings; ten episodes are evaluated after
every 250 env steps. Listed are the env steps at the first evaluation of -200 or better; without one, the return of the
last evaluation. The episodes of an evaluation are drawn anew for each seed and are the same for all algorithms.

| algorithm | settings | env steps to -200, median | by seed | CPU seconds, median |
|---|---|---|---|---|
"""
WORDS = {
    "SAC": "one gradient step per decision",
    "REDQ": "`critic.number=10 target_critics=2 updates_per_step=20 policy_delay=20`",
    "DroQ": "`critic.dropout=0.01 critic.norm=layer target_critics=2 updates_per_step=20 policy_delay=20`",
}


def steps_to_goal(name: str, seed: int) -> tuple[int | None, float, float]:
    """Returns the env steps at the first evaluation of `GOAL` or better, None without one; CPU seconds; and the return
    of the last evaluation.
    """
    settings, most = KINDS[name]
    began = time.process_time()
    with Trainer(
        "Pendulum-v1", SACConfig(**SHARED, **settings), num_envs=1, seed=seed, iteration_steps=EVERY
    ) as trainer:
        for result in trainer.iterations():
            found = trainer.evaluate(10).return_mean
            print(name, seed, result.env_steps, round(found, 1), round(time.process_time() - began), flush=True)
            if found >= GOAL:
                return result.env_steps, time.process_time() - began, found
            if result.env_steps >= most:
                return None, time.process_time() - began, found
    raise AssertionError


def main() -> None:
    """Runs all, and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    given = parser.parse_args()
    found = {name: [steps_to_goal(name, seed) for seed in given.seeds] for name in KINDS}
    lines = []
    for name, runs in found.items():
        most = KINDS[name][1]
        steps = [most + 1 if each is None else each for each, _, _ in runs]
        middle = f"{median(steps):,.0f}" if median(steps) <= most else "not reached"
        listed = ", ".join(f"{last:.0f} at {most:,}" if each is None else f"{each:,}" for each, _, last in runs)
        lines.append(f"| {name} | {WORDS[name]} | {middle} | {listed} | {median(cpu for _, cpu, _ in runs):.0f} |")
    about = ", ".join(f"{name} {value}" for name, value in machine().items())
    PAGE.write_text(HEAD.format(seeds=" ".join(map(str, given.seeds)), about=about) + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
