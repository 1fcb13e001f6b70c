"""Turn to a heading. The action is in radians; the broken simulator converts it from degrees once more."""

import gymnasium
import numpy as np
from gymnasium.spaces import Box


class Turn(gymnasium.Env):
    def __init__(self, convert):
        self.convert = convert
        self.observation_space, self.action_space = Box(-3.2, 3.2, (2,), np.float32), Box(-0.5, 0.5, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.heading, self.target = self.np_random.uniform(-3, 3, 2)
        self.time = 0
        return self.look(), {}

    def look(self):
        return np.array([self.heading, self.target], np.float32)

    def step(self, action):
        turn = float(np.clip(action[0], -0.5, 0.5))
        if self.convert:
            turn = np.deg2rad(turn)
        self.heading = float(np.clip(self.heading + turn, -3.2, 3.2))
        self.time += 1
        return self.look(), -abs(self.heading - self.target), False, self.time >= 30, {}


def broken():
    return Turn(True)


def healthy():
    return Turn(False)


if __name__ == "__main__":
    from common import main

    main("d_degrees", steps=60_000)
