"""Ours beside ML-Agents' own trainer on the line of its tests: ``mlagents.py [--rounds 5]``; writes
benchmarks/results/mlagents.md.

Both read the same section of a behaviour and train to its `max_steps` in a process of their own, in turn, the order of
a round being that of the round before in reverse; one thread of torch each. Timed is training alone, from the first
step to the last: no start of Python, no socket. ML-Agents is version 1.1.0 on `peers/mlagents_toy.py`, with its
writers of statistics and models off; Rookery is ``rookery mlagents learn`` on `rookery.tasks:OneDimension`, which has
the same rules, with all its files on. The peer needs ``benchmarks/peers/install.sh mlagents``, or ``--peer PYTHON``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

BENCHMARKS = Path(__file__).parents[1]
PEER = BENCHMARKS / "peers" / ".venv-mlagents" / "bin" / "python"
PAGE = BENCHMARKS / "results" / "mlagents.md"

NETWORK = {"num_layers": 1, "hidden_units": 32}
PPO = {
    "trainer_type": "ppo",
    "hyperparameters": {
        "learning_rate": 5e-3,
        "learning_rate_schedule": "constant",
        "batch_size": 16,
        "buffer_size": 64,
    },
    "network_settings": NETWORK,
    "time_horizon": 16,
    "summary_freq": 5000,
}
USUAL = {**PPO, "hyperparameters": {}, "network_settings": {}, "time_horizon": 64}
SAC = {
    "trainer_type": "sac",
    "hyperparameters": {
        "learning_rate": 5e-3,
        "batch_size": 8,
        "buffer_size": 5000,
        "buffer_init_steps": 100,
        "tau": 0.01,
        "init_entcoef": 0.01,
    },
    "network_settings": NETWORK,
    "summary_freq": 5000,
}
WORKLOADS: dict[str, tuple[str, dict[str, Any], int]] = {
    "ppo-tests": ("PPO as in its tests, one agent", {**PPO, "max_steps": 10_000}, 1),
    "ppo": ("PPO by defaults, 12 agents", {**USUAL, "max_steps": 61_440}, 12),
    "sac-tests": ("SAC as in its tests, one agent", {**SAC, "max_steps": 2000}, 1),
}
WANTED = 10.0
"""Wanted ratio of Rookery's speed to ML-Agents'."""


def train_here(section: dict[str, Any], agents: int) -> dict[str, float]:
    """Trains with Rookery in this process."""
    import torch

    from rookery.core.settings.layers import Layer
    from rookery_mlagents.learn.learn import Request, learning

    def no_changes(folder: Path, layers: Sequence[Layer], request: Request) -> Layer:
        raise AssertionError(f"{folder}: the run resumes")

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "line.yaml"
        file.write_text(json.dumps({"behaviors": {"Line": section}}), encoding="utf-8")  # JSON is YAML
        flags = {"env": "rookery.tasks:OneDimension", "num_envs": agents, "seed": 0, "results_dir": folder}
        with learning(Request(str(file), flags, "quiet", None, False, False), no_changes) as session:
            began, processor = time.perf_counter(), time.process_time()
            session.trainer.train()
            seconds, processor = time.perf_counter() - began, time.process_time() - processor
            rows = (session.folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    last = json.loads(rows[-1])
    steps, earned = last["policies/Line/decisions"], last["policies/Line/return_mean"]
    return {"seconds": seconds, "processor": processor, "steps": steps, "return": earned}


def measured(workload: str, peer: Path | None) -> dict[str, float]:
    """Trains in a process of its own, there or here."""
    _, section, agents = WORKLOADS[workload]
    words = [str(peer), str(BENCHMARKS / "peers" / "mlagents_toy.py")] if peer else [sys.executable, __file__, "--here"]
    given = [json.dumps(section), "--agents", str(agents)] if peer else [workload]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*words, *given], check=True, capture_output=True, text=True, env=env)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    """Measures and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument("--peer", type=Path, default=PEER)
    parser.add_argument("--here", choices=WORKLOADS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.here:
        print(json.dumps(train_here(*WORKLOADS[args.here][1:])))
        return
    rows = ["| workload | steps | Rookery, steps/s | ML-Agents, steps/s | Rookery / ML-Agents | wanted | "
            "return, Rookery | return, ML-Agents |",
            "|---|---|---|---|---|---|---|---|"]  # fmt: skip
    for workload in args.only:
        found: dict[bool, list[dict[str, float]]] = {False: [], True: []}
        order = [False, True]
        for _ in range(args.rounds):
            for theirs in order:
                found[theirs].append(measured(workload, args.peer if theirs else None))
            order.reverse()
        ours, theirs_ = ([one["steps"] / one["seconds"] for one in found[who]] for who in (False, True))
        last = [median(one["return"] for one in found[who]) for who in (False, True)]
        title, section, _ = WORKLOADS[workload]
        rows.append(
            f"| {title} | {section['max_steps']:,} | {median(ours):,.0f} | {median(theirs_):,.0f} | "
            f"{median(ours) / median(theirs_):.1f} | {WANTED:.0f} | {last[0]:.2f} | {last[1]:.2f} |"
        )
        print(rows[-1], flush=True)
    from rookery.run.checkpoint.run_dir import versions

    lines = ["# Beside ML-Agents' own trainer", "", *(__doc__ or "").splitlines()[3:], "", *rows, ""]
    lines += [f"`python benchmarks/studies/mlagents.py --rounds {args.rounds}`; medians; {platform.machine()}, "
              f"{os.cpu_count()} CPUs; " + ", ".join(f"{k} {v}" for k, v in versions().items())]  # fmt: skip
    kept = PAGE.read_text(encoding="utf-8").partition("\n## ")  # the section of mlagents_head_to_head.py
    PAGE.write_text("\n".join(lines) + "\n" + "".join(kept[1:]), encoding="utf-8")


if __name__ == "__main__":
    main()
