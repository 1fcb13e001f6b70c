"""Exploration by reward signals: ``exploration.py [--seeds 5] [--steps 150000] [--rounds 7] [--seconds 2]``; writes
benchmarks/results/exploration.md.

PPO learns two tasks in which chance hardly ever finds the only reward, with each reward signal and, as a control,
without any, all else being equal. Reported are the mean return of the last 100 training episodes, in which actions
are still drawn, and the env steps after which the mean first was at least 0.9. Then the speed of PPO on the settings of
cartpole-64, with each signal at the policy's width and without any: trainers run in turn in one process; reported is
the median of the rounds' ratios. Nothing else should run on the machine meanwhile.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np

from rookery import DQNConfig, Linear, PPOConfig, Trainer, record_replay

sys.path.append(str(Path(__file__).parents[1]))
from ours import on, trainer
from workloads import MATCHED

FILE = Path(__file__).parents[1] / "results" / "exploration.md"

TASKS = {"DeepSea": "DeepSea, size 15", "KeyDoor": "KeyDoor, size 9, 100 steps"}
"""Environments and what they are called."""

SOLVED = 0.9

PPO_SETTINGS: dict[str, Any] = {
    "lr": Linear(1e-3, 0.0),
    "fragment_length": 32,
    "minibatch_size": 256,
    "epochs": 8,
    "entropy_coef": 0.01,
}
"""Settings of all runs, in 32 environments."""

EXTRINSIC = {"extrinsic": {"strength": 2.0}}
SIGNALS: dict[str, dict[str, Any]] = {
    "none": {},
    "rnd": {"rnd": {}},
    "curiosity": {"curiosity": {}},
    "count": {"count": {}},
    "rnd, lr 1e-4, 1 epoch": {"rnd": {"lr": 1e-4, "epochs": 1, "minibatches": 1}},
}
"""Reward signals with their defaults, beside the environment's reward, which counts twice (Burda et al. 2018); and RND
that learns as slowly as there.
"""


def explore(
    env: str, more: dict[str, Any], seed: int, steps: int, run_dir: Path | None = None
) -> tuple[float, int | None]:
    """Trains once; returns the score, and the env steps after which it first was `SOLVED`."""
    settings = {"sampling.env_processes": 0, "logging.console": "quiet", "stop.env_steps": steps}
    cfg = PPOConfig(**PPO_SETTINGS, **more)
    solved = None
    with Trainer(env, cfg, num_envs=32, seed=seed, config=settings, run_dir=run_dir) as run:
        for result in run.results():
            if solved is None and len(run._windows.totals) == 100 and fmean(run._windows.totals) >= SOLVED:
                solved = result.env_steps
        return fmean(run._windows.totals), solved


def row(title: str, name: str, found: list[tuple[float, int | None]]) -> str:
    """A line of a table."""
    scores = [score for score, _ in found]
    when = ", ".join("never" if at is None else f"{at:,}" for _, at in found)
    shown = ", ".join(f"{score + 0.0:.2f}" for score in scores)
    line = f"| {title} | {name} | {shown} | {median(scores) + 0.0:.2f} | {when} |"
    print(line, flush=True)
    return line


def exploration(seeds: int, steps: int) -> list[str]:
    """Returns the lines of the first table."""
    lines = ["| task | signal | return, each seed | median | 0.9 after env steps, each seed |", "|---|---|---|---|---|"]
    for env, title in TASKS.items():
        for name, signals in SIGNALS.items():
            signals_too = {"signals": {**EXTRINSIC, **signals}}
            lines.append(row(title, name, [explore(env, signals_too, seed, steps) for seed in range(seeds)]))
    return lines


def pretraining(seeds: int, steps: int) -> list[str]:
    """Returns the lines of the second table: 500 gradient steps on 20 demonstrated episodes before the first env step,
    no reward signal, and as a control as many episodes of random play.
    """
    lines = ["| task | what | return, each seed | median | 0.9 after env steps, each seed |", "|---|---|---|---|---|"]
    env, rng = "KeyDoor", np.random.default_rng(0)
    curious: dict[str, Any] = {"signals": {**EXTRINSIC, "curiosity": {}}}
    with TemporaryDirectory() as name:
        folder = Path(name)
        explore(env, curious, 100, steps, folder / "expert")
        record_replay(env, folder / "expert", 20, folder / "shown")
        record_replay(env, lambda obs: int(rng.integers(4)), 20, folder / "random")
        shown, random = ({"replay": (str(folder / kind),), "pretrain_steps": 500} for kind in ("shown", "random"))
        for title, more in {
            "curiosity alone": curious,
            "pre-training alone": {"imitation": {**shown, "strength": 0.0}},
            "pre-training, imitation beside": {"imitation": shown},
            "the same, of random play": {"imitation": random},
        }.items():
            lines.append(row(TASKS[env], title, [explore(env, more, seed, steps) for seed in range(seeds)]))
    return lines


def measured(signals: dict[str, Any]) -> Trainer:
    """A trainer with the settings of cartpole-64, and signals with networks of the policy's width."""
    settings = MATCHED["cartpole-64"]
    paths: dict[str, Any] = on("batched", **{"logging.console": "quiet"})
    model = {"hidden": settings.hidden}
    for name, more in signals.items():
        paths |= {f"algorithm.signals.{name}": {**more} if name == "count" else {**more, "model": model}}
    return trainer(settings, 0, paths=paths)


def demonstrations(folder: Path) -> str:
    """Records random play of CartPole; gives the directory. What is shown does not change the speed."""
    with Trainer("CartPole-v1", DQNConfig(), num_envs=8, seed=0, run_dir=folder / "shown") as run:
        run.collect(env_steps=10_000)
        run.save()
    return str(folder / "shown")


def pace(run: Trainer, seconds: float) -> float:
    """Returns the env steps a second of a trainer that continues."""
    began, steps = perf_counter(), run.env_steps
    while perf_counter() - began < seconds:
        run.train_iteration()
    return (run.env_steps - steps) / (perf_counter() - began)


def speeds(rounds: int, seconds: float) -> list[str]:
    """Returns the lines of the second table."""
    with TemporaryDirectory() as folder:
        shown = {"replay": [demonstrations(Path(folder))]}
        kinds: dict[str, dict[str, Any]] = {
            "PPO": {},
            "rnd": {"rnd": {}},
            "curiosity": {"curiosity": {}},
            "count": {"count": {}},
            "gail": {"gail": shown},
            "rnd, share 1": {"rnd": {"share": 1.0}},
        }
        trainers = {name: measured(signals) for name, signals in kinds.items()}
    for run in trainers.values():
        pace(run, seconds)  # episodes are short at first
    found: dict[str, list[float]] = {name: [] for name in trainers}
    for _ in range(rounds):
        for name, run in trainers.items():
            found[name].append(pace(run, seconds))
    lines = ["| signal, with its defaults | env steps/s | of PPO without |", "|---|---|---|"]
    for name, mine in found.items():
        ratio = median(one / plain for one, plain in zip(mine, found["PPO"], strict=True))
        lines.append(f"| {'none' if name == 'PPO' else name} | {median(mine):,.0f} | {ratio:.2f} |")
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    """Measures and writes; a table that is not measured stays as it was."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=150_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--only", choices=("exploration", "pretraining", "speed"))
    options = parser.parse_args()
    ran = f"Seeds 0 to {options.seeds - 1}, {options.steps:,} env steps each"
    heads = {
        "exploration": f"## What is found\n\n{ran}.",
        "pretraining": f"## What demonstrations save\n\n{ran}; demonstrated are 20 episodes of a run with curiosity.",
        "speed": f"## What it costs\n\nMedians of {options.rounds} rounds in turn, on the settings of cartpole-64.",
    }
    text = FILE.read_text(encoding="utf-8") if FILE.exists() else ""
    parts = {part.split("\n")[0]: part for part in text.split("\n\n## ")[1:]}
    for name, head in heads.items():
        title = head.split("\n")[0].removeprefix("## ")
        if options.only in (None, name):
            if name == "speed":
                lines = speeds(options.rounds, options.seconds)
            else:
                lines = {"exploration": exploration, "pretraining": pretraining}[name](options.seeds, options.steps)
            parts[title] = head.removeprefix("## ") + "\n\n" + "\n".join(lines)
    body = "\n\n".join(f"## {part.strip()}" for part in parts.values())
    FILE.write_text(
        f"# Exploration\n\nMade by `python benchmarks/studies/exploration.py`.\n\n{body}\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
