"""A network from image classification averages its features over the board, and with them where things are."""

import sys

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Discrete
from torch import nn

from rookery import ModelConfig, PPOConfig, Trainer

MOVES = [(-1, 0), (0, 1), (1, 0), (0, -1)]
SIZE = 6


class Forager(gymnasium.Env):
    """Walk to the berry on the board, and then to the next one; the observation is a plane for each of them."""

    observation_space = Box(0, 1, (2, SIZE, SIZE), np.float32)
    action_space = Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.time = (SIZE // 2, SIZE // 2), 0
        self.grow()
        return self.observe(), {}

    def grow(self):
        self.berry = self.place
        while self.berry == self.place:
            self.berry = tuple(int(x) for x in self.np_random.integers(SIZE, size=2))

    def step(self, action):
        self.time += 1
        self.place = tuple(min(max(old + move, 0), SIZE - 1) for old, move in zip(self.place, MOVES[action]))
        found = self.place == self.berry
        if found:
            self.grow()
        return self.observe(), float(found), False, self.time >= 50, {}

    def observe(self):
        board = np.zeros((2, SIZE, SIZE), np.float32)
        board[0][self.place] = board[1][self.berry] = 1
        return board


class Net(nn.Module):
    """One convolution, an average over the board if `pool`, and a layer."""

    def __init__(self, obs_space, pool=True):
        super().__init__()
        self.conv = nn.Conv2d(obs_space.shape[0], 16, 3, padding=1)
        self.end = nn.AdaptiveAvgPool2d(1) if pool else nn.Identity()
        self.layer = nn.Linear(16 if pool else 16 * SIZE * SIZE, 64)
        self.num_features = 64

    def forward(self, obs):
        return torch.relu(self.layer(self.end(torch.relu(self.conv(obs))).flatten(1)))


if __name__ == "__main__":
    kind = sys.argv[1]
    model = ModelConfig(module=Net, module_config={"pool": kind == "broken"})
    trainer = Trainer(
        Forager,
        PPOConfig(lr=1e-3, gamma=0.95, epochs=6, minibatch_size=256, model=model),
        num_envs=16,
        seed=0,
        run_dir=f"runs/pooled_away-{kind}",
        force=True,
        console="quiet",
    )
    result = trainer.train(stop={"env_steps": 100_000})
    print(f"{kind}: return {result.return_mean:.2f}")
