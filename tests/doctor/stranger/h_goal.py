"""A board with a new goal each episode; the broken reset shows the goal of the episode before."""

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

MOVES = [(-1, 0), (0, 1), (1, 0), (0, -1)]


class Board(gymnasium.Env):
    def __init__(self, stale):
        self.stale = stale
        self.observation_space, self.action_space = Box(-1, 1, (4,), np.float32), Discrete(4)
        self.goal = np.array([3, 3])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.time = self.np_random.integers(0, 7, 2), 0
        if self.stale:
            self.shown = self.goal / 3 - 1
        self.goal = self.np_random.integers(0, 7, 2)
        if not self.stale:
            self.shown = self.goal / 3 - 1
        return self.look(), {}

    def look(self):
        return np.concatenate([self.place / 3 - 1, self.shown]).astype(np.float32)

    def step(self, action):
        self.time += 1
        self.place = np.clip(self.place + MOVES[int(action)], 0, 6)
        there = bool((self.place == self.goal).all())
        return self.look(), 1.0 if there else -0.05, there, self.time >= 40, {}


def broken():
    return Board(True)


def healthy():
    return Board(False)


if __name__ == "__main__":
    from common import main

    main("h_goal", steps=60_000)
