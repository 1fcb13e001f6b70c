"""An environment that records all calls and results; helper processes load no more than this."""

import gymnasium
import numpy as np
from gymnasium import spaces


class Recording(gymnasium.Env):
    """Random numbers, and a list of all that was said and heard; an episode is terminated, cut off, or both."""

    episodes = []

    def __init__(self):
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = spaces.Discrete(3, start=5)

    def draw(self):
        return self.np_random.normal(size=2).astype(np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = int(self.np_random.integers(1, 7))
        self.own = {"obs": [self.draw()], "action": [None], "reward": [None], "info": [{"seed": seed}], "cut": False}
        Recording.episodes.append(self.own)
        return self.own["obs"][0], self.own["info"][0]

    def step(self, action):
        self.left -= 1
        terminated, truncated = False, False
        if self.left == 0:
            terminated, truncated = [(True, False), (False, True), (True, True)][int(self.np_random.integers(3))]
        self.own["obs"].append(self.draw())
        self.own["action"].append(int(action))
        self.own["reward"].append(float(self.np_random.normal()))
        self.own["info"].append({"left": self.left})
        self.own["cut"] = truncated and not terminated
        return self.own["obs"][-1], self.own["reward"][-1], terminated, truncated, self.own["info"][-1]
