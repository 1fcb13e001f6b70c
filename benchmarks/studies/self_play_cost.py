"""Cost of snapshots as opponents: ``self_play_cost.py [--snapshots 100] [--lanes 64] [--repeats 30]``.

A worker plays tic-tac-toe in 64 lanes. One side is played by a policy, the other by one frozen opponent, or by 100
snapshots drawn anew for every episode. Measured are seconds of CPU time of a vector step: each way is timed in turn,
many times, and the medians are compared. Writes benchmarks/results/self_play_cost.md.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from statistics import median
from textwrap import fill

import numpy as np
import torch

from rookery import PPOConfig, Trainer
from rookery.rollout.worker import RolloutWorker
from rookery.run.checkpoint.run_dir import versions
from rookery.run.opponents.self_play import frozen

FILE = Path(__file__).parents[1] / "results" / "self_play_cost.md"

LIMIT = 1.5
"""Times the cost of one opponent that any number of snapshots may cost."""


def trainer(lanes: int, snapshots: int, seed: int) -> Trainer:
    """Makes a run that has played a while against so many snapshots of different weights, or one frozen opponent."""
    settings = {"window": None, "latest_ratio": 0.0, "swap_every": 0, "rating_games": 0}
    made = Trainer(
        "rookery.tasks:TicTacToe",
        PPOConfig(fragment_length=16, rollout_size=lanes * 10_000),
        num_envs=lanes,
        seed=seed,
        self_play={"main": settings},
    )
    kept = made._self_play.snapshots["main"]
    generator = torch.Generator().manual_seed(seed)
    for number in range(2, snapshots + 1):
        kept[number] = frozen(kept[1])
        for weight in kept[number].parameters():
            weight.add_(0.1 * torch.randn(weight.shape, generator=generator))
    contender = made._self_play.contenders["main"]
    contender.window = list(range(1, snapshots + 1))
    names = [f"main@{number}" for number in contender.window]
    pool = {"names": names, "shares": [1.0 / max(snapshots, 1)] * snapshots, "deal": 1, "each": True}
    lineup = {**made._self_play.lineup, "pools": {"main": {"main": pool}}, "kept": {"main": contender.window}}
    if snapshots == 0:  # the policy that plays as it is, on its own kernel
        pool.update(names=["main@now"], shares=[1.0])
    made._pool.change_opponents(lineup)
    play(made._pool.worker, 200)
    return made


def play(worker: RolloutWorker, steps: int) -> float:
    """Plays so many vector steps; returns the seconds of each."""
    began = time.process_time()
    worker.sample(steps * worker.env.num_lanes)
    return (time.process_time() - began) / steps


def main() -> None:
    """Measures and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--snapshots", type=int, default=100)
    parser.add_argument("--lanes", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=30)
    args = parser.parse_args()
    many = f"{args.snapshots} snapshots"
    ways = {"one frozen opponent": 0, "1 snapshot": 1, "10 snapshots": 10, many: args.snapshots}
    runs = {name: trainer(args.lanes, snapshots, seed=1) for name, snapshots in ways.items()}
    took: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(args.repeats):
        for name, run in runs.items():
            took[name].append(play(run._pool.worker, 50))
    base = median(took["one frozen opponent"])
    distinct = len(np.unique(runs[many]._pool.worker.policies["main@"].member))
    lines = ["# What snapshots cost", "", fill((__doc__ or "").split("\n\n", 1)[1].replace("``", "`"), 120), ""]
    lines += ["| opponents | us a vector step | times one |", "|---|---|---|"]
    for name, each in took.items():
        lines.append(f"| {name} | {1e6 * median(each):.0f} | {median(each) / base:.2f} |")
    path = runs["1 snapshot"].paths["main"]
    lines += ["", f"Limit: {LIMIT} times. {distinct} different snapshots play at the end. Policy 18-64-64-9 on {path}."]
    lines += ["", ", ".join(f"{name} {value}" for name, value in versions().items()) + "; one core."]
    FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
