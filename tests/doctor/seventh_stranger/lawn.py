"""A2C steers a mower in a unit square to the flag, which stands elsewhere in each episode."""

import argparse

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

from rookery import A2CConfig, Trainer

MOVES = np.array([(0.1, 0.0), (0.0, 0.1), (-0.1, 0.0), (0.0, -0.1)])


class Lawn(gymnasium.Env):
    """The grid world of Gymnasium's tutorial, with positions between 0 and 1; at most 50 steps."""

    def __init__(self, fixed=False):
        self.dtype = np.float32 if fixed else int  # the mistake: positions between 0 and 1 are cut to whole numbers
        self.observation_space = Box(0, 1, (4,), self.dtype)
        self.action_space = Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.flag = self.np_random.uniform(0, 1, (2, 2))
        self.steps = 0
        return self.observe(), {}

    def step(self, action):
        self.steps += 1
        self.place = np.clip(self.place + MOVES[action], 0, 1)
        arrived = bool(np.linalg.norm(self.place - self.flag) < 0.12)
        return self.observe(), 1.0 if arrived else -0.05, arrived, self.steps >= 50, {}

    def observe(self):
        return np.concatenate((self.place, self.flag)).astype(self.dtype)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--run", required=True)
    parser.add_argument("--healthy", action="store_true")
    args = parser.parse_args()
    trainer = Trainer(
        Lawn,
        A2CConfig(lr=1e-3, fragment_length=16, gae_lambda=0.95, optimizer="adam", entropy_coef=0.01),
        env_config={"fixed": args.healthy},
        num_envs=16,
        env_processes=0,
        seed=0,
        run_dir=args.run,
        force=True,
    )
    trainer.train(stop={"env_steps": 80_000})
    print(f"score {trainer.evaluate(100, deterministic=False).return_mean:.2f}")
