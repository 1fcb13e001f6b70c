"""SAC swings up Gymnasium's pendulum, with a reward wrapper known from Atari."""

import argparse

import gymnasium
import numpy as np

from rookery import SACConfig, Trainer


class ClipReward(gymnasium.RewardWrapper):
    """Keeps the sign of a reward, as usual in Atari games."""

    def reward(self, reward):
        return float(np.sign(reward))


def score(policy, episodes=20):
    """Returns the mean return of the pendulum itself, without wrapper."""
    env, total = gymnasium.make("Pendulum-v1"), 0.0
    for seed in range(episodes):
        obs, over = env.reset(seed=seed)[0], False
        while not over:
            obs, reward, terminated, truncated, _ = env.step(policy.predict(obs))
            total, over = total + float(reward), terminated or truncated
    return total / episodes


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--run", required=True)
    parser.add_argument("--healthy", action="store_true")
    args = parser.parse_args()
    trainer = Trainer(
        "Pendulum-v1",
        SACConfig(lr=1e-3, updates_per_step=0.5, model={"hidden": (64, 64)}, critic={"widths": (64, 64)}),
        wrappers=[] if args.healthy else [ClipReward],  # the mistake: all rewards of the pendulum become -1
        num_envs=4,
        env_processes=0,
        seed=0,
        run_dir=args.run,
        force=True,
    )
    trainer.train(stop={"env_steps": 6_500})
    print(f"score {score(trainer.policies['main']):.1f}")
