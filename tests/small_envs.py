"""Environments of one agent for tests that need any that can be built by its import path."""

import copy

import gymnasium
import numpy as np
from gymnasium import spaces

SHOWN = {
    "picture": spaces.Box(0, 255, (8, 8, 1), np.uint8),
    "bytes": spaces.Box(0, 255, (5,), np.uint8),
    "category": spaces.Discrete(4),
    "numbers": spaces.Box(-1, 1, (3,), np.float32),
}


class Noise(gymnasium.Env):
    """Shows noise in one of the spaces `SHOWN`, for ten steps."""

    action_space = spaces.Discrete(2)

    def __init__(self, what="picture"):
        self.observation_space = copy.deepcopy(SHOWN[what])  # it draws

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        self.time = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        self.time += 1
        return self.observation_space.sample(), 1.0, False, self.time == 10, {}


class Corridor(gymnasium.Env):
    """Shows zeros for six steps, and pays what is done."""

    observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = spaces.Discrete(2)
    metadata = {"render_modes": []}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        return np.zeros(2, np.float32), float(action), self.steps > 5, False, {}


OWN = f"{Corridor.__module__}:Corridor"
"""A user's environment, as files name it."""


class Comings:
    """Two agents that take turns and are paid what they do, and a third that comes and goes, in drawn episodes only."""

    possible_agents = ["north", "south", "guest"]
    observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.rng = np.random.default_rng(seed)
        self.clock, self.comes = 0, int(self.rng.integers(2, 30))
        self.lasts = int(self.rng.integers(8, 15))
        return {"north": self.look()}, {}

    def look(self):
        return self.rng.normal(size=3).astype(np.float32)

    def step(self, actions):
        self.clock += 1
        over = self.clock == self.lasts
        reward = {agent: 0.1 * self.clock + (agent != "guest") * float(action) for agent, action in actions.items()}
        obs = {"south" if self.clock % 2 else "north": self.look()}
        here = self.comes <= self.clock <= self.comes + 3
        ended = {"__all__": over}
        if here:
            obs["guest"] = self.look()
            if self.clock == self.comes + 3:
                ended["guest"] = True
        return obs, reward, ended, {"__all__": False}, {}


class Bad(gymnasium.Env):
    """Pays 1 for ten steps, and does one thing wrong.

    Args:
        what: ``step``, ``reset`` or ``assert`` = it raises without a text; ``close`` = closing it raises; else the form
            of what it draws, see `drawn_as`.
        render_mode: As of any environment.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}
    observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, what="", render_mode=None):
        self.what, self.render_mode = what, render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if self.what == "reset":
            raise ValueError()
        self.time = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.time += 1
        if self.what == "step":
            raise ValueError
        assert self.what != "assert"
        return np.zeros(2, np.float32), 1.0, False, self.time == 10, {}

    def render(self):
        if self.what == "raises":
            raise ZeroDivisionError("nothing to draw with")
        return drawn_as(self.what)

    def close(self):
        if self.what == "close":
            raise RuntimeError("it does not close")


def drawn_as(form):
    """A square of 8 x 8 pixels, red above and of half the brightness below, in one of many forms."""
    plain = np.zeros((8, 8, 3))
    plain[:4, :, 0], plain[4:] = 1.0, 0.5
    pixels = np.rint(plain * 255).astype(np.uint8)
    forms = {
        "floats to 1": plain,
        "floats to 255": (plain * 255).astype(np.float32),
        "int64": pixels.astype(np.int64),
        "rgba": np.concatenate([pixels, np.full((8, 8, 1), 9, np.uint8)], axis=2),
        "grey": pixels[:, :, 0],
        "grey of one channel": pixels[:, :, :1],
        "flags": plain[:, :, 0] == 1.0,
        "channels first": pixels.transpose(2, 0, 1),
        "float channels first": plain.transpose(2, 0, 1),
        "list": [pixels * 0, pixels],
        "a text": "####",
        "two channels": pixels[:, :, :2],
        "below 0": plain - 1.0,
        "beyond 255": pixels.astype(np.int64) * 2,
        "not a number": plain * np.nan,
        "an empty list": [],
    }
    return forms.get(form, pixels)
