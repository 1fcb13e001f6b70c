"""Finds file and line of code by reading its source, without importing it."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path

from rookery.core.errors import ConfigError
from rookery.core.moved import new_name

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True)
class Place:
    """A line of a file."""

    file: Path
    line: int

    def __str__(self) -> str:
        """``file:line``; the path of a file below the working directory is relative, so that a terminal can open it."""
        here = Path.cwd()
        shown = self.file.relative_to(here) if self.file.is_relative_to(here) else self.file
        return f"{shown}:{self.line}"


def find(name: str) -> Place:
    """Finds the place of ``module:function``, ``module:Class.method``, or, after a space, of a call in it.

    A method is also found where a base class has it. The line of ``module:Class.method self.env.step`` is that of the
    first call ``self.env.step(...)`` in it.

    Raises:
        ConfigError: If the name does not exist.
    """
    where, _, call = name.partition(" ")
    module, node = _definition(where)
    file, target = module_file(module), where.partition(":")[2]
    if not call:
        return Place(file, node.lineno)
    calls = [inner for inner in ast.walk(node) if isinstance(inner, ast.Call)]
    lines = [inner.lineno for inner in calls if ast.unparse(inner.func) == call]
    if not lines:
        raise ConfigError(f"{module}: {target} has no call of {call}")
    return Place(file, min(lines))


def class_text(name: str, attribute: str) -> str:
    """Returns the text that a class, or else one of its bases, assigns to an attribute; empty if none does."""
    for _, node in _lineage(name):
        for line in node.body:
            targets = [line.target] if isinstance(line, ast.AnnAssign) else getattr(line, "targets", [])
            value = getattr(line, "value", None)
            if [ast.unparse(target) for target in targets] == [attribute] and isinstance(value, ast.Constant):
                return str(value.value)
    return ""


def field_texts(name: str) -> dict[str, str]:
    """Reads the docstrings under the fields of a class and of its bases, by field."""
    texts: dict[str, str] = {}
    for line, following in itertools.chain(*(itertools.pairwise(node.body) for _, node in _lineage(name))):
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name) and isinstance(following, ast.Expr):
            value = following.value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                texts.setdefault(line.target.id, " ".join(value.value.split()))
    return texts


@cache
def module_file(module: str) -> Path:
    """Returns the source file of a module, without importing the module or its parent packages.

    Raises:
        ConfigError: If there is no such module, or it has no source.
    """
    top, *inside = module.split(".")
    try:
        spec = importlib.util.find_spec(top) if top else None
        for depth in range(len(inside)):
            above = spec.submodule_search_locations if spec else None
            spec = PathFinder.find_spec(".".join((top, *inside[: depth + 1])), above) if above else None
    except (ImportError, ValueError):
        spec = None
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        raise ConfigError(f"{module}: there is no source of that module here")
    return Path(spec.origin)


@cache
def _tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def _definition(name: str) -> tuple[str, Definition]:
    """Finds the class or function ``module:Qualified.name``, and the module that contains it."""
    module, _, target = new_name(name).partition(":")
    *above, last = target.split(".")
    found = _lineage(f"{module}:{'.'.join(above)}") if above else [(module, _tree(module_file(module)))]
    for where, node in found:
        for line in node.body:
            if isinstance(line, Definition) and line.name == last:
                return where, line
    raise ConfigError(f"{module}: there is no {target!r}")


def _lineage(name: str) -> Iterator[tuple[str, ast.ClassDef]]:
    """Returns a class and its bases in the order of inheritance, with their modules; bases without source are left
    out.
    """
    module, node = _definition(name)
    if not isinstance(node, ast.ClassDef):
        raise ConfigError(f"{name} is no class")
    yield module, node
    for base in node.bases:
        with contextlib.suppress(ConfigError):
            yield from _lineage(_import_path(module, ast.unparse(base).partition("[")[0]))


def _import_path(module: str, name: str) -> str:
    """Resolves a name used in a module to ``module:Name``."""
    first, _, rest = name.partition(".")
    for line in _tree(module_file(module)).body:
        for alias in line.names if isinstance(line, ast.Import | ast.ImportFrom) else ():
            if first == (alias.asname or alias.name) and isinstance(line, ast.ImportFrom):
                return f"{line.module}:{alias.name}"
            if first == alias.asname and rest:
                return f"{alias.name}:{rest}"
            if name.startswith(f"{alias.name}."):
                return f"{alias.name}:{name.removeprefix(f'{alias.name}.')}"
    return f"{module}:{name}"
