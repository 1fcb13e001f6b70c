"""A path that pays off after the time limit, which is reported as terminated."""

import gymnasium
from broken_runs import BrokenRun
from gymnasium.spaces import Discrete


class Savings(gymnasium.Env):
    """Steps to the right cost 1, up to place 19, which pays 1 in each step; episodes begin anywhere."""

    observation_space, action_space = Discrete(20), Discrete(2)

    def __init__(self, limit=10, terminates=False):
        self.limit, self.terminates = limit, terminates

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.steps = int(self.np_random.integers(20)), 0
        return self.place, {}

    def step(self, action):
        there = self.place == 19
        self.place = min(19, self.place + 1) if action else max(0, self.place - 1)
        self.steps += 1
        over = self.steps == self.limit
        reward = 1.0 if there and action else -float(action)
        return self.place, reward, over and self.terminates, over and not self.terminates, {}


def in_100_steps(trainer):
    """The mean return of 20 episodes of 100 steps."""
    env, total = Savings(100), 0.0
    for episode in range(20):
        obs, _ = env.reset(seed=episode)
        for _ in range(100):
            obs, reward, *_ = env.step(trainer.policies["main"].predict(obs))
            total += reward
    return total / 20


RUN = BrokenRun(
    fault="a time limit is reported as terminated",
    counted=("time-limit-as-termination",),
    env_steps=60_000,
    goal=60,
    broken={"env": Savings, "algorithm": "ppo", "env_config": {"terminates": True}},
    twin={"env": Savings, "algorithm": "ppo"},
    score=in_100_steps,
)
