"""A cart that should reach the end of its track, DQN: the broken reward pays for progress, but retreat is free."""

import sys

import numpy as np
from gymnasium import Env
from gymnasium.spaces import Box, Discrete

from rookery import DQNConfig, Trainer


class Track(Env):
    observation_space = Box(-1, 1, (2,), np.float32)
    action_space = Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.speed, self.time = self.np_random.uniform(0, 0.3), 0.0, 0
        return self.observe(), {}

    def worth(self, progress):
        return progress

    def step(self, action):
        before = self.place
        self.speed = float(action - 1)
        self.place = float(np.clip(self.place + 0.1 * self.speed, 0, 1))
        self.time += 1
        arrived = self.place >= 1
        reward = 5 * self.worth(self.place - before) + (1.0 if arrived else 0.0)
        return self.observe(), reward, arrived, self.time == 100, {}

    def observe(self):
        return np.array([self.place, self.speed], np.float32)


class ProgressTrack(Track):
    def worth(self, progress):
        return max(progress, 0.0)


def arrivals(policy, episodes=100):
    env, count = Track(), 0
    for episode in range(episodes):
        obs, _ = env.reset(seed=episode)
        ended = cut = False
        while not (ended or cut):
            obs, _, ended, cut, _ = env.step(int(policy.predict(obs)))
        count += ended
    return count / episodes


if __name__ == "__main__":
    variant = sys.argv[1]
    trainer = Trainer(
        ProgressTrack if variant == "broken" else Track,
        DQNConfig(),
        num_envs=8,
        seed=0,
        run_dir=f"runs/progress_only-{variant}",
        force=True,
    )
    trainer.train(stop={"env_steps": 10_000, "seconds": 40})
    print(f"{variant}: share of episodes that reach the end {arrivals(trainer.policies['main']):.2f}")
