"""An environment that takes long to be built; helper processes load no more than this."""

import time

import gymnasium
import numpy as np
from gymnasium import spaces


class Taking(gymnasium.Env):
    """Takes so many seconds to be built."""

    observation_space, action_space = spaces.Box(-1, 1, (2,), np.float32), spaces.Discrete(2)

    def __init__(self, build=0.0):
        time.sleep(build)

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32), {}

    def step(self, action):
        return np.zeros(2, np.float32), 0.0, False, False, {}
