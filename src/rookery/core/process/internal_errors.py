"""Internal errors of a server: logged with their traceback; clients only receive an id."""

from __future__ import annotations

import secrets
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress


class InternalErrors:
    """Writes internal errors to a server's log, from any thread.

    Args:
        log: Writes the text of an entry; None = standard error. Its errors are ignored: an unwritable log must not stop
            the server.

    Attributes:
        count: Errors so far.
    """

    def __init__(self, log: Callable[[str], None] | None = None) -> None:
        self.count = 0
        self._log = _to_standard_error if log is None else log
        self._lock = threading.Lock()

    def report(self, error: BaseException) -> str:
        """Writes an error with its traceback to the log; returns the text for a client: ``internal error ID``."""
        name = f"internal error {secrets.token_hex(4)}"
        trace = "".join(traceback.format_exception(error)).rstrip()
        with self._lock:
            self.count += 1
            with suppress(Exception):
                self._log(f"{name}:\n{trace}")
        return name


def _to_standard_error(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
