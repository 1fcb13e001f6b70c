"""Environments of tensors, where they are and by rows: ``tensor_envs.py``; writes benchmarks/results/tensor_envs.md.

PPO in 4,096 environments of TensorCartPole: env steps a second of sampling alone, by a policy that has not learned, and
of training from the start. Beside it CartPole-v1 in C, which is sampled a fragment in a call. Everything is measured in
turn, five times; the medians are reported. There is a column for a GPU where this machine has one.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
import torch

from rookery import PPOConfig, Trainer
from rookery.core.process.cpu import usable_cores
from rookery.rollout.device_pool import DevicePool

FILE = Path(__file__).parents[1] / "results" / "tensor_envs.md"
COPIES = 4096
STEPS = 32
"""Steps of an environment in a rollout."""
EPOCHS, MINIBATCH = 4, 16_384
PLAYED = 16
"""Rollouts of playing alone."""
TRAINED = 1_500_000
"""Env steps of one training."""
REPEATS = 5


@dataclass(frozen=True)
class Way:
    """One way to sample.

    Attributes:
        title: Title of its row in the table.
        env: Name of the environment.
        native: Whether networks may run on kernels.
        by_rows: Whether an environment of tensors is sampled by rows of arrays.
    """

    title: str
    env: str
    native: bool
    by_rows: bool = False


WAYS = (
    Way("tensors where they are, policy on kernels", "TensorCartPole", True),
    Way("tensors by rows, policy on kernels", "TensorCartPole", True, by_rows=True),
    Way("tensors where they are, policy by torch", "TensorCartPole", False),
    Way("tensors by rows, policy by torch", "TensorCartPole", False, by_rows=True),
    Way("CartPole-v1 in C, policy on kernels", "CartPole-v1", True),
)


def made(way: Way, device: str) -> Trainer:
    """Makes a trainer that plays in a way."""
    model = {"hidden": (64, 64), "native": way.native}
    settings = PPOConfig(fragment_length=STEPS, epochs=EPOCHS, minibatch_size=MINIBATCH, model=model)
    config = {"threads": usable_cores(), "logging.console": "quiet"}
    trainer = Trainer(way.env, settings, num_envs=COPIES, seed=0, device=device, config=config)
    if way.by_rows:
        trainer._pool.worker.fast_loop = None
    elif way.env == "TensorCartPole":
        assert isinstance(trainer._pool, DevicePool)
        assert not trainer._pool.obstacle
    return trainer


def finish(device: str) -> float:
    """The time, when the device has done what it was asked for."""
    if device != "cpu":
        torch.cuda.synchronize()
    return perf_counter()


def playing(way: Way, device: str) -> float:
    """Env steps a second of playing alone."""
    with made(way, device) as trainer:
        trainer._pool.sample(STEPS * COPIES)
        began = finish(device)
        for _ in range(PLAYED):
            trainer._pool.sample(STEPS * COPIES)
        return PLAYED * STEPS * COPIES / (finish(device) - began)


def training(way: Way, device: str) -> float:
    """Env steps a second of a training."""
    with made(way, device) as trainer:
        first = trainer.train_iteration().env_steps
        began = finish(device)
        while (result := trainer.train_iteration()).env_steps < TRAINED:
            pass
        return (result.env_steps - first) / (finish(device) - began)


def machine() -> str:
    """Returns the machine and the versions of the measurements."""
    versions = f"Python {platform.python_version()}, torch {torch.__version__}, numpy {np.__version__}"
    return f"{platform.machine()}, {usable_cores()} cores, {versions}."


def main() -> None:
    """Measures and writes."""
    devices = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
    columns = [(device, what) for device in devices for what in ("playing alone", "training")]
    measure = {"playing alone": playing, "training": training}
    rates: dict[tuple[Way, str, str], list[float]] = {}
    for repeat in range(REPEATS + 1):  # the first round warms up
        for way in WAYS:
            for device, what in columns:
                if device == "cpu" or (way.env == "TensorCartPole" and not way.native):
                    rate = measure[what](way, device)
                    rates.setdefault((way, device, what), []).extend([rate] if repeat else [])
    lines = [f"| env steps a second | {' | '.join(f'{what}, {device}' for device, what in columns)} |"]
    lines.append("|---" * (len(columns) + 1) + "|")
    for way in WAYS:
        found = [rates.get((way, device, what), []) for device, what in columns]
        lines.append(f"| {way.title} | {' | '.join(f'{median(one) / 1e3:,.0f} k' if one else '' for one in found)} |")
    spread = max(max(one) / min(one) for one in rates.values())
    about = [
        f"PPO with a network of 64 and 64 in {COPIES:,} copies x {STEPS} steps, {EPOCHS} epochs in minibatches of "
        f"{MINIBATCH:,}; {usable_cores()} threads may learn, one plays.",
        f"Made by `python benchmarks/studies/tensor_envs.py`: medians of {REPEATS}, in turn, which differ by up to "
        f"{spread:.1f} x. {machine()}",
    ]
    if devices == ["cpu"]:
        about.append("This machine has no GPU, so there is no column for one.")
    FILE.write_text("\n".join(["# Environments of tensors", "", *lines, "", *about]) + "\n", encoding="utf-8")
    print(FILE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
