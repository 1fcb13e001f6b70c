"""JSON rows on standard output, with nothing between them: all other output goes to standard error."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from typing import TYPE_CHECKING, TextIO, cast

from rookery.core.io.console_output import ConsoleOutput
from rookery.core.settings.layers import Layer, nested

if TYPE_CHECKING:
    from rookery.run.trainer import Trainer


@contextmanager
def json_rows(layers: Sequence[Layer]) -> Iterator[TextIO | None]:
    """Yields the stream for rows, if layers of settings ask for them, and None otherwise.

    Inside the context, standard output of this process, of compiled code in it and of its child processes is standard
    error.

    Args:
        layers: Settings, lowest first; the last ``logging.console`` counts.
    """
    styles = [nested(layer.values).get("logging") for layer in layers]
    if [style["console"] for style in styles if isinstance(style, dict) and "console" in style][-1:] != ["json"]:
        yield None
        return
    shown = sys.stdout
    shown.flush()
    try:
        whole_process = shown.fileno() == 1
    except OSError:  # a stream in memory
        whole_process = False
    if not whole_process:
        with redirect_stdout(sys.stderr):
            yield shown
        return
    kept = os.dup(1)
    os.dup2(2, 1)
    rows = open(kept, "w", encoding="utf-8", closefd=False)  # noqa: SIM115  the reader may be gone when it is closed
    try:
        yield cast("TextIO", ConsoleOutput(rows, "standard output"))
    finally:
        with suppress(OSError):
            rows.close()
        shown.flush()
        os.dup2(kept, 1)
        os.close(kept)


def report_rows(trainer: Trainer, rows: TextIO | None) -> None:
    """Makes a trainer write its rows to a stream of `json_rows`."""
    from rookery.report.console import JsonReporter

    if rows is not None:
        trainer._reporter = JsonReporter(rows)
