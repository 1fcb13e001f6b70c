"""CartPole whose copies share one array, which holds the state and is the observation of all of them."""

import numpy as np
from broken_runs import BrokenRun
from gymnasium.envs.classic_control import CartPoleEnv

SHARED = np.zeros(4, np.float32)


class SharedCartPole(CartPoleEnv):
    """Keeps its state in `SHARED`, and returns that array."""

    @property
    def state(self):
        return SHARED

    @state.setter
    def state(self, value):
        if value is not None:
            SHARED[:] = value

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return SHARED, {}

    def step(self, action):
        _, reward, terminated, _, info = super().step(action)
        self.steps += 1
        return SHARED, reward, terminated, self.steps >= 500, info


RUN = BrokenRun(
    fault="environments share one array, which each of them changes",
    counted=("state-shared", "obs-duplicated"),
    env_steps=40_000,
    goal=150,
    broken={"env": SharedCartPole, "algorithm": "ppo"},
    twin={"env": "CartPole-v1", "algorithm": "ppo"},
)
