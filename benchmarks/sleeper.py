"""An environment that only takes time, and the CPU time of a process and its children: for Rookery and for peers."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

STEP_SECONDS = 0.005
FRAGMENT, BATCH, HIDDEN, IN_FLIGHT = 50, 500, (64, 64), 2
"""What both sides play and learn with: steps of a fragment and of a batch, layers of the network, and fragments that a
worker is asked for ahead.
"""


class Sleeper(gymnasium.Env[np.ndarray, int]):
    """Takes a fixed time for each step, and no CPU time."""

    observation_space = spaces.Box(-1.0, 1.0, (4,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, config: Any = None) -> None:
        self.time = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begins an episode."""
        super().reset(seed=seed)
        self.time = 0
        return np.zeros(4, np.float32), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Sleeps."""
        time.sleep(STEP_SECONDS)
        self.time += 1
        return np.zeros(4, np.float32), 1.0, False, self.time == 200, {}


def processor_seconds() -> float:
    """Processor time of this process and of all processes below it, those included that have ended, so far."""
    tick = os.sysconf("SC_CLK_TCK")
    parents: dict[int, int] = {}
    spent: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        number = int(path.parent.name)
        parents[number] = int(fields[1])
        spent[number] = sum(int(field) for field in fields[11:15])
    found = {os.getpid()}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return sum(spent[number] for number in found) / tick
