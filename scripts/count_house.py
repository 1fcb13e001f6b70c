"""The house in figures: lines, files in a folder, circles of imports, largest files, tests, traced walks.

A column is a state of the source: this working tree, and before it another one, which is a commit or a checkout. Lines
of code hold a token: no docstrings, no comments, no blank lines. Kernels and what is written in C are left out. What
imports counts with types and with texts (``import_module("rookery.tune.space")``).

    python scripts/count_house.py                 # this working tree
    python scripts/count_house.py OLD             # a commit or a checkout beside it
    python scripts/count_house.py OLD --write     # and benchmarks/results/house.md

Walks are traced where the kernels of a state are built: for an old one give a checkout of it, and not a commit.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from contextlib import ExitStack
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path

from source_reading import RLLIB_ROOMS, Source, circles, code_lines, package_of

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "benchmarks" / "results" / "house.md"

PARTS = {
    "script room": ("rookery/script/",),
    "rllib face": ("rookery_rllib/", "rookery/compat/rllib/", "rookery/compat/rllib.py"),
    "mlagents face": ("rookery_mlagents/", "rookery/compat/mlagents/", "rookery/compat/mlagents.py",
                      "rookery/envs/unity/"),
}  # fmt: skip
"""What is no part of the engine, by where its files are in `src`, now and before."""

LAZY = (
    "__init__.py",
    "extend.py",
    "core/former_names/modules.py",
    "core/former_names/attributes.py",
    "compat/rllib.py",
    "rookery_rllib/__init__.py",
    "compat/mlagents.py",
    "rookery_mlagents/__init__.py",
)
"""Files in which modules may be imported by texts."""

GOALS = {
    "lines of Python in src": "-12,000",
    "code lines of Python in src": "-5,000",
    "engine without faces and script room, code lines": "-1,200",
    "rllib face, code lines": "-3,200",
    "files in one folder, most": "20",
    "modules in circles of imports": "0",
    "imports that point up": "0",
    "imports by texts": "0",
    "rollout/worker.py, code lines": "450",
    "envs/make.py, code lines": "300",
    "largest other files, code lines": "520",
    "lines of tests": "-3,500",
    "PPO (torch), traced: files / functions / lines": "34 / 125 / 1,100",
    "PPO (kernels), traced: files / functions / lines": "32 / 120 / 1,000",
}
"""What is aimed at: at most so much, or a difference from before."""


def lines_in(text: str) -> int:
    """Returns the number of lines of a text."""
    return len(text.splitlines())


def part_of(file: str) -> str:
    """Returns the part that a file of `src` belongs to."""
    return next((part for part, places in PARTS.items() if file.startswith(places)), "engine")


def layers_of(tree: Path) -> list[set[str]]:
    """Returns the layers of a state, which its architecture test lists."""
    for node in ast.parse((tree / "tests" / "test_architecture.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "LAYERS":
            layers: list[set[str]] = ast.literal_eval(node.value)
            return layers
    raise ValueError(f"{tree}: tests/test_architecture.py lists no LAYERS")


def upward(source: Source, layers: list[set[str]]) -> list[str]:
    """Returns imports that point up or to a sibling: of the engine by its layers, of `rookery_rllib` by its rooms."""
    level = {package: number for number, packages in enumerate(layers) for package in packages}
    room = {f"rookery_rllib.{name}": number for number, name in enumerate(RLLIB_ROOMS)}
    wrong = []
    for path in source.files():
        module = source.module_of(path)
        if module in ("rookery", "rookery.extend"):
            continue  # lazy tables: what they name is imported when it is used
        for found in source.all_imports_of(path):
            there = found.module
            if there not in source.modules or there in source.packages:
                continue
            rooms = [room.get(".".join(each.split(".")[:2])) for each in (module, there)]
            if package_of(module) != package_of(there):
                points_up = level.get(package_of(there), 0) >= level.get(package_of(module), len(layers))
            else:
                points_up = None not in rooms and rooms[1] > rooms[0]  # type: ignore[operator]
            if points_up:
                wrong.append(f"{source.name_of(path)}:{found.line} imports {there}")
    return wrong


def by_text(source: Source) -> list[str]:
    """Returns the imports by texts outside the lazy tables."""
    return [
        f"{source.name_of(path)}:{found.line} imports {found.module}"
        for path in source.files()
        for found in source.all_imports_of(path)
        if found.text and source.name_of(path) not in LAZY
    ]


def traced(tree: Path) -> dict[str, str]:
    """Returns what traced walks of a state come to; nothing where its kernels are not built, or without torch."""
    if not list((tree / "src").rglob("*.so")) or find_spec("torch") is None:
        return {}
    environ = os.environ | {"PYTHONPATH": str(tree / "src")}
    command = [sys.executable, str(ROOT / "scripts" / "trace_walks.py"), "--json"]
    run = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    found = json.loads(run.stdout.splitlines()[-1])
    return {
        f"{name}, traced: files / functions / lines": f"{walk['files']} / {walk['functions']} / {walk['lines']:,}"
        for name, walk in found.items()
    }


def figures(tree: Path) -> tuple[dict[str, str], list[str]]:
    """Returns the figures of a state by what they are of, and what stands against its rules."""
    source = Source(tree / "src")
    lines: Counter[str] = Counter()
    code: Counter[str] = Counter()
    of_file: dict[str, int] = {}
    for path in source.files():
        text, part = source.text_of(path), part_of(path.relative_to(source.folder).as_posix())
        of_file[source.name_of(path)] = held = len(code_lines(text))
        lines[part] += lines_in(text)
        code[part] += held
    folders = Counter(path.parent.relative_to(source.folder).as_posix() for path in source.files())
    (fullest, most) = folders.most_common(1)[0]
    groups = circles(source.graph(texts=True))
    up, texts = upward(source, layers_of(tree)), by_text(source)
    named = {"rollout/worker.py": "rollout/worker.py", "envs/make.py": "envs/make.py"}
    others = [file for file in sorted(of_file, key=of_file.__getitem__, reverse=True) if file not in named]
    tests = sum(lines_in(path.read_text(encoding="utf-8")) for path in (tree / "tests").rglob("*.py"))
    found = {
        "lines of Python in src": f"{lines.total():,}",
        "code lines of Python in src": f"{code.total():,}",
        "engine without faces and script room, code lines": f"{code['engine']:,}",
        **{f"{part}, code lines": f"{code[part]:,}" for part in PARTS},
        "files of Python in src": f"{len(of_file):,}",
        "files in one folder, most": f"{most} ({fullest})",
        "modules in circles of imports": " + ".join(str(len(group)) for group in groups) or "0",
        "imports that point up": str(len(up)),
        "imports by texts": str(len(texts)),
        **{f"{file}, code lines": f"{of_file[file]:,}" for file in named if file in of_file},
        "largest other files, code lines": ", ".join(f"{of_file[file]:,} ({file})" for file in others[:5]),
        "lines of tests": f"{tests:,}",
        **traced(tree),
    }
    against = [f"circle: {', '.join(group)}" for group in groups]
    against += [f"points up: {each}" for each in up] + [f"by a text: {each}" for each in texts]
    return found, against


def state_of(given: str, stack: ExitStack) -> Path:
    """Returns the folder of a state, which is given as a checkout or as a commit; a commit is unpacked for a while."""
    if Path(given).is_dir():
        return Path(given).resolve()
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    packed = subprocess.run(["git", "archive", given, "src", "tests"], cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    return folder


def name_of(state: str) -> str:
    """Returns the short hash of a commit, or of that which a checkout is of."""
    asked = (state, "HEAD") if Path(state).is_dir() else (ROOT, state)
    command = ["git", "rev-parse", "--short=8", str(asked[1])]
    return subprocess.run(command, cwd=asked[0], capture_output=True, text=True, check=True).stdout.strip()


def main() -> int:
    """Counts, prints the table, and writes the page where that is wanted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", nargs="?", help="a commit or a checkout")
    parser.add_argument("--write", action="store_true", help="writes benchmarks/results/house.md")
    options = parser.parse_args()
    with ExitStack() as stack:
        before = figures(state_of(options.old, stack))[0] if options.old else {}
        now, against = figures(ROOT)
    heads = ["", *([name_of(options.old)] if options.old else []), "now", "goal"]
    table = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for figure in {**before, **now}:
        cells = [*([before.get(figure, "-")] if options.old else []), now.get(figure, "-"), GOALS.get(figure, "")]
        table.append(f"| {figure} | " + " | ".join(cells) + " |")
    listed = [f"- {each}" for each in against] or ["Nothing."]
    print("\n".join([*table, "", *listed]))  # noqa: T201
    if options.write:
        before_words = [name_of(options.old)] if options.old else []
        about = (
            f"Made by `{' '.join(['python scripts/count_house.py', *before_words])} --write`. Lines of code hold a "
            "token: no docstrings, no comments, no blank lines. Goals with a sign are differences from the first "
            "column; the others are at most. Traced: `python scripts/trace_walks.py`."
        )
        parts = ["# The house in figures", "", about, "", *table, "", "## Against the rules", "", *listed]
        PAGE.write_text("\n".join(parts) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
