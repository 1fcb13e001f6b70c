"""How fast a run is, from the start of Python to its score: fresh processes, one after the other.

``make bench`` writes `benchmarks/results/speed.md`. Run it on an otherwise idle machine.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from statistics import median

RESULTS = Path(__file__).parent / "results"

ARENA = """
from rookery import MultiAgentArena, PPOConfig, Trainer
trainer = Trainer(MultiAgentArena, policies={"pol1": PPOConfig(lr=3e-4), "pol2": PPOConfig(lr=4e-4)},
                  policy_mapping={"agent1": "pol1", "agent2": "pol2"}, num_envs=16, seed=SEED)
result = trainer.train(stop={"return_mean": 18, "env_steps": 80_000})
"""
CARTPOLE = """
from rookery import Trainer
trainer = Trainer("CartPole-v1", preset="auto", seed=SEED)
result = trainer.train(stop={"return_mean": 475, "env_steps": 100_000})
"""
CARTPOLE_PLAIN = """
from rookery import PPOConfig, Trainer
trainer = Trainer("CartPole-v1", PPOConfig(lr=2.5e-4, epochs=4, minibatch_size=256), num_envs=8, seed=SEED)
result = trainer.train(stop={"env_steps": 100_000})
"""
SCALAR = CARTPOLE_PLAIN.replace("num_envs=8", 'num_envs=8, config={"env.implementation": "serial"}')
REPORT = """
import json, resource
print(json.dumps({"return_mean": result.return_mean, "env_steps": result.env_steps,
                  "steps_per_second": result.env_steps / result.seconds,
                  "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
"""

RUNS = {
    "arena, two policies, until return 18 (at most 80,000 steps)": ARENA,
    "CartPole-v1, preset, until return 475 (at most 100,000 steps)": CARTPOLE,
    "CartPole-v1, PPO 8 x 128, minibatch 256, 4 epochs, batched twin, 100,000 steps": CARTPOLE_PLAIN,
    "the same, Gymnasium's own CartPole one by one": SCALAR,
}


def measure(script: str, seed: int) -> dict[str, float]:
    """One run in a fresh process."""
    began = time.perf_counter()
    code = script.replace("SEED", str(seed)) + REPORT
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    seconds = time.perf_counter() - began
    return {**json.loads(done.stdout.splitlines()[-1]), "wall_seconds": round(seconds, 2)}


def main() -> None:
    """Runs everything in turn and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    repeats = parser.parse_args().repeats
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in RUNS}
    for seed in range(repeats):
        for name, script in RUNS.items():
            runs[name].append(measure(script, seed))
            print(name, seed, runs[name][-1], flush=True)
    machine = ", ".join(
        [
            next(
                (line.partition(":")[2].strip() for line in _cpuinfo() if line.startswith("model name")), "unknown CPU"
            ),
            f"{os.cpu_count()} cores",
            f"Python {platform.python_version()}",
            *(f"{name} {version(name)}" for name in ("torch", "numpy", "gymnasium", "rookery")),
        ]
    )
    lines = [
        "# Speed",
        "",
        f"Made by `make bench`: each line is {repeats} runs (seeds 0 to {repeats - 1}) in fresh processes, in turn,",
        f"medians; one torch thread; wall seconds include starting Python and importing torch. {machine}.",
        "",
        "| run | wall seconds | each | env steps | env steps/s while training | peak MB |",
        "|---|---|---|---|---|---|",
    ]
    for name, each in runs.items():
        middle = {key: median(run[key] for run in each) for key in each[0] if each[0][key] is not None}
        lines.append(
            f"| {name} | {middle['wall_seconds']:.1f} | {', '.join(str(run['wall_seconds']) for run in each)} | "
            f"{middle['env_steps']:,.0f} | {middle['steps_per_second']:,.0f} | {middle['rss_mb']:.0f} |"
        )
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "speed.md").write_text("\n".join(lines) + "\n")
    (RESULTS / "speed.json").write_text(json.dumps(runs, indent=1) + "\n")


def _cpuinfo() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text().splitlines() if path.exists() else []


if __name__ == "__main__":
    main()
