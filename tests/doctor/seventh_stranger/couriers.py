"""PPO, one shared policy: three couriers on a line, each with a door of its own (a PettingZoo parallel environment)."""

import argparse

import numpy as np
from gymnasium.spaces import Box, Discrete
from pettingzoo import ParallelEnv

from rookery import PPOConfig, Trainer


class Couriers(ParallelEnv):
    """Each courier is paid for being near its door: 0.1, 0.5 or 0.9 of the way; 30 steps."""

    metadata = {"name": "couriers"}

    def __init__(self, fixed=False):
        self.fixed = fixed
        self.possible_agents = ["ann", "bob", "cem"]
        self.doors = {"ann": 0.1, "bob": 0.5, "cem": 0.9}
        size = 4 if fixed else 1
        self.observation_spaces = {agent: Box(0, 1, (size,), np.float32) for agent in self.possible_agents}
        self.action_spaces = {agent: Discrete(3) for agent in self.possible_agents}

    def observation_space(self, agent):
        return self.observation_spaces[agent]

    def action_space(self, agent):
        return self.action_spaces[agent]

    def reset(self, seed=None, options=None):
        rng = np.random.default_rng(seed)
        self.agents, self.steps = list(self.possible_agents), 0
        self.places = {agent: float(rng.uniform()) for agent in self.agents}
        return self.observe(), {agent: {} for agent in self.agents}

    def step(self, actions):
        self.steps += 1
        for agent, action in actions.items():
            self.places[agent] = float(np.clip(self.places[agent] + 0.1 * (int(action) - 1), 0, 1))
        rewards = {agent: 1 - 4 * abs(self.places[agent] - self.doors[agent]) for agent in actions}
        ended, cut = dict.fromkeys(actions, False), dict.fromkeys(actions, self.steps >= 30)
        obs = self.observe()
        if self.steps >= 30:
            self.agents = []
        return obs, rewards, ended, cut, {agent: {} for agent in actions}

    def observe(self):
        """The mistake: nothing in the observation says which courier the shared policy acts for."""
        obs = {}
        for index, agent in enumerate(self.possible_agents):
            obs[agent] = np.array([self.places[agent]], np.float32)
            if self.fixed:
                obs[agent] = np.concatenate((obs[agent], np.eye(3, dtype=np.float32)[index]))
        return obs


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--run", required=True)
    parser.add_argument("--healthy", action="store_true")
    args = parser.parse_args()
    trainer = Trainer(
        Couriers,
        PPOConfig(lr=1e-3, fragment_length=60, epochs=5),
        env_config={"fixed": args.healthy},
        num_envs=8,
        env_processes=0,
        seed=0,
        run_dir=args.run,
        force=True,
    )
    trainer.train(stop={"env_steps": 16_000})
    print(f"score {trainer.evaluate(50).return_mean:.1f}")
