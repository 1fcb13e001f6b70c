"""A collector's coins are laid out in the constructor; `reset` does not lay them out again."""

import sys

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

from rookery import PPOConfig, Trainer

SPOTS = [(0, 6), (3, 3), (5, 1), (6, 6), (1, 2), (6, 3)]
MOVES = [(-1, 0), (0, 1), (1, 0), (0, -1)]


class Collector(gymnasium.Env):
    """Collect all six coins of the board, a point each, in as few moves as possible."""

    observation_space = Box(0, 1, (8,), np.float32)
    action_space = Discrete(4)

    def __init__(self, refill=False):
        self.refill = refill
        self.coins = set(SPOTS)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.time = (int(self.np_random.integers(7)), int(self.np_random.integers(7))), 0
        if self.refill:
            self.coins = set(SPOTS)
        return self.observe(), {}

    def step(self, action):
        self.time += 1
        row, column = self.place[0] + MOVES[action][0], self.place[1] + MOVES[action][1]
        self.place = min(max(row, 0), 6), min(max(column, 0), 6)
        reward = -0.02
        if self.place in self.coins:
            self.coins.remove(self.place)
            reward += 1.0
        return self.observe(), reward, False, self.time >= 60, {}

    def observe(self):
        return np.array([self.place[0] / 6, self.place[1] / 6, *(spot in self.coins for spot in SPOTS)], np.float32)


if __name__ == "__main__":
    kind = sys.argv[1]
    trainer = Trainer(
        Collector,
        PPOConfig(lr=1e-3),
        env_config={"refill": kind == "healthy"},
        seed=0,
        run_dir=f"runs/coins_stay_collected-{kind}",
        force=True,
        console="quiet",
    )
    result = trainer.train(stop={"env_steps": 80_000})
    evaluated = trainer.evaluate(50, deterministic=False).return_mean
    print(f"{kind}: return {result.return_mean:.2f}, evaluated {evaluated:.2f}")
