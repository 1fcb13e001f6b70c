"""Speed of stepping the synthetic environment without learning: ``baselines.py WHAT MICROSECONDS --seconds N``.

``both-cores``: one process per core steps its share of the environments, one after the other, without communication.
``async``: Gymnasium's `AsyncVectorEnv`, one process per environment. Prints a line of JSON.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
from functools import partial
from importlib.metadata import version

import gymnasium
import numpy as np
from measure import memory, process_tree
from workloads import MATCHED

from envs import Busy, loops_for

COPIES = MATCHED["synthetic"].num_envs


def begun(copies: int, loops: int) -> list[Busy]:
    """Environments whose first episode has begun."""
    envs = [Busy(loops) for _ in range(copies)]
    for env in envs:
        env.reset()
    return envs


def step_each(envs: list[Busy]) -> None:
    """Makes one step of each."""
    for env in envs:
        *_, terminated, truncated, _ = env.step(0)
        if terminated or truncated:
            env.reset()


def step_alone(copies: int, loops: int, seconds: float) -> float:
    """Steps a second of `copies` stepped in a loop."""
    envs, steps, began = begun(copies, loops), 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        step_each(envs)
        steps += copies
    return steps / (time.perf_counter() - began)


def step_some(copies: int, loops: int, steps: int) -> float:
    """Steps a second of `copies` stepped in a loop until they have made so many steps together."""
    envs, began = begun(copies, loops), time.perf_counter()
    for _ in range(steps // copies):
        step_each(envs)
    return steps / (time.perf_counter() - began)


def both_cores(loops: int, seconds: float) -> dict[str, float]:
    """Returns the steps a second of all cores together."""
    cores = os.cpu_count() or 1
    with multiprocessing.get_context("fork").Pool(cores) as pool:
        return {"steps_per_second": sum(pool.starmap(step_alone, [(COPIES // cores, loops, seconds)] * cores))}


def gymnasium_async(loops: int, seconds: float) -> dict[str, float]:
    """Returns the steps a second of Gymnasium's processes, with shared memory."""
    env = gymnasium.vector.AsyncVectorEnv([partial(Busy, loops)] * COPIES, context="fork")
    env.reset(seed=0)
    actions = np.zeros(COPIES, dtype=np.int64)
    steps = 0
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        env.step(actions)
        steps += COPIES
    elapsed = time.perf_counter() - began
    pss, rss = memory(process_tree(os.getpid()))
    env.close()
    return {"steps_per_second": steps / elapsed, "pss_mb": round(pss, 1), "rss_mb": round(rss, 1)}


def main() -> None:
    """Measures and prints."""
    measurements = {"both-cores": both_cores, "async": gymnasium_async}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=measurements)
    parser.add_argument("microseconds", type=float)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--seed", type=int, default=0, help="of no effect")
    args = parser.parse_args()
    found = measurements[args.what](loops_for(args.microseconds), args.seconds)
    versions = {name: version(name) for name in ("gymnasium", "numpy")}
    print(json.dumps({**found, "versions": versions}), flush=True)


if __name__ == "__main__":
    main()
