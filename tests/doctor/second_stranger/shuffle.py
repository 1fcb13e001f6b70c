"""A wrapper that orders the features anew in each episode."""

import sys

import gymnasium as gym

from rookery import PPOConfig, Trainer


class Ordered(gym.ObservationWrapper):
    """Chooses the order in which the features are listed."""

    def reset(self, *, seed=None, options=None):
        self.order = [2, 3, 0, 1]
        return super().reset(seed=seed, options=options)

    def observation(self, observation):
        return observation[self.order]


class Unordered(Ordered):
    def reset(self, *, seed=None, options=None):
        obs, info = self.env.reset(seed=seed, options=options)
        self.order = self.env.unwrapped.np_random.permutation(4)  # mistake: another order in each episode
        return self.observation(obs), info


def make_pole():
    env = gym.make("CartPole-v1")
    env.unwrapped.observation_space = gym.spaces.Box(-10.0, 10.0, (4,))
    return env


def make_broken():
    return Unordered(make_pole())


def make_healthy():
    return Ordered(make_pole())


if __name__ == "__main__":
    kind = sys.argv[1]
    make = make_broken if kind == "broken" else make_healthy
    trainer = Trainer(make, PPOConfig(lr=1e-3), num_envs=8, seed=1, run_dir=f"runs/shuffle-{kind}", force=True)
    print(trainer.train(stop={"env_steps": 30_000}).return_mean)
