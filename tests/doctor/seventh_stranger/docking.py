"""PPO moves a boat to its dock; docking ends the episode and pays 1."""

import argparse

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from rookery import PPOConfig, Trainer


class Dock(gymnasium.Env):
    """Move to the origin of a square; at most 100 steps."""

    def __init__(self, fixed=False):
        self.fixed = fixed
        self.observation_space = Box(-1, 1, (2,), np.float32)
        self.action_space = Box(-1, 1, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = self.np_random.uniform(-1, 1, 2)
        while np.linalg.norm(self.place) < 0.5:
            self.place = self.np_random.uniform(-1, 1, 2)
        self.steps = 0
        return self.place.astype(np.float32), {}

    def step(self, action):
        self.steps += 1
        before = np.linalg.norm(self.place)
        self.place = np.clip(self.place + 0.1 * np.asarray(action), -1, 1)
        distance = np.linalg.norm(self.place)
        docked = bool(distance < 0.2)
        if self.fixed:
            reward = before - distance
        else:  # the mistake: being near the dock pays in each step, so that docking ends the income
            reward = 1 - distance
        return self.place.astype(np.float32), float(reward + 1.0 * docked), docked, self.steps >= 100, {}


def score(policy, episodes=50):
    """Returns the share of episodes in which the boat docks."""
    env, docked = Dock(), 0
    for seed in range(episodes):
        obs, over = env.reset(seed=seed)[0], False
        while not over:
            obs, _, terminated, truncated, _ = env.step(policy.predict(obs))
            over = terminated or truncated
        docked += terminated
    return docked / episodes


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--run", required=True)
    parser.add_argument("--healthy", action="store_true")
    args = parser.parse_args()
    trainer = Trainer(
        Dock,
        PPOConfig(lr=1e-3, epochs=5),
        env_config={"fixed": args.healthy},
        num_envs=8,
        env_processes=0,
        seed=0,
        run_dir=args.run,
        force=True,
    )
    trainer.train(stop={"env_steps": 30_000})
    print(f"score {score(trainer.policies['main']):.2f}")
