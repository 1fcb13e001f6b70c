"""CartPole whose sensor fails: from its 900th step on, one element of the observation is not a number."""

import gymnasium
import numpy as np
from broken_runs import BrokenRun
from gymnasium.envs.classic_control import CartPoleEnv
from gymnasium.wrappers import TimeLimit


class FailingCartPole(gymnasium.Wrapper):
    """Shows NaN as the angle after 900 steps of its life."""

    def __init__(self):
        super().__init__(TimeLimit(CartPoleEnv(), 500))
        self.steps = 0

    def step(self, action):
        obs, reward, terminated, truncated, info = self.env.step(action)
        self.steps += 1
        if self.steps >= 900:
            obs[2] = np.nan
        return obs, reward, terminated, truncated, info


RUN = BrokenRun(
    fault="an observation becomes NaN after 900 steps of an environment",
    counted=("obs-not-finite",),
    env_steps=40_000,
    goal=150,
    broken={"env": FailingCartPole, "algorithm": "ppo"},
    twin={"env": "CartPole-v1", "algorithm": "ppo"},
    settings={"checkpoint.every": 2},  # the error ends the run without one
    raises=True,
)
