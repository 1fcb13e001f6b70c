"""Detects environments that only this process can step: by an attribute, a registered reason, or their code.

Helper processes have copies of all objects that an environment refers to. An object of one process, such as an actor or
a global that the environment changes, would differ in each of them without an error.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from rookery.core.packages import is_own

ATTRIBUTE = "only_here"
"""Attribute of an environment's class, or of a function that creates one: the reason as text, or True."""

PACKAGES = ("site-packages", "dist-packages")

CHANGES = frozenset(
    ("append", "appendleft", "extend", "insert", "pop", "popleft", "popitem", "remove", "clear", "update", "setdefault",
     "add", "discard", "write", "writelines")
)  # fmt: skip
"""Methods that modify lists, dictionaries, sets and files."""

_parsing = threading.Lock()
"""Held while code is parsed: Python's parser sometimes raises a SystemError if two threads parse at once."""

_reasons: list[Callable[[], str]] = []


def bind_to_process(reason: Callable[[], str]) -> None:
    """Registers a reason why all environments must be stepped in this process.

    Args:
        reason: Called before helpers are chosen; returns the reason, or an empty text if there is none at that time.
    """
    if reason not in _reasons:
        _reasons.append(reason)


def why_process_bound(env: Any) -> str:
    """Returns the reason why only this process can step an environment; an empty string if any process can.

    Args:
        env: A class, a function that makes environments, or the name of either, ``my.module:MyEnv``, if imported.
    """
    if isinstance(env, str):
        module, _, name = env.partition(":")
        env = getattr(sys.modules.get(module), name, env)
    if reason_given := getattr(env, ATTRIBUTE, ""):
        return reason_given if isinstance(reason_given, str) else f"it says {ATTRIBUTE}"
    if found := next(filter(None, (reason() for reason in _reasons)), ""):
        return found
    changed = changed_global(env) if inspect.isclass(env) or inspect.isfunction(env) else ""
    return f"it changes {changed}, which is a global of this program" if changed else ""


def changed_global(env: Any) -> str:
    """Returns the first global that the code of a class or function changes; an empty text if none is found.

    For a function, the classes that it names are searched too. Code of installed packages is not searched.
    """
    for part in env.__mro__ if inspect.isclass(env) else (env, *_classes(env)):
        module = sys.modules.get(part.__module__)
        if module is None or not is_of_program(module.__name__):
            continue
        tree = _parsed(part)
        for node in ast.walk(tree) if tree else ():
            if isinstance(node, ast.FunctionDef):
                found = next(_changed(node, vars(module)), "")
                if found:
                    return found
    return ""


def _parsed(part: Any) -> ast.Module | None:
    """Returns the parsed code of a class or function; None if it has no source or cannot be parsed."""
    try:
        with _parsing:
            return ast.parse(textwrap.dedent(inspect.getsource(part)))
    except (OSError, TypeError, SyntaxError, ValueError, RecursionError, SystemError):
        return None


def is_of_program(name: str) -> bool:
    """Returns whether a module belongs to the user's program, and not to Rookery, Python or an installed package."""
    file = getattr(sys.modules.get(name), "__file__", None)
    if file is None:
        return name == "__main__"  # of a notebook, say
    if is_own(name):
        return False
    return not any(folder in PACKAGES or folder.startswith("python3") for folder in Path(file).parts)


def _classes(function: Any) -> Iterator[type]:
    """Yields the classes that a function names, and their base classes."""
    for name in function.__code__.co_names:
        found = function.__globals__.get(name)
        if inspect.isclass(found):
            yield from found.__mro__


def _changed(function: ast.FunctionDef, known: dict[str, Any]) -> Iterator[str]:
    """Yields the globals of a module that a function changes."""
    nodes = list(ast.walk(function))
    declared = {name for node in nodes if isinstance(node, ast.Global) for name in node.names}
    own = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    own |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    yield from sorted(declared & own)
    for node in nodes:
        if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
            root, is_call = node.value, False
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGES:
            root, is_call = node.func.value, True
        else:
            continue
        while isinstance(root, ast.Attribute | ast.Subscript):
            root = root.value
        if isinstance(root, ast.Name) and root.id in known and root.id not in own - declared:
            value = known[root.id]
            if not (is_call and (isinstance(value, ModuleType) or inspect.isclass(value))):
                yield root.id
