"""Speed of two states of the source, in turn: ``old_beside_new.py OLD [--rounds 5] [--seconds 3] [--only NAME]``.

OLD is a checkout of another commit with its kernels built. Every row is a training of `benchmarks/ours.py`, whose
settings are written out there. A round measures old, new and old again; the median of the rounds' ratios new / old is
printed beside the largest difference of the old one from itself. Nothing else should run on the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[2]
ROWS = ["cartpole-matched/serial", "cartpole-64/batched", "arena-one/ours", "arena-two/ours", "halfcheetah/serial",
        "pong/ours", "synthetic-50/processes", "memory/serial", "dqn/serial", "sac/float32"]  # fmt: skip


def speed(tree: Path, entrant: str, seconds: float) -> float:
    """Env steps a second of a training with the source of a tree."""
    environ = os.environ | {"PYTHONPATH": str(tree / "src"), "PYTHONDONTWRITEBYTECODE": ""}
    command = [sys.executable, str(tree / "benchmarks" / "ours.py"), entrant, "--seconds", str(seconds)]
    run = subprocess.run(command, env=environ, cwd=tree, capture_output=True, text=True)
    if run.returncode:
        raise RuntimeError(f"{tree}: {entrant}: {run.stderr[-500:]}")
    return float(json.loads(run.stdout.splitlines()[-1])["steps_per_second"])


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--only", nargs="*", default=ROWS)
    options = parser.parse_args()
    found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in options.only}
    for _ in range(options.rounds):
        for name, rows in found.items():
            trees = (options.old, ROOT, options.old)
            one, new, two = (speed(tree.resolve(), name, options.seconds) for tree in trees)
            rows.append((one, new, two))
            print(f"{name:18} old {one:>9,.0f} new {new:>9,.0f} old {two:>9,.0f}", file=sys.stderr, flush=True)
    print("| row | old | new | new / old | old differs from itself by |\n|---|---|---|---|---|")
    for name, rows in found.items():
        old = median(speed for one, _, two in rows for speed in (one, two))
        new = median(new for _, new, _ in rows)
        ratio = median(2 * new / (one + two) for one, new, two in rows)
        noise = max(abs(one - two) / min(one, two) for one, _, two in rows)
        print(f"| {name} | {old:,.0f} | {new:,.0f} | {ratio:.3f} | {100 * noise:.0f} % |")


if __name__ == "__main__":
    main()
