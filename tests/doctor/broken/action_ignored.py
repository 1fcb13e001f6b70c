"""CartPole that ignores the action and draws one of its own."""

import gymnasium
from broken_runs import BrokenRun
from gymnasium.envs.classic_control import CartPoleEnv
from gymnasium.wrappers import TimeLimit


class DeafCartPole(gymnasium.Wrapper):
    """Plays random actions, whatever it is given."""

    def __init__(self):
        super().__init__(TimeLimit(CartPoleEnv(), 500))

    def step(self, action):
        return self.env.step(int(self.np_random.integers(2)))


RUN = BrokenRun(
    fault="the environment ignores the action",
    counted=("actions-without-effect",),
    env_steps=40_000,
    goal=150,
    broken={"env": DeafCartPole, "algorithm": "ppo"},
    twin={"env": "CartPole-v1", "algorithm": "ppo"},
)
