"""A Python environment of 50 us on two cores, training beside stepping alone: ``python
benchmarks/studies/two_cores.py``.

Settings are those of ``synthetic-50`` of `run.py`. One iteration of training and the same number of steps by a process
for each core, without communication, are measured in turn, many times, with the same work in a step. So both sides of
each ratio meet the same machine, whose clock may change by the second; `run.py` measures them minutes apart, each with
a calibration of its own. Prints a line of JSON: the median of the ratios, their quartiles, and the two rates.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import sys
import time
from multiprocessing.pool import Pool
from pathlib import Path

import torch

from rookery import Trainer

sys.path.append(str(Path(__file__).parents[1]))
from baselines import step_some
from ours import on, trainer
from workloads import MATCHED

from envs import Busy, loops_for

SETTINGS = MATCHED["synthetic"]


def alone(pool: Pool, cores: int, loops: int, steps: int) -> float:
    """Steps a second of all cores together, each of which makes its share of the steps with its share of the copies."""
    return sum(pool.starmap(step_some, [(SETTINGS.num_envs // cores, loops, steps // cores)] * cores, chunksize=1))


def training(made: Trainer) -> tuple[float, float]:
    """Steps a second of an iteration, and of its `env.step` alone."""

    def stepping() -> float:
        return sum(row.seconds for row in made.timers.rows() if row.label == "env.step")

    steps, before, began = made.env_steps, stepping(), time.perf_counter()
    made.train_iteration()
    steps = made.env_steps - steps
    return steps / (time.perf_counter() - began), steps / (stepping() - before)


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--microseconds", type=float, default=50.0)
    args = parser.parse_args()
    cores, loops = os.cpu_count() or 1, loops_for(args.microseconds)
    with (
        multiprocessing.get_context("fork").Pool(cores) as pool,
        trainer(SETTINGS, 0, Busy, on("processes"), env_config={"loops": loops}) as made,
    ):
        for _ in range(3):
            made.train_iteration()
        steps = SETTINGS.num_envs * SETTINGS.fragment_length
        found = [(alone(pool, cores, loops, steps), *training(made)) for _ in range(args.rounds)]
    line: dict[str, object] = {"rounds": args.rounds, "both_cores": round(statistics.median(one[0] for one in found))}
    for at, name in enumerate(("training", "env.step"), start=1):
        low, middle, high = statistics.quantiles([one[at] / one[0] for one in found], n=4)
        line[name] = {
            "steps_per_second": round(statistics.median(one[at] for one in found)),
            "ratio": round(middle, 3),
            "quartiles": [round(low, 3), round(high, 3)],
        }
    print(json.dumps(line | {"cores": cores, "loops": loops, "torch_threads": torch.get_num_threads()}), flush=True)


if __name__ == "__main__":
    main()
