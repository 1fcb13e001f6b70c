"""Shared parts of terminal output: a live display with bounded cost, lines, and the table of a timer tree."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console, RenderableType
from rich.live import Live

from rookery.core.io.console_output import ConsoleOutput, replace_lost
from rookery.core.timers import TimerRow

PAUSE = 0.25
"""Shortest time between two refreshes, in seconds."""

COST = 0.01
"""Largest share of time spent on drawing."""


@contextmanager
def surviving(stream: TextIO) -> Iterator[None]:
    """Discards further output of a stream that fails, within the context, so that training continues. A `ConsoleOutput`
    handles its failures itself.
    """
    try:
        yield
    except OSError as error:
        if isinstance(stream, ConsoleOutput):
            raise
        replace_lost(stream, "", error, None)


class Listener:
    """Receives events of a training or an experiment; this base class shows notes only."""

    note_to_output = False
    """Whether notes go to standard output, between other lines."""

    def event(self, text: str) -> None:
        """Called at an event: a checkpoint was written, a trial begins, ends or fails."""

    def note(self, line: str) -> None:
        """Writes a note for the user; rich writes it above a live display."""
        stream = sys.stdout if self.note_to_output else sys.stderr
        with surviving(stream):
            stream.write(f"note: {line}\n")
            stream.flush()


class LiveDisplay:
    """Live display that is redrawn in place, also in a terminal that was resized.

    Its content has at most `height` lines. A terminal breaks lines that became too long for it, so that the display
    takes more lines than were drawn; all of them are replaced.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._width = console.width
        self._due = 0.0
        self._live.start()

    @property
    def height(self) -> int:
        """Largest number of lines: one less than the terminal has, as the cursor is below the last one at the end."""
        return self._console.height - 1

    def draw(self, make: Callable[[], RenderableType]) -> None:
        """Redraws the display after the shortest time; `make` builds its content, and is only called then."""
        began = time.monotonic()
        if began >= self._due:
            self._show(make())
            ended = time.monotonic()
            self._due = ended + max(PAUSE, (ended - began) / COST)

    def finish(self, picture: RenderableType) -> None:
        """Removes the display, and writes its last content, of any height."""
        self._show("")
        with surviving(sys.stdout):
            self._live.stop()
            self._console.print(picture)

    def _show(self, picture: RenderableType) -> None:
        drawn, width = self._live._live_render, self._console.width  # rich has no public name for the drawn size
        if drawn._shape is not None and width < self._width:
            columns, lines = drawn._shape
            drawn._shape = columns, lines * max(-(-columns // width), 1)
        self._width = width
        with surviving(sys.stdout):
            self._live.update(picture, refresh=True)


def console_style(style: str) -> str:
    """Returns the style behind ``auto``: ``live`` at a terminal, else ``plain``; other styles unchanged."""
    if style != "auto":
        return style
    return "live" if sys.stdout.isatty() and os.environ.get("TERM") != "dumb" else "plain"


def write_line(line: str, stream: TextIO | None = None) -> None:
    """Writes a line to a stream, or to standard output, and flushes it."""
    shown = stream or sys.stdout
    with surviving(shown):
        shown.write(line + "\n")
        shown.flush()


def timer_table(rows: Sequence[TimerRow], places: Sequence[str]) -> list[str]:
    """Returns the lines of a timer table: label, seconds, share of the parent, calls, place in the code.

    Args:
        rows: Nodes of the tree, at least one, in the order of `Timers.rows`.
        places: Place of each node's code, ``file:line``; empty if unknown.
    """
    labels = ["  " * row.depth + row.label for row in rows]
    width = max(map(len, labels))
    lines = [f"{'':<{width}}  {'seconds':>10}  {'share':>7}  {'calls':>11}"]
    for label, row, place in zip(labels, rows, places, strict=True):
        numbers = f"{row.seconds:>10,.2f}  {100 * row.share:>5.1f} %  {row.count:>11,}"
        lines.append(f"{label:<{width}}  {numbers}  {place}".rstrip())
    return lines
