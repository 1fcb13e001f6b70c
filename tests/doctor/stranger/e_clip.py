"""CartPole, observations clipped to 0..1 "as images are"."""

import gymnasium
import numpy as np
from gymnasium.spaces import Box


class Clip(gymnasium.ObservationWrapper):
    def __init__(self, env, low, high):
        super().__init__(env)
        self.low, self.high = low, high
        self.observation_space = Box(low, high, (4,), np.float32)

    def observation(self, obs):
        return np.clip(obs, self.low, self.high)


def broken():
    return Clip(gymnasium.make("CartPole-v1"), 0.0, 1.0)


def healthy():
    return Clip(gymnasium.make("CartPole-v1"), -5.0, 5.0)


if __name__ == "__main__":
    from common import main

    main("e_clip", steps=40_000)
