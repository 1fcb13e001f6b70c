"""PPO steers a cart to the middle of a rail and keeps it there; an episode lasts 60 steps."""

import argparse

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

from rookery import PPOConfig, Trainer


class Rail(gymnasium.Env):
    """Push a cart left or right; the reward is highest in the middle of the rail."""

    def __init__(self, fixed=False):
        self.fixed = fixed
        self.observation_space = Box(-5, 5, (2,), np.float32)
        self.action_space = Discrete(3)
        self.steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = self.np_random.uniform(-5, -4)
        self.speed = 0.0
        if self.fixed:  # the mistake: the step counter is set in __init__ only, and never goes back to 0
            self.steps = 0
        return self.observe(), {}

    def step(self, action):
        self.steps += 1
        self.speed = float(np.clip(0.9 * self.speed + 0.1 * (int(action) - 1), -1, 1))
        self.place = float(np.clip(self.place + self.speed, -5, 5))
        return self.observe(), 1 - abs(self.place) / 2, False, self.steps >= 60, {}

    def observe(self):
        return np.array([self.place, self.speed], np.float32)


def score(policy, episodes=30):
    """Returns the mean return of whole episodes, of the environment without the mistake."""
    env, total = Rail(fixed=True), 0.0
    for seed in range(episodes):
        obs, over = env.reset(seed=seed)[0], False
        while not over:
            obs, reward, terminated, truncated, _ = env.step(policy.predict(obs))
            total, over = total + reward, terminated or truncated
    return total / episodes


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--run", required=True)
    parser.add_argument("--healthy", action="store_true")
    args = parser.parse_args()
    trainer = Trainer(
        Rail,
        PPOConfig(lr=1e-3, epochs=5),
        env_config={"fixed": args.healthy},
        num_envs=8,
        env_processes=0,
        seed=0,
        run_dir=args.run,
        force=True,
    )
    trainer.train(stop={"env_steps": 30_000})
    print(f"score {score(trainer.policies['main']):.1f}")
