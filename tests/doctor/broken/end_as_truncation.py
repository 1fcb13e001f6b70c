"""A way out that is reported as truncated, so that what follows it seems to cost as much as to stay."""

import gymnasium
from broken_runs import BrokenRun, trained
from gymnasium.spaces import Discrete


class WayOut(gymnasium.Env):
    """Ten places; each step costs 1, and a step to the right from the last one leads out. Episodes begin anywhere."""

    observation_space, action_space = Discrete(10), Discrete(2)

    def __init__(self, truncates=False):
        self.truncates = truncates

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.steps = int(self.np_random.integers(10)), 0
        return self.place, {}

    def step(self, action):
        out = self.place == 9 and bool(action)
        self.place = min(9, max(0, self.place + (1 if action else -1)))
        self.steps += 1
        return self.place, -1.0, out and not self.truncates, self.steps == 100 or (out and self.truncates), {}


RUN = BrokenRun(
    fault="the end of the task is reported as truncated in place of terminated",
    counted=("termination-as-truncation", "reward-constant"),
    env_steps=30_000,
    goal=-8,
    broken={"env": WayOut, "algorithm": "dqn", "env_config": {"truncates": True}},
    twin={"env": WayOut, "algorithm": "dqn"},
    score=trained,
)
