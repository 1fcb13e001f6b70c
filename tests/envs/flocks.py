"""An environment that shows sets; helper processes load no more than this."""

import gymnasium
import numpy as np
from gymnasium import spaces

ENTITY = spaces.Dict(at=spaces.Box(-1, 1, (2,)), kind=spaces.Discrete(3, start=1))


def plan(lane, episode):
    return 100 * lane + episode


class Flock(gymnasium.Env):
    """Shows up to seven birds as a plain Sequence: a tuple, or stacked; 5 to 9 steps an episode."""

    def __init__(self, stack=False, most=7):
        self.observation_space = spaces.Dict(own=spaces.Box(-1, 1, (1,)), birds=spaces.Sequence(ENTITY, stack=stack))
        self.action_space = spaces.Discrete(2)
        self.stack, self.most = stack, most

    def _observe(self):
        num = int(self.np_random.integers(0, self.most + 1))
        at = self.np_random.uniform(-1, 1, (num, 2)).astype(np.float32)
        kind = self.np_random.integers(1, 4, num)
        self.own = np.array([num / self.most], np.float32)
        if self.stack:
            return {"own": self.own, "birds": {"at": at, "kind": kind}}
        return {"own": self.own, "birds": tuple({"at": at[k], "kind": int(kind[k])} for k in range(num))}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = int(self.np_random.integers(5, 10))
        return self._observe(), {}

    def step(self, action):
        self.left -= 1
        return self._observe(), float(action), False, self.left == 0, {}
