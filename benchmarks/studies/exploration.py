"""Exploration by reward signals: ``exploration.py [--seeds 5] [--steps 150000] [--rounds 7] [--seconds 2]``; writes
benchmarks/results/exploration.md.

PPO learns two tasks in which chance hardly ever finds the only reward, with each reward signal, all else being equal.
The controls have no signal: PPO as it is, where nothing moves the policy before the first reward; PPO that enlarges the
noise of advantages to a standard deviation of 1 (no `ReturnSpread`), so that its policy wanders; and PPO that learns
nothing, which is random play. Reported are the mean return of the last 100 training episodes, in which actions are
still drawn, the env steps after which the mean first was at least 0.9, and how many training episodes reached the goal.
Then the speed of PPO on the settings of cartpole-64, with each signal at the policy's width and without any: trainers
run in turn in one process; reported is the median of the rounds' ratios. Nothing else should run on the machine
meanwhile.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any
from unittest.mock import patch

import numpy as np

from rookery import DQNConfig, Linear, PPOConfig, Trainer, record_replay
from rookery.signals.return_spread import ReturnSpread

sys.path.append(str(Path(__file__).parents[1]))
from ours import on, trainer
from workloads import MATCHED

FILE = Path(__file__).parents[1] / "results" / "exploration.md"

TASKS = {"DeepSea": "DeepSea, size 15", "KeyDoor": "KeyDoor, size 9, 100 steps"}
"""Environments and what they are called."""

SOLVED = 0.9
UNSOLVED = 0.1
"""Median return that a control must stay below, in both tasks the return of one goal in ten episodes."""

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
    "rnd": {"rnd": {}},
    "curiosity": {"curiosity": {}},
    "count": {"count": {}},
    "rnd, lr 1e-4, 1 epoch": {"rnd": {"lr": 1e-4, "epochs": 1, "minibatches": 1}},
}
"""Reward signals with their defaults, beside the environment's reward, which counts twice (Burda et al. 2018); and RND
that learns as slowly as there.
"""

ENLARGED = "none, noise enlarged"
CONTROLS: dict[str, dict[str, Any]] = {"none": {}, ENLARGED: {}, "nothing learned": {"lr": 1e-12}}
"""Runs without a signal, with other settings."""


@dataclass(frozen=True)
class Explored:
    """Result of one training.

    Attributes:
        score: Mean return of the last 100 episodes.
        solved: Env steps after which it first was `SOLVED`.
        goals: Episodes that reached the goal.
        episodes: All episodes.
    """

    score: float
    solved: int | None
    goals: int
    episodes: int


def explore(
    env: str, more: dict[str, Any], seed: int, steps: int, run_dir: Path | None = None, enlarged: bool = False
) -> Explored:
    """Trains once; `enlarged` normalizes advantages before the first reward too."""
    settings = {"sampling.env_processes": 0, "logging.console": "quiet", "stop.env_steps": steps}
    cfg = PPOConfig(**{**PPO_SETTINGS, **more})
    solved, goals = None, 0
    floor = patch.object(ReturnSpread, "least_deviation", lambda *_: 0.0) if enlarged else nullcontext()
    with floor, Trainer(env, cfg, num_envs=32, seed=seed, config=settings, run_dir=run_dir) as run:
        run._windows.kept = []
        for result in run.results():
            goals += sum(episode.total > 0.5 for episode in run._windows.kept)
            run._windows.kept.clear()
            if solved is None and len(run._windows.totals) == 100 and fmean(run._windows.totals) >= SOLVED:
                solved = result.env_steps
        return Explored(fmean(run._windows.totals), solved, goals, run._windows.episodes)


FOUND = """
Without a signal the goal stays as rare as in random play, so the claims of the signals hold against each control.
Enlarged noise does not lead to it either: on KeyDoor, 1,000,000 env steps of seeds 0 to 2 had 2 goals in 29,952
episodes as PPO is, and none with enlarged noise, which are too few to tell the two apart. On DeepSea each step towards
the treasure costs something: without a signal PPO learns to save it.
"""
"""What the page says above the first table."""

HEAD = [
    "| task | {} | return, each seed | median | 0.9 after env steps, each seed | goals of episodes | asked | held |",
    "|---|---|---|---|---|---|---|---|",
]


def row(title: str, name: str, found: list[Explored], asked: float | None = SOLVED) -> str:
    """A line of a table; `asked` is `SOLVED` or more, less than `UNSOLVED` for a control, or nothing."""
    middle = median(one.score for one in found) + 0.0
    when = ", ".join("never" if one.solved is None else f"{one.solved:,}" for one in found)
    shown = ", ".join(f"{one.score + 0.0:.2f}" for one in found)
    goals = f"{sum(one.goals for one in found):,} of {sum(one.episodes for one in found):,}"
    words = {SOLVED: f">= {SOLVED}", UNSOLVED: f"< {UNSOLVED} (control)", None: "recorded"}[asked]
    held = "" if asked is None else "yes" if (middle >= SOLVED if asked == SOLVED else middle < UNSOLVED) else "no"
    line = f"| {title} | {name} | {shown} | {middle:.2f} | {when} | {goals} | {words} | {held} |"
    print(line, flush=True)
    return line


def exploration(seeds: int, steps: int) -> list[str]:
    """Returns the lines of the first table."""
    lines = [HEAD[0].format("signal"), HEAD[1]]
    for env, title in TASKS.items():
        for name, more in CONTROLS.items():
            found = [explore(env, more, seed, steps, enlarged=name == ENLARGED) for seed in range(seeds)]
            lines.append(row(title, name, found, UNSOLVED))
        for name, signals in SIGNALS.items():
            signals_too = {"signals": {**EXTRINSIC, **signals}}
            found = [explore(env, signals_too, seed, steps) for seed in range(seeds)]
            lines.append(row(title, name, found, SOLVED if name in signals else None))
    return lines


def pretraining(seeds: int, steps: int) -> list[str]:
    """Returns the lines of the second table: 500 gradient steps on 20 demonstrated episodes before the first env step,
    no reward signal, and as a control as many episodes of random play.
    """
    lines = [HEAD[0].format("what"), HEAD[1]]
    env, rng = "KeyDoor", np.random.default_rng(0)
    curious: dict[str, Any] = {"signals": {**EXTRINSIC, "curiosity": {}}}
    with TemporaryDirectory() as name:
        folder = Path(name)
        explore(env, curious, 100, steps, folder / "expert")
        record_replay(env, folder / "expert", 20, folder / "shown")
        record_replay(env, lambda obs: int(rng.integers(4)), 20, folder / "random")
        shown, random = ({"replay": (str(folder / kind),), "pretrain_steps": 500} for kind in ("shown", "random"))
        for title, more, asked in (
            ("curiosity alone", curious, SOLVED),
            ("pre-training alone", {"imitation": {**shown, "strength": 0.0}}, None),
            ("pre-training alone, noise enlarged", {"imitation": {**shown, "strength": 0.0}}, None),
            ("pre-training, imitation beside", {"imitation": shown}, SOLVED),
            ("the same, of random play", {"imitation": random}, UNSOLVED),
        ):
            enlarged = title.endswith("noise enlarged")
            found = [explore(env, more, seed, steps, enlarged=enlarged) for seed in range(seeds)]
            lines.append(row(TASKS[env], title, found, asked))
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
        "exploration": f"## What is found\n\n{ran}.\n{FOUND.rstrip()}",
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
