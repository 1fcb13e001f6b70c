"""Two robots have to drive towards each other and both observe the gap alone; the broken run gives them one policy."""

import sys

import numpy as np
from gymnasium.spaces import Box, Discrete

from rookery import ModelConfig, PPOConfig, Trainer

KIND = sys.argv[1]


class Meet:
    possible_agents = ["west", "east"]

    def __init__(self):
        self.observation_spaces = dict.fromkeys(self.possible_agents, Box(-4, 4, (1,), np.float32))
        self.action_spaces = dict.fromkeys(self.possible_agents, Discrete(2))

    def reset(self, seed=None, options=None):
        half = int(np.random.default_rng(seed).integers(3, 8))
        self.place, self.steps = {"west": -half, "east": half}, 0
        return self.observe(), {}

    def observe(self):
        gap = np.array([(self.place["east"] - self.place["west"]) / 20], np.float32)
        return dict.fromkeys(self.possible_agents, gap)

    def step(self, actions):
        self.steps += 1
        for agent, action in actions.items():
            self.place[agent] += 1 if action else -1
        met = self.place["west"] >= self.place["east"]
        rewards = dict.fromkeys(self.possible_agents, 1.0 if met else -0.1)
        return self.observe(), rewards, {"__all__": met}, {"__all__": self.steps >= 40}, {}


if __name__ == "__main__":
    trainer = Trainer(
        Meet,
        PPOConfig(lr=1e-3, model=ModelConfig(native=False)),
        policies=["main"] if KIND == "broken" else ["west", "east"],
        num_envs=16,
        seed=0,
        run_dir=f"runs/one_policy_two_roles-{KIND}",
        force=True,
        console="quiet",
    )
    result = trainer.train(stop={"env_steps": 30_000})
    trainer.save()
    print(KIND, "training", result.return_mean, "score", trainer.evaluate(episodes=50, deterministic=False).return_mean)
