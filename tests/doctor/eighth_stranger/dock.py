"""TD3 flies a small boat into its dock, with as little fuel as possible; an episode lasts at most 30 steps."""

import argparse

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from rookery import TD3Config, Trainer


class Dock(gymnasium.Env):
    """Thrust forwards or backwards; the dock is at 0, arrival earns 10, thrust costs fuel."""

    def __init__(self, fixed=False):
        self.fixed = fixed
        self.observation_space = Box(-2, 2, (2,), np.float32)  # place, speed
        self.action_space = Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = self.np_random.uniform(0.6, 1.2) * self.np_random.choice([-1, 1])
        self.speed, self.steps, self.docked = 0.0, 0, False
        return self.observe(), {}

    def step(self, action):
        self.steps += 1
        thrust = float(action[0])
        reward = 10.0 * self.docked - 0.5 * thrust**2  # the mistake: `docked` is that of the step before
        self.speed = 0.8 * self.speed + 0.1 * thrust
        self.place = float(np.clip(self.place + self.speed, -2, 2))
        self.docked = abs(self.place) < 0.2
        if self.fixed:
            reward = 10.0 * self.docked - 0.5 * thrust**2
        return self.observe(), reward, self.docked, self.steps >= 30, {}

    def observe(self):
        return np.array([self.place, self.speed], np.float32)


def score(policy, episodes=100):
    """Returns the share of episodes that end in the dock."""
    env, docked = Dock(), 0
    for seed in range(episodes):
        obs, over = env.reset(seed=seed)[0], False
        while not over:
            obs, _, terminated, truncated, _ = env.step(policy.predict(obs))
            over = terminated or truncated
        docked += terminated
    return docked / episodes


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--run", required=True)
    parser.add_argument("--healthy", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    trainer = Trainer(
        Dock,
        TD3Config(lr=1e-3, model={"hidden": (64, 64)}, updates_per_step=0.25, learning_starts=2_000),
        env_config={"fixed": args.healthy},
        num_envs=4,
        env_processes=0,
        seed=args.seed,
        run_dir=args.run,
        force=True,
    )
    trainer.train(stop={"env_steps": 20_000})
    print(f"docked {score(trainer.policies['main']):.2f}")
