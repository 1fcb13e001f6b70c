"""Base folder of relative paths: the folder in which they were given, regardless of later changes of the working
directory.

An environment, a callback or a program may call `os.chdir` at any time. So a path is made absolute once, when it is
read (`absolute`, `locate`), and what is made later for the same run, copies of its environment and other processes
among it, is made in the folder in which the run was started (`started_in`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

_FOLDER: ContextVar[str | None] = ContextVar("starting_folder", default=None)


def starting_folder() -> str:
    """Returns the folder in which relative paths start: that of `started_in`, else the working directory.

    Returns:
        An absolute path; empty where the working directory was removed.
    """
    return working_directory() if (folder := _FOLDER.get()) is None else folder


def working_directory() -> str:
    """Returns the working directory; empty if it was removed."""
    with suppress(OSError):
        return os.getcwd()
    return ""


@contextmanager
def started_in(folder: str, enter: bool = True) -> Iterator[None]:
    """Context in which relative paths start in a folder, including those opened by user code.

    The working directory of the process is another one only where it differs from `folder`, and only meanwhile, unless
    what is done there changes it again.

    Args:
        folder: Absolute path of the folder. Empty, or of no folder on this machine: the working directory stays.
        enter: Whether the working directory of the process is to be this folder; else only `starting_folder` is.
    """
    before, entered = working_directory(), ""
    folder = folder if os.path.isdir(folder) else ""
    token = _FOLDER.set(folder or None)
    try:
        if enter and folder and folder != before:
            with suppress(OSError):
                os.chdir(folder)
                entered = working_directory()
        yield
    finally:
        _FOLDER.reset(token)
        if entered and before and working_directory() == entered:
            with suppress(OSError):
                os.chdir(before)


def cwd_of_children() -> str | None:
    """Returns the working directory for child processes of a run; None: that of this process."""
    return starting_folder() or None


def module_paths(paths: Sequence[str]) -> list[str]:
    """Returns the module search path for another process; relative entries start in the starting folder.

    Args:
        paths: Entries of `sys.path`; an empty one stands for the working directory.
    """
    return [os.path.join(starting_folder(), entry).rstrip("/") or "/" if is_relative(entry) else entry
            for entry in paths]  # fmt: skip


def absolute(path: str | Path) -> Path:
    """Returns an absolute path; a relative one starts in the current starting folder."""
    return Path(starting_folder(), path)


def shown(path: Path) -> Path:
    """Returns the shortest form of a path for messages: relative if it is inside the starting folder."""
    folder = starting_folder()
    return path.relative_to(folder) if folder and path.is_relative_to(folder) else path


def is_relative(path: str) -> bool:
    """Returns whether a path is relative: not absolute, without ``~``, and no address such as ``s3://bucket``."""
    return not os.path.isabs(path) and not path.startswith("~") and "://" not in path
