"""Every learning claim, measured: several seeds each, deterministic evaluation, with controls that must fail.

Run it with ``make test-learning`` (about 10 minutes on one core). It writes `benchmarks/results/learning.md` and
`.json`, and exits 1 if a claim does not hold. ``python benchmarks/learning.py cartpole pendulum`` runs some,
``--seeds 1`` fewer seeds.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

from rookery import MultiAgentArena, PPOConfig, Trainer

RESULTS = Path(__file__).parent / "results"
SHARED: dict[str, Any] = {"algorithm": PPOConfig()}
TWO: dict[str, Any] = {
    "policies": {"pol1": PPOConfig(lr=3e-4), "pol2": PPOConfig(lr=4e-4)},
    "policy_mapping": {"agent1": "pol1", "agent2": "pol2"},
}


@dataclass(frozen=True)
class Claim:
    """One row of the table.

    Attributes:
        name: How to call it.
        make: A trainer for a seed.
        env_steps: Budget.
        score: What counts, from a trained trainer.
        what: The score in words.
        threshold: The median over seeds must reach it.
        control: The same with nothing learned (learning rate 1e-12): the median must stay below the threshold.
        until: Stop at this training return, so that steps and seconds to it are measured too.
    """

    name: str
    make: Callable[[int], Trainer]
    env_steps: int
    score: Callable[[Trainer], float]
    what: str
    threshold: float
    until: float | None = None
    control: bool = True


def evaluated(trainer: Trainer) -> float:
    """Mean return of 20 deterministic evaluation episodes."""
    return trainer.evaluate(20).return_mean


def training_return(trainer: Trainer) -> float:
    """Mean return of the last 100 training episodes."""
    totals = trainer.windows.totals
    return sum(totals) / len(totals)


def preset(env: str, algorithm: str = "ppo") -> Callable[[int], Trainer]:
    """A trainer with the preset of an algorithm for an environment."""
    return lambda seed: Trainer(env, config={"algorithm.name": algorithm}, preset="auto", seed=seed)


def arena(**settings: Any) -> Callable[[int], Trainer]:
    """A trainer of the arena with 16 copies."""
    return lambda seed: Trainer(MultiAgentArena, num_envs=16, seed=seed, **settings)


CLAIMS = [
    Claim("cartpole", preset("CartPole-v1"), 100_000, evaluated, "evaluation return", 475),
    Claim("cartpole-a2c", preset("CartPole-v1", "a2c"), 200_000, evaluated, "evaluation return", 450),
    Claim("cartpole-reinforce", preset("CartPole-v1", "reinforce"), 200_000, evaluated, "evaluation return", 350),
    Claim("pendulum", preset("Pendulum-v1"), 100_000, evaluated, "evaluation return", -250),
    Claim("minigrid-empty-5x5", preset("MiniGrid-Empty-5x5-v0"), 60_000, evaluated, "evaluation return", 0.9),
    Claim("arena-shared", arena(**SHARED), 116_000, training_return, "training return", 15),
    Claim("arena-two-policies", arena(**TWO), 80_000, training_return, "training return", 18),
    Claim("arena-to-18", arena(**TWO), 80_000, training_return, "training return", 18, until=18, control=False),
    Claim(
        "cartpole-to-475",
        preset("CartPole-v1"),
        100_000,
        training_return,
        "training return",
        475,
        until=475,
        control=False,
    ),
]


def measure(claim: Claim, seed: int, control: bool) -> dict[str, Any]:
    """Trains once and scores."""
    began = time.perf_counter()
    trainer = claim.make(seed)
    if control:
        for learner in trainer.learners.values():
            learner.cfg = learner.cfg.replace(lr=1e-12)
    stop = {"env_steps": claim.env_steps} | ({"return_mean": claim.until} if claim.until is not None else {})
    result = trainer.train(stop=stop)
    took = time.perf_counter() - began
    score = claim.score(trainer)
    trainer.close()
    return {
        "seed": seed,
        "score": round(score, 3),
        "env_steps": result.env_steps,
        "seconds": round(took, 1),
        "steps_per_second": round(result.env_steps / result.seconds),
    }


def main() -> int:
    """Runs the chosen claims and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("claims", nargs="*", help=f"some of: {', '.join(claim.name for claim in CLAIMS)}")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    chosen = [claim for claim in CLAIMS if not options.claims or claim.name in options.claims]
    rows, failed = [], []
    for claim in chosen:
        runs = [measure(claim, seed, control=False) for seed in range(options.seeds)]
        middle = median(run["score"] for run in runs)
        row: dict[str, Any] = {
            "claim": claim.name,
            "what": claim.what,
            "threshold": claim.threshold,
            "env_steps": claim.env_steps,
            "median": middle,
            "runs": runs,
            "holds": middle >= claim.threshold,
        }
        if claim.control:
            row["control"] = measure(claim, 0, control=True)
            row["holds"] = row["holds"] and row["control"]["score"] < claim.threshold
        rows.append(row)
        if not row["holds"]:
            failed.append(claim.name)
        print(json.dumps(row), flush=True)
    if options.claims:  # the other rows stay as they were measured before
        before = json.loads((RESULTS / "learning.json").read_text())["rows"]
        fresh = {row["claim"]: row for row in rows}
        write([fresh.get(row["claim"], row) for row in before], options.seeds)
    else:
        write(rows, options.seeds)
    print(f"{len(rows) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


def write(rows: list[dict[str, Any]], seeds: int) -> None:
    """Writes the table and the raw figures."""
    machine = {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("torch", "numpy", "gymnasium", "rookery")},
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "learning.json").write_text(json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n")
    lines = [
        "# Learning",
        "",
        f"Made by `make test-learning`: {seeds} seeds a claim, one torch thread. "
        + ", ".join(f"{name} {value}" for name, value in machine.items())
        + ".",
        "",
        "| claim | env steps | score | needed | median | each seed | control: no learning | seconds, each | holds |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        each = ", ".join(f"{run['score']:g}" for run in row["runs"])
        seconds = ", ".join(f"{run['seconds']:g}" for run in row["runs"])
        steps = (
            ", ".join(f"{run['env_steps']:,}" for run in row["runs"])
            if "-to-" in row["claim"]
            else f"{row['env_steps']:,}"
        )
        control = f"{row['control']['score']:g}" if "control" in row else "-"
        lines.append(
            f"| {row['claim']} | {steps} | {row['what']} | {row['threshold']:g} | {row['median']:g} | {each} "
            f"| {control} | {seconds} | {'yes' if row['holds'] else 'NO'} |"
        )
    (RESULTS / "learning.md").write_text("\n".join(lines) + "\n")


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []:
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


if __name__ == "__main__":
    sys.exit(main())
