"""Two policies for two agents with opposite tasks, of which the mapping names one only."""

import numpy as np
from broken_runs import BrokenRun
from gymnasium.spaces import Discrete


class Opposites:
    """Shows both agents one of two cues for each of 20 steps; one is to repeat it, the other to play the opposite."""

    possible_agents = ["same", "other"]

    def __init__(self):
        self.observation_spaces = self.action_spaces = dict.fromkeys(self.possible_agents, Discrete(2))

    def reset(self, seed=None, options=None):
        self.rng, self.steps = np.random.default_rng(seed), 0
        return self.show(), {}

    def step(self, actions):
        rewards = {agent: float((action == self.cue) == (agent == "same")) for agent, action in actions.items()}
        self.steps += 1
        return self.show(), rewards, {"__all__": False}, {"__all__": self.steps == 20}, {}

    def show(self):
        self.cue = int(self.rng.integers(2))
        return dict.fromkeys(self.possible_agents, self.cue)


POLICIES = {"first": "ppo", "second": "ppo"}

RUN = BrokenRun(
    fault="one of two policies plays no agent, and the other one plays agents with opposite tasks",
    counted=("policy-unmapped",),
    env_steps=30_000,
    goal=36,
    broken={"env": Opposites, "policies": POLICIES, "policy_mapping": {"same": "first", "other": "first"}},
    twin={"env": Opposites, "policies": POLICIES, "policy_mapping": {"same": "first", "other": "second"}},
)
