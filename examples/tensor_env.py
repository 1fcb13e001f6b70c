"""Lifts that learn to stop at a height: an environment in tensors, on a CPU or GPU."""

import numpy as np
import torch
from gymnasium.spaces import Box

from rookery import PPOConfig, TensorEnv, TensorStep, Trainer


class Lift(TensorEnv):
    """A lift that is pushed up or down; it observes its distance from the target height, and its speed.

    The reward falls with the distance, and an episode lasts 50 steps. A lift that leaves the shaft has failed.
    """

    saved = ("place", "speed", "steps")  # stored in a checkpoint

    def __init__(self, num_envs, device="cpu", shaft=3.0):
        super().__init__(Box(-np.inf, np.inf, (2,)), Box(-1.0, 1.0, (1,)), num_envs, device)
        self.shaft = shaft
        self.place = torch.zeros(num_envs, device=self.device)
        self.speed = torch.zeros(num_envs, device=self.device)
        self.steps = torch.zeros(num_envs, dtype=torch.int64, device=self.device)

    def starts(self):
        return torch.rand(self.num_envs, generator=self.generator, device=self.device) * 4.0 - 2.0

    def observe(self):
        return torch.stack((self.place, self.speed), 1)

    def reset(self, seed):
        self.generator.manual_seed(seed)
        self.place, self.speed = self.starts(), torch.zeros_like(self.speed)
        self.steps.zero_()
        return self.observe()

    def step(self, actions):
        self.speed = 0.9 * self.speed + 0.1 * actions[:, 0]
        self.place = self.place + 0.2 * self.speed
        self.steps += 1
        terminated = self.place.abs() > self.shaft
        truncated = self.steps >= 50
        reward = torch.where(terminated, -50.0, -self.place.abs())
        last = self.observe()
        ended = terminated | truncated  # chosen by `where` and `masked_fill`: no branch, no `ended.any()`
        self.place = torch.where(ended, self.starts(), self.place)
        self.speed = self.speed.masked_fill(ended, 0.0)
        self.steps = self.steps.masked_fill(ended, 0)
        return TensorStep(self.observe(), reward, terminated, truncated, last)

    def numbers(self):
        return {"distance": self.place.abs().mean()}  # a tensor, read once an iteration


def main():
    """Trains 256 lifts at once."""
    settings = PPOConfig(lr=3e-3, gamma=0.95, fragment_length=25, epochs=4, minibatch_size=1600)
    with Trainer(Lift, settings, num_envs=256, device="cpu", seed=0) as trainer:
        before = trainer.evaluate(episodes=50).return_mean
        result = trainer.train(stop={"env_steps": 200_000})
        after = trainer.evaluate(episodes=50).return_mean
        print(f"before {before:.0f}, after {after:.0f}; distance {result.reported['distance'][1][0]:.2f}")
        print(trainer.timers.tree())
    return before, after


if __name__ == "__main__":
    main()
