"""Whether two states of the source learn alike: ``learning_beside.py OLD [CLAIM ...] [--seeds 5]``.

OLD is a checkout of another commit with its kernels built. Every claim of `benchmarks/learning.py` that is named is
trained with the source, settings and seeds of both; where nothing but speed changed, what they score differs no more
than seeds do. Scores are kept in a file by commit as they come (``--kept``), so that the work can be done in parts.
The page `benchmarks/results/learning_beside.md` is written from there.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from statistics import median

import torch

ROOT = Path(__file__).parents[2]
CLAIMS = ["cartpole", "pendulum", "inverted-pendulum", "cartpole-dqn", "frozen-lake-dqn", "arena-shared",
          "arena-two-policies", "arena-ppo-beside-dqn", "stateless-cartpole-lstm", "cue-corridor-gru", "cartpole-pqn",
          "pendulum-td3", "pendulum-sac"]  # fmt: skip

MEASURE = """
import json, sys
import torch
torch.set_num_threads(1)
from learning import CLAIMS, measure
claim = next(claim for claim in CLAIMS if claim.name == sys.argv[1])
print(json.dumps({"needed": claim.threshold, **measure(claim, int(sys.argv[2]))}))
"""


def commit_of(tree: Path) -> str:
    """Returns the short hash of the commit that a checkout is of."""
    told = subprocess.run(
        ["git", "rev-parse", "--short=8", "HEAD"], cwd=tree, capture_output=True, text=True, check=True
    )
    return told.stdout.strip()


def scored(tree: Path, claim: str, seed: int) -> dict[str, float]:
    """Trains once with the source of a tree; gives what ``measure`` does, and the score that is needed."""
    environ = os.environ | {"PYTHONPATH": os.pathsep.join([str(tree / "src"), str(tree / "benchmarks")])}
    command = [sys.executable, "-c", MEASURE, claim, str(seed)]
    run = subprocess.run(command, env=environ, cwd=tree, capture_output=True, text=True)
    if run.returncode:
        raise RuntimeError(f"{tree}: {claim}: {run.stderr[-500:]}")
    found: dict[str, float] = json.loads(run.stdout.splitlines()[-1])
    return found


def page(found: dict[str, dict[str, float]], claims: list[str], commits: list[str], seeds: int) -> str:
    """Returns the page."""
    lines = [
        "# Learning, before and after",
        "",
        f"Made by `python benchmarks/studies/learning_beside.py OLD`, seeds 0 to {seeds - 1}, one torch thread: the",
        "claims of [Learning](learning.md), trained with the source and the settings of two commits.",
        f"Old: {commits[0]}, new: {commits[1]}. The median of the seeds and, in brackets, each of them.",
        f"{platform.machine()}, Python {platform.python_version()}, torch {torch.__version__}.",
        "",
        "| claim | needed | old | new | equal scores |",
        "|---|---|---|---|---|",
    ]
    for claim in claims:
        both = [[found.get(f"{claim} {seed} {commit}") for seed in range(seeds)] for commit in commits]
        old, new = ([row for row in rows if row is not None] for rows in both)
        if len(old) == len(new) == seeds:
            scores = [[row["score"] for row in rows] for rows in (old, new)]
            cells = [f"{median(each):g} ({', '.join(f'{score:g}' for score in each)})" for each in scores]
            equal = sum(one == two for one, two in zip(*scores, strict=True))
            lines.append(f"| {claim} | {new[0]['needed']:g} | {cells[0]} | {cells[1]} | {equal} of {seeds} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Trains what is missing, and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("claims", nargs="*", default=CLAIMS)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--kept", type=Path, default=ROOT / "benchmarks" / ".data" / "learning_beside.json")
    parser.add_argument("--only-old", action="store_true", help="leave what the new source scores to another call")
    options = parser.parse_args()
    trees = [options.old.resolve(), ROOT]
    commits = [commit_of(tree) for tree in trees]
    options.kept.parent.mkdir(parents=True, exist_ok=True)
    for claim in options.claims:
        for seed in range(options.seeds):
            for tree, commit in zip(trees[: 1 if options.only_old else 2], commits, strict=False):
                found = json.loads(options.kept.read_text(encoding="utf-8")) if options.kept.exists() else {}
                if (key := f"{claim} {seed} {commit}") not in found:
                    found[key] = scored(tree, claim, seed)
                    options.kept.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
                    print(key, found[key], flush=True)
    if not options.only_old:
        written = page(found, options.claims, commits, options.seeds)
        (ROOT / "benchmarks" / "results" / "learning_beside.md").write_text(written, encoding="utf-8")


if __name__ == "__main__":
    main()
