"""Two tanks, A2C: the broken wrapper scales each observation by its own minimum and maximum, so the level is gone."""

import sys

import numpy as np
from gymnasium import Env, ObservationWrapper
from gymnasium.spaces import Box, Discrete

from rookery import A2CConfig, Trainer


class Tanks(Env):
    """Both tanks are drained, left alone or filled; their mean level should be 50 litres."""

    observation_space = Box(0, 100, (2,), np.float32)
    action_space = Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.levels, self.time = self.np_random.uniform(0, 100, 2), 0
        return self.levels.astype(np.float32), {}

    def step(self, action):
        self.levels = np.clip(self.levels + 8 * (action - 1) + self.np_random.normal(0, 6, 2), 0, 100)
        self.time += 1
        error = abs(self.levels.mean() - 50) / 50
        return self.levels.astype(np.float32), float(-error), False, self.time == 40, {}


class Scaled(ObservationWrapper):
    """To 0 ... 1, by the bounds of the space."""

    def __init__(self, env):
        super().__init__(env)
        self.observation_space = Box(0, 1, (2,), np.float32)

    def observation(self, obs):
        return obs / 100


class ScaledByItself(Scaled):
    def observation(self, obs):
        return (obs - obs.min()) / (obs.max() - obs.min() + 1e-8)


if __name__ == "__main__":
    variant = sys.argv[1]
    trainer = Trainer(
        Tanks,
        A2CConfig(lr=3e-3, fragment_length=20, optimizer="adam", normalize_advantage=True),
        wrappers=[ScaledByItself if variant == "broken" else Scaled],
        num_envs=8,
        seed=0,
        run_dir=f"runs/own_scale-{variant}",
        force=True,
    )
    trainer.train(stop={"env_steps": 20_000})
    print(f"{variant}: return {trainer.evaluate(100).return_mean:.1f}")
