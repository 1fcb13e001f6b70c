"""Images from 0 to 255 as floats, without normalization."""

import gymnasium
import numpy as np
from broken_runs import BrokenRun
from gymnasium.spaces import Box, Discrete


class Bars(gymnasium.Env):
    """Shows 20 grey images with one brighter pair of rows; its number is the action that earns 1."""

    action_space = Discrete(3)

    def __init__(self, largest=1.0):
        self.largest = largest
        self.observation_space = Box(0.0, largest, (6, 6, 1), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.draw(), {}

    def step(self, action):
        reward = float(action == self.row)
        self.steps += 1
        return self.draw(), reward, False, self.steps == 20, {}

    def draw(self):
        self.row = int(self.np_random.integers(3))
        image = self.np_random.uniform(0.5, 0.8, (6, 6, 1))
        image[2 * self.row : 2 * self.row + 2] += 0.2
        return (self.largest * image).astype(np.float32)


RUN = BrokenRun(
    fault="pixels from 0 to 255 are given as floats and not normalized",
    counted=("obs-unnormalized", "dead-units"),
    env_steps=9_000,
    goal=14,
    broken={"env": Bars, "algorithm": "dqn", "env_config": {"largest": 255.0}},
    twin={"env": Bars, "algorithm": "dqn"},
    settings={"algorithm.model.normalize_obs": False},
)
