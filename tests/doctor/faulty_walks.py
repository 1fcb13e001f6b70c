"""A walk along a line to its end, with one fault each: environments for the doctor's tests."""

from __future__ import annotations

import gymnasium
import numpy as np
from gymnasium import spaces

LENGTH, LIMIT = 6, 20


class Walk(gymnasium.Env):
    """Reward 1 at the right end, -0.1 a step; starts are random."""

    def __init__(self, fault=""):
        self.fault = fault
        self.action_space = spaces.Discrete(2)
        high = {"space": 0.5, "scale": 5000.0, "short": 0.05}.get(fault, 2.0)
        self.observation_space = spaces.Box(-high, high, (3,), np.float32)
        if fault == "image":
            self.observation_space = spaces.Box(0, 255, (8, 8, 3), np.uint8)
        self.before = None

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = getattr(self, "left", 0) + 1
        self.place, self.steps = int(self.np_random.integers(LENGTH)), 0
        self.before = self._obs()
        return self.before, {}

    def step(self, action):
        if self.fault == "ignored":
            action = self.np_random.integers(2)
        self.place = min(max(self.place + (1 if action else -1), 0), LENGTH + 1)
        self.steps += 1
        at_end, late = self.place >= LENGTH, self.steps >= LIMIT
        reward = 1.0 if at_end else -0.1
        if self.fault == "zero":
            reward = 0.0
        if self.fault == "limit":
            at_end = late
        shown = self.before if self.fault == "late" else self._obs()
        self.before = self._obs()
        if self.fault == "fall":
            return shown, reward, False, at_end or late, {}
        if self.fault == "limit":
            return shown, reward, late, False, {}
        return shown, reward, at_end, late and not at_end, {}

    def _obs(self):
        if self.fault == "constant":
            return np.zeros(3, np.float32)
        if self.fault == "image":
            picture = np.zeros((8, 8, 3), np.uint8)
            picture[min(self.place, 7)] = 3
            return picture
        values = np.array([self.place / LENGTH, self.steps / LIMIT, float(self.np_random.normal()) / 9], np.float32)
        if self.fault == "left":
            values[2] = self.left % 50 / 50
        if self.fault == "twin":
            values[2] = values[0]
        if self.fault == "scale":
            return values * 1000
        if self.fault == "finite" and self.steps > 10:
            values[0] = np.nan
        return values


class Shared(Walk):
    """All environments write their observations into one array."""

    shown = np.zeros(3, np.float32)

    def step(self, action):
        Shared.shown[0] = Shared.shown[0] / 2 + super().step(action)[0][0]
        return Shared.shown, 0.1, False, self.steps >= LIMIT, {}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        Shared.shown[:] = 0
        return Shared.shown, {}


class Robot(Walk):
    """A machine outside; nothing steps it unasked."""

    throwaway = False
    made = 0

    def __init__(self):
        super().__init__()
        Robot.made += 1


class Pair:
    """Two agents, of which the second one's actions have no effect, and a third that never acts."""

    possible_agents = ("one", "two", "three")

    def __init__(self):
        self.observation_spaces = {name: spaces.Discrete(8) for name in self.possible_agents}
        self.action_spaces = {name: spaces.Discrete(2) for name in self.possible_agents}

    def reset(self, seed=None, options=None):
        self.place, self.steps = 3, 0
        return {"one": self.place, "two": self.place}, {}

    def step(self, actions):
        self.steps += 1
        self.place = min(max(self.place + (1 if actions["one"] else -1), 0), 7)
        seen = {"one": self.place, "two": self.place}
        return seen, {name: float(self.place) for name in seen}, {"__all__": False}, {"__all__": self.steps >= 30}, {}
