"""A grid with a gate, DQN: the broken frame skip returns the last frame only, and plays on after an end."""

import sys

import numpy as np
from gymnasium import Env, Wrapper
from gymnasium.spaces import Box, Discrete

from rookery import DQNConfig, Trainer

MOVES = np.array([(0, 1), (1, 0), (0, -1), (-1, 0)])


class Field(Env):
    """Reach the gate in the middle of the field, which is three places wide."""

    observation_space = Box(0, 1, (2,), np.float32)
    action_space = Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.time = self.np_random.integers(0, 11, 2), 0
        return self.observe(), {}

    def step(self, action):
        self.place = np.clip(self.place + MOVES[action], 0, 10)
        self.time += 1
        arrived = bool(self.place[0] == 5 and 4 <= self.place[1] <= 6)
        return self.observe(), 1.0 if arrived else -0.01, arrived, self.time >= 120, {}

    def observe(self):
        return self.place.astype(np.float32) / 10


class FrameSkip(Wrapper):
    def step(self, action):
        total = 0.0
        for _ in range(3):
            obs, reward, terminated, truncated, info = self.env.step(action)
            total += reward
            if terminated or truncated:
                break
        return obs, total, terminated, truncated, info


class LastFrame(Wrapper):
    def step(self, action):
        for _ in range(3):
            last = self.env.step(action)
        return last


if __name__ == "__main__":
    variant = sys.argv[1]
    trainer = Trainer(
        Field,
        DQNConfig(),
        wrappers=[LastFrame if variant == "broken" else FrameSkip],
        num_envs=8,
        seed=0,
        run_dir=f"runs/frame_skip-{variant}",
        force=True,
    )
    trainer.train(stop={"env_steps": 15_000})
    print(f"{variant}: return {trainer.evaluate(100).return_mean:.2f}")
