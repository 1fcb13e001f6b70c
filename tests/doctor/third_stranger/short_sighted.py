"""A furnace takes fifty steps to heat up and is trained with a discount of 0.9, which sees ten steps ahead."""

import sys

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

from rookery import PPOConfig, Trainer


class Furnace(gymnasium.Env):
    """Heating (1) costs 0.3 a step; a hot furnace produces a point a step."""

    observation_space = Box(0, 2, (1,), np.float32)
    action_space = Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.heat, self.time = float(self.np_random.uniform(0, 0.3)), 0
        return self.observe(), {}

    def step(self, action):
        self.time += 1
        self.heat += 0.02 * int(action) - 0.005 * self.heat + self.np_random.normal(0, 0.002)
        self.heat = min(max(self.heat, 0.0), 2.0)
        return self.observe(), float(self.heat > 0.8) - 0.3 * int(action), False, self.time >= 200, {}

    def observe(self):
        return np.array([self.heat], np.float32)


if __name__ == "__main__":
    kind = sys.argv[1]
    trainer = Trainer(
        Furnace,
        PPOConfig(lr=1e-3, gamma=0.9 if kind == "broken" else 0.99),
        seed=0,
        run_dir=f"runs/short_sighted-{kind}",
        force=True,
        console="quiet",
    )
    result = trainer.train(stop={"env_steps": 60_000})
    print(f"{kind}: return {result.return_mean:.2f}, evaluated {trainer.evaluate(50).return_mean:.2f}")
