"""Kills a process before any one of its file operations: a fork of this process does the work."""

from __future__ import annotations

import builtins
import io
import itertools
import os
import shutil
import signal
import sys
import traceback

OPERATIONS = ("open", "write", "fsync", "close", "mkdir", "rename", "replace", "link", "unlink", "rmdir", "ftruncate")
WRITING = set("wax+")


class Deadly:
    """Counts file operations of this process, and kills it before one of them.

    Args:
        at: Number of the operation; the first is 0.
        under: Folder to whose files operations count; those on open files always do.
    """

    def __init__(self, at, under):
        self.left, self.under = at, str(under)

    def count(self, first):
        """An operation is about to happen; `first` is its path or file descriptor."""
        if isinstance(first, int) or str(first).startswith(self.under) or not str(first).startswith("/"):
            self.left -= 1
            if self.left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def install(self):
        """Patches `os` and `open`."""
        for name in OPERATIONS:
            setattr(os, name, self._counted(getattr(os, name)))
        builtins.open = io.open = self._counted_open(builtins.open)

    def _counted(self, real):
        def operation(first, *rest, **keywords):
            self.count(first)
            return real(first, *rest, **keywords)

        return operation

    def _counted_open(self, real):
        def opened(file, mode="r", *rest, **keywords):
            if not WRITING & set(mode):
                return real(file, mode, *rest, **keywords)
            self.count(file)
            made = real(file, mode, *rest, **keywords)
            self.count(file)
            return made

        return opened


def in_child(act):
    """Runs `act` in a fork of this process; returns its exit code, negative for a signal. What it prints is lost."""
    child = os.fork()
    if not child:
        code = 1
        try:
            sink = os.open(os.devnull, os.O_WRONLY)
            os.dup2(sink, 1)
            if "FS_KILLS_SHOW" not in os.environ:
                os.dup2(sink, 2)
            act()
            code = 0
        except SystemExit as ended:
            code = ended.code or 0
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def kills(folder, begin, act, numbers=None):
    """Yields (number, whether it was killed) for each file operation of `act`: each time from a fresh folder.

    Args:
        folder: Folder that is made anew for each kill.
        begin: Function that fills it, without arguments.
        act: Function that is killed.
        numbers: Numbers of operations to be killed before; None = every one, until `act` ends.
    """
    for number in itertools.count() if numbers is None else numbers:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        begin()

        def deadly(number=number):
            Deadly(number, folder).install()
            act()

        code = in_child(deadly)
        assert code in (0, -signal.SIGKILL), f"operation {number}: exit code {code}"
        yield number, code != 0
        if not code:
            return
