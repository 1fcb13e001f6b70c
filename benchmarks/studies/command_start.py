"""CPU time of ``rookery --help`` in two states of the source, in turn: ``command_start.py OLD [--rounds 15]``.

OLD is a checkout of another commit. Each round starts a fresh process of either source; medians are printed.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[2]
CODE = "import sys; sys.argv = ['rookery', '--help']\nfrom rookery.cli.main import program; program()"


def cpu_seconds(tree: Path) -> float:
    """User and system time of a process that prints the help."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environ = os.environ | {"PYTHONPATH": str(tree / "src"), "PYTHONDONTWRITEBYTECODE": ""}
    subprocess.run([sys.executable, "-c", CODE], env=environ, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    trees = (options.old.resolve(), ROOT)
    for tree in trees:
        cpu_seconds(tree)  # writes the bytecode
    rounds = [[cpu_seconds(tree) for tree in trees] for _ in range(options.rounds)]
    old, new = (median(one[which] for one in rounds) for which in (0, 1))
    print("| old, CPU s | new | new / old |\n|---|---|---|")
    print(f"| {old:.3f} | {new:.3f} | {new / old:.2f} |")


if __name__ == "__main__":
    main()
