"""CartPole without velocities, whose wrapper stacks the last three observations; the sensor reuses its array."""

import sys
from collections import deque

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from rookery import PPOConfig, Trainer

MODE = sys.argv[1] if len(sys.argv) > 1 else "broken"


class Positions(gymnasium.ObservationWrapper):
    """Position and angle, written into one array that is made once."""

    def __init__(self, env):
        super().__init__(env)
        self.observation_space = Box(-10, 10, (2,), np.float32)
        self.reading = np.zeros(2, np.float32)

    def observation(self, obs):
        self.reading[:] = obs[0], obs[2]
        return self.reading


class Stack(gymnasium.Wrapper):
    def __init__(self, env, number=3):
        super().__init__(env)
        self.number, self.frames = number, deque(maxlen=number)
        self.observation_space = Box(-10, 10, (2 * number,), np.float32)

    def keep(self, obs):
        self.frames.append(obs if MODE == "broken" else obs.copy())

    def reset(self, **kwargs):
        obs, info = self.env.reset(**kwargs)
        for _ in range(self.number):
            self.keep(obs)
        return np.concatenate(self.frames), info

    def step(self, action):
        obs, reward, terminated, truncated, info = self.env.step(action)
        self.keep(obs)
        return np.concatenate(self.frames), reward, terminated, truncated, info


def make():
    return Stack(Positions(gymnasium.make("CartPole-v1")))


if __name__ == "__main__":
    ppo = PPOConfig(lr=1e-3, fragment_length=128)
    trainer = Trainer(make, ppo, num_envs=8, seed=0, run_dir=f"runs/stacked_views-{MODE}", force=True)
    trainer.train(stop={"env_steps": 30_000})
    trainer.save()
    print("mean return:", trainer.evaluate(episodes=40).return_mean)
