"""A furnace is heated to a set point; the wrapper of the broken run normalizes, in each environment by itself."""

import sys

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from rookery import ModelConfig, TD3Config, Trainer

MODE = sys.argv[1] if len(sys.argv) > 1 else "broken"


class Furnace(gymnasium.Env):
    def __init__(self, limit=25):
        self.limit = limit
        self.observation_space = Box(0, 2000, (2,), np.float32)  # temperature and set point, in kelvin
        self.action_space = Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        self.kelvin, self.wanted = self.np_random.uniform(900, 1100, 2)
        return self.observe(), {}

    def step(self, action):
        self.time += 1
        self.kelvin += 30 * float(action[0]) + self.np_random.normal(0, 2)
        error = abs(self.kelvin - self.wanted)
        return self.observe(), -error / 100, False, self.time >= self.limit, {}

    def observe(self):
        return np.array([self.kelvin, self.wanted], np.float32)


if __name__ == "__main__":
    wrappers = [gymnasium.wrappers.NormalizeObservation] if MODE == "broken" else []
    model = ModelConfig(hidden=(64, 64), activation="relu", normalize_obs=MODE == "healthy")
    td3 = TD3Config(learning_starts=500, batch_size=128, lr=1e-3, model=model)
    run = f"runs/own_statistics-{MODE}"
    trainer = Trainer(Furnace, td3, wrappers=wrappers, num_envs=4, seed=0, run_dir=run, force=True)
    result = trainer.train(stop={"env_steps": 8_000, "seconds": 60})
    trainer.save()
    print("in training:", result.return_mean)
    print("mean return:", trainer.evaluate(episodes=10).return_mean)
