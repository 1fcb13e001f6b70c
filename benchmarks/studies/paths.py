"""Whether kernels change what is learned: ``python benchmarks/studies/paths.py`` trains on kernels and in torch, seed
by seed.

Writes `benchmarks/results/paths.md`: for claims of `learning.py`, the score of each of five seeds on both paths, and
how far the two medians lie apart in standard deviations of a seed. The same weights learn on both for the first
updates; then last bits grow, as they do between two seeds. Takes a quarter of an hour on one core; ``--seeds 1`` less.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median, stdev
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))
from learning import CLAIMS, measure

RESULTS = Path(__file__).parents[1] / "results"
CHOSEN = ("cartpole", "cartpole-a2c", "cartpole-reinforce", "pendulum", "inverted-pendulum", "arena-two-policies")
PATHS = {"kernels": "1", "torch": "0"}
"""Value of the environment variable, by path."""


def run(claim: str, seed: int, path: str) -> dict[str, Any]:
    """Trains once, in a process of its own."""
    command = [sys.executable, __file__, "--one", claim, str(seed)]
    done = subprocess.run(
        command, env={**os.environ, "ROOKERY_NATIVE": PATHS[path]}, stdout=subprocess.PIPE, text=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def table(rows: dict[str, dict[str, list[dict[str, Any]]]]) -> str:
    """The page."""
    lines = [
        "# Kernels against torch",
        "",
        "Made by `python benchmarks/studies/paths.py`. Scores as in learning.md, of seeds 0 to 4; both paths in turn. "
        "Apart: the distance of the medians in standard deviations over seeds (the larger of the two paths').",
        "",
        "| claim | kernels, each seed | torch, each seed | medians | apart | steps/s |",
        "|---|---|---|---|---|---|",
    ]
    for claim, runs in rows.items():
        scores = {path: [run["score"] for run in found] for path, found in runs.items()}
        middle = {path: median(found) for path, found in scores.items()}
        spread = max(stdev(found) if len(found) > 1 else 0.0 for found in scores.values())
        apart = abs(middle["kernels"] - middle["torch"]) / spread if spread else 0.0
        each = " | ".join(", ".join(f"{score:g}" for score in scores[path]) for path in PATHS)
        pace = " against ".join(f"{median(run['steps_per_second'] for run in runs[path]):,.0f}" for path in PATHS)
        lines.append(f"| {claim} | {each} | {middle['kernels']:g}, {middle['torch']:g} | {apart:.1f} | {pace} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measures and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--one", nargs=2, metavar=("CLAIM", "SEED"), help="train once on the path of this process")
    args = parser.parse_args()
    if args.one:
        claim = next(claim for claim in CLAIMS if claim.name == args.one[0])
        print(json.dumps(measure(claim, int(args.one[1]), control=False)))
        return
    rows: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for claim in CHOSEN:
        rows[claim] = {path: [] for path in PATHS}
        for seed in range(args.seeds):
            for path in PATHS:
                rows[claim][path].append(run(claim, seed, path))
                print(claim, seed, path, rows[claim][path][-1], flush=True)
        (RESULTS / "paths.md").write_text(table(rows))
        (RESULTS / "paths.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
