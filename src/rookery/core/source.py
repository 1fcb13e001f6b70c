"""Where code stands: file and line of a function, found by reading its source, so that nothing has to be imported."""

from __future__ import annotations

import ast
import importlib.util
import itertools
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from rookery.core.errors import ConfigError

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True)
class Place:
    """A line of a file."""

    file: Path
    line: int

    def __str__(self) -> str:
        """``file:line``; a file below the working directory is named from there, so that a terminal can open it."""
        here = Path.cwd()
        shown = self.file.relative_to(here) if self.file.is_relative_to(here) else self.file
        return f"{shown}:{self.line}"


def find(name: str) -> Place:
    """The place of ``module:function``, ``module:Class.method``, or, after a space, of a call in it.

    The line of ``package.module:Class.method self.env.step`` is that of the first call ``self.env.step(...)`` there.

    Raises:
        ConfigError: If there is none of that name.
    """
    where, _, call = name.partition(" ")
    module, _, target = where.partition(":")
    file, node = module_file(module), _definition(where)
    if not call:
        return Place(file, node.lineno)
    lines = [
        inner.lineno for inner in ast.walk(node) if isinstance(inner, ast.Call) and ast.unparse(inner.func) == call
    ]
    if not lines:
        raise ConfigError(f"{module}: {target} has no call of {call}")
    return Place(file, min(lines))


def class_text(name: str, attribute: str) -> str:
    """The text that a class assigns to one of its attributes; empty if it does not."""
    for line in _definition(name).body:
        targets = [line.target] if isinstance(line, ast.AnnAssign) else getattr(line, "targets", [])
        value = getattr(line, "value", None)
        if [ast.unparse(target) for target in targets] == [attribute] and isinstance(value, ast.Constant):
            return str(value.value)
    return ""


def field_texts(name: str) -> dict[str, str]:
    """The docstrings under the fields of a class, by field."""
    body = _definition(name).body
    texts = {}
    for line, following in itertools.pairwise(body):
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name) and isinstance(following, ast.Expr):
            value = following.value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                texts[line.target.id] = " ".join(value.value.split())
    return texts


@cache
def module_file(module: str) -> Path:
    """The source file of a module. Packages above it are imported, it is not.

    Raises:
        ConfigError: If there is no such module, or it has no source.
    """
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        spec = None
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        raise ConfigError(f"{module}: there is no source of that module here")
    return Path(spec.origin)


@cache
def _tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def _definition(name: str) -> Definition:
    """The class or function ``module:Qualified.name``."""
    module, _, target = name.partition(":")
    body = _tree(module_file(module)).body
    found: Definition | None = None
    for part in target.split("."):
        inside = (line for line in body if isinstance(line, Definition) and line.name == part)
        found = next(inside, None)
        if found is None:
            raise ConfigError(f"{module}: there is no {target!r}")
        body = found.body
    assert found is not None
    return found
