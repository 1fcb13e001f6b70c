"""Workers on Ray: how much of them plays while the environment is slow, and what weights and rollouts cost to send.

``python benchmarks/studies/workers.py`` writes benchmarks/results/workers.md. It needs the extra ray, and minutes for
starting many processes, which are not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import gymnasium
import numpy as np
import ray
import torch
from gymnasium import spaces

from rookery import IMPALAConfig, PPOConfig, Trainer
from rookery.core.process.cpu import usable_cores

sys.path.append(str(Path(__file__).parents[1]))
from sleeper import BATCH, FRAGMENT, HIDDEN, IN_FLIGHT, STEP_SECONDS, Sleeper, processor_seconds

PAGE = Path(__file__).parents[1] / "results" / "workers.md"
PEER = Path(__file__).parents[1] / "peers"
PEER_PYTHON = PEER / ".venv-rllib" / "bin" / "python"

PEER_WAYS: dict[str, list[str]] = {
    "RLlib": [],
    "RLlib, learner in the driver": ["--learners", "0", "--aggregators", "0"],
}
"""As it is by default, with a learner and two aggregators in processes of their own; and in fewer processes."""


def of_rllib(count: int, seconds: float, way: str) -> dict[str, Any]:
    """Returns the speed of RLlib's IMPALA with `count` env runners, in a process of its own."""
    run = subprocess.run(
        [PEER_PYTHON, PEER / "rllib_impala.py", str(count), "--seconds", str(seconds), *PEER_WAYS[way]],
        stdout=subprocess.PIPE,
        text=True, env=os.environ | {"PYTHONPATH": str(PEER.parent), "OMP_NUM_THREADS": "1"}, check=True, cwd="/",
    )  # fmt: skip
    found: dict[str, Any] = json.loads(next(line for line in reversed(run.stdout.splitlines()) if line.startswith("{")))
    return found


def row_of(who: str, count: int, rate: float, per_second: float, lag: str) -> str:
    """Returns a row of the table of workers."""
    return f"| {who} | {count} | {rate:,.0f} | {rate * STEP_SECONDS / count:.2f} | {per_second:,.0f} | {lag} |"


def of_rookery(count: int, seconds: float, together: int) -> tuple[float, float, float]:
    """Steps a second, steps per CPU second and mean lag of asynchronous workers with one lane each, of which so
    many share a process.
    """
    sampling = {
        "num_envs": count, "workers": count, "asynchronous": True, "warmup_steps": 0,
        "iteration_steps": 200 * count, "max_requests_in_flight": IN_FLIGHT,
    }  # fmt: skip
    algorithm = IMPALAConfig(fragment_length=FRAGMENT, rollout_size=BATCH, model={"hidden": HIDDEN})
    cluster = {"ray": "local", "workers_per_process": together}
    with Trainer(Sleeper, algorithm, seed=0, sampling=sampling, cluster=cluster) as trainer:
        for _ in range(2):
            trainer.train_iteration()
        steps, began, used = trainer.env_steps, time.perf_counter(), processor_seconds()
        while time.perf_counter() - began < seconds:
            result = trainer.train_iteration()
        took, spent = time.perf_counter() - began, processor_seconds() - used
        steps = trainer.env_steps - steps
    lag = result.policies["main"].lag_mean
    return steps / took, steps / spent, lag


def slow_environment(counts: list[int], seconds: float, with_rllib: bool) -> list[str]:
    """Steps a second of asynchronous workers with one lane each, beside what sleeping allows and what RLlib does."""
    lines = [
        "| | workers | env steps/s | of what sleeping allows | steps per CPU second | mean lag, updates |",
        "|---|---|---|---|---|---|",
    ]
    for count in counts:
        for together in sorted({1, -(-count // usable_cores())}):
            rate, per_second, lag = of_rookery(count, seconds, together)
            who = "Rookery" if together == 1 else f"Rookery, {together} workers a process"
            lines.append(row_of(who, count, rate, per_second, f"{lag:.1f}"))
            print(lines[-1], flush=True)
        for way in PEER_WAYS if with_rllib else ():
            found = of_rllib(count, seconds, way)
            lines.append(row_of(way, count, found["rate"], found["per_processor_second"], ""))
            print(lines[-1], flush=True)
    return lines


class Big(gymnasium.Env[np.ndarray, int]):
    """Shows so many numbers that the first layer of a network has the size that is wanted."""

    action_space = spaces.Discrete(2)

    def __init__(self, width: int = 4) -> None:
        self.observation_space = spaces.Box(-1.0, 1.0, (width,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begins an episode."""
        super().reset(seed=seed)
        return np.zeros(self.observation_space.shape or (), np.float32), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Returns a step of an episode that never ends."""
        return np.zeros(self.observation_space.shape or (), np.float32), 1.0, False, False, {}


def transfers(sizes: list[int]) -> list[str]:
    """Milliseconds for handing out weights to two workers, and for fetching their rollouts."""
    lines = [
        "| policy, MB | weights to 2 workers, ms | MB/s | rollouts back, MB | ms a round of 8 vector steps |",
        "|---|---|---|---|---|",
    ]
    for size in sizes:
        hidden = int((size * 1e6 / 4) ** 0.5)
        algorithm = PPOConfig(
            fragment_length=8, model={"hidden": (hidden, hidden), "shared_trunk": True, "native": False}
        )
        sampling = {"num_envs": 2, "workers": 2, "warmup_steps": 0}
        with Trainer(Big, algorithm, seed=0, sampling=sampling, cluster={"ray": "local"}) as trainer:
            trainer.train_iteration()
            policy = trainer.policies["main"]
            weight = sum(tensor.numel() * tensor.element_size() for tensor in policy.parameters()) / 1e6
            sent, played = [], []
            for _ in range(5):
                began = time.perf_counter()
                trainer._pool.set_weights({"main": trainer.learners["main"].behaviour})
                trainer._pool.settle()
                sent.append(1e3 * (time.perf_counter() - began))
                began = time.perf_counter()
                sample = trainer._pool.sample(16)
                played.append(1e3 * (time.perf_counter() - began))
            (rollout,) = sample.rollouts.values()
            tensors: list[torch.Tensor] = []
            rollout.map(lambda _, tensor, found=tensors: found.append(tensor) or tensor)
            bytes_back = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
        took = median(sent)
        rate, back = 2e3 * weight / took, bytes_back / 1e6
        lines.append(f"| {weight:.0f} | {took:.0f} | {rate:,.0f} | {back:.3f} | {median(played):.0f} |")
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    """Measures and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32])
    parser.add_argument("--seconds", type=float, default=20.0, help="of each measurement")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1, 10, 100], help="of policies, MB")
    parser.add_argument("--rllib", action="store_true", help="RLlib's IMPALA in turn (peers/install.sh rllib)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    slow = slow_environment(options.workers, options.seconds, options.rllib)
    sent = transfers(options.sizes)
    cpu = next((line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
                if line.startswith("model name")), "unknown processor")  # fmt: skip
    PAGE.write_text("\n".join([
        "# Workers on Ray", "",
        f"Written by `python benchmarks/studies/{' '.join([Path(sys.argv[0]).name, *sys.argv[1:]])}`.", "",
        f"An environment whose step sleeps {1e3 * STEP_SECONDS:g} ms, one copy a worker, IMPALA with asynchronous "
        "playing; starting is not counted. Sleeping alone would allow 200 steps a second and worker. "
        f"Fragments of {FRAGMENT} steps, {IN_FLIGHT} asked for ahead, batches of {BATCH}, policy and value of "
        f"{' and '.join(map(str, HIDDEN))} units each. Processor time is that of the driver and all processes below, "
        "Ray's own included. RLlib, where it was run, in turn with Rookery, on its new API stack: by its default, with "
        "a learner and two aggregators in processes of their own, and with its learner in the driver; "
        "benchmarks/peers/rllib_impala.py has its settings.", "", *slow, "",
        "Synchronous playing with two workers: what it takes until both act by new weights, and until a round of eight "
        "vector steps is back and put together; torch acts, medians of five.", "", *sent, "",
        f"{cpu}, {usable_cores()} cores, Python {platform.python_version()}, torch {torch.__version__}, "
        f"Ray {ray.__version__}.",
    ]) + "\n")  # fmt: skip


if __name__ == "__main__":
    main()
