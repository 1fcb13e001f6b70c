"""An environment that normalizes its own observations, and begins to measure them anew in every evaluation."""

import gymnasium
import numpy as np
from broken_runs import BrokenRun
from gymnasium.spaces import Box


class Thermometer(gymnasium.Env):
    """Shows 20 temperatures; 1 is to be played above 300, 0 below. A season lasts for 30 episodes."""

    observation_space, action_space = Box(-np.inf, np.inf, (1,), np.float32), gymnasium.spaces.Discrete(2)

    def __init__(self, normalizes=False):
        self.normalizes, self.seen, self.episodes = normalizes, [], 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if self.episodes % 30 == 0:
            self.season = self.np_random.choice([-10.0, 10.0])
        self.episodes, self.steps = self.episodes + 1, 0
        return self.draw(), {}

    def step(self, action):
        reward = float(action == (self.degrees > 300.0))
        self.steps += 1
        return self.draw(), reward, False, self.steps == 20, {}

    def draw(self):
        self.degrees = 300.0 + self.season + self.np_random.normal(0.0, 3.0)
        self.seen.append(self.degrees)
        shown = (self.degrees - np.mean(self.seen)) / (np.std(self.seen) + 1e-3) if self.normalizes else self.degrees
        return np.array([shown], np.float32)


RUN = BrokenRun(
    fault="observations are normalized by other statistics in evaluations than in training",
    counted=("evaluation-below-training",),
    env_steps=40_000,
    goal=15,
    broken={"env": Thermometer, "algorithm": "ppo", "env_config": {"normalizes": True}},
    twin={"env": Thermometer, "algorithm": "ppo"},
    settings={"evaluation.every": 5},
)
