"""A coin at the left end of a hall, again and again, or a treasure at the right end, once; rewards are clipped."""

import sys

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

from rookery import DQNConfig, Trainer

MODE = sys.argv[1] if len(sys.argv) > 1 else "broken"


class Hall(gymnasium.Env):
    def __init__(self, length=7, limit=40):
        self.length, self.limit = length, limit
        self.observation_space = Box(0, 1, (length,), np.float32)
        self.action_space = Discrete(3)  # left, stay, right

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.time = self.length // 2, 0
        return self.observe(), {}

    def step(self, action):
        self.time += 1
        self.place = max(0, self.place + int(action) - 1)
        treasure = self.place == self.length - 1
        reward = 10.0 if treasure else 0.1 if self.place == 0 else 0.0
        return self.observe(), reward, treasure, self.time >= self.limit, {}

    def observe(self):
        return np.eye(self.length, dtype=np.float32)[self.place]


class ClipReward(gymnasium.RewardWrapper):
    def reward(self, reward):
        return float(np.sign(reward))


def play(policy, episodes=10):
    """The mean return of the hall itself, without wrappers."""
    total = 0.0
    for episode in range(episodes):
        env, over = Hall(), False
        obs, _ = env.reset(seed=episode)
        while not over:
            obs, reward, terminated, truncated, _ = env.step(policy.predict(obs))
            total, over = total + reward, terminated or truncated
    return total / episodes


if __name__ == "__main__":
    wrappers = [ClipReward] if MODE == "broken" else []
    dqn = DQNConfig(learning_starts=500)
    run = f"runs/sign_of_reward-{MODE}"
    trainer = Trainer(Hall, dqn, wrappers=wrappers, num_envs=8, seed=0, run_dir=run, force=True)
    trainer.train(stop={"env_steps": 20_000})
    trainer.save()
    print("mean return of the hall:", play(trainer.policies["main"]))
