"""Two agents that each see the cue of the other."""

import numpy as np
from broken_runs import BrokenRun
from gymnasium.spaces import Discrete


class TwoCued:
    """Shows each agent one of four cues for each of 20 steps; the action of the same number earns 1."""

    possible_agents = ["left", "right"]

    def __init__(self, swapped=False):
        self.swapped = swapped
        self.observation_spaces = self.action_spaces = dict.fromkeys(self.possible_agents, Discrete(4))

    def reset(self, seed=None, options=None):
        self.rng, self.steps = np.random.default_rng(seed), 0
        return self.show(), {}

    def step(self, actions):
        rewards = {agent: float(action == self.cues[agent]) for agent, action in actions.items()}
        self.steps += 1
        return self.show(), rewards, {"__all__": False}, {"__all__": self.steps == 20}, {}

    def show(self):
        self.cues = {agent: int(self.rng.integers(4)) for agent in self.possible_agents}
        seen = reversed(self.cues.values()) if self.swapped else self.cues.values()
        return dict(zip(self.cues, seen, strict=True))


RUN = BrokenRun(
    fault="each of two agents gets the observations of the other",
    counted=("no-better-than-random", "entropy-stuck", "critic-explains-nothing"),
    env_steps=30_000,
    goal=36,
    broken={"env": TwoCued, "policies": {"left": "ppo", "right": "ppo"}, "env_config": {"swapped": True}},
    twin={"env": TwoCued, "policies": {"left": "ppo", "right": "ppo"}},
)
