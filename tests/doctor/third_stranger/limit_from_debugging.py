"""A warehouse robot keeps the time limit of a debugging session, in which it cannot reach its shelf."""

import sys

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from gymnasium.wrappers import TimeLimit

from rookery import PPOConfig, Trainer

MOVES = [(-1, 0), (0, 1), (1, 0), (0, -1)]


class Warehouse(gymnasium.Env):
    """Drive from the gate in one corner to the shelf in the opposite one, a point."""

    observation_space = Box(0, 1, (2,), np.float32)
    action_space = Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = [0, 0]
        return self.observe(), {}

    def step(self, action):
        if self.np_random.random() < 0.1:  # the wheels slip
            action = self.np_random.integers(4)
        self.place = [min(max(old + move, 0), 8) for old, move in zip(self.place, MOVES[action])]
        arrived = self.place == [8, 8]
        return self.observe(), float(arrived), arrived, False, {}

    def observe(self):
        return np.array(self.place, np.float32) / 8


def make(limit):
    return TimeLimit(Warehouse(), max_episode_steps=limit)


if __name__ == "__main__":
    kind = sys.argv[1]
    trainer = Trainer(
        make,
        PPOConfig(lr=1e-3),
        env_config={"limit": 15 if kind == "broken" else 300},
        seed=0,
        run_dir=f"runs/limit_from_debugging-{kind}",
        force=True,
        console="quiet",
    )
    result = trainer.train(stop={"env_steps": 80_000})
    env, arrived, moves = make(300), 0, 0
    for episode in range(50):
        obs, _ = env.reset(seed=episode)
        over = False
        while not over:
            action = trainer.policies["main"].predict(obs, deterministic=False)
            obs, _, terminated, truncated, _ = env.step(action)
            over, moves = terminated or truncated, moves + 1
        arrived += terminated
    print(f"{kind}: return {result.return_mean:.2f}, arrived in {arrived} of 50 episodes of {moves / 50:.0f} moves")
