"""A time limit that is shorter than the way to the goal."""

import sys

import gymnasium as gym
from gymnasium.spaces import Discrete
from gymnasium.wrappers import TimeLimit

from rookery import PPOConfig, Trainer


class Walk(gym.Env):
    """A corridor of 20 cells with the reward at its right end."""

    observation_space, action_space = Discrete(20), Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 0
        return self.place, {}

    def step(self, action):
        self.place = min(max(self.place + (1 if action else -1), 0), 19)
        done = self.place == 19
        return self.place, 1.0 if done else 0.0, done, False, {}


def make_broken():
    return TimeLimit(Walk(), 15)  # mistake: the reward is 19 steps away


def make_healthy():
    return TimeLimit(Walk(), 300)


if __name__ == "__main__":
    kind = sys.argv[1]
    make = make_broken if kind == "broken" else make_healthy
    trainer = Trainer(make, PPOConfig(lr=1e-3), num_envs=8, seed=1, run_dir=f"runs/timelimit-{kind}", force=True)
    print(trainer.train(stop={"env_steps": 40_000}).return_mean)
