"""A ship docks at the end of a channel; the broken reward is its closeness, which a docked ship no longer gets."""

import sys

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

from rookery import A2CConfig, PPOConfig, Trainer

MODE = sys.argv[1] if len(sys.argv) > 1 else "broken"
PPO = "ppo" in sys.argv  # added after the doctor was run: with A2C the broken run does not even learn to wait


class Channel(gymnasium.Env):
    def __init__(self, length=8, limit=60):
        self.length, self.limit = length, limit
        self.observation_space = Box(0, 1, (1,), np.float32)
        self.action_space = Discrete(3)  # back, wait, ahead

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.time = 0, 0
        return self.observe(), {}

    def step(self, action):
        self.time += 1
        self.place = max(0, self.place + int(action) - 1)
        docked = self.place == self.length
        reward = self.place / self.length - (0.0 if MODE == "broken" else 1.0)
        if docked:
            reward += 1.0
        return self.observe(), reward, docked, self.time >= self.limit, {"is_success": docked}

    def observe(self):
        return np.array([self.place / self.length], np.float32)


def docked(policy, episodes=50):
    """The share of episodes in which the ship docks."""
    rng, env, number = np.random.default_rng(0), Channel(), 0
    for episode in range(episodes):
        (obs, _), over = env.reset(seed=episode), False
        while not over:
            action = policy.predict(obs, deterministic=False, rng=rng)
            obs, _, terminated, truncated, _ = env.step(action)
            over = terminated or truncated
        number += terminated
    return number / episodes


if __name__ == "__main__":
    a2c = A2CConfig(lr=3e-3, fragment_length=16, entropy_coef=0.01, gae_lambda=0.95)
    ppo = PPOConfig(lr=2e-3, fragment_length=64, epochs=5)
    run = f"runs/paid_to_wait{'_ppo' if PPO else ''}-{MODE}"
    trainer = Trainer(Channel, ppo if PPO else a2c, num_envs=8, seed=0, run_dir=run, force=True)
    trainer.train(stop={"env_steps": 30_000})
    trainer.save()
    print("share of episodes that dock:", docked(trainer.policies["main"]))
