"""Trainings at their defaults of an id that a program registers, beside one that all processes know.

``own_ids.py [OLD] [--iterations 12]``: who steps the copies, and env steps a second, with this source and with that of
OLD, a checkout of another commit with its kernels built. Writes ``benchmarks/results/own_ids.md``.

The environment is the same in all rows, FrozenLake-v1 of Gymnasium with a wrapper that computes for so many
microseconds in each step; only how it is named differs.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import gymnasium

ROOT = Path(__file__).parents[2]
ID = "OwnLake-v0"
MICROSECONDS = (0, 400)
WAYS = {
    "known": "`FrozenLake-v1`, which all processes know",
    "id": "an id that the script registers",
    "main": "the same, registered as `__main__:make`",
    "function": "a function of the script that names the id",
    "command": "`rookery train own_ids:OwnLake-v0`",
}


class Computes(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Computes in each step for as long as the variable ``OWN_MICROSECONDS`` says."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.seconds = 1e-6 * float(os.environ["OWN_MICROSECONDS"])

    def step(self, action: Any) -> Any:
        """Steps, then computes."""
        until = time.perf_counter() + self.seconds
        while time.perf_counter() < until:
            pass
        return self.env.step(action)


def make(**config: Any) -> Any:
    """Makes one copy."""
    return Computes(gymnasium.make("FrozenLake-v1", disable_env_checker=True, **config))


def by_function() -> Any:
    """Makes one copy by its id."""
    return gymnasium.make(ID)


gymnasium.register(ID, make)


def train(way: str, iterations: int) -> None:
    """Trains in this process, which is a program of a user, and prints what came of it."""
    from rookery import PPOConfig, Trainer

    if way == "main":
        gymnasium.registry[ID].entry_point = "__main__:make"
    env = {"known": "FrozenLake-v1", "function": by_function}.get(way, ID)
    wrappers = {"wrappers": ["own_ids:Computes"]} if way == "known" else {}
    trainer = Trainer(env, PPOConfig(), seed=0, run_dir=None, stop={"iterations": iterations}, **wrappers)
    points = []
    for result in trainer.results():
        points.append((time.perf_counter(), result.env_steps))
    helpers = trainer.config.sampling.env_processes
    trainer.close()
    print(json.dumps({"helpers": helpers, "notes": len(trainer._notes), "rate": rate(points)}))


def rate(points: list[tuple[float, int]]) -> float:
    """Returns env steps a second, the median of iterations after the first; points are seconds and env steps."""
    return median((b[1] - a[1]) / (b[0] - a[0]) for a, b in itertools.pairwise(points))


def command(environ: dict[str, str], iterations: int) -> dict[str, Any]:
    """Trains by the command."""
    with tempfile.TemporaryDirectory() as folder:
        asked = ["train", f"own_ids:{ID}", "--seed", "0", "--run-dir", folder, "--run-id", "x", "--evaluate", "0",
                 "--json", "--stop", f"iterations={iterations}"]  # fmt: skip
        run = subprocess.run([sys.executable, "-m", "rookery", *asked], env=environ, capture_output=True, text=True)
        if run.returncode:
            raise RuntimeError(run.stderr)
        rows = [json.loads(line) for line in Path(folder, "x", "metrics.jsonl").read_text().splitlines()]
        helpers = json.loads(Path(folder, "x", "provenance.json").read_text())["sampling.env_processes"][-1][1]
    return {"helpers": int(helpers), "rate": median(row["time/steps_per_second"] for row in rows[1:])}


def measure(tree: Path, way: str, microseconds: int, iterations: int) -> str:
    """Returns a cell of the table."""
    path = os.pathsep.join([str(tree / "src"), str(ROOT / "benchmarks" / "studies")])
    environ = os.environ | {"PYTHONPATH": path, "OWN_MICROSECONDS": str(microseconds)}
    try:
        if way == "command":
            found = command(environ, iterations)
        else:
            asked = [sys.executable, __file__, "--train", way, "--iterations", str(iterations)]
            run = subprocess.run(asked, env=environ, capture_output=True, text=True)
            if run.returncode:
                raise RuntimeError(run.stderr)
            found = json.loads(run.stdout.splitlines()[-1])
    except RuntimeError as error:
        return f"fails: {str(error).strip().splitlines()[-1].rpartition(' raised ')[2]}"
    return f"{found['helpers']} helpers, {found['rate']:,.0f}"


def commit_of(tree: Path) -> str:
    """Returns the short hash of the commit that a checkout is of."""
    asked = ["git", "rev-parse", "--short=8", "HEAD"]
    return subprocess.run(asked, cwd=tree, capture_output=True, text=True, check=True).stdout.strip()


def main() -> None:
    """Measures and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", nargs="?", type=Path)
    parser.add_argument("--iterations", type=int, default=12)
    parser.add_argument("--train", choices=WAYS)
    asked = parser.parse_args()
    if asked.train:
        train(asked.train, asked.iterations)
        return
    trees = [tree.resolve() for tree in (asked.old, ROOT) if tree]
    lines = [
        f"| us a step | environment | {' | '.join(commit_of(tree) for tree in trees)} |",
        "|---" * (2 + len(trees)) + "|",
    ]
    for microseconds in MICROSECONDS:
        for way, told in WAYS.items():
            cells = [measure(tree, way, microseconds, asked.iterations) for tree in trees]
            lines.append(f"| {microseconds} | {told} | {' | '.join(cells)} |")
            print(lines[-1], flush=True)
    where = f"Python {platform.python_version()}, gymnasium {gymnasium.__version__}, {os.cpu_count()} cores"
    asked_for = f"python benchmarks/studies/own_ids.py {'OLD ' if asked.old else ''}--iterations {asked.iterations}"
    about = [
        "# Ids that a program registers",
        "",
        "Trainings at their defaults (PPO, 8 copies): helpers beside the process that trains, as they were measured,",
        "and env steps a second, the median of iterations. The environment is FrozenLake-v1 with so many microseconds",
        "of computing in each step in all rows; only how it is named differs",
        "([own environments](../../docs/how-to/own-environment.md#ids-that-your-program-registers)).",
        "",
        f"`{asked_for}`, {where}; one run of each, load average {os.getloadavg()[0]:.0f} at the end.",
        "",
    ]
    (ROOT / "benchmarks" / "results" / "own_ids.md").write_text("\n".join([*about, *lines]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
