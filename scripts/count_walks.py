"""Walks: what a reader has to open to follow one thing through the code; counted from the source.

Each walk in `docs/walks.json` lists, file by file, the functions that must be read. Distributions, noise, staging,
timers, results and the environment itself are left out. Lines are lines of code: no docstrings, no blank lines, no
comments. Of a class that is listed as a whole, all of it counts.

    python scripts/count_walks.py                      # the table
    python scripts/count_walks.py --source ../other/src/rookery --walks other.json
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
from dataclasses import dataclass
from pathlib import Path

from source_reading import code_lines

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Walk:
    """Size of one walk.

    Attributes:
        files: Files to open.
        functions: Functions to read, classes that are listed as a whole among them.
        lines: Lines of code in these.
    """

    files: int
    functions: int
    lines: int


def find(tree: ast.Module, name: str) -> ast.FunctionDef | ast.ClassDef:
    """The function, method or class of this dotted name.

    Raises:
        KeyError: If there is none.
    """
    place: ast.Module | ast.FunctionDef | ast.ClassDef = tree
    for part in name.split("."):
        found = [node for node in place.body if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == part]
        if not found:
            raise KeyError(name)
        place = found[0]
    assert not isinstance(place, ast.Module)
    return place


def measure(walk: dict[str, list[str]], source: Path) -> Walk:
    """Counts a walk.

    Args:
        walk: Functions by file.
        source: The folder that file names start from.

    Raises:
        KeyError: If a function is not in its file.
    """
    lines = 0
    for file, names in walk.items():
        text = (source / file).read_text(encoding="utf-8")
        tree, code = ast.parse(text), code_lines(text)
        covered: set[int] = set()
        for name in names:
            try:
                node = find(tree, name)
            except KeyError:
                raise KeyError(f"{file}:{name}") from None
            covered |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1)) & code
        lines += len(covered)
    return Walk(len(walk), sum(map(len, walk.values())), lines)


def main() -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, default=ROOT / "src" / "rookery")
    parser.add_argument("--walks", type=Path, default=ROOT / "docs" / "walks.json")
    options = parser.parse_args()
    print("| walk | files | functions | lines of code |\n|---|---|---|---|")  # noqa: T201
    for name, walk in json.loads(options.walks.read_text(encoding="utf-8")).items():
        found = measure(walk, options.source)
        print(f"| {name} | {found.files} | {found.functions} | {found.lines} |")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
