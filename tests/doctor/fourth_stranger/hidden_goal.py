"""A drone flies to a waypoint that is drawn anew for each episode; only the healthy version observes the waypoint."""

import sys

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from rookery import ModelConfig, PPOConfig, Trainer

KIND = sys.argv[1]


class Drone(gymnasium.Env):
    def __init__(self):
        size = 2 if KIND == "broken" else 4
        self.observation_space, self.action_space = Box(-1, 1, (size,), np.float32), Box(-1, 1, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.waypoint = self.np_random.uniform(-1, 1, (2, 2))
        self.steps = 0
        return self.observe(), {}

    def observe(self):
        parts = [self.place] if KIND == "broken" else [self.place, self.waypoint]
        return np.concatenate(parts).astype(np.float32)

    def step(self, action):
        self.place = np.clip(self.place + 0.2 * np.clip(action, -1, 1), -1, 1)
        self.steps += 1
        distance = float(np.linalg.norm(self.place - self.waypoint))
        return self.observe(), -distance, False, self.steps >= 30, {}


if __name__ == "__main__":
    run = f"runs/hidden_goal-{KIND}"
    trainer = Trainer(
        Drone,
        PPOConfig(lr=1e-3, minibatch_size=512, model=ModelConfig(native=False)),
        num_envs=16,
        seed=0,
        run_dir=run,
        force=True,
        console="quiet",
    )
    result = trainer.train(stop={"env_steps": 30_000})
    trainer.save()
    print(KIND, "training", result.return_mean, "score", trainer.evaluate(episodes=50).return_mean)
