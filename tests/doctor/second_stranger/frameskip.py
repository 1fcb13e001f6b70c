"""A wrapper that repeats each action 25 times."""

import sys

import gymnasium as gym

from rookery import PPOConfig, Trainer


class Skip(gym.Wrapper):
    """Repeats each action."""

    def __init__(self, env, repeat):
        super().__init__(env)
        self.repeat = repeat

    def step(self, action):
        total = 0.0
        for _ in range(self.repeat):
            obs, reward, terminated, truncated, info = self.env.step(action)
            total += reward
            if terminated or truncated:
                break
        return obs, total, terminated, truncated, info


def make_broken():
    return Skip(gym.make("CartPole-v1"), 25)  # mistake: far too many for a pole that falls in ten steps


def make_healthy():
    return Skip(gym.make("CartPole-v1"), 2)


if __name__ == "__main__":
    kind = sys.argv[1]
    make = make_broken if kind == "broken" else make_healthy
    trainer = Trainer(make, PPOConfig(lr=1e-3), num_envs=8, seed=1, run_dir=f"runs/frameskip-{kind}", force=True)
    print(trainer.train(stop={"env_steps": 30_000}).return_mean)
