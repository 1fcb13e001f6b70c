"""A cart on a ledge must reach the charger; in the broken version a step costs as much as falling off the ledge."""

import sys

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

from rookery import ModelConfig, PPOConfig, Trainer

KIND = sys.argv[1]


class Ledge(gymnasium.Env):
    def __init__(self):
        self.observation_space, self.action_space = Box(-1, 1, (1,), np.float32), Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.steps = int(self.np_random.integers(1, 6)), 0
        return self.observe(), {}

    def observe(self):
        return np.array([self.place / 10 - 1], np.float32)

    def step(self, action):
        slip = self.np_random.random() < 0.1
        self.place += 1 if bool(action) != slip else -1
        self.steps += 1
        fell, arrived = self.place < 0, self.place >= 20
        cost, fall = (1.0, 1.0) if KIND == "broken" else (0.05, 10.0)
        return self.observe(), 10.0 * arrived - fall * fell - cost, fell or arrived, self.steps >= 100, {}


def arrivals(policy, episodes=50):
    env, arrived = Ledge(), 0
    for seed in range(episodes):
        obs, ended, cut = env.reset(seed=seed)[0], False, False
        while not (ended or cut):
            obs, _, ended, cut, _ = env.step(policy.predict(obs))
        arrived += env.place >= 20
    return arrived / episodes


if __name__ == "__main__":
    run = f"runs/cheap_exit-{KIND}"
    ppo = PPOConfig(lr=1e-3, model=ModelConfig(native=False))
    trainer = Trainer(Ledge, ppo, num_envs=16, seed=0, run_dir=run, force=True, console="quiet")
    result = trainer.train(stop={"env_steps": 30_000})
    trainer.save()
    print(KIND, "training", result.return_mean, "score (share that arrives)", arrivals(trainer.policies["main"]))
