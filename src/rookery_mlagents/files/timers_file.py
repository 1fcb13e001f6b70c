"""``run_logs/timers.json``: the tree of timers and the gauges of all summaries, in the format of ML-Agents."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from rookery_mlagents.files.training_status import MLAGENTS, known_versions

FORMAT = "0.1.0"
"""``timer_format_version`` of ML-Agents 1.1.0."""


class Gauges:
    """Last value, minimum, maximum and count of every number shown by summaries.

    Attributes:
        numbers: By name, ``Basic.Environment.CumulativeReward.mean``: value, min, max, count.
    """

    def __init__(self) -> None:
        self.numbers: dict[str, list[float]] = {}

    def note(self, behavior: str, tag: str, mean: float, total: float | None = None) -> None:
        """Adds a number of a summary.

        Args:
            behavior: Name of the behaviour.
            tag: Tag of TensorBoard.
            mean: Mean since the summary before.
            total: Sum of the values in the mean; None = the mean itself.
        """
        name = f"{behavior}.{tag}".replace("/", ".").replace(" ", "")
        for kind, value in (("mean", mean), ("sum", mean if total is None else total)):
            known = self.numbers.get(f"{name}.{kind}")
            low, high, count = (value, value, 0.0) if known is None else known[1:]
            self.numbers[f"{name}.{kind}"] = [value, min(low, value), max(high, value), count + 1]

    def as_dict(self) -> dict[str, dict[str, float]]:
        """Returns the gauges in the format of the file."""
        names = ("value", "min", "max", "count")
        return {name: dict(zip(names, found, strict=True)) for name, found in self.numbers.items()}


def timers_text(tree: Mapping[str, Any], gauges: Gauges, began: float, now: float) -> str:
    """Returns the text of the file.

    Args:
        tree: `Timers.state_dict()` of the run.
        gauges: Gauges of the run.
        began: When this process began to train, in seconds since 1970.
        now: The time.
    """
    root = node(tree)
    total = root["children"] and sum(child["total"] for child in root["children"].values())
    metadata = {
        "timer_format_version": FORMAT,
        "start_time_seconds": str(int(began)),
        "python_version": sys.version.replace("\n", ""),
        "command_line_arguments": shlex.join(sys.argv),
        "mlagents_version": MLAGENTS,
        "pytorch_version": known_versions().get("torch_version", ""),
        "numpy_version": version("numpy"),
        "end_time_seconds": str(int(now)),
    }
    content = {"name": "root", **root, "total": total or 0.0, "gauges": gauges.as_dict(), "metadata": metadata}
    return json.dumps(content, indent=4) + "\n"


def node(timer: Mapping[str, Any]) -> dict[str, Any]:
    """Converts a node of the timer tree to ML-Agents' format: total seconds, calls, seconds outside its children,
    children.
    """
    children = {name: node(child) for name, child in timer.get("children", {}).items()}
    inside = sum(child["total"] for child in children.values())
    total = timer["seconds"]
    return {"total": total, "count": timer["count"], "self": max(0.0, total - inside), "children": children}
