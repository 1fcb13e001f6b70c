"""Environments for bursts; helper processes load no more than this."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import gymnasium
import numpy as np
from gymnasium import spaces


class Drift(gymnasium.Env):
    """A place that drifts, seen in parts, with a mask that forbids a choice; every other episode is cut off."""

    observation_space = spaces.Dict(
        {
            "place": spaces.Box(-100, 100, (2,), np.float32),
            "phase": spaces.Discrete(3),
            "action_mask": spaces.MultiBinary(3),
        }
    )
    action_space = spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.place, self.ends = 0, np.zeros(2, np.float32), seed % 2
        self.length = 5 + seed % 9
        return self.seen(), {}

    def seen(self):
        mask = np.ones(3, np.int8)
        mask[self.t % 3] = 0
        return {"place": self.place, "phase": self.t % 3, "action_mask": mask}

    def step(self, action):
        assert action != self.t % 3
        self.place = self.place + np.float32(self.np_random.normal(size=2)) + np.float32(action)
        self.t += 1
        over = self.t == self.length
        return self.seen(), float(self.place[0]), over and bool(self.ends), over, {}


IN_HELPER = Path(sys.argv[0]).name == "child.py"


class Plain(gymnasium.Env):
    """Walks on for so many steps; what may go wrong there subclasses say. Helpers are to decide without torch."""

    observation_space = spaces.Box(-1000, 1000, (1,), np.float32)
    action_space = spaces.Box(-1, 1, (2,), np.float32)
    length = 40

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.place, self.seed = 0, 0.0, seed
        return np.array([0.0], np.float32), {}

    def step(self, action):
        assert not (IN_HELPER and "torch" in sys.modules)
        self.t += 1
        self.place += float(action[0]) + self.np_random.normal()
        info = self.happens() or {}
        return np.array([self.place], np.float32), self.place, False, self.t == self.length, info

    def happens(self):
        return None


class Dying(Plain):
    """Ends its helper process once, in the middle of an episode; the file says that it has."""

    def __init__(self, file):
        self.file = Path(file)

    def happens(self):
        if IN_HELPER and self.t == 21 and not self.file.exists():
            self.file.touch()
            os._exit(9)


class Breaking(Plain):
    """Raises in some episodes."""

    def happens(self):
        if self.t == 13 and self.seed % 4 == 0:
            raise RuntimeError("dropped")


class Pausing(Plain):
    """Rests for two steps in every eleven, in some episodes."""

    def happens(self):
        return {"resting": True} if self.seed % 3 == 0 and self.t % 11 in (5, 6) else None


class Hanging(Plain):
    """Hangs in a step of a helper process."""

    def happens(self):
        if IN_HELPER and self.t == 21:
            time.sleep(60)
