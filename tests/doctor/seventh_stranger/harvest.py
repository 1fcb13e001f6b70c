"""A2C learns to walk to a field, at a cost of 0.3 a step, and to harvest there forever; cut off after 20 steps."""

import argparse

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

from rookery import A2CConfig, Trainer


class Harvest(gymnasium.Env):
    """Stay (0) for free, or walk (1) right at a cost; at the end of the way each step pays 1."""

    def __init__(self, fixed=False, limit=20):
        self.fixed, self.limit = fixed, limit
        self.observation_space = Box(0, 1, (1,), np.float32)
        self.action_space = Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = int(self.np_random.integers(0, 30))
        self.steps = 0
        return self.observe(), {}

    def step(self, action):
        self.steps += 1
        reward = 1.0 if self.place == 30 else -0.3 * int(action)
        self.place = min(30, self.place + int(action))
        over = self.steps >= self.limit
        if self.fixed:
            return self.observe(), reward, False, over, {}
        return self.observe(), reward, over, False, {}  # the mistake: the time limit is an end (done), not a cut

    def observe(self):
        return np.array([self.place / 30], np.float32)


def score(policy, episodes=50):
    """Returns the mean return of 100 steps."""
    env, total = Harvest(fixed=True, limit=100), 0.0
    for seed in range(episodes):
        obs, over = env.reset(seed=seed)[0], False
        while not over:
            obs, reward, _, over, _ = env.step(policy.predict(obs))
            total += reward
    return total / episodes


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--run", required=True)
    parser.add_argument("--healthy", action="store_true")
    args = parser.parse_args()
    trainer = Trainer(
        Harvest,
        A2CConfig(lr=2e-3, fragment_length=20, optimizer="adam", entropy_coef=0.01),
        env_config={"fixed": args.healthy},
        num_envs=16,
        env_processes=0,
        seed=0,
        run_dir=args.run,
        force=True,
    )
    trainer.train(stop={"env_steps": 60_000})
    print(f"score {score(trainer.policies['main']):.1f}")
