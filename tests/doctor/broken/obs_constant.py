"""CartPole that shows zeros."""

import gymnasium
from broken_runs import BrokenRun
from gymnasium.envs.classic_control import CartPoleEnv
from gymnasium.wrappers import TimeLimit


class BlindCartPole(gymnasium.ObservationWrapper):
    """Shows zeros in every step."""

    def __init__(self):
        super().__init__(TimeLimit(CartPoleEnv(), 500))

    def observation(self, obs):
        return 0 * obs


RUN = BrokenRun(
    fault="the observation is always the same",
    counted=("obs-constant",),
    env_steps=40_000,
    goal=150,
    broken={"env": BlindCartPole, "algorithm": "ppo"},
    twin={"env": "CartPole-v1", "algorithm": "ppo"},
)
