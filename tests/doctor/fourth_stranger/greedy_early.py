"""A corridor with a small reward beside the start and a large one far away; the broken DQN stops to explore early."""

import sys

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

from rookery import DQNConfig, ModelConfig, Trainer

KIND = sys.argv[1]


class Fork(gymnasium.Env):
    def __init__(self):
        self.observation_space, self.action_space = Box(-1, 1, (1,), np.float32), Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.place, self.steps = 0, 0
        return self.observe(), {}

    def observe(self):
        return np.array([self.place / 15], np.float32)

    def step(self, action):
        self.place += 1 if action else -1
        self.steps += 1
        reward = {-1: 1.0, 15: 10.0}.get(self.place, 0.0)
        return self.observe(), reward, reward > 0, self.steps >= 60, {}


if __name__ == "__main__":
    steps = 100 if KIND == "broken" else 6_000
    trainer = Trainer(
        Fork,
        DQNConfig(
            learning_starts=100,
            updates_per_step=0.125,
            exploration={"epsilon": {"start": 1.0, "end": 0.02, "steps": steps}},
            model=ModelConfig(native=False),
        ),
        seed=0,
        run_dir=f"runs/greedy_early-{KIND}",
        force=True,
        console="quiet",
    )
    result = trainer.train(stop={"env_steps": 12_000})
    trainer.save()
    print(KIND, "training", result.return_mean, "score", trainer.evaluate(episodes=20).return_mean)
