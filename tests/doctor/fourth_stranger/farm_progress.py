"""A walker is paid for each step towards its goal, and a step away costs something only in the healthy version."""

import sys

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

from rookery import ModelConfig, PPOConfig, Trainer

KIND = sys.argv[1]
MOVES = np.array([(1, 0), (-1, 0), (0, 1), (0, -1)])


class Walk(gymnasium.Env):
    def __init__(self):
        self.observation_space, self.action_space = Box(-1, 1, (4,), np.float32), Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.goal = self.np_random.choice(100, 2, replace=False)
        self.place, self.goal = (np.array(divmod(int(cell), 10)) for cell in (self.place, self.goal))
        self.steps = 0
        return self.observe(), {}

    def observe(self):
        return (np.concatenate([self.place, self.goal]) / 5 - 1).astype(np.float32)

    def step(self, action):
        before = np.abs(self.goal - self.place).sum()
        self.place = np.clip(self.place + MOVES[action], 0, 9)
        self.steps += 1
        after = np.abs(self.goal - self.place).sum()
        progress = float(before - after)
        if KIND == "broken":
            progress = max(progress, 0.0)
        arrived = bool(after == 0)
        return self.observe(), progress + 5.0 * arrived, arrived, self.steps >= 60, {}


def arrivals(policy, episodes=50):
    env, arrived, rng = Walk(), 0, np.random.default_rng(0)
    for seed in range(episodes):
        obs, ended, cut = env.reset(seed=seed)[0], False, False
        while not (ended or cut):
            obs, _, ended, cut, _ = env.step(policy.predict(obs, deterministic=False, rng=rng))
        arrived += ended
    return arrived / episodes


if __name__ == "__main__":
    run = f"runs/farm_progress-{KIND}"
    trainer = Trainer(
        Walk,
        PPOConfig(lr=1e-3, minibatch_size=512, model=ModelConfig(native=False)),
        num_envs=16,
        seed=0,
        run_dir=run,
        force=True,
        console="quiet",
    )
    result = trainer.train(stop={"env_steps": 30_000})
    trainer.save()
    print(KIND, "training", result.return_mean, "score (share that arrives)", arrivals(trainer.policies["main"]))
