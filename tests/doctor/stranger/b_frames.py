"""CartPole without speeds, two frames stacked; the frames are the same buffer, so both are the newest."""

from collections import deque

import gymnasium
import numpy as np
from gymnasium.spaces import Box


class Positions(gymnasium.Wrapper):
    def __init__(self, env, copy):
        super().__init__(env)
        self.copy, self.frames = copy, deque(maxlen=2)
        self.buffer = np.zeros(2, np.float32)
        self.observation_space = Box(-10, 10, (4,), np.float32)

    def look(self, obs):
        self.buffer[:] = obs[0], obs[2] * 10
        return self.buffer.copy() if self.copy else self.buffer

    def reset(self, **kwargs):
        obs, info = self.env.reset(**kwargs)
        frame = self.look(obs)
        self.frames.extend([frame, frame])
        return np.concatenate(self.frames), info

    def step(self, action):
        obs, reward, terminated, truncated, info = self.env.step(action)
        self.frames.append(self.look(obs))
        return np.concatenate(self.frames), reward, terminated, truncated, info


def broken():
    return Positions(gymnasium.make("CartPole-v1"), False)


def healthy():
    return Positions(gymnasium.make("CartPole-v1"), True)


if __name__ == "__main__":
    from common import main

    main("b_frames", steps=60_000)
