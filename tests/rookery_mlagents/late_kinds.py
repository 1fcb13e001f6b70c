"""A scene of four agents that see and do different things, which earn what they do; with the player's ``--late``, three
of them appear late.
"""

import numpy as np
from gymnasium import spaces

ACTIONS = {
    "Runner": spaces.Discrete(2),
    "Mover": spaces.Box(-1, 1, (2,), np.float32),
    "Picker": spaces.MultiDiscrete([2, 3]),
    "Mixer": spaces.Dict(jump=spaces.Discrete(2), push=spaces.Box(-1, 1, (1,), np.float32)),
}
SIZES = {"Runner": 2, "Mover": 3, "Picker": 4, "Mixer": 5}


class Kinds:
    """Ten steps in which every agent sees the time, and then zeros."""

    possible_agents = list(ACTIONS)
    action_spaces = ACTIONS
    observation_spaces = {agent: spaces.Box(-1, 1, (size,), np.float32) for agent, size in SIZES.items()}

    def reset(self, seed=None, options=None):
        self.time = 0
        return self.seen(), {}

    def seen(self):
        return {agent: np.full(size, self.time / 10, np.float32) for agent, size in SIZES.items()}

    def step(self, actions):
        self.time += 1
        paid = {
            agent: float(np.sum(action if agent != "Mixer" else action["push"])) for agent, action in actions.items()
        }
        return self.seen(), paid, {"__all__": False}, {"__all__": self.time == 10}, {}
