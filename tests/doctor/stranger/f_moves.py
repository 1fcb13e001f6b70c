"""Walk to a goal on a board. The table of moves has one entry twice (copied), so nothing moves down."""

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

WRONG = [(-1, 0), (0, 1), (-1, 0), (0, -1)]
RIGHT = [(-1, 0), (0, 1), (1, 0), (0, -1)]


class Board(gymnasium.Env):
    def __init__(self, moves):
        self.moves = moves
        self.observation_space, self.action_space = Box(-1, 1, (4,), np.float32), Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.goal = self.np_random.integers(0, 7, 2), self.np_random.integers(0, 7, 2)
        self.time = 0
        return self.look(), {}

    def look(self):
        return np.concatenate([self.place / 3 - 1, self.goal / 3 - 1]).astype(np.float32)

    def step(self, action):
        self.time += 1
        self.place = np.clip(self.place + self.moves[int(action)], 0, 6)
        there = bool((self.place == self.goal).all())
        return self.look(), 1.0 if there else -0.05, there, self.time >= 40, {}


def broken():
    return Board(WRONG)


def healthy():
    return Board(RIGHT)


if __name__ == "__main__":
    from common import main

    main("f_moves", steps=60_000)
