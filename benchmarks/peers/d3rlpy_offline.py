"""d3rlpy learns from data: ``d3rlpy_offline.py iql|cql|td3_bc --hidden 256 256 --seconds N``; prints a line of JSON.

Run it with the interpreter of its own environment (`install.sh d3rlpy`). The data are those of
`benchmarks/studies/offline_speed.py`; settings that are not named there are the library's own.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import d3rlpy
import numpy as np
import torch
from d3rlpy.dataset import MDPDataset
from d3rlpy.models.encoders import VectorEncoderFactory

sys.path.insert(0, str(Path(__file__).parent.parent))
from random_data import BATCH, EPISODE, LR, random_data


def learner(algorithm: str, hidden: list[int]) -> Any:
    """The algorithm, as `offline_speed.py` has it."""
    encoder = VectorEncoderFactory(hidden_units=hidden, activation="relu")
    encoders = {"actor_encoder_factory": encoder, "critic_encoder_factory": encoder}
    shared: dict[str, Any] = {"batch_size": BATCH, "actor_learning_rate": LR, "critic_learning_rate": LR, **encoders}
    if algorithm == "iql":
        return d3rlpy.algos.IQLConfig(**shared, value_encoder_factory=encoder).create(device=False)
    if algorithm == "td3_bc":
        return d3rlpy.algos.TD3PlusBCConfig(**shared).create(device=False)
    fixed = {"alpha_learning_rate": 0.0, "temp_learning_rate": LR}  # no learned multiplier
    return d3rlpy.algos.CQLConfig(**shared, **fixed).create(device=False)


def main() -> None:
    """Learns for some seconds and reports."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("algorithm", choices=["iql", "cql", "td3_bc"])
    parser.add_argument("--hidden", type=int, nargs="+", default=[256, 256])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=8.0)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    obs, action, reward = random_data()
    ends = np.zeros(len(reward), np.float32)
    ends[EPISODE - 1 :: EPISODE] = 1.0
    data: Any = MDPDataset(obs[:-1], action, reward[:, None], np.zeros_like(ends), ends)
    algo = learner(args.algorithm, args.hidden)
    algo.build_with_dataset(data)
    for _ in range(10):
        algo.update(data.sample_transition_batch(BATCH))
    steps, began = 0, time.perf_counter()
    while time.perf_counter() - began < args.seconds:
        algo.update(data.sample_transition_batch(BATCH))
        steps += 1
    made = steps / (time.perf_counter() - began)
    print(json.dumps({"steps_per_second": made, "versions": {n: version(n) for n in ("d3rlpy", "torch")}}))


if __name__ == "__main__":
    main()
