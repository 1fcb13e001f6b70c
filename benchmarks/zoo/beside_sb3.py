"""Learning curves of pairs of the zoo beside Stable-Baselines3: ``beside_sb3.py [PAIR ...]``.

Each seed of a pair is trained by Rookery, with the settings of the entry, and by Stable-Baselines3, with those of RL
Baselines3 Zoo, one after the other. An entry gets ``beside_sb3.json`` with points, scores and CPU seconds of whole
processes, and ``beside_sb3.svg``. ``--draw`` draws what is stored.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from benchmarks.learning import machine  # noqa: E402

from rookery.report.curves import Curve, draw  # noqa: E402

SB3 = ROOT / "benchmarks" / "peers" / ".venv-sb3" / "bin" / "python"
PAIRS = (
    "cartpole-ppo",
    "cartpole-a2c",
    "cartpole-dqn",
    "pendulum-ppo",
    "pendulum-sac",
    "pendulum-td3",
    "pendulum-ddpg",
)
SEEDS = (0, 1, 2)
FILE, PICTURE = "beside_sb3.json", "beside_sb3.svg"
LABELS = {"rookery": "Rookery", "sb3": "Stable-Baselines3, RL Zoo's settings"}
POINTS = 100


def spent(words: Sequence[str | Path], folder: str) -> tuple[str, float]:
    """Runs a command with one thread; returns its output, and its CPU seconds."""
    environ = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([*map(str, words)], check=True, cwd=folder, env=environ, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return done.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def ours(name: str, seed: int) -> dict[str, Any]:
    """Trains with the settings of the entry; returns points, score and CPU seconds."""
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-m", "rookery", "train", HERE / name / "settings.yaml", "--preset", "none", "--seed",
                 seed, "--evaluate", 20, "--quiet", "--run-dir", folder, "--run-id", "run"]  # fmt: skip
        _, seconds = spent(words, folder)
        run = Path(folder) / "run"
        rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        score = json.loads((run / "result.json").read_text())["evaluation"]["return_mean"]
    known = [(row["env_steps"], round(row["return_mean"], 2)) for row in rows if row.get("return_mean") is not None]
    return {"points": known[:: max(len(known) // POINTS, 1)], "score": score, "cpu_seconds": round(seconds, 1)}


def theirs(name: str, seed: int) -> dict[str, Any]:
    """Trains with Stable-Baselines3; returns the same, and versions."""
    with tempfile.TemporaryDirectory() as folder:
        printed, seconds = spent([SB3, ROOT / "benchmarks/peers/sb3_zoo.py", name, "--seed", seed], folder)
    return {**json.loads(printed.splitlines()[-1]), "cpu_seconds": round(seconds, 1)}


def picture(name: str) -> None:
    """Draws what is stored of a pair."""
    stored = json.loads((HERE / name / FILE).read_text())
    entry = json.loads((HERE / name / "entry.json").read_text())
    names = {"env.name": entry["environment"], "algorithm.name": entry["algorithm"]}
    groups = {
        LABELS[side]: [
            Curve(*map(list, zip(*run["points"], strict=True)), names, seed=run["seed"])
            for run in stored[side]
        ]
        for side in LABELS
    }  # fmt: skip
    draw(groups, "return_mean", "environment steps", HERE / name / PICTURE)


def main() -> None:
    """Trains both sides, and draws."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", nargs="*", default=PAIRS, metavar="PAIR")
    parser.add_argument("--draw", action="store_true", help="draw what is stored")
    given = parser.parse_args()
    for name in given.pairs:
        if not given.draw:
            found: dict[str, Any] = {side: [] for side in LABELS}
            for seed in SEEDS:
                for side, train in (("rookery", ours), ("sb3", theirs)):
                    found[side].append({"seed": seed, **train(name, seed)})
                    last = found[side][-1]
                    print(name, side, seed, last["score"], last["cpu_seconds"], flush=True)
            found |= {"machine": machine(), "versions": found["sb3"][0]["versions"]}
            for run in found["sb3"]:
                del run["versions"]
            (HERE / name / FILE).write_text(json.dumps(found, separators=(",", ":")) + "\n")
        picture(name)


if __name__ == "__main__":
    main()
