"""Two agents of a plant, PPO: rewards are in the order of the agents; the broken plant sorts their names first."""

import sys

import numpy as np
from gymnasium.spaces import Box, Discrete

from rookery import PPOConfig, Trainer


class Plant:
    """Pump and heater each read their own gauge and choose one of five positions; each has its own reward."""

    possible_agents = ["pump", "heater"]
    observation_spaces = dict.fromkeys(possible_agents, Box(0, 1, (1,), np.float32))
    action_spaces = dict.fromkeys(possible_agents, Discrete(5))

    def reset(self, seed=None, options=None):
        self.rng, self.time = np.random.default_rng(seed), 0
        return self.observe(), {}

    def observe(self):
        self.gauges = self.rng.uniform(0, 1, 2)
        return {
            agent: np.array([gauge], np.float32) for agent, gauge in zip(self.possible_agents, self.gauges, strict=True)
        }

    def names(self):
        return self.possible_agents

    def step(self, actions):
        self.time += 1
        right = [
            float(actions[agent] == int(gauge * 5))
            for agent, gauge in zip(self.possible_agents, self.gauges, strict=True)
        ]
        rewards = dict(zip(self.names(), right, strict=True))
        return self.observe(), rewards, {"__all__": False}, {"__all__": self.time == 20}, {}


class SortedPlant(Plant):
    def names(self):
        return sorted(self.possible_agents)


if __name__ == "__main__":
    variant = sys.argv[1]
    trainer = Trainer(
        SortedPlant if variant == "broken" else Plant,
        PPOConfig(lr=3e-3, fragment_length=64),
        policies=["pump", "heater"],
        num_envs=8,
        seed=0,
        run_dir=f"runs/sorted_agents-{variant}",
        force=True,
    )
    trainer.train(stop={"env_steps": 15_000})
    print(f"{variant}: correct positions of 40: {trainer.evaluate(100).return_mean:.1f}")
