"""First and last lines of a training at the command line: what is loaded, and the next commands."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from rookery.core.settings.layers import Layer
from rookery.core.settings.starting_folder import shown

SILENT_STYLES = ("quiet", "json")


def show_loading(layers: Sequence[Layer], run: Path | None = None) -> None:
    """Prints the first line of a training. The import of PyTorch, which follows, takes seconds.

    There is no line if output is quiet or JSON, if PyTorch is imported already, or on a rank other than the first.

    Args:
        layers: Settings of the command.
        run: A run that is resumed.
    """
    is_first = os.environ.get("RANK", "0") == "0"
    if "torch" in sys.modules or not is_first or _given(layers, "logging.console") in SILENT_STYLES:
        return
    names = [_given(layers, "env.name"), _given(layers, "algorithm.name")] if run is None else [shown(run)]
    words = ", ".join(str(name) for name in names if name is not None)
    line = f"{words}{': ' if words else ''}loading PyTorch ...\n"
    with suppress(OSError, ValueError):  # a training does not need its output; and only later lines have a log file
        os.write(sys.stdout.fileno(), line.encode("utf-8", "backslashreplace"))


def next_commands(folder: Path, plays: bool) -> list[str]:
    """Returns commands for a trained run: evaluate, plot, and record or serve.

    Args:
        folder: Directory of the run.
        plays: Whether the run has an environment.
    """
    run = shlex.quote(str(folder))
    if not plays:
        return [f"rookery evaluate {run} --replay DATA", f"rookery plot {run}", f"rookery serve {run}"]
    return [
        f"rookery evaluate {run} --episodes 100",
        f"rookery plot {run}",
        f"rookery record {run}, or rookery serve {run}",
    ]


def _given(layers: Sequence[Layer], path: str) -> Any:
    """Returns the value of a setting in the strongest layer that has it; None if there is none."""
    for layer in reversed(layers):
        value: Any = layer.values
        if path in value:
            return value[path]
        for part in path.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        if value is not None:
            return value
    return None
