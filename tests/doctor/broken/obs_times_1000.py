"""CartPole in millimetres and the like, learned by DQN without normalization."""

import gymnasium
import numpy as np
from broken_runs import BrokenRun
from gymnasium.envs.classic_control import CartPoleEnv
from gymnasium.spaces import Box
from gymnasium.wrappers import TimeLimit


class LargeCartPole(gymnasium.ObservationWrapper):
    """Shows observations times 1000."""

    def __init__(self):
        super().__init__(TimeLimit(CartPoleEnv(), 500))
        self.observation_space = Box(-np.inf, np.inf, (4,), np.float32)

    def observation(self, obs):
        return 1000 * obs


RUN = BrokenRun(
    fault="observations are 1000 times too large",
    counted=("obs-unnormalized",),
    env_steps=40_000,
    goal=100,
    broken={"env": LargeCartPole, "algorithm": "dqn"},
    twin={"env": "CartPole-v1", "algorithm": "dqn"},
    settings={"algorithm.model.normalize_obs": False},
)
