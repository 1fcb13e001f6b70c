"""One policy for two agents with opposite tasks."""

import sys

import numpy as np
from gymnasium.spaces import Box, Discrete

from rookery import PPOConfig, Trainer


class Sorting:
    """A lamp is on or off: one agent has to press when it is on, the other one when it is off."""

    possible_agents = ["opener", "closer"]

    def __init__(self):
        self.observation_spaces = {agent: Box(0.0, 1.0, (2,), np.float32) for agent in self.possible_agents}
        self.action_spaces = {agent: Discrete(2) for agent in self.possible_agents}
        self.rng = np.random.default_rng()

    def observe(self):
        self.lamp = int(self.rng.integers(2))
        obs = np.array([self.lamp, self.time / 20], np.float32)
        return {agent: obs.copy() for agent in self.possible_agents}

    def reset(self, seed=None, options=None):
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        self.time = 0
        return self.observe(), {}

    def step(self, actions):
        right = {"opener": self.lamp, "closer": 1 - self.lamp}
        rewards = {agent: 1.0 if actions[agent] == right[agent] else -1.0 for agent in self.possible_agents}
        self.time += 1
        return self.observe(), rewards, {"__all__": False}, {"__all__": self.time >= 20}, {}


if __name__ == "__main__":
    kind = sys.argv[1]
    # mistake: one policy for two roles, and the observation does not tell the role
    policies = None if kind == "broken" else ["opener", "closer"]
    trainer = Trainer(
        Sorting, PPOConfig(lr=1e-3), policies=policies, num_envs=8, seed=1, run_dir=f"runs/roles-{kind}", force=True
    )
    print(trainer.train(stop={"env_steps": 20_000}).return_mean)
