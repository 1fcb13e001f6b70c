"""Saved attributes and state version of each class: read from the source, and written beside this file.

python tests/golden/saved_attributes.py     # after a change of `saved`, with `state_version` and `upgrade`
"""

from __future__ import annotations

import ast
import json
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"

TABLE = Path(__file__).with_name("saved_attributes.json")


def saved_attributes() -> dict[str, tuple[int, list[str]]]:
    """Returns version and attributes of each class that declares `saved`, by its name."""
    found: dict[str, tuple[int, list[str]]] = {}
    texts = [path.read_text(encoding="utf-8") for path in sorted(SOURCE.glob("rookery*/**/*.py"))]
    for text in (text for text in texts if "    saved" in text):
        for node in ast.walk(ast.parse(text)):
            own = declared(node) if isinstance(node, ast.ClassDef) else {}
            if isinstance(saved := own.get("saved"), ast.Tuple) and saved.elts:
                version = ast.literal_eval(own.get("state_version", ast.Constant(1)))
                names = [one.value if isinstance(one, ast.Constant) else ast.unparse(one) for one in saved.elts]
                assert node.name not in found, f"two classes with state are called {node.name}; rename one"
                found[node.name] = version, sorted(names)
    return found


def declared(node: ast.ClassDef) -> dict[str, ast.expr]:
    """Returns what stands for `saved` and `state_version` in the body of a class."""
    found = {}
    for line in node.body:
        target = line.targets[0] if isinstance(line, ast.Assign) else getattr(line, "target", None)
        if isinstance(target, ast.Name) and target.id in ("saved", "state_version") and line.value is not None:
            found[target.id] = line.value
    return found


if __name__ == "__main__":
    TABLE.write_text(json.dumps(saved_attributes(), indent=1) + "\n", encoding="utf-8")
