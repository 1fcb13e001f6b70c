"""A corridor whose exit pays -1 in place of 1."""

import gymnasium
from broken_runs import BrokenRun, earned
from gymnasium.spaces import Discrete


class Corridor(gymnasium.Env):
    """Ten places; the last one is the exit. Each episode begins at one of the first five and has at most 40 steps."""

    observation_space, action_space = Discrete(10), Discrete(2)

    def __init__(self, sign=1.0):
        self.sign = sign

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.steps = int(self.np_random.integers(5)), 0
        return self.place, {}

    def step(self, action):
        self.steps += 1
        self.place = max(0, self.place + (1 if action else -1))
        out = float(self.place == 9)
        return self.place, self.sign * out, bool(out), self.steps == 40, {"earned": out}


RUN = BrokenRun(
    fault="the reward of reaching the goal has the wrong sign",
    counted=("reward-sign", "reward-missing", "reward-constant"),
    env_steps=20_000,
    goal=0.9,
    broken={"env": Corridor, "algorithm": "ppo", "env_config": {"sign": -1.0}},
    twin={"env": Corridor, "algorithm": "ppo"},
    score=earned,
)
