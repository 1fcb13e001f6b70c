"""A courier on a grid, DQN: the broken `reset` makes its generator anew, so all episodes are the same one."""

import sys

import numpy as np
from gymnasium import Env
from gymnasium.spaces import Box, Discrete

from rookery import DQNConfig, Trainer

MOVES = np.array([(0, 1), (1, 0), (0, -1), (-1, 0)])


class Courier(Env):
    """Every episode has its own start and its own address."""

    observation_space = Box(0, 1, (4,), np.float32)
    action_space = Discrete(4)

    def generator(self):
        return self.np_random

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.address = self.generator().integers(0, 5, (2, 2))
        self.time = 0
        return self.observe(), {}

    def step(self, action):
        self.place = np.clip(self.place + MOVES[action], 0, 4)
        self.time += 1
        arrived = bool((self.place == self.address).all())
        return self.observe(), 1.0 if arrived else -0.02, arrived, self.time == 25, {}

    def observe(self):
        return np.concatenate([self.place, self.address]).astype(np.float32) / 4


class SameCourier(Courier):
    def generator(self):
        return np.random.default_rng(42)


def delivered(policy, episodes=200):
    env, count = Courier(), 0
    for episode in range(episodes):
        obs, _ = env.reset(seed=episode)
        ended = cut = False
        while not (ended or cut):
            obs, _, ended, cut, _ = env.step(int(policy.predict(obs)))
        count += ended
    return count / episodes


if __name__ == "__main__":
    variant = sys.argv[1]
    trainer = Trainer(
        SameCourier if variant == "broken" else Courier,
        DQNConfig(),
        num_envs=8,
        seed=0,
        run_dir=f"runs/fixed_seed-{variant}",
        force=True,
    )
    trainer.train(stop={"env_steps": 20_000})
    print(f"{variant}: share of addresses reached {delivered(trainer.policies['main']):.2f}")
