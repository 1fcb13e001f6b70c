"""Time to the first iteration, and memory, beside the libraries that a training needs: ``start.py [--rounds 9]``.

Each round starts a fresh process of every program of `PROGRAMS`, in turn, with one thread. Seconds are of the wall
clock, from the start of the process to the end of the program; memory is the proportional set size (PSS) there, in
which pages that several processes share count once. Writes ``benchmarks/results/start.md``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.learning import machine  # noqa: E402

PAGE = ROOT / "benchmarks" / "results" / "start.md"
TORCH, LIBRARIES = "`import torch`", "`import torch, numpy, gymnasium, pydantic`"
TRAINING = """
from rookery import Trainer
trainer = Trainer({env!r}, {algorithm!r}, seed=0, config={{"logging.console": "quiet"}})
trainer.train_iteration()
"""
PROGRAMS = {
    TORCH: "import torch",
    LIBRARIES: "import torch, numpy, gymnasium, pydantic",
    "`from rookery import Trainer`": "from rookery import Trainer",
    **{
        f"first iteration of {algorithm.upper()}, {env}": TRAINING.format(env=env, algorithm=algorithm)
        for env, algorithm in (("CartPole-v1", "ppo"), ("CartPole-v1", "dqn"), ("Pendulum-v1", "sac"))
    },
}
"""Programs by their name in the table."""

MEASURE = """
import json, os, sys
sys.path.insert(0, {folder!r})
from benchmarks.measure import memory, seconds_since_start
print(json.dumps([seconds_since_start(), memory([os.getpid()])[0]]))
"""
HEAD = """# Start and memory

Made by `python benchmarks/studies/start.py`. Machine: {about}.

Medians of {rounds} fresh processes of each program, in turn, one thread. Seconds are of the wall clock from the start
of the process; memory is the proportional set size (PSS) at the end of the program. Goals: a first iteration within
`import torch` and 0.6 s, and at most 30 MB above the libraries.

| program | seconds | after `import torch` | memory, MB | above the libraries |
|---|---|---|---|---|
"""


def measured(program: str, folder: str) -> tuple[float, float]:
    """Runs a program in a fresh process; returns seconds and MB at its end."""
    environ = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": ""}
    done = subprocess.run(
        [sys.executable, "-c", program + MEASURE.format(folder=str(ROOT))], check=True, capture_output=True, text=True,
        cwd=folder, env={**os.environ, **environ, "PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip
    seconds, megabytes = json.loads(done.stdout.splitlines()[-1])
    return seconds, megabytes


def main() -> None:
    """Runs the rounds and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    figures: dict[str, list[tuple[float, float]]] = {name: [] for name in PROGRAMS}
    with tempfile.TemporaryDirectory() as folder:
        for program in PROGRAMS.values():
            measured(program, folder)  # writes the bytecode
        for _ in range(rounds):
            for name, program in PROGRAMS.items():
                figures[name].append(measured(program, folder))
    seconds, megabytes = (
        {name: median(run[which] for run in runs) for name, runs in figures.items()} for which in (0, 1)
    )
    lines = [
        f"| {name} | {seconds[name]:.2f} | {seconds[name] - seconds[TORCH]:+.2f} | {megabytes[name]:.0f} "
        f"| {megabytes[name] - megabytes[LIBRARIES]:+.0f} |"
        for name in PROGRAMS
    ]
    about = ", ".join(f"{name} {value}" for name, value in machine().items())
    PAGE.write_text(HEAD.format(about=about, rounds=rounds) + "\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
