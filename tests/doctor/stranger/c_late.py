"""A corridor with an exit; the reward is paid one step late, so that of the exit falls into the next episode."""

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete


class Hall(gymnasium.Env):
    def __init__(self, late):
        self.late, self.due = late, 0.0
        self.observation_space, self.action_space = Box(-1, 1, (2,), np.float32), Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.time = 0, 0
        self.good = 1 if self.np_random.random() < 0.5 else -1
        return self.look(), {}

    def look(self):
        return np.array([self.place / 5, self.good], np.float32)

    def step(self, action):
        self.time += 1
        self.place += 1 if action else -1
        over = abs(self.place) == 5
        reward = 0.0
        if over:
            reward = 1.0 if self.place * self.good > 0 else -1.0
        if self.late:
            reward, self.due = self.due, reward
        return self.look(), reward, over, self.time >= 100, {}


def broken():
    return Hall(True)


def healthy():
    return Hall(False)


if __name__ == "__main__":
    from common import main

    main("c_late", score_env=healthy)
