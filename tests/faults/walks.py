"""Environments for the tests of helper processes, which import this file and therefore no torch."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import gymnasium
import numpy as np
from gymnasium import spaces

LANES = 6


class Walk(gymnasium.Env):
    """A random walk drawn from the seed that has no `get_state`; ends at distance 3 or after 30 steps."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.t = self.np_random.normal(), 0
        return np.array([self.place, 0.0]), {}

    def step(self, action):
        self.t += 1
        self.place += 2 * int(action) - 1 + self.np_random.normal()
        return np.array([self.place, self.t]), -abs(self.place), bool(abs(self.place) > 3), self.t >= 30, {}


class Stateful(Walk):
    """The same, and says where it is."""

    def get_state(self):
        return {"place": self.place, "t": self.t, "rng": self.np_random.bit_generator.state}

    def set_state(self, state):
        self.place, self.t = state["place"], state["t"]
        self.np_random.bit_generator.state = state["rng"]


class Drifting(Walk):
    """Pays more in every episode of a process: an episode cannot be had again from its seed."""

    played = 0

    def reset(self, *, seed=None, options=None):
        type(self).played += 1
        return super().reset(seed=seed)

    def step(self, action):
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, reward + 0.01 * type(self).played, terminated, truncated, info


HANGS = {
    "sleeping": "import time; time.sleep(1000)",
    "busy": "while True: pass",
    "in native code, with Python's lock": "import ctypes; ctypes.PyDLL(None).pause()",
}


class Hanging(Walk):
    """Does not come back from step `at` of lane 5's first episode, once."""

    def __init__(self, how, mark, at=3):
        self.how, self.mark, self.at = how, Path(mark), at

    def reset(self, *, seed=None, options=None):
        self.seed_ = seed
        if self.how == "reset" and seed == 5000 and not self.mark.exists():
            self.mark.touch()
            time.sleep(1000)
        return super().reset(seed=seed)

    def step(self, action):
        if self.t == self.at - 1 and self.seed_ == 5000 and self.how in HANGS and not self.mark.exists():
            self.mark.touch()
            exec(HANGS[self.how])
        return super().step(action)


class Unbuilt(Walk):
    """Takes its process with it while it is built, once."""

    def __init__(self, mark):
        if os.environ.get("OMP_NUM_THREADS") == "1" and not Path(mark).exists():
            Path(mark).touch()
            os.kill(os.getpid(), signal.SIGKILL)


class Dying(Walk):
    """Takes its process with it in step 2, always."""

    def step(self, action):
        if self.t == 1 and os.environ.get("OMP_NUM_THREADS") == "1":
            os.kill(os.getpid(), signal.SIGKILL)
        return super().step(action)


def seeds(lane, episode):
    return 1000 * lane + episode


def rewards(env, steps):
    env.reset(seeds)
    return [env.step([np.ones(LANES, int)]).rows[0].reward.tolist() for _ in range(steps)]
