"""Writes ``names_of_0_1.txt``: what every module of a commit offers, a line each, ``module: Name Name ...``.

python tests/golden/make_names.py COMMIT

All of these names must resolve in later versions (`test_names.py`): the file stays as it is.
"""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[2]

NAMES = Path(__file__).with_name("names_of_0_1.txt")

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def public_names(tree: ast.Module) -> set[str]:
    """Returns the public classes and functions that a module defines, and what it lists in ``__all__``."""
    defined = {line.name for line in top_level(tree) if isinstance(line, Definition)}
    return {name for name in defined | listed(tree) if not name.startswith("_")}


def all_names(tree: ast.Module) -> set[str]:
    """Returns every name that a module offers, imported ones too; those of a lazy module by its ``__all__``."""
    found = listed(tree)
    for line in top_level(tree):
        if isinstance(line, Definition):
            found.add(line.name)
        elif isinstance(line, ast.Import | ast.ImportFrom):
            found |= {alias.asname or alias.name.partition(".")[0] for alias in line.names}
        else:
            found |= {node.id for node in ast.walk(line) if isinstance(node, ast.Name) and is_stored(node)}
    return found


def is_stored(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)


def top_level(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yields the statements of a module, those in ``if`` and ``try`` too, without those for type checkers alone."""
    waiting = list(tree.body)
    while waiting:
        line = waiting.pop(0)
        if isinstance(line, ast.If):
            waiting += [] if "TYPE_CHECKING" in ast.unparse(line.test) else line.body
            waiting += line.orelse
        elif isinstance(line, ast.Try):
            waiting += [*line.body, *(one for handler in line.handlers for one in handler.body), *line.orelse]
        else:
            yield line


def listed(tree: ast.Module) -> set[str]:
    """Returns the names in ``__all__``: its texts, and the keys of the tables that it is made of."""
    values = {
        target.id: line.value
        for line in tree.body
        if isinstance(line, ast.Assign)
        for target in line.targets
        if isinstance(target, ast.Name)
    }
    found: set[str] = set()
    for node in ast.walk(values["__all__"]) if "__all__" in values else ():
        if isinstance(node, ast.Constant):
            found.add(str(node.value))
        elif isinstance(node, ast.Name) and isinstance(table := values.get(node.id), ast.Dict):
            found |= {key.value for key in table.keys if isinstance(key, ast.Constant)}
    return found


def main(commit: str) -> None:
    """Writes the file from the source of a commit."""
    archive = subprocess.run(["git", "-C", ROOT, "archive", commit, "src"], check=True, capture_output=True).stdout
    lines = []
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        for member in files:
            path = PurePosixPath(member.name)
            if path.suffix == ".py" and path.name != "__main__.py":
                file = files.extractfile(member)
                assert file is not None
                parts = path.relative_to("src").with_suffix("").parts
                module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
                names = sorted(public_names(ast.parse(file.read())))
                lines.append(f"{module}: {' '.join(names)}".rstrip())
    NAMES.write_text("\n".join(sorted(lines)) + "\n", encoding="utf-8")
    print(f"{len(lines)} modules, {sum(len(line.split()) - 1 for line in lines)} names in {NAMES}")


if __name__ == "__main__":
    main(*sys.argv[1:])
