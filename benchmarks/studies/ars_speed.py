"""Env steps a CPU second of ARS beside SB3-contrib: ``ars_speed.py [--seconds 10] [--rounds 3]``.

Both learn with the same settings, each in one process on one core, in turn; the median of the rounds counts. Seconds
are of CPU time, which other work on the machine changes less. Steps are those of candidates' episodes: others, which
fill up Rookery's environments, do not count. SB3 is in an environment of its own (`benchmarks/peers/install.sh sb3`);
where it is not, Rookery is measured alone. Writes `benchmarks/results/ars_speed.md`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch

from rookery import ARSConfig, ModelConfig, Trainer
from rookery.algorithms.algorithm import Algorithm, BatchHook
from rookery.core.batch import Rollout

sys.path.append(str(Path(__file__).parents[2]))
from benchmarks.learning import machine

BENCHMARKS = Path(__file__).parents[1]
PAGE = BENCHMARKS / "results" / "ars_speed.md"
WARM_UP = 2.0
"""Seconds of CPU time before a measurement begins."""


@dataclass(frozen=True)
class Task:
    """An environment, with the settings that both sides have.

    Attributes:
        env: Its id.
        directions: Directions of an update.
        lr: Step size.
        noise: Standard deviation of candidates' weights.
        normalize: Whether observations are normalized.
    """

    env: str
    directions: int
    lr: float
    noise: float
    normalize: bool


TASKS = (Task("CartPole-v1", 8, 0.02, 0.05, normalize=False), Task("Swimmer-v5", 4, 0.03, 0.03, normalize=True))


class Counted(BatchHook):
    """Counts the decisions of candidates' episodes."""

    def __init__(self) -> None:
        self.steps = 0

    def before_targets(self, learner: Algorithm[Any], rollout: Rollout, rollouts: Mapping[str, Rollout]) -> Rollout:
        """Adds the decisions of a rollout."""
        self.steps += int((rollout.valid & ~rollout.logp.isnan()).sum())
        return rollout


def ours(task: Task, seconds: float, seed: int) -> float:
    """Returns the steps a CPU second of Rookery."""
    model = ModelConfig(hidden=(), normalize_obs=task.normalize)
    cfg = ARSConfig(num_directions=task.directions, lr=task.lr, noise_std=task.noise, model=model)
    with Trainer(task.env, cfg, seed=seed, num_envs=8) as trainer:
        counted = Counted()
        trainer.learners["main"].hooks.append(counted)
        born = time.process_time()
        while time.process_time() - born < WARM_UP:
            trainer.train_iteration()
        began, before = time.process_time(), counted.steps
        while (now := time.process_time()) - began < seconds:
            trainer.train_iteration()
        return (counted.steps - before) / (now - began)


def theirs(task: Task, seconds: float, seed: int, python: Path) -> dict[str, Any]:
    """Returns the result of SB3-contrib's script."""
    command = [str(python), str(BENCHMARKS / "peers" / "sb3_ars.py"), task.env, "--seed", str(seed)]
    command += ["--directions", str(task.directions), "--lr", str(task.lr), "--noise", str(task.noise)]
    command += ["--seconds", str(seconds), "--warm-up", str(WARM_UP), *(["--normalize"] if task.normalize else [])]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found: dict[str, Any] = json.loads(told.splitlines()[-1])
    return found


def main() -> None:
    """Measures both sides in turn and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peer", type=Path, default=BENCHMARKS / "peers" / ".venv-sb3" / "bin" / "python")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # of the peer's process, too
    torch.set_num_threads(1)
    lines, versions = [], {}
    for task in TASKS:
        mine, peers = [], []
        for seed in range(options.rounds):
            mine.append(ours(task, options.seconds, seed))
            if options.peer.exists():
                found = theirs(task, options.seconds, seed, options.peer)
                peers.append(found["steps_per_second"])
                versions = found["versions"]
        each = ", ".join(f"{rate:,.0f}" for rate in mine)
        beside = ", ".join(f"{rate:,.0f}" for rate in peers)
        ratio = f"{median(mine) / median(peers):.1f}" if peers else ""
        lines.append(f"| {task.env} | {task.directions} | {each} | {beside} | {ratio} |")
        print(lines[-1], flush=True)
    about = ", ".join(f"{name} {value}" for name, value in {**machine(), **versions}.items())
    head = [
        "# ARS: env steps a CPU second, beside SB3-contrib",
        "",
        f"Made by `python benchmarks/studies/ars_speed.py --seconds {options.seconds:g} --rounds {options.rounds}`. "
        f"Machine: {about}.",
        "",
        "Linear policies with the same number of directions, step size and noise, on one core, in turn; observations",
        "of Swimmer are normalized (there by `VecNormalize`). Rookery steps 8 environments, SB3-contrib evaluates one",
        "candidate after the other. Steps are those of candidates' episodes, seconds those of CPU time; the ratio is",
        "of the medians.",
        "",
        "| environment | directions | Rookery | SB3-contrib | ratio |",
        "|---|---|---|---|---|",
    ]
    PAGE.write_text("\n".join([*head, *lines]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
