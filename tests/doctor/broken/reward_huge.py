"""CartPole whose rewards are 100,000, learned by DQN as they are."""

import gymnasium
from broken_runs import BrokenRun
from gymnasium.envs.classic_control import CartPoleEnv
from gymnasium.wrappers import TimeLimit


class HugeCartPole(gymnasium.Wrapper):
    """Pays 100,000 for every step."""

    def __init__(self):
        super().__init__(TimeLimit(CartPoleEnv(), 500))

    def step(self, action):
        obs, reward, terminated, truncated, info = self.env.step(action)
        return obs, 1e5 * reward, terminated, truncated, info


def in_steps(trainer):
    """The mean length of evaluated episodes."""
    return trainer.evaluate(20).length_mean


RUN = BrokenRun(
    fault="rewards are 100,000 times too large",
    counted=("reward-scale", "q-diverging", "gradient-clipped"),
    env_steps=40_000,
    goal=100,
    broken={"env": HugeCartPole, "algorithm": "dqn"},
    twin={"env": "CartPole-v1", "algorithm": "dqn"},
    score=in_steps,
    repaired=True,
)
