"""An environment that counts its own steps in a file of its process, and hangs in a step once a file says so."""

from __future__ import annotations

import os
import time
from pathlib import Path

import gymnasium
import numpy as np
from gymnasium import spaces


class Hangable(gymnasium.Env):
    """Its episodes have 40 steps.

    Args:
        folder: Where each copy counts its steps, eight bytes a copy; a file ``hang`` lets the copy that finds it hang.
        seconds: Of a step.
    """

    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, folder, seconds=0.0):
        self.folder, self.seconds, self.steps, self.time = Path(folder), seconds, 0, 0
        self.file = None

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.time += 1
        self.steps += 1
        if self.file is None:
            self.file = open(self.folder / f"steps-{os.getpid()}-{id(self)}", "wb", buffering=0)  # noqa: SIM115
        os.pwrite(self.file.fileno(), self.steps.to_bytes(8, "little"), 0)
        if self.seconds:
            time.sleep(self.seconds)
        if (self.folder / "hang").exists():
            (self.folder / "hang").unlink(missing_ok=True)
            while True:
                time.sleep(1.0)
        return np.full(2, self.time / 40, np.float32), float(action), self.time == 40, False, {}


def steps_made(folder):
    """Counts the steps of all copies there have been."""
    return sum(int.from_bytes(path.read_bytes(), "little") for path in Path(folder).glob("steps-*"))
