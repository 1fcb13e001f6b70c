"""A robot drives to a target on a board; its battery is charged in the constructor, and (healthy) in each reset."""

import sys

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

from rookery import DQNConfig, Trainer

MODE = sys.argv[1] if len(sys.argv) > 1 else "broken"
MOVES = np.array([(-1, 0), (0, 1), (1, 0), (0, -1)])


class Delivery(gymnasium.Env):
    def __init__(self, size=6, charge=80, limit=40):
        self.size, self.charge, self.limit = size, charge, limit
        self.observation_space = Box(0, 1, (4,), np.float32)
        self.action_space = Discrete(4)
        self.battery = charge

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if MODE == "healthy":
            self.battery = self.charge
        self.time = 0
        self.place = self.np_random.integers(0, self.size, 2)
        self.target = (self.place + self.np_random.integers(1, self.size, 2)) % self.size
        return self.observe(), {}

    def step(self, action):
        self.time += 1
        if self.battery > 0:
            self.battery -= 1
            self.place = np.clip(self.place + MOVES[action], 0, self.size - 1)
        arrived = bool((self.place == self.target).all())
        return self.observe(), 1.0 if arrived else -0.05, arrived, self.time >= self.limit, {"is_success": arrived}

    def observe(self):
        return (np.concatenate([self.place, self.target]) / (self.size - 1)).astype(np.float32)


if __name__ == "__main__":
    dqn = DQNConfig(learning_starts=500)
    trainer = Trainer(Delivery, dqn, num_envs=8, seed=0, run_dir=f"runs/flat_battery-{MODE}", force=True)
    result = trainer.train(stop={"env_steps": 25_000})
    trainer.save()
    print("mean return of the last training episodes:", result.return_mean)
