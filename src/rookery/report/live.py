"""A picture at a terminal that is drawn anew as things go on, and costs next to nothing."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

from rich.console import Console, RenderableType
from rich.live import Live

PAUSE = 0.25
"""Shortest time between two drawings, in seconds."""

COST = 0.01
"""Share of the time that drawing takes at most."""


class LiveDisplay:
    """Draws a picture in place.

    Args:
        console: Terminal to draw at.
    """

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, auto_refresh=False)
        self._due = 0.0
        self._live.start()

    def draw(self, make: Callable[[], RenderableType]) -> None:
        """Draws the picture if it is time; `make` makes it, and is not called otherwise."""
        began = time.monotonic()
        if began >= self._due:
            self._live.update(make(), refresh=True)
            ended = time.monotonic()
            self._due = ended + max(PAUSE, (ended - began) / COST)

    def finish(self, picture: RenderableType) -> None:
        """Leaves a last picture on the screen, whole."""
        self._live.vertical_overflow = "visible"
        self._live.update(picture, refresh=True)
        self._live.stop()


def console_style(style: str) -> str:
    """Returns the style that ``auto`` means here: ``live`` at a terminal, else ``plain``; other styles as they are."""
    if style != "auto":
        return style
    return "live" if sys.stdout.isatty() and os.environ.get("TERM") != "dumb" else "plain"
