"""A task whose observations arrive one step late."""

import gymnasium
from broken_runs import BrokenRun
from gymnasium.spaces import Discrete


class Cues(gymnasium.Env):
    """Shows one of four cues for each of 20 steps; the action of the same number earns 1."""

    observation_space = action_space = Discrete(4)

    def __init__(self, late=False):
        self.late = late

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps, self.cue = 0, int(self.np_random.integers(4))
        return self.cue, {}

    def step(self, action):
        reward, before = float(action == self.cue), self.cue
        self.steps, self.cue = self.steps + 1, int(self.np_random.integers(4))
        return before if self.late else self.cue, reward, False, self.steps == 20, {}


RUN = BrokenRun(
    fault="each observation is that of the step before",
    counted=("no-better-than-random", "entropy-stuck"),
    env_steps=30_000,
    goal=18,
    broken={"env": Cues, "algorithm": "ppo", "env_config": {"late": True}},
    twin={"env": Cues, "algorithm": "ppo"},
)
