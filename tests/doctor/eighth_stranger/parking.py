"""PPO parks a car in a bay, steering by forces along two axes; an episode lasts at most 100 steps."""

import argparse

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from rookery import PPOConfig, Trainer


class Parking(gymnasium.Env):
    """Move to the bay in the middle; the episode ends when the car is parked."""

    def __init__(self, fixed=False):
        self.fixed = fixed
        self.observation_space = Box(-1, 1, (2,), np.float32)
        self.action_space = Box(-1, 1, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        angle = self.np_random.uniform(0, 2 * np.pi)
        self.place, self.steps = 0.8 * np.array([np.cos(angle), np.sin(angle)]), 0
        return self.place.astype(np.float32), {}

    def step(self, action):
        self.steps += 1
        before = np.linalg.norm(self.place)
        self.place = np.clip(self.place + 0.1 * np.clip(action, -1, 1), -1, 1)
        distance = np.linalg.norm(self.place)
        parked = bool(distance < 0.1)
        if self.fixed:
            reward = before - distance + parked
        else:  # the mistake: closeness earns in every step, and parking ends the income
            reward = 1 - distance + parked
        return self.place.astype(np.float32), float(reward), parked, self.steps >= 100, {}


def score(policy, episodes=100):
    """Returns the share of episodes in which the car is parked within 100 steps."""
    env, rng, parked = Parking(), np.random.default_rng(0), 0
    for seed in range(episodes):
        obs, over = env.reset(seed=seed)[0], False
        while not over:
            obs, _, terminated, truncated, _ = env.step(policy.predict(obs, deterministic=False, rng=rng))
            over = terminated or truncated
        parked += terminated
    return parked / episodes


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--run", required=True)
    parser.add_argument("--healthy", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    trainer = Trainer(
        Parking,
        PPOConfig(lr=1e-3, epochs=5),
        env_config={"fixed": args.healthy},
        num_envs=16,
        env_processes=0,
        seed=args.seed,
        run_dir=args.run,
        force=True,
    )
    trainer.train(stop={"env_steps": 150_000})
    print(f"parked {score(trainer.policies['main']):.2f}")
