"""Traced walks: the functions that one training iteration enters, counted from the source.

An iteration on CartPole is traced with `sys.setprofile` after a few others, so that nothing is made in it for the first
time. Every function of the package that is entered counts once and as a whole, with the functions inside it. Lines are
lines of code: no docstrings, no blank lines, no comments. Other threads and processes are not traced.

    python scripts/trace_walks.py                          # the table
    python scripts/trace_walks.py --write                  # and the functions, in benchmarks/results/walks.md
    PYTHONPATH=../other/src python scripts/trace_walks.py  # of another state of the source

Stable-Baselines3 is traced too, by `benchmarks/peers/sb3_walk.py`, where `benchmarks/peers/install.sh sb3` has been run
"""

from __future__ import annotations

import argparse
import ast
import gc
import json
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from types import CodeType, FrameType

from count_walks import Walk
from source_reading import code_lines

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "benchmarks" / "results" / "walks.md"
PEER = ROOT / "benchmarks" / "peers" / ".venv-sb3" / "bin" / "python"
LANES = 8
"""Copies of the environment."""


FEATURES = {
    "curriculum": r"Curriculum\.|LessonsPart\.",
    "self-play": r"SelfPlay\.|SelfPlayPart\.",
    "ranks": r"Ranks\.|RanksPart\.",
    "evaluation": r"Measure\.",
    "checkpoints": r"CheckpointPart\.|RunDir\.|save_run$",
    "drawn parameters": r"parameters_of$|lessons_of$|Env\._parameters$",
    "messages on a shortage of memory": r"explain_memory_error$",
    "notes on schedules that have ended": r"HorizonNotes\.",
    "workers elsewhere": r"Pool\.waits$|WaitsPart\.",
    "weights one update behind": r"Pool\.lag$|\.correction$",
    "KL penalty": r"adapt_penalty$",
    "policies that stop learning": r"Run\._retire$|MaxDecisionsPart\.|is_learning$",
    "other reward signals": r"RewardSignals\.",
    "another device": r"Staging\.",
    "replay on the disk": r"MemmapArrays\.",
}
"""Features that the traced runs do not use, with a pattern of the functions that serve them alone."""


@dataclass(frozen=True, order=True)
class Entered:
    """A function that was entered.

    Attributes:
        file: Its file, relative to the folder of the package.
        function: Its name, with that of its class: ``PPO.training_step``.
        lines: Its lines of code.
    """

    file: str
    function: str
    lines: int


def trace(run: Callable[[], object], folder: Path) -> list[Entered]:
    """Calls a function once; returns the functions of a package that it enters, by file and name.

    Args:
        run: What is called.
        folder: The folder of the package.
    """
    codes: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            codes.add(frame.f_code)

    before = sys.getprofile()
    gc.collect()
    gc.disable()  # a finalizer of something else would be entered at any time
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(before)
        gc.enable()
    lines: dict[Path, set[int]] = defaultdict(set)
    for code in codes:
        file = Path(code.co_filename)
        if file.is_relative_to(folder):
            lines[file].add(code.co_firstlineno)
    return sorted(found for file, firsts in lines.items() for found in functions_at(file, firsts, folder))


def functions_at(file: Path, firsts: Iterable[int], folder: Path) -> set[Entered]:
    """Returns the functions of a file that hold some of its lines; a lambda outside them counts by itself."""
    text, outer = read(file)
    found = set()
    for first in firsts:
        function, lines = f"lambda of line {first}", 1
        for name, node in outer:
            begin = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            if begin <= first <= (node.end_lineno or begin):
                function, lines = name, len(code_lines(text, node))
        found.add(Entered(file.relative_to(folder).as_posix(), function, lines))
    return found


@cache
def read(file: Path) -> tuple[str, list[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]]:
    """Returns the text of a file and its functions, which every trace looks at."""
    text = file.read_text(encoding="utf-8")
    return text, outer_functions(ast.parse(text))


def outer_functions(tree: ast.AST, above: str = "") -> list[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Returns functions and methods, by dotted name, wherever they are but in other functions."""
    found = []
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.append((above + node.name, node))
        else:
            found += outer_functions(node, f"{above}{node.name}." if isinstance(node, ast.ClassDef) else above)
    return found


def total(entered: Iterable[Entered]) -> Walk:
    """Counts what was entered."""
    all_of_them = list(entered)
    return Walk(len({each.file for each in all_of_them}), len(all_of_them), sum(each.lines for each in all_of_them))


def unused(entered: Iterable[Entered]) -> dict[str, list[Entered]]:
    """Returns the functions that were entered for nothing, by the feature that they serve."""
    found: dict[str, list[Entered]] = {}
    for each in entered:
        for feature, pattern in FEATURES.items():
            if re.search(pattern, each.function):
                found.setdefault(feature, []).append(each)
    return found


def iteration(algorithm: str, native: bool) -> list[Entered]:
    """Trains on CartPole with an algorithm, short iterations; returns what one enters after three others.

    Args:
        algorithm: ``"ppo"`` or ``"dqn"``.
        native: Whether it may use kernels.
    """
    import rookery

    short = {
        "ppo": {"algorithm.fragment_length": 32, "algorithm.epochs": 2},
        "dqn": {"algorithm.learning_starts": 32, "sampling.iteration_steps": 64},
    }
    config = {"algorithm.model.native": native, **short[algorithm]}
    with rookery.Trainer("CartPole-v1", algorithm, num_envs=LANES, seed=0, config=config) as trainer:
        for _ in range(3):
            trainer.train_iteration()
        return trace(trainer.train_iteration, Path(rookery.__file__).parent)


WALKS: dict[str, Callable[[], list[Entered]]] = {
    "PPO (torch)": lambda: iteration("ppo", native=False),
    "PPO (kernels)": lambda: iteration("ppo", native=True),
    "DQN (torch)": lambda: iteration("dqn", native=False),
    "DQN (kernels)": lambda: iteration("dqn", native=True),
}
"""What is traced, by name."""


def of_peer(python: Path) -> tuple[str, Walk]:
    """Traces Stable-Baselines3 by its own interpreter; returns its version and the size of its iteration."""
    script = ROOT / "benchmarks" / "peers" / "sb3_walk.py"
    run = subprocess.run([str(python), str(script)], capture_output=True, text=True, check=True)
    found = json.loads(run.stdout.splitlines()[-1])
    return found["version"], Walk(found["files"], found["functions"], found["lines"])


def row_of(name: str, walk: Walk) -> str:
    """Returns a row of the table."""
    return f"| {name} | {walk.files} | {walk.functions} | {walk.lines:,} |"


def listed(name: str, entered: list[Entered]) -> list[str]:
    """Returns the part of the page that lists what a walk enters."""
    by_file: dict[str, list[Entered]] = defaultdict(list)
    for each in entered:
        by_file[each.file].append(each)
    lines = ["", f"## {name}", "", "| file | lines | functions, with the lines of each |", "|---|---|---|"]
    for file, those in by_file.items():
        functions = ", ".join(f"`{each.function}` {each.lines}" for each in those)
        lines.append(f"| `{file}` | {sum(each.lines for each in those)} | {functions} |")
    lines += ["", "Of these, functions of features that the run does not use:", ""]
    lines += ["| feature | lines | functions |", "|---|---|---|"]
    for feature, those in sorted(unused(entered).items()):
        functions = ", ".join(f"`{each.function}`" for each in those)
        lines.append(f"| {feature} | {sum(each.lines for each in those)} | {functions} |")
    return lines


def main() -> int:
    """Traces, prints the table, and writes the page where that is wanted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="writes benchmarks/results/walks.md")
    parser.add_argument("--json", action="store_true", help="prints JSON, without the peer")
    parser.add_argument("--peer", type=Path, default=PEER, help="Python with Stable-Baselines3")
    options = parser.parse_args()
    found = {name: walk() for name, walk in WALKS.items()}
    if options.json:
        print(json.dumps({name: asdict(total(entered)) for name, entered in found.items()}))  # noqa: T201
        return 0
    table = ["| one iteration on CartPole | files | functions | lines of code |", "|---|---|---|---|"]
    table += [row_of(name, total(entered)) for name, entered in found.items()]
    if options.peer.exists():
        version, walk = of_peer(options.peer)
        table.append(row_of(f"PPO of Stable-Baselines3 {version}", walk))
    print("\n".join(table))  # noqa: T201
    if options.write:
        about = (
            "Made by `python scripts/trace_walks.py --write`: every function of the package that one iteration enters "
            f"after three others, {LANES} copies of CartPole, defaults but for short iterations; lines of code "
            "without docstrings, comments and blank lines. `python scripts/count_walks.py` counts the functions "
            "that a reader needs to follow it."
        )
        parts = [line for name, entered in found.items() for line in listed(name, entered)]
        PAGE.write_text("\n".join(["# Traced walks", "", about, "", *table, *parts]) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
