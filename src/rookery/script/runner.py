"""Runs a script as Python itself would, with the names of an importer visible to it and to modules of its folder."""

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

from rookery.core.errors import ConfigError, RookeryError
from rookery.core.packages import is_own
from rookery.core.settings.starting_folder import started_in
from rookery.script import importer as importing
from rookery.script.importer import Importer, script_builtins, show_names_in

CTRL_C_EXIT_CODE = 130
"""Exit code of a script ended by Ctrl-C."""

HERE = str(Path(__file__).parent)


def run_script(
    path: str | os.PathLike[str], argv: Sequence[str] = (), importer: Importer | None = None
) -> dict[str, Any]:
    """Runs a script, or the code cells of a notebook, as ``python script.py ARGUMENTS...`` does.

    ``__name__`` is ``"__main__"``, ``__file__`` the script, ``sys.argv`` has its arguments and the front of `sys.path`
    its folder. Exceptions of the script propagate, SystemExit too.

    Args:
        path: Python file, or Jupyter notebook (``.ipynb``) whose cells run in order.
        argv: Arguments of the script.
        importer: Importer with additional names; None = plain Python.

    Returns:
        The script's globals.

    Raises:
        ConfigError: If there is no such file, or it is not Python.
    """
    source = Path(path)
    pieces = list(_pieces(source))
    module = ModuleType("__main__")
    vars(module).update(__file__=str(source.absolute()), __cached__=None)
    if importer is not None:
        vars(module)["__builtins__"] = script_builtins(importer)
    with _as_main(module, str(path), argv), started_in(""):  # its relative paths follow its os.chdir
        if importer is not None:
            show_names_in(importer, source.parent, first=False)
        for text, name in pieces:
            exec(_compiled(text, name), vars(module))
    return vars(module)


def _compiled(text: str, name: str) -> CodeType:
    return compile(text, name, "exec", dont_inherit=True)


def _pieces(source: Path) -> Iterator[tuple[str, str]]:
    """Yields source texts in the order in which they run, each with its name in tracebacks."""
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
    """Yields the code cells of a notebook; magic and shell lines (``%matplotlib``, ``!pip``) are left out."""
    try:
        cells = json.loads(body)["cells"]
    except (ValueError, KeyError, TypeError):
        raise ConfigError(f"{source} is not a Jupyter notebook (format 4)") from None
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
    """Makes a script the main program within the context."""
    before = sys.argv, sys.path[:], sys.modules["__main__"]
    folder = os.path.dirname(os.path.realpath(name))
    sys.argv = [name, *arguments]
    sys.path[:] = [folder, *(place for place in sys.path if place not in ("", folder))]
    sys.modules["__main__"] = module
    try:
        yield
    finally:
        sys.argv, sys.path[:], sys.modules["__main__"] = before


def run(path: str | os.PathLike[str], argv: Sequence[str] = (), importer: Importer | None = None) -> int | str | None:
    """Runs a script as a program and returns its exit code, as for `sys.exit`.

    Exceptions are printed from the script's first line on; the exit code is then 1, or that of a `RookeryError`; 130
    after Ctrl-C.

    Args:
        path: The script.
        argv: Arguments of the script.
        importer: As in `run_script`.
    """
    try:
        run_script(path, argv, importer)
    except SystemExit as ended:
        code: int | str | None = ended.code
        return code
    except KeyboardInterrupt as error:
        sys.stderr.write(format_error(error, importer))
        return CTRL_C_EXIT_CODE
    except RookeryError as error:
        sys.stderr.write(format_error(error, importer))
        return error.exit_code
    except BaseException as error:
        sys.stderr.write(format_error(error, importer))
        return 1
    return 0


def format_error(error: BaseException, importer: Importer | None = None) -> str:
    """Returns the traceback of a script's exception, without the frames of this runner and of name lookups.

    For an error of Rookery, the script's lines are shown, followed by the message.
    """
    trace = error.__traceback__
    while trace is not None and _is_between(trace):
        trace = trace.tb_next
    if not isinstance(error, RookeryError):
        shown = traceback.TracebackException(type(error), error, trace)
        lookups = (importing.__name__, *(() if importer is None else importer.lookups))
        files = {sys.modules[name].__file__ for name in lookups}
        while len(shown.stack) > 1 and shown.stack[-1].filename in files:
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


def without_dashes(arguments: Sequence[str]) -> list[str]:
    """Returns a script's own arguments without a leading ``--``."""
    return list(arguments[1:] if arguments and arguments[0] == "--" else arguments)
