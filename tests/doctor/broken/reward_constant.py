"""A task for SAC whose reward is the same whatever is done."""

import gymnasium
import numpy as np
from broken_runs import BrokenRun, earned
from gymnasium.spaces import Box


class Match(gymnasium.Env):
    """Shows a number for each of ten steps; the cost is the distance of the action from it."""

    observation_space = action_space = Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, constant=False):
        self.constant = constant

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.draw(), {}

    def step(self, action):
        cost = float(abs(action[0] - self.shown[0]))
        self.steps += 1
        return self.draw(), -1.0 if self.constant else -cost, False, self.steps == 10, {"earned": -cost}

    def draw(self):
        self.shown = self.np_random.uniform(-1.0, 1.0, 1).astype(np.float32)
        return self.shown.copy()


RUN = BrokenRun(
    fault="every reward is -1, whatever the agent does",
    counted=("reward-constant",),
    env_steps=3_000,
    goal=-2.5,
    broken={"env": Match, "algorithm": "sac", "env_config": {"constant": True}},
    twin={"env": Match, "algorithm": "sac"},
    score=earned,
    settings={"sampling.num_envs": 4, "algorithm.lr": 1e-3},
)
