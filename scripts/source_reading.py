"""Reads Python source: files, imports, circles of imports, lines of code. Scripts and tests read by it alone.

An import is a statement, also one for types alone, or a text: a module of ours that is named in a call of a function
that imports (``import_module("rookery.tune.space")``, ``import_module(f"{__package__}.space")``, also by a constant of
the file). A process that is started with a module imports nothing here.
"""

from __future__ import annotations

import ast
import gc
import re
import tokenize
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

PACKAGES = ("rookery", "rookery_rllib", "rookery_mlagents")
MLAGENTS_ROOMS = (
    "link",  # the link to Unity's players: wire, layouts, environments
    "onnx_unity_rules",  # what Unity's importer asks of a model
    "onnx_unity",  # policies as models for Unity
    "old",  # files of releases 0.13 to 0.18
    "files",  # configurations, files of a run, demonstrations, checkpoints
    "key_meanings",  # what keys mean, by their settings
    "keys",  # the table of keys
    "testing",  # players without Unity
    "api",  # the low-level API, mlagents_envs
    "learn",  # mlagents-learn
    "verbs",  # verbs of the command line
)
"""Rooms of the ML-Agents face, lowest first."""

RLLIB_ROOMS = (
    "base",  # errors, lines for the user, tables of names, ray in this process
    "gym",  # gym of 2021
    "keras",  # TensorFlow's names on Keras
    "env",  # RLlib's forms of environments
    "config",  # from keys of 2021 to settings
    "batch",  # batches, trajectories, files of them, functions on arrays
    "model",  # models, preprocessors, action distributions, the catalog
    "policy",  # policies, losses, explorations, callbacks
    "execution",  # replay buffers and execution plans of scripts
    "trainer",  # Trainable and Trainer, workers, results
    "tune",  # tune.run and its parts
    "rllib2",  # RLlib 2.x: configurations, algorithms, callbacks, modules
    "examples",  # environments, models and policies of RLlib's examples
    "script",  # scripts and commands
)
"""Rooms of `rookery_rllib`, lowest first. A room imports from itself and from lower ones; the root stands above all."""

EMPTY = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING,
         tokenize.ENDMARKER}  # fmt: skip


@dataclass(frozen=True)
class Import:
    """One import.

    Attributes:
        module: What is imported, ``rookery.core.errors``.
        line: Where.
        typing_only: It stands under ``if TYPE_CHECKING``.
        inside: It stands in a function.
        text: It is a text in a call, and not a statement.
    """

    module: str
    line: int
    typing_only: bool
    inside: bool
    text: bool = False


class Source:
    """The packages in a folder.

    Args:
        folder: The folder ``src``.
        packages: Which of the packages in it; those that are not there are left out.
    """

    def __init__(self, folder: Path, packages: Iterable[str] = PACKAGES) -> None:
        self.folder = folder
        self.packages = tuple(name for name in packages if (folder / name).is_dir())
        self._imports: dict[Path, list[Import]] = {}
        self._nodes: dict[Path, list[ast.AST]] = {}
        self._texts: dict[Path, str] = {}
        self._codes: dict[Path, str] = {}

    @cached_property
    def _files(self) -> list[Path]:
        return sorted(path for package in self.packages for path in (self.folder / package).rglob("*.py"))

    def files(self, package: str = "") -> list[Path]:
        """Returns all files, or those of one package of `rookery`."""
        return [path for path in self._files if (self.folder / "rookery" / package) in path.parents or not package]

    @cached_property
    def trees(self) -> dict[Path, ast.Module]:
        """Syntax tree of each file."""
        gc.disable()  # all these nodes stay: looking through them again and again takes longer than parsing
        try:
            return {path: ast.parse(self.text_of(path)) for path in self._files}
        finally:
            gc.enable()

    def text_of(self, path: Path) -> str:
        """Returns what a file holds."""
        if path not in self._texts:
            self._texts[path] = path.read_text(encoding="utf-8")
        return self._texts[path]

    def tree_of(self, path: Path) -> ast.Module:
        """Returns what a file parses to."""
        return self.trees[path]

    def nodes_of(self, path: Path) -> list[ast.AST]:
        """Returns all of a file's tree, from the top down."""
        if path not in self._nodes:
            self._nodes[path] = list(ast.walk(self.tree_of(path)))
        return self._nodes[path]

    def name_of(self, path: Path) -> str:
        """Returns ``core/optim.py`` in `rookery`, and ``rookery_rllib/base/locks.py`` in another package."""
        return path.relative_to(self.folder).as_posix().removeprefix("rookery/")

    def module_of(self, path: Path) -> str:
        """Returns the name by which a file is imported."""
        return ".".join(path.relative_to(self.folder).with_suffix("").parts).removesuffix(".__init__")

    @cached_property
    def modules(self) -> frozenset[str]:
        """All modules."""
        return frozenset(map(self.module_of, self._files))

    def code_of(self, path: Path) -> str:
        """Returns the source without comments and docstrings."""
        if path not in self._codes:
            blocks: list[Any] = [node for node in self.nodes_of(path) if isinstance(getattr(node, "body", None), list)]
            whole = [(node, node.body) for node in blocks]
            for node, body in whole:
                node.body = [line for line in body if not is_text(line)] or [ast.Pass()]
            try:
                self._codes[path] = ast.unparse(self.tree_of(path))
            finally:
                for node, body in whole:
                    node.body = body
        return self._codes[path]

    def files_with(self, pattern: str, ignoring: str | tuple[str, ...] = "-") -> list[str]:
        """Returns the files whose code matches `pattern`, each as often as it does.

        All words of `pattern` outside its groups have to be there, so that most files need not be searched.
        """
        outside = re.sub(r"\([^)]*\)", " ", re.sub(r"\\.", " ", pattern))
        words = re.findall(r"\w{4,}", outside)
        assert words and not set("|?*") & set(outside)  # each of them has to be there
        found = []
        for path in self._files:
            if not self.name_of(path).startswith(ignoring) and all(word in self.text_of(path) for word in words):
                found += [self.name_of(path)] * len(re.findall(pattern, self.code_of(path)))
        return found

    def imports_of(self, path: Path) -> list[Import]:
        """Returns what a file imports by statements."""
        return [found for found in self.all_imports_of(path) if not found.text]

    def all_imports_of(self, path: Path) -> list[Import]:
        """Returns what a file imports by statements and by texts."""
        if path not in self._imports:
            self._imports[path] = [*self._statements(path), *self._text_imports(path)]
        return self._imports[path]

    def _statements(self, path: Path) -> list[Import]:
        found: list[Import] = []

        def walk(node: ast.AST, typing_only: bool, inside: bool) -> None:
            if isinstance(node, ast.Import):
                found.extend(Import(alias.name, node.lineno, typing_only, inside) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{self.name_of(path)}:{node.lineno}: a relative import"
                for alias in node.names:
                    deeper = f"{node.module}.{alias.name}"
                    module = deeper if deeper in self.modules else str(node.module)
                    found.append(Import(module, node.lineno, typing_only, inside))
            elif isinstance(node, ast.If) and "TYPE_CHECKING" in names_in(node.test):
                for child in node.body:
                    walk(child, True, inside)
                for child in node.orelse:
                    walk(child, typing_only, inside)
            else:
                inside = inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
                for below in ast.iter_child_nodes(node):
                    if not isinstance(below, ast.expr):
                        walk(below, typing_only, inside)

        walk(self.tree_of(path), False, False)
        return found

    def _text_imports(self, path: Path) -> list[Import]:
        module = self.module_of(path)
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        known: dict[str, str] = {"__name__": module, "__package__": package}
        for line in self.trees[path].body:
            if isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Name):
                known[line.targets[0].id] = text_in(line.value, known)
        found = []
        for node in self.nodes_of(path):
            if isinstance(node, ast.Call) and re.search("import|module", ast.unparse(node.func)):
                for given in [*node.args, *(keyword.value for keyword in node.keywords)]:
                    named = text_in(given, known).partition(":")[0]
                    if named in self.modules and "." in named and not is_name_of_itself(given):
                        found.append(Import(named, node.lineno, False, True, text=True))
        return found

    def graph(self, texts: bool = False) -> dict[str, set[str]]:
        """Returns what each module imports of ours, by statements alone or by texts too."""
        imports = self.all_imports_of if texts else self.imports_of
        graph = {
            self.module_of(path): {found.module for found in imports(path) if found.module in self.modules}
            for path in self._files
        }
        graph["rookery"] = set()  # what it names is imported when it is used
        return graph


def is_text(node: ast.stmt) -> bool:
    """Returns whether a statement is a text that stands alone, a docstring for one."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def is_name_of_itself(node: ast.expr) -> bool:
    """Returns whether an expression is ``__name__`` or ``__package__``."""
    return isinstance(node, ast.Name) and node.id in ("__name__", "__package__")


def text_in(node: ast.expr, known: Mapping[str, str]) -> str:
    """Returns the text that an expression is, by what names stand for; an empty one where that is not known."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.Name):
        return known.get(node.id, "")
    if isinstance(node, ast.JoinedStr):
        parts = [text_in(part.value if isinstance(part, ast.FormattedValue) else part, known) for part in node.values]
        return "".join(parts) if all(parts) else ""
    return ""


def names_in(node: ast.expr) -> set[str]:
    """Returns the names and attributes in an expression."""
    return {getattr(part, "id", getattr(part, "attr", "")) for part in ast.walk(node)}


def functions(tree: ast.AST, above: str = "") -> list[tuple[str, ast.FunctionDef]]:
    """Returns functions and methods by dotted name, without those inside functions."""
    found: list[tuple[str, ast.FunctionDef]] = []
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            found.append((above + node.name, node))
        elif isinstance(node, ast.ClassDef):
            found += functions(node, f"{above}{node.name}.")
        elif isinstance(node, ast.If):
            found += functions(node, above)
    return found


def package_of(module: str) -> str:
    """Returns ``core`` for ``rookery.core.optim``, and ``rookery_rllib`` for all that is in it."""
    first, *rooms = module.split(".")
    return first if first != "rookery" else rooms[0] if rooms else ""


def code_lines(text: str, node: ast.AST | None = None) -> set[int]:
    """Returns the numbers of the lines that hold code: no docstrings, no comments, no blank lines.

    Args:
        text: A file.
        node: A function or class of it, which is looked at alone; by default all of the file is.
    """
    lines, first = text.splitlines(keepends=True), 1
    if node is None:
        node = ast.parse(text)
    else:
        first = node.lineno  # type: ignore[attr-defined]
        lines = lines[first - 1 : node.end_lineno]  # type: ignore[attr-defined]
    found: set[int] = set()
    for token in tokenize.generate_tokens(iter([*lines, ""]).__next__):
        if token.type not in EMPTY:
            found.update(range(token.start[0] + first - 1, token.end[0] + first))
    for inner in ast.walk(node):
        body = getattr(inner, "body", None)
        for line in body if isinstance(body, list) else ():
            if is_text(line):
                found.difference_update(range(line.lineno, (line.end_lineno or line.lineno) + 1))
    return found


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Returns the groups of modules that import each other in a circle (Tarjan's strongly connected components)."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        number[module] = lowest[module] = len(number)
        stack.append(module)
        for inner in sorted(graph[module] - {module}):
            if inner not in number:
                visit(inner)
                lowest[module] = min(lowest[module], lowest[inner])
            elif inner in stack:
                lowest[module] = min(lowest[module], number[inner])
        if lowest[module] == number[module]:
            group = stack[stack.index(module) :]
            del stack[stack.index(module) :]
            if len(group) > 1:
                found.append(sorted(group))

    for module in sorted(graph):
        if module not in number:
            visit(module)
    return found
