"""RLlib 2.60's tuned PPO on CartPole and SAC on Pendulum, by RLlib and by Rookery.

Both sides run the same file, `peers/rllib2_train.py`, until the stop of the example, each run in a process of its own
with one thread of torch; the sides take turns. Measured is the time of training alone, without imports and setup. The
peer needs ``benchmarks/peers/install.sh rllib``, or ``--peer PYTHON``. Writes `benchmarks/results/rllib2-speed.md`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.learning import machine

HERE = Path(__file__).resolve().parents[1]
SCRIPT = HERE / "peers" / "rllib2_train.py"
PAGE = HERE / "results" / "rllib2-speed.md"
HEAD = """# RLlib 2.60's tuned examples

Made by `python benchmarks/studies/rllib2_speed.py --seeds {seeds}`. Machine: {about}.

RLlib 2.60.0 and Rookery run one file, `benchmarks/peers/rllib2_train.py`, with the settings of RLlib's tuned examples:
one process samples and learns, one thread of torch, the sides in turn. Seconds are of training alone. SAC's returns are
of 3 steps on both sides. Critics of RLlib's SAC have networks for observations and for actions and more layers over
both (`fusionnet_hiddens`); those of Rookery are one network of two layers, so that the two programs do not compute the
same. PPO's networks, losses and batches are equal.

| training | side | env steps/s | env steps | seconds | return at the end | reached the stop |
|---|---|---|---|---|---|---|
"""
NAMES = {"ppo": "PPO, CartPole-v1, stop at 450", "sac": "SAC, Pendulum-v1, stop at -250"}


def train(command: list[str], name: str, seed: int, seconds: float) -> dict[str, Any]:
    """Runs the script with one side's command; returns its line."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    words = [*command, str(SCRIPT), name, "--seed", str(seed), "--seconds", str(seconds)]
    done = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}\n{done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def cell(runs: list[dict[str, Any]], key: str, digits: int = 0) -> str:
    """Returns the median of a column, and its values."""
    values = [run[key] for run in runs]
    listed = ", ".join(f"{value:,.{digits}f}" for value in values)
    return f"{median(values):,.{digits}f} ({listed})"


def main() -> None:
    """Runs both sides in turn and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(NAMES), metavar="ppo|sac")
    parser.add_argument("--peer", default=str(HERE / "peers" / ".venv-rllib" / "bin" / "python"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--seconds", type=float, default=600.0)
    given = parser.parse_args()
    sides = {"Rookery": [sys.executable, "-m", "rookery", "rllib", "run"], "RLlib": [given.peer]}
    lines = []
    for name in given.names:
        runs: dict[str, list[dict[str, Any]]] = {side: [] for side in sides}
        for seed in given.seeds:
            for side in list(sides) if seed % 2 == 0 else list(reversed(sides)):
                found = train(sides[side], name, seed, given.seconds)
                found["rate"] = found["steps"] / found["seconds"]
                runs[side].append(found)
                print(name, seed, side, found, flush=True)
        for side, rows in runs.items():
            reached = sum(row["reached"] for row in rows)
            lines.append(
                f"| {NAMES[name]} | {side} | {cell(rows, 'rate')} | {cell(rows, 'steps')} | {cell(rows, 'seconds', 1)} "
                f"| {cell(rows, 'return')} | {reached} of {len(rows)} |"
            )
        ours, theirs = (median(row["rate"] for row in runs[side]) for side in sides)
        quick, slow = (median(row["seconds"] for row in runs[side]) for side in sides)
        lines.append(f"| | Rookery / RLlib | {ours / theirs:.1f} | | {slow / quick:.1f} times as fast | | |")
    about = ", ".join(f"{name} {value}" for name, value in machine().items())
    seeds = " ".join(map(str, given.seeds))
    PAGE.write_text(HEAD.format(seeds=seeds, about=about) + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
