"""The guard: short runs whose weights must not change while the code is rearranged.

Sixteen runs, each on compiled kernels and in torch, with every setting written out in `guard.json`, so that later
defaults do not reach them. A run's hash is over the bytes of all its policies' weights. Bits depend on the processor
and on the version of torch, therefore the file says where it was written, and a comparison elsewhere means nothing.

    python benchmarks/guard.py                 # compares; exit 1 if a run differs
    python benchmarks/guard.py --only dqn      # runs whose names contain this
    python benchmarks/guard.py --write         # writes the hashes that are found, for runs whose settings stay
    python benchmarks/guard.py --settle        # writes the settings of new runs out, too
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

FILE = Path(__file__).with_name("guard.json")

BODY = {"algorithm.model.hidden": [32, 32]}
PPO = {"algorithm.name": "ppo", "algorithm.epochs": 3, "algorithm.minibatch_size": 64, "algorithm.fragment_length": 32}
REPLAY = {
    "algorithm.learning_starts": 200,
    "algorithm.batch_size": 32,
    "algorithm.replay.capacity": 5000,
    "sampling.iteration_steps": 400,
    "sampling.num_envs": 4,
}
DQN = {"algorithm.name": "dqn", "env.name": "CartPole-v1", **REPLAY}

RUNS: dict[str, tuple[int, dict[str, Any]]] = {
    "ppo-discrete": (4, {**PPO, "env.name": "CartPole-v1"}),
    "ppo-continuous": (4, {**PPO, "env.name": "Pendulum-v1", "algorithm.scale_rewards": True}),
    "ppo-lstm": (4, {**PPO, "env.name": "StatelessCartPole", "algorithm.model.memory.kind": "lstm"}),
    "ppo-attention": (2, {**PPO, "env.name": "StatelessCartPole", "algorithm.model.memory.kind": "attention"}),
    "ppo-kl": (4, {**PPO, "env.name": "CartPole-v1", "algorithm.kl_coef": 0.2, "algorithm.target_kl": 0.02}),
    "ppo-two-policies": (
        3,
        {
            **PPO,
            "env.name": "MultiAgentArena",
            "policies": {"pol1": {"lr": 3e-4}, "pol2": {"lr": 4e-4, "gamma": 0.95}},
            "policy_mapping": {"agent1": "pol1", "agent2": "pol2"},
        },
    ),
    "ppo-turns": (4, {**PPO, "env.name": "TwoCues"}),
    "a2c": (20, {"algorithm.name": "a2c", "env.name": "CartPole-v1"}),
    "dqn": (3, DQN),
    "dqn-prioritized": (
        3,
        {**DQN, "algorithm.replay.kind": "prioritized", "algorithm.n_step": 3, "algorithm.dueling": True},
    ),
    "r2d2": (
        2,
        {
            **DQN,
            "env.name": "StatelessCartPole",
            "algorithm.model.memory.kind": "lstm",
            "algorithm.model.memory.sequence_length": 8,
            "algorithm.replay.burn_in": 4,
            "algorithm.replay.kind": "prioritized",
            "algorithm.batch_size": 8,
        },
    ),
    "c51": (3, {**DQN, "algorithm.values.kind": "categorical", "algorithm.values.low": 0, "algorithm.values.high": 50}),
    "sac": (2, {**REPLAY, "algorithm.name": "sac", "env.name": "Pendulum-v1"}),
    "td3": (2, {**REPLAY, "algorithm.name": "td3", "env.name": "Pendulum-v1"}),
    "helpers-2": (
        4,
        {**PPO, "env.name": "Pendulum-v1", "env.implementation": "processes", "sampling.helpers": 2},
    ),
    "staleness-1": (4, {**PPO, "env.name": "CartPole-v1", "sampling.staleness": 1}),
}
"""Iterations, and what makes the run what it is; everything else is written out by `--settle`."""


def settings_of(name: str) -> dict[str, Any]:
    """Every setting of a run by path, as today's defaults and presets have them."""
    from rookery import Trainer

    _, own = RUNS[name]
    values = {"seed": 7, "sampling.helpers": 0, "sampling.warmup_steps": 64, "threads": 1, **BODY, **own}
    with Trainer(config=values) as trainer:
        history = trainer.resolved.history
        return {path: plain(given[-1][1]) for path, given in history.items()} | {"seed": trainer.seed}


def plain(value: Any) -> Any:
    """A value as JSON keeps it."""
    from rookery.core.schedules import Schedule, write_schedule

    if isinstance(value, Schedule):
        return write_schedule(value)
    return list(value) if isinstance(value, tuple) else value


def weights_hash(name: str, settings: dict[str, Any], native: bool) -> str:
    """Trains a run and hashes the weights of its policies."""
    from rookery import Trainer

    iterations, _ = RUNS[name]
    values = {path: native if path.endswith("model.native") else value for path, value in settings.items()}
    with Trainer(config=values) as trainer:
        for _ in range(iterations):
            trainer.train_iteration()
        digest = hashlib.sha256()
        for policy in sorted(trainer.policies):
            weights = trainer.policies[policy].parameters()
            for part in sorted(hashlib.sha256(np.asarray(weight.detach()).tobytes()).hexdigest() for weight in weights):
                digest.update(part.encode())
        return digest.hexdigest()[:16]


def main() -> int:
    """Compares or writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--settle", action="store_true")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    kept = json.loads(FILE.read_text()) if FILE.exists() else {"runs": {}}
    changed = []
    for name in [name for name in RUNS if options.only in name]:
        run = kept["runs"].setdefault(name, {})
        if options.settle or "settings" not in run:
            run["settings"] = settings_of(name)
        began, found = time.perf_counter(), {}
        for path, native in {"kernels": True, "torch": False}.items():
            found[path] = weights_hash(name, run["settings"], native)
        before = run.get("weights", {})
        different = [path for path in found if found[path] != before.get(path)]
        verdict = "as before" if not different else f"CHANGED on {', '.join(different)}"
        print(
            f"{name:18} {found['kernels']} {found['torch']}  {verdict}  ({time.perf_counter() - began:.1f} s)",
            flush=True,
        )
        changed += different
        run["weights"] = found
    if options.write or options.settle:
        kept["where"] = {"machine": platform.processor() or platform.machine(), "torch": torch.__version__}
        kept["where"]["cores"] = os.cpu_count()
        FILE.write_text(json.dumps(kept, indent=1) + "\n")
        return 0
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
