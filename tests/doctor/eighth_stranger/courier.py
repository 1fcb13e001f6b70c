"""PPO drives a courier through a town of 7 x 7 blocks to the address of a parcel; an episode lasts at most 24 steps."""

import argparse

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

from rookery import PPOConfig, Trainer

MOVES = np.array([(0, 1), (1, 0), (0, -1), (-1, 0)])


class Courier(gymnasium.Env):
    """Drive one block north, east, south or west; a delivery earns 1 and ends the episode."""

    def __init__(self, fixed=False):
        self.fixed = fixed
        self.observation_space = Box(-1, 1, (4,), np.float32)  # own place, address of the parcel
        self.action_space = Discrete(4)
        self.address = np.zeros(2, int)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = self.np_random.integers(7, size=2)
        note = self.address  # the mistake: noted before the address of this episode is drawn
        self.address = self.np_random.integers(7, size=2)
        self.note = self.address if self.fixed else note
        self.steps = 0
        return self.observe(), {}

    def step(self, action):
        self.steps += 1
        self.place = np.clip(self.place + MOVES[action], 0, 6)
        there = bool((self.place == self.address).all())
        return self.observe(), 1.0 if there else -0.02, there, self.steps >= 24, {}

    def observe(self):
        return np.concatenate((self.place / 3 - 1, self.note / 3 - 1)).astype(np.float32)


def score(policy, fixed, episodes=200):
    """Returns the share of parcels that are delivered."""
    env, rng, delivered = Courier(fixed), np.random.default_rng(0), 0
    for seed in range(episodes):
        obs, over = env.reset(seed=seed)[0], False
        while not over:
            obs, _, terminated, truncated, _ = env.step(policy.predict(obs, deterministic=False, rng=rng))
            over = terminated or truncated
        delivered += terminated
    return delivered / episodes


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--run", required=True)
    parser.add_argument("--healthy", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    trainer = Trainer(
        Courier,
        PPOConfig(lr=1e-3, epochs=5),
        env_config={"fixed": args.healthy},
        num_envs=16,
        env_processes=0,
        seed=args.seed,
        run_dir=args.run,
        force=True,
    )
    trainer.train(stop={"env_steps": 100_000})
    print(f"delivered {score(trainer.policies['main'], args.healthy):.2f}")
