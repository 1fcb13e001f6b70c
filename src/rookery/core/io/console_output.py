"""Standard output and standard error that may fail: a closed pipe or terminal, a full disk.

A command whose output cannot be written ends with one line. A training continues, and writes its further output into
``log.txt`` of its run.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any, TextIO, cast

from rookery.core.errors import RookeryError

LOG = "log.txt"
"""File in the directory of a run for output that can no longer be shown."""

HELD = 1 << 16
"""Maximum number of characters kept since the last flush, for writing them elsewhere after a failure."""


class OutputError(RookeryError):
    """Standard output or standard error cannot be written."""

    exit_code = 1


class ConsoleOutput:
    """A stream that can be replaced when it fails; other attributes are passed through to the stream.

    Args:
        stream: Stream to write to.
        name: Name for messages, ``standard output``.

    Attributes:
        is_survivable: Whether a failure is ignored; else it is raised.
        log: File that replaces the stream then; None = none.
    """

    def __init__(self, stream: TextIO, name: str) -> None:
        self._stream = stream
        self._name = name
        self._is_lost = False
        self._failure: Exception | None = None
        self._held = ""
        """Text since the last successful flush."""
        self.is_survivable = False
        self.log: Path | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Writes a text.

        Raises:
            OutputError: If it cannot be written and failures are not survived.
            BrokenPipeError: If the reader has closed its end.
        """
        self._raise_again()
        self._held = (self._held + text)[-HELD:]
        try:
            self._stream.write(text)
        except (OSError, ValueError) as error:  # ValueError: of a stream that was closed
            self._lose(error)
        return len(text)

    def flush(self) -> None:
        """Flushes the stream; raises as `write` does."""
        self._raise_again()
        try:
            self._stream.flush()
        except (OSError, ValueError) as error:
            self._lose(error)
        self._held = ""

    def _lose(self, error: Exception) -> None:
        """Replaces the stream by a file or the null device, so that later output cannot fail; raises unless ignored.

        A closed terminal is always ignored: the process gets a signal too.
        """
        log = self.log if self.is_survivable and not self._is_lost else None
        self._is_lost = True
        replacement = replace_lost(self._stream, self._name, error, log)
        if replacement is not None:
            self._stream = replacement
        if log is not None:
            self._stream.write(self._held)
        self._held = ""
        if not self.is_survivable and getattr(error, "errno", None) != errno.EIO:
            refused = OutputError(f"{self._name}: cannot be written: {_reason(error)}")
            self._failure = error if isinstance(error, BrokenPipeError) else refused
            self._raise_again()

    def _raise_again(self) -> None:
        """Raises the error of `write` again: some callers suppress the first."""
        if self._failure is not None and not self.is_survivable:
            raise self._failure from None


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def replace_lost(stream: TextIO, name: str, error: Exception, log: Path | None) -> TextIO | None:
    """Redirects a stream that failed to a file, for compiled code too.

    Args:
        stream: Stream that failed.
        name: Name of the stream for the note in the file.
        error: Reason.
        log: The file; None = output is discarded.

    Returns:
        The stream to write to from now on; None if it is the same one.
    """
    try:
        file = open(log or os.devnull, "a", encoding="utf-8", errors="replace", buffering=1)  # noqa: SIM115
        file.write(f"note: {name} cannot be written ({_reason(error)}); what it would show is here from now on\n")
    except OSError:  # of a disk that is full
        file = open(os.devnull, "a", encoding="utf-8")  # noqa: SIM115
    try:
        number = stream.fileno()
    except (OSError, ValueError, AttributeError):  # of a stream in memory, or a closed one
        return file
    with open(os.devnull, "w", encoding="utf-8") as nothing:
        os.dup2(nothing.fileno(), number)
    with suppress(OSError, ValueError):
        stream.flush()  # discards the buffered text
    os.dup2(file.fileno(), number)
    file.close()
    return None


def open_standard_streams() -> None:
    """Opens the null device for each of standard input, output and error that is closed, so that no other file gets its
    number.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


@contextmanager
def watched_output() -> Iterator[None]:
    """Makes standard output and standard error a `ConsoleOutput` each, as a context."""
    out, error = _output(sys.stdout, "standard output"), _output(sys.stderr, "standard error")
    with redirect_stdout(cast(TextIO, out)), redirect_stderr(cast(TextIO, error)):
        yield


def _output(stream: TextIO | None, name: str) -> ConsoleOutput:
    return ConsoleOutput(open(os.devnull, "w", encoding="utf-8") if stream is None else stream, name)


_run_logs: list[Path] = []
"""File of the newest run of this process, if any."""


def run_log() -> Path | None:
    """Returns the file of the newest run of this process for output that cannot be shown; None = no run has begun."""
    return _run_logs[-1] if _run_logs else None


def survive_lost_output(log: Path | None) -> None:
    """Makes failures of standard output and standard error harmless from now on, if they are a `ConsoleOutput`.

    Args:
        log: File for output that can no longer be shown; None = none. A file that was given before stays.
    """
    if log is not None:
        _run_logs[:] = [log.absolute()]
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, ConsoleOutput):
            stream.is_survivable, stream.log = True, stream.log or log
