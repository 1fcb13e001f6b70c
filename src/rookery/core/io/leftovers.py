"""Leftovers of killed writers: unfinished files and directories, and directories that were being replaced.

Unfinished ones are called ``.tmp-PROCESS-NUMBER`` and are removed. A directory that is replaced waits as
``.replaced-NAME`` until the new one is in its place. If the writer is killed in between, the next reader or writer of
the place puts the old one back. Writers lock the files that they write, so that only real leftovers are touched.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rookery.core.io.open_files import lock_file
from rookery.core.process.signals import is_alive

TEMPORARY = ".tmp-"
"""Beginning of the names of unfinished directories and files."""

REPLACED = ".replaced-"
"""Beginning of the name of a directory while it is replaced; the rest is its own name."""

NUMBERED = re.compile(rf"{re.escape(TEMPORARY)}(\d+)-[0-9a-f]{{8}}")
"""Names returned by `temporary_in`, with the process id."""

PATIENCE = 2.0
"""Seconds to wait for another process that is replacing a directory; the renames take microseconds."""


def temporary_in(parent: Path) -> Path:
    """Returns the path of a new temporary file or directory in a folder."""
    return parent / f"{TEMPORARY}{os.getpid()}-{secrets.token_hex(4)}"


def aside_of(path: Path) -> Path:
    """Returns the path to which a directory is moved while it is replaced."""
    return path.with_name(f"{REPLACED}{path.name}")


@contextmanager
def locked(path: Path, patience: float = PATIENCE) -> Iterator[bool | None]:
    """Holds a lock on a file or directory, which moves with it when it is renamed and ends with the process.

    Args:
        path: Path of the file or directory.
        patience: Seconds to wait for another process that holds the lock.

    Yields:
        Whether the lock is held; None if the path cannot be opened or the file system has no locks.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        yield None
        return
    try:
        yield take_lock(descriptor, patience)
    finally:
        os.close(descriptor)


def take_lock(descriptor: int, patience: float) -> bool | None:
    """Locks an open file; returns whether it could, or None if the file system has no locks."""
    until = time.monotonic() + patience
    while True:
        try:
            lock_file(descriptor)
        except BlockingIOError:
            if time.monotonic() >= until:
                return False
            time.sleep(0.01)
        except OSError:
            return None
        else:
            return True


def restore(path: Path) -> bool:
    """Puts a directory back if the process that was replacing it was killed; returns whether `path` exists."""
    aside = aside_of(path)
    if not os.path.lexists(path) and aside.exists():
        with locked(aside) as is_free:
            if is_free is not False and not os.path.lexists(path):
                with contextlib.suppress(OSError):  # of a read-only disk
                    os.rename(aside, path)
    return path.exists()


def restore_all(parent: Path) -> None:
    """Puts back every directory of a folder that `restore` would."""
    for aside in parent.glob(f"{REPLACED}*"):
        restore(parent / aside.name.removeprefix(REPLACED))


def discard(path: Path) -> None:
    """Removes a directory such that an interrupted removal leaves nothing that looks complete.

    Raises:
        OSError: If it cannot be removed; it is whole then.
    """
    doomed = temporary_in(path.parent)
    os.rename(path, doomed)
    _remove(doomed)


def clean(parent: Path) -> None:
    """Puts back or removes all leftovers in a folder in which no process is writing."""
    restore_all(parent)
    for path in parent.glob(f"{TEMPORARY}*"):
        _remove(path)
    for path in parent.glob(f"{REPLACED}*"):
        if os.path.lexists(parent / path.name.removeprefix(REPLACED)):
            _remove(path)


def sweep(parent: Path) -> None:
    """Removes unfinished files and directories of processes that have ended; other processes may be writing there."""
    for path in parent.glob(f"{TEMPORARY}*"):
        match = NUMBERED.fullmatch(path.name)
        if match and not is_alive(int(match[1])):
            with locked(path, patience=0.0) as is_free:  # the process may run on another machine
                if is_free:
                    _remove(path)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()
