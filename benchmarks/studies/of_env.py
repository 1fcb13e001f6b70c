"""Training beside stepping its copies alone, in turn: ``python benchmarks/studies/of_env.py [WORKLOAD] [--rounds N]``.

The column "of env" of `limits` compares two rates that were measured seconds apart, between which a rented machine
changes its clock. Here one iteration of training and as many random steps of copies of their own, by the same back end,
are measured in turn, so that both sides of each ratio meet the same machine. Prints a line of JSON: the median of the
ratios, their quartiles, both rates, and the median milliseconds of an iteration by part.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

import numpy as np

from rookery import Trainer
from rookery.envs.choice import random_rate
from rookery.run.plan.speed import PARTS

sys.path.append(str(Path(__file__).parents[1]))
from ours import LIMITED, about

ROUND_SECONDS = 0.1
"""How long copies are stepped alone in a round."""


def parts(made: Trainer) -> dict[str, float]:
    """Milliseconds spent in each part of an iteration so far."""
    spent = dict.fromkeys(PARTS.values(), 0.0)
    for row in made.timers.rows():
        if row.label in PARTS:
            spent[PARTS[row.label]] += 1000 * row.seconds
    return spent


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workload", nargs="?", default="halfcheetah", choices=LIMITED)
    parser.add_argument("--rounds", type=int, default=60)
    args = parser.parse_args()
    make, rng = LIMITED[args.workload], np.random.default_rng(0)
    found: list[tuple[float, float]] = []
    by_part: list[dict[str, float]] = []
    with make(seed=0) as made, make(seed=0) as stepped:
        for _ in range(4):
            made.train_iteration()
        for _ in range(args.rounds):
            alone = random_rate(stepped.env, lambda lane, episode: episode, ROUND_SECONDS, rng)
            steps, before, began = made.env_steps, parts(made), time.perf_counter()
            made.train_iteration()
            found.append((alone, (made.env_steps - steps) / (time.perf_counter() - began)))
            by_part.append({name: spent - before[name] for name, spent in parts(made).items()})
        line = about(made)
    low, middle, high = statistics.quantiles([trained / alone for alone, trained in found], n=4)
    line |= {
        "rounds": args.rounds,
        "alone": round(statistics.median(alone for alone, _ in found)),
        "training": round(statistics.median(trained for _, trained in found)),
        "ratio": round(middle, 3),
        "quartiles": [round(low, 3), round(high, 3)],
        "milliseconds": {name: round(statistics.median(each[name] for each in by_part), 1) for name in by_part[0]},
    }
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
