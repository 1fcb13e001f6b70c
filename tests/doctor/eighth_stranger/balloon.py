"""A2C keeps a balloon at the height of its mooring, through a wrapper that scales observations; 80 steps an episode."""

import argparse

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

from rookery import A2CConfig, Trainer


class Balloon(gymnasium.Env):
    """Vent, wait or burn; the reward is highest at height 0."""

    observation_space = Box(-10, 10, (2,), np.float32)  # height, speed of climbing
    action_space = Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.height, self.speed, self.steps = self.np_random.uniform(-6, 6), 0.0, 0
        return self.observe(), {}

    def step(self, action):
        self.steps += 1
        self.speed = float(np.clip(self.speed + 0.15 * (int(action) - 1), -1.5, 1.5))
        self.height = float(np.clip(self.height + self.speed, -10, 10))
        return self.observe(), 1 - abs(self.height) / 5, False, self.steps >= 80, {}

    def observe(self):
        return np.array([self.height, self.speed], np.float32)


class Standardize(gymnasium.ObservationWrapper):
    """Brings observations to mean 0 and deviation 1."""

    def observation(self, obs):
        return ((obs - obs.mean()) / (obs.std() + 1e-8)).astype(np.float32)  # the mistake: those of one observation


class Scale(gymnasium.ObservationWrapper):
    """Divides each number of the observation by its range."""

    def observation(self, obs):
        return (obs / [5, 1]).astype(np.float32)


def score(policy, wrapper, episodes=50):
    """Returns the mean return of whole episodes."""
    env, total = wrapper(Balloon()), 0.0
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
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    wrapper = Scale if args.healthy else Standardize
    trainer = Trainer(
        Balloon,
        A2CConfig(lr=2e-3, gae_lambda=0.95, fragment_length=16, entropy_coef=0.01),
        wrappers=[wrapper],
        num_envs=16,
        env_processes=0,
        seed=args.seed,
        run_dir=args.run,
        force=True,
    )
    trainer.train(stop={"env_steps": 150_000})
    print(f"return {score(trainer.policies['main'], wrapper):.1f}")
