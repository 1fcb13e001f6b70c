"""A valve follows a set point in large units; the broken run normalizes by a wrapper that evaluations start anew."""

import sys

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from gymnasium.wrappers import NormalizeObservation

from rookery import EvaluationConfig, ModelConfig, PPOConfig, Trainer

KIND = sys.argv[1]


class Valve(gymnasium.Env):
    def __init__(self):
        self.observation_space = Box(0, 1000, (2,), np.float32)
        self.action_space = Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.level, self.goal = self.np_random.uniform(0, 1000, 2)
        self.steps = 0
        return np.array([self.level, self.goal], np.float32), {}

    def step(self, action):
        self.level = float(np.clip(self.level + 150 * np.clip(action[0], -1, 1), 0, 1000))
        self.steps += 1
        reward = -abs(self.level - self.goal) / 1000
        return np.array([self.level, self.goal], np.float32), reward, False, self.steps >= 30, {}


if __name__ == "__main__":
    trainer = Trainer(
        Valve,
        PPOConfig(lr=1e-3, minibatch_size=512, model=ModelConfig(native=False, normalize_obs=KIND == "healthy")),
        wrappers=[NormalizeObservation] if KIND == "broken" else [],
        evaluation=EvaluationConfig(every=5, episodes=20),
        num_envs=16,
        seed=0,
        run_dir=f"runs/fresh_statistics-{KIND}",
        force=True,
        console="quiet",
    )
    result = trainer.train(stop={"env_steps": 30_000})
    trainer.save()
    print(KIND, "training", result.return_mean, "score", trainer.evaluate(episodes=20).return_mean)
