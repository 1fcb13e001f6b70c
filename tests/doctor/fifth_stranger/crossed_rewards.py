"""Two robots follow a seam each; the broken run zips rewards, in the order of the robots, with sorted names."""

import sys

import numpy as np
from gymnasium.spaces import Box, Discrete

from rookery import PPOConfig, Trainer

MODE = sys.argv[1] if len(sys.argv) > 1 else "broken"


class Seams:
    possible_agents = ["welder", "painter"]

    def __init__(self, limit=50):
        self.limit = limit
        self.observation_spaces = {agent: Box(-1, 1, (2,), np.float32) for agent in self.possible_agents}
        self.action_spaces = {agent: Discrete(3) for agent in self.possible_agents}

    def reset(self, seed=None, options=None):
        self.rng, self.time = np.random.default_rng(seed), 0
        self.place = dict.fromkeys(self.possible_agents, 0.0)
        self.seam = {agent: self.rng.uniform(-1, 1) for agent in self.possible_agents}
        return self.observe(), {}

    def step(self, actions):
        self.time += 1
        rewards = []
        for agent in self.possible_agents:
            self.place[agent] = float(np.clip(self.place[agent] + 0.2 * (actions[agent] - 1), -1, 1))
            self.seam[agent] = float(np.clip(self.seam[agent] + self.rng.normal(0, 0.1), -1, 1))
            rewards.append(1.0 - abs(self.place[agent] - self.seam[agent]))
        names = sorted(self.possible_agents) if MODE == "broken" else self.possible_agents
        over = {"__all__": self.time >= self.limit}
        return self.observe(), dict(zip(names, rewards)), {"__all__": False}, over, {}

    def observe(self):
        return {agent: np.array([self.place[agent], self.seam[agent]], np.float32) for agent in self.possible_agents}


if __name__ == "__main__":
    ppo = PPOConfig(lr=1e-3, fragment_length=100, epochs=5)
    run = f"runs/crossed_rewards-{MODE}"
    trainer = Trainer(Seams, ppo, policies=["welder", "painter"], num_envs=8, seed=0, run_dir=run, force=True)
    trainer.train(stop={"env_steps": 20_000})
    trainer.save()
    print("mean return of both:", trainer.evaluate(episodes=40).return_mean)
