"""Gradient steps a second of IQL, CQL and TD3+BC beside d3rlpy: ``offline_speed.py [--seconds 8] [--rounds 3]``.

Both learn from the same random data with the same networks, batches and learning rates, on one thread, in turn; the
median of the rounds counts. d3rlpy is in an environment of its own (`benchmarks/peers/install.sh d3rlpy`); where it is
not, Rookery is measured alone. Writes `benchmarks/results/offline_speed.md`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from rookery import CQLConfig, IQLConfig, ModelConfig, TD3BCConfig, Trainer
from rookery.core.spaces.arrays import action_spec, obs_spec
from rookery.replay.recording import RecordedEpisode, Recording, write_recordings
from rookery.replay.segments import Spaces

sys.path.append(str(Path(__file__).parents[1]))
sys.path.append(str(Path(__file__).parents[2]))
from benchmarks.learning import machine
from random_data import ACTION, BATCH, EPISODE, LR, OBS, SIZE, random_data

BENCHMARKS = Path(__file__).parents[1]
PEER = BENCHMARKS / "peers" / ".venv-d3rlpy" / "bin" / "python"
WIDTHS = ((64, 64), (256, 256))


def written(folder: Path) -> str:
    """Writes the data as replay."""
    obs, action, reward = random_data()
    seen, done = spaces.Box(-np.inf, np.inf, (OBS,), np.float32), spaces.Box(-1, 1, (ACTION,), np.float32)
    episodes = tuple(
        RecordedEpisode(
            {"obs": obs[at : at + EPISODE]}, action[at : at + EPISODE], reward[at : at + EPISODE], None, False, True,
            {"obs": obs[at + EPISODE : at + EPISODE + 1]},
        )
        for at in range(0, SIZE, EPISODE)
    )  # fmt: skip
    write_recordings(folder / "data", {"main": Recording(Spaces(obs_spec(seen, done), action_spec(done), 0), episodes)})
    return str(folder / "data")


def ours(algorithm: str, hidden: tuple[int, ...], data: str, seconds: float) -> float:
    """Gradient steps a second of Rookery."""
    model = ModelConfig(hidden=hidden, activation="relu")
    shared: dict[str, Any] = {"batch_size": BATCH, "lr": LR, "model": model}
    cfg = {"iql": IQLConfig, "cql": partial(CQLConfig, actor_lr=None), "td3_bc": TD3BCConfig}[algorithm](**shared)
    with Trainer(None, cfg, replay=data, seed=0) as trainer:
        learner = trainer.learners["main"]
        learner.learn(10)
        steps, began = 0, time.perf_counter()
        while time.perf_counter() - began < seconds:
            learner.learn(10)
            steps += 10
        return steps / (time.perf_counter() - began)


def peer(algorithm: str, hidden: tuple[int, ...], seconds: float) -> float:
    """Gradient steps a second of d3rlpy."""
    widths = [str(width) for width in hidden]
    command = [str(PEER), str(BENCHMARKS / "peers" / "d3rlpy_offline.py"), algorithm, "--hidden", *widths]
    ran = subprocess.run([*command, "--seconds", str(seconds)], check=True, capture_output=True, text=True)
    found: float = json.loads(ran.stdout.splitlines()[-1])["steps_per_second"]
    return found


def main() -> None:
    """Measures all and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    about = ", ".join(f"{name} {value}" for name, value in machine().items())
    lines = [
        "# Gradient steps a second on data, beside d3rlpy",
        "",
        "Made by `python benchmarks/studies/offline_speed.py`: batches of 256 from the same random data (17 numbers",
        f"seen, 6 done), the same networks and rates, one thread, {options.rounds} rounds in turn, their median. CQL",
        f"values 30 other actions a decision. Machine: {about}.",
        "",
        "| algorithm | layers | Rookery | d3rlpy 2.8.1 | ratio |",
        "|---|---|---|---|---|",
    ]
    with tempfile.TemporaryDirectory() as folder:
        data = written(Path(folder))
        for algorithm, name in (("iql", "IQL"), ("cql", "CQL"), ("td3_bc", "TD3+BC")):
            for hidden in WIDTHS:
                mine, peers = [], []
                for _ in range(options.rounds):
                    mine.append(ours(algorithm, hidden, data, options.seconds))
                    if PEER.exists():
                        peers.append(peer(algorithm, hidden, options.seconds))
                beside = f"{median(peers):,.1f} | {median(mine) / median(peers):.2f}" if peers else " | "
                widths = " x ".join(map(str, hidden))
                lines.append(f"| {name} | {widths} | {median(mine):,.1f} | {beside} |")
                print(lines[-1], flush=True)
    (BENCHMARKS / "results" / "offline_speed.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
