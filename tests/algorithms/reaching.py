"""Shared parts of tests of recurrent actor-critics: a task that is learned in seconds, and rows to learn."""

from __future__ import annotations

import gymnasium
import numpy as np
import torch
from gymnasium import spaces

from rookery import Trainer
from rookery.algorithms.experience import Experience


class Reach(gymnasium.Env):
    """The action that equals what is seen costs nothing; ten steps, then it is cut off."""

    observation_space = spaces.Box(-1, 1, (1,), np.float32)
    action_space = spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.clock, self.seen = 0, self.np_random.uniform(-0.9, 0.9, 1).astype(np.float32)
        return self.seen, {}

    def step(self, action):
        cost = float(abs(self.seen - action)[0])
        self.clock += 1
        self.seen = self.np_random.uniform(-0.9, 0.9, 1).astype(np.float32)
        return self.seen, -cost, False, self.clock == 10, {}


def reached(cfg):
    """Mean return of ten steps after 600 gradient steps of the critics."""
    with Trainer(Reach, cfg, num_envs=2, seed=0, iteration_steps=800) as trainer:
        trainer.train({"env_steps": 800})
        return trainer.evaluate(10).return_mean


def experience(number=32, seed=0, **changes):
    """Experience ``[N]`` of three numbers seen and two done, drawn from a seed."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=generator)

    given = {
        "obs": {"obs": normal(number, 3)},
        "action": normal(number, 2).clamp(-1, 1),
        "reward": normal(number),
        "next_obs": {"obs": normal(number, 3)},
        "discount": torch.full((number,), 0.9),
        "weight": None,
        "row": torch.arange(number),
    }
    return Experience(**(given | changes))
