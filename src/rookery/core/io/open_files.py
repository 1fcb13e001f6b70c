"""Open files as operating systems differ about them: locks, flags of `os.open`, renames and flushing of folders.

A lock belongs to an open file and ends with its process, however that ends. On POSIX it is `fcntl.flock`: advisory,
shared or exclusive, and of folders too. Windows has only exclusive locks of bytes, which other processes cannot read,
so there one byte far behind the content is locked. Windows opens no folders, hence flushes and locks none, and replaces
no file that another process has open.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

BINARY = getattr(os, "O_BINARY", 0)
"""Flag of `os.open`: no translation of line ends, as everywhere but on Windows."""

NO_LINK = getattr(os, "O_NOFOLLOW", 0)
"""Flag of `os.open`: refuse a symbolic link; without effect on Windows."""

NO_WAIT = getattr(os, "O_NONBLOCK", 0)
"""Flag of `os.open`: do not wait for the other end of a pipe; without effect on Windows."""

OPENS_FOLDERS = sys.platform != "win32"
"""Whether a folder can be opened, and renamed while a file in it is open."""

LOCKED_BYTE = 1 << 30
"""Position of the byte that is locked on Windows."""

PATIENCE = 1.0
"""Seconds to wait on Windows for a reader of a file that is replaced."""


def lock_file(descriptor: int, shared: bool = False) -> None:
    """Locks an open file.

    Args:
        descriptor: File descriptor of the file.
        shared: Other processes may have shared locks of it at the same time; on Windows the lock is exclusive.

    Raises:
        BlockingIOError: If another open file has the lock.
        OSError: If the file system has no locks.
    """
    if sys.platform == "win32":
        before = os.lseek(descriptor, 0, os.SEEK_CUR)
        os.lseek(descriptor, LOCKED_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except PermissionError as error:
            raise BlockingIOError(error.errno, error.strerror) from None
        finally:
            os.lseek(descriptor, before, os.SEEK_SET)
    else:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)


def sync_folder(path: Path) -> None:
    """Flushes the entries of a folder to the disk; does nothing on Windows, where a folder cannot be flushed.

    Raises:
        OSError: If it cannot be opened or flushed.
    """
    if not OPENS_FOLDERS:
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_file(source: Path, target: Path) -> None:
    """Renames a file, in place of an existing one. On Windows it waits for a while until no process has that one open.

    Raises:
        OSError: If the file cannot be renamed.
    """
    until = time.monotonic() + PATIENCE
    while True:
        try:
            os.replace(source, target)
        except PermissionError:
            if OPENS_FOLDERS or time.monotonic() >= until:
                raise
            time.sleep(0.01)
        else:
            return


def is_private(descriptor: int) -> bool:
    """Returns whether only its owner can read or write an open file, and that is this user; true on Windows, where the
    mode of a file does not show it.
    """
    if sys.platform == "win32":
        return True
    found = os.fstat(descriptor)
    return not found.st_mode & 0o077 and found.st_uid == os.geteuid()
