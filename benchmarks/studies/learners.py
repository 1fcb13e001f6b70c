"""Several learners on one machine: how fast one and two are, on small and on large networks, and what agreeing costs.

``python benchmarks/studies/learners.py`` writes benchmarks/results/learners.md, in about five minutes.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import torch

from rookery import PPOConfig, Trainer
from rookery.core.process.cpu import usable_cores
from rookery.extend import meet

PAGE = Path(__file__).parents[1] / "results" / "learners.md"
TIMES = 3

WORKLOADS: dict[str, dict[str, Any]] = {
    "CartPole-v1, its preset": {"config": {}},
    "CartPole-v1, 2 x 256 units, minibatches of 1,024": {
        "algorithm": PPOConfig(minibatch_size=1024, fragment_length=256, epochs=4, model={"hidden": (256, 256)}),
        "num_envs": 16,
    },
    "CartPole-v1, 2 x 1,024 units, minibatches of 1,024": {
        "algorithm": PPOConfig(minibatch_size=1024, fragment_length=256, epochs=4, model={"hidden": (1024, 1024)}),
        "num_envs": 16,
    },
}
"""What is learned. Minibatches are those of one learner; two have half of them each, which is the same learning."""


def steps_per_second(workload: dict[str, Any], learners: int, seconds: float) -> float:
    """Measures the environment steps that so many learners make in a second; starting is not counted."""
    given = dict(workload)
    config = {**given.pop("config", {}), "cluster.learners": learners}
    if "algorithm" in given:
        algorithm = given["algorithm"]
        given["algorithm"] = algorithm.replace(minibatch_size=algorithm.minibatch_size // learners)
    with Trainer("CartPole-v1", seed=0, config=config, **given) as trainer:
        trainer.train_iteration()
        steps, began = trainer.env_steps, time.perf_counter()
        while time.perf_counter() - began < seconds:
            trainer.train_iteration()
        return (trainer.env_steps - steps) / (time.perf_counter() - began)


def speeds(seconds: float) -> list[str]:
    """Compares one learner with two, in turn."""
    lines = ["| | one learner, env steps/s | two learners | two : one |", "|---|---|---|---|"]
    for name, workload in WORKLOADS.items():
        found: dict[int, list[float]] = {1: [], 2: []}
        for _ in range(TIMES):
            for learners, rates in found.items():
                rates.append(steps_per_second(workload, learners, seconds))
        one, two = (median(rates) for rates in found.values())
        lines.append(f"| {name} | {one:,.0f} | {two:,.0f} | {two / one:.2f} |")
        print(lines[-1], flush=True)
    return lines


def exchanges(sizes: list[int]) -> list[str]:
    """Times a sum of so many numbers over two ranks, which are threads of this process."""
    lines = ["| numbers | ms a sum |", "|---|---|"]
    for size in sizes:
        with TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
            work: Callable[[int], float] = lambda rank, size=size, folder=folder: timed(folder, rank, size)  # noqa: E731
            took, _ = pool.map(work, range(2))
        lines.append(f"| {size:,} | {1e3 * took:.2f} |")
        print(lines[-1], flush=True)
    return lines


def timed(folder: str, rank: int, size: int) -> float:
    """Returns the median seconds of a sum, at one of two ranks."""
    ranks, found = meet(Path(folder) / "meeting", rank, 2), []
    for _ in range(5 + max(5, min(200, 20_000_000 // size))):
        values = torch.ones(size)
        began = time.perf_counter()
        ranks.sums(values)
        found.append(time.perf_counter() - began)
    return median(found[5:])


def main() -> None:
    """Measures and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=8.0, help="of each measurement")
    options = parser.parse_args()
    torch.set_num_threads(1)
    learned, summed = speeds(options.seconds), exchanges([1_000, 10_000, 100_000, 1_000_000, 10_000_000])
    cpu = next((line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
                if line.startswith("model name")), "unknown processor")  # fmt: skip
    PAGE.write_text("\n".join([
        "# Several learners", "",
        f"Written by `python benchmarks/studies/{' '.join([Path(sys.argv[0]).name, *sys.argv[1:]])}`.", "",
        "PPO, by `cluster.learners` on one machine, in turn, medians of three. One learner may use the cores that two "
        "have: helpers that step environments, threads for large networks. Two have minibatches of half the size, so "
        "both learn the same; the preset's minibatches stay as they are.", "", *learned, "",
        "A sum over two ranks of one machine, medians: up to 65,536 numbers each rank sends its own to the other, more "
        "go by gloo's all-reduce.", "", *summed, "",
        f"{cpu}, {usable_cores()} cores, Python {platform.python_version()}, torch {torch.__version__}.",
    ]) + "\n")  # fmt: skip


if __name__ == "__main__":
    main()
