"""A map of object numbers in bytes, read as brightness."""

import gymnasium
import numpy as np
from broken_runs import BrokenRun
from gymnasium.spaces import Box, Discrete


class Objects(gymnasium.Env):
    """Shows 20 maps of 3 x 3 objects; the one in the middle decides which of four actions earns 1."""

    observation_space, action_space = Box(0, 255, (3, 3, 1), np.uint8), Discrete(4)
    answers = (2, 0, 3, 1, 0, 2, 1, 3, 2, 0)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.draw(), {}

    def step(self, action):
        reward = float(action == self.answers[self.shown[1, 1, 0]])
        self.steps += 1
        return self.draw(), reward, False, self.steps == 20, {}

    def draw(self):
        self.shown = self.np_random.integers(10, size=(3, 3, 1), dtype=np.uint8)
        return self.shown.copy()


RUN = BrokenRun(
    fault="bytes that number objects are read as brightness",
    counted=("images-are-categories",),
    env_steps=20_000,
    goal=12,
    broken={"env": Objects, "algorithm": "ppo", "config": {"algorithm.model.categorical_images": []}},
    twin={"env": Objects, "algorithm": "ppo"},
)
