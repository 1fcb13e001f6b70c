"""Runs a script of 2021 as Python itself would, with the old names in sight of it and of the modules of its folder."""

from __future__ import annotations

import io
import json
import linecache
import os
import sys
import tokenize
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import Any

from rookery.compat.mlagents.environment.importing import install
from rookery.compat.rllib import finder
from rookery.compat.rllib.finder import script_builtins, show_names_in
from rookery.core.errors import ConfigError, RookeryError
from rookery.core.packages import is_own
from rookery.core.starting_folder import started_in

AFTER_CTRL_C = 130
"""Exit code of a script that Ctrl-C ended."""

HERE = str(Path(__file__).parent)


def run_script(path: str | os.PathLike[str], arguments: Sequence[str] = (), old_names: bool = True) -> dict[str, Any]:
    """Runs a script, or the code cells of a notebook, as ``python script.py ARGUMENTS...`` does.

    ``__name__`` is ``"__main__"``, ``__file__`` the script, ``sys.argv`` has its arguments and the front of `sys.path`
    its folder. What the script raises goes through, SystemExit too.

    Args:
        path: Python file, or notebook (``.ipynb`` of Jupyter) whose cells run in order.
        arguments: Arguments of the script.
        old_names: Whether it sees the names of 2021; else it is run as it is.

    Returns:
        The script's globals.

    Raises:
        ConfigError: If there is no such file, or if it is not Python.
    """
    source = Path(path)
    pieces = list(_pieces(source))
    module = ModuleType("__main__")
    vars(module).update(__file__=str(source.absolute()), __cached__=None)
    if old_names:
        vars(module)["__builtins__"] = script_builtins()
    install()  # of mlagents_envs, where it is missing
    with _as_main(module, str(path), arguments), started_in(""):  # where it goes, its paths begin
        if old_names:
            show_names_in(source.parent, first=False)
        for text, name in pieces:
            exec(_compiled(text, name), vars(module))
    return vars(module)


def _compiled(text: str, name: str) -> CodeType:
    return compile(text, name, "exec", dont_inherit=True)


def _pieces(source: Path) -> Iterator[tuple[str, str]]:
    """Source texts that run one after the other, each with the name that tracebacks have for it."""
    if source.is_dir():
        raise ConfigError(f"{source} is a directory; name a script in it")
    try:
        body = source.read_bytes()
    except FileNotFoundError:
        raise ConfigError(f"there is no script {source}") from None
    except OSError as error:
        raise ConfigError(f"{source} cannot be read: {error.strerror}") from None
    if source.suffix == ".ipynb":
        yield from _cells(source, body)
        return
    try:
        encoding = tokenize.detect_encoding(io.BytesIO(body).readline)[0]
        yield body.decode(encoding), str(source.absolute())
    except (SyntaxError, UnicodeDecodeError) as error:
        raise ConfigError(f"{source} is not a Python file: {error}") from None


def _cells(source: Path, body: bytes) -> Iterator[tuple[str, str]]:
    """The code cells of a notebook; lines for the notebook itself (``%matplotlib``, ``!pip``) are left out."""
    try:
        cells = json.loads(body)["cells"]
    except (ValueError, KeyError, TypeError):
        raise ConfigError(f"{source} is not a notebook of Jupyter (format 4)") from None
    for number, cell in enumerate((cell for cell in cells if cell["cell_type"] == "code"), 1):
        text = "".join(cell["source"])
        if text.lstrip().startswith("%%"):
            continue
        lines = [f"pass  # {line}" if line.startswith(("%", "!")) else line for line in text.splitlines()]
        name = f"{source.absolute()}[code cell {number}]"
        text = "\n".join(lines) + "\n"
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        yield text, name


@contextmanager
def _as_main(module: ModuleType, name: str, arguments: Sequence[str]) -> Iterator[None]:
    """Puts a script in the place of the program that runs it, and takes it out again."""
    before = sys.argv, sys.path[:], sys.modules["__main__"]
    folder = os.path.dirname(os.path.realpath(name))
    sys.argv = [name, *arguments]
    sys.path[:] = [folder, *(place for place in sys.path if place not in ("", folder))]
    sys.modules["__main__"] = module
    try:
        yield
    finally:
        sys.argv, sys.path[:], sys.modules["__main__"] = before


def run(path: str | os.PathLike[str], arguments: Sequence[str] = (), old_names: bool = True) -> int | str | None:
    """Runs a script as a program and returns what it exits with, as `sys.exit` takes it.

    What it raises is printed from the script's first line on: 1, or the code of a `RookeryError`; 130 after Ctrl-C.

    Args:
        path: The script.
        arguments: Arguments of the script.
        old_names: As in `run_script`.
    """
    try:
        run_script(path, arguments, old_names)
    except SystemExit as ended:
        code: int | str | None = ended.code
        return code
    except KeyboardInterrupt as error:
        sys.stderr.write(told(error))
        return AFTER_CTRL_C
    except RookeryError as error:
        sys.stderr.write(told(error))
        return error.exit_code
    except BaseException as error:
        sys.stderr.write(told(error))
        return 1
    return 0


def told(error: BaseException) -> str:
    """Returns the traceback of what a script raised, without the frames on the way to it.

    Of an error that Rookery raises on purpose, the script's lines are shown, and then what is wrong.
    """
    trace = error.__traceback__
    while trace is not None and _is_between(trace):
        trace = trace.tb_next
    if not isinstance(error, RookeryError):
        shown = traceback.TracebackException(type(error), error, trace)
        while len(shown.stack) > 1 and shown.stack[-1].filename == finder.__file__:  # what looks names up
            shown.stack.pop()
        return "".join(shown.format())
    lines: list[traceback.FrameSummary] = []
    while trace is not None and not is_own(str(trace.tb_frame.f_globals.get("__name__"))):
        lines += traceback.extract_tb(trace, limit=1)
        trace = trace.tb_next
    began = ["Traceback (most recent call last):\n", *traceback.format_list(lines)] if lines else []
    problems = error.problems if isinstance(error, ConfigError) else (str(error),)
    return "".join([*began, *(f"error: {problem}\n" for problem in problems)])


def _is_between(trace: TracebackType) -> bool:
    return trace.tb_frame.f_code.co_filename.startswith(HERE)


def main(arguments: Sequence[str]) -> int | str | None:
    """Runs ``python -m rookery.compat.rllib run script.py [-- ARGUMENTS...]`` and returns what it exits with."""
    usage = "usage: python -m rookery.compat.rllib run script.py [-- the script's own arguments]\n"
    match list(arguments):
        case ["run", path, *own] if not path.startswith("-"):
            return run(path, without_dashes(own))
        case ["--help" | "-h"] | ["run", "--help" | "-h"]:
            sys.stdout.write(usage)
            return 0
        case [("train" | "rollout" | "evaluate") as verb, *_]:
            sys.stderr.write(f"{usage}error: {verb} is a command of its own: rookery rllib {verb}\n")
        case _:
            sys.stderr.write(usage)
    return 2


def without_dashes(arguments: Sequence[str]) -> list[str]:
    """Returns a script's own arguments without the ``--`` that may stand before them."""
    return list(arguments[1:] if arguments and arguments[0] == "--" else arguments)
