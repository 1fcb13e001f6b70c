"""Two ships, a policy each; the rewards are zipped with the sorted names, so that each ship gets the other's."""

import sys

import numpy as np
from gymnasium.spaces import Box, Discrete

from rookery import PPOConfig, Trainer


class Harbour:
    """A tug and a barge each keep at their own buoy, which drifts; the reward is minus the own distance to it."""

    possible_agents = ["tug", "barge"]

    def __init__(self, order="sorted"):
        self.names = sorted(self.possible_agents) if order == "sorted" else self.possible_agents
        self.observation_spaces = dict.fromkeys(self.possible_agents, Box(-2, 2, (2,), np.float32))
        self.action_spaces = {"tug": Discrete(3), "barge": Discrete(3)}

    def reset(self, seed=None, options=None):
        self.rng, self.time = np.random.default_rng(seed), 0
        self.ships, self.buoys = self.rng.uniform(-1, 1, (2, 2))
        return self.observe(), {}

    def step(self, actions):
        self.time += 1
        thrust = np.array([actions[name] - 1 for name in self.possible_agents])
        self.ships = np.clip(self.ships + 0.15 * thrust, -1, 1)
        self.buoys = np.clip(self.buoys + self.rng.normal(0, 0.03, 2), -1, 1)
        distances = np.abs(self.ships - self.buoys)
        rewards = dict(zip(self.names, (-distances).tolist()))
        return self.observe(), rewards, {"__all__": False}, {"__all__": self.time >= 40}, {}

    def observe(self):
        pairs = np.stack([self.ships, self.buoys - self.ships], axis=1).astype(np.float32)
        return dict(zip(self.possible_agents, pairs))


if __name__ == "__main__":
    kind = sys.argv[1]
    trainer = Trainer(
        Harbour,
        PPOConfig(lr=1e-3, gamma=0.95),
        policies=["tug", "barge"],
        env_config={"order": "sorted" if kind == "broken" else "listed"},
        seed=0,
        run_dir=f"runs/rewards_in_other_order-{kind}",
        force=True,
        console="quiet",
    )
    result = trainer.train(stop={"env_steps": 40_000})
    print(f"{kind}: return {result.return_mean:.2f}, evaluated {trainer.evaluate(50).return_mean:.2f}")
