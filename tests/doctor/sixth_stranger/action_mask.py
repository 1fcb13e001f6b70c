"""Loading a truck, PPO: the mask of the broken environment is true for what is forbidden."""

import sys

import numpy as np
from gymnasium import Env
from gymnasium.spaces import Box, Discrete

from rookery import PPOConfig, Trainer


class Truck(Env):
    """Six places in a store, some of them empty; a box that is loaded early earns more of its value."""

    observation_space = Box(0, 1, (7,), np.float32)
    action_space = Discrete(6)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.boxes = self.np_random.uniform(0.1, 1, 6) * (self.np_random.permutation(6) < 4)
        self.time = 0
        return self.observe(), {"action_mask": self.mask()}

    def mask(self):
        return self.boxes > 0

    def step(self, action):
        reward = self.boxes[action] * (1 - self.time / 6) if self.boxes[action] else -0.1
        self.boxes[action] = 0
        self.time += 1
        over = self.time == 6 or not self.boxes.any()
        return self.observe(), float(reward), over, False, {"action_mask": self.mask()}

    def observe(self):
        return np.array([*self.boxes, self.time / 6], np.float32)


class InvertedTruck(Truck):
    def mask(self):
        return self.boxes == 0


if __name__ == "__main__":
    variant = sys.argv[1]
    trainer = Trainer(
        InvertedTruck if variant == "broken" else Truck,
        PPOConfig(lr=1e-3, fragment_length=64),
        num_envs=8,
        seed=0,
        run_dir=f"runs/action_mask-{variant}",
        force=True,
    )
    trainer.train(stop={"env_steps": 15_000})
    print(f"{variant}: return {trainer.evaluate(100).return_mean:.2f}")
