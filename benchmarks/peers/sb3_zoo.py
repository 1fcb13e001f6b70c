"""Stable-Baselines3 trains a pair of the zoo with RL Baselines3 Zoo's settings: ``sb3_zoo.py PAIR --seed N``.

Prints a line of JSON: after each hundredth of the env steps, the mean return of the last 100 training episodes, as
Rookery's `return_mean`; and the mean return of 20 deterministic episodes at the end.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np
import torch
from stable_baselines3 import A2C, DDPG, DQN, PPO, SAC, TD3
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.noise import NormalActionNoise

POINTS = 100


class Pair(NamedTuple):
    """Class of the algorithm, environment, its number of copies, env steps, and settings that are no defaults."""

    algorithm: Callable[..., BaseAlgorithm]
    env: str
    env_steps: int
    num_envs: int
    settings: dict[str, Any]


def falling(value: float) -> Callable[[float], float]:
    """Returns a schedule from a value to 0."""
    return lambda remaining: value * remaining


WIDE = {"net_arch": [400, 300]}
NOISE = {"action_noise": NormalActionNoise(np.zeros(1), 0.1 * np.ones(1))}
DELAYED = {"gamma": 0.98, "buffer_size": 200_000, "learning_starts": 10_000, "gradient_steps": 1, "train_freq": 1,
           "learning_rate": 1e-3, "policy_kwargs": WIDE, **NOISE}  # fmt: skip
PAIRS = {
    "cartpole-ppo": Pair(PPO, "CartPole-v1", 100_000, 8, {
        "n_steps": 32, "batch_size": 256, "gae_lambda": 0.8, "gamma": 0.98, "n_epochs": 20, "ent_coef": 0.0,
        "learning_rate": falling(1e-3), "clip_range": falling(0.2)}),
    "cartpole-a2c": Pair(A2C, "CartPole-v1", 200_000, 8, {"ent_coef": 0.0}),
    "cartpole-dqn": Pair(DQN, "CartPole-v1", 50_000, 1, {
        "learning_rate": 2.3e-3, "batch_size": 64, "buffer_size": 100_000, "learning_starts": 1000, "gamma": 0.99,
        "target_update_interval": 10, "train_freq": 256, "gradient_steps": 128, "exploration_fraction": 0.16,
        "exploration_final_eps": 0.04, "policy_kwargs": {"net_arch": [256, 256]}}),
    "pendulum-ppo": Pair(PPO, "Pendulum-v1", 100_000, 4, {
        "n_steps": 1024, "gae_lambda": 0.95, "gamma": 0.9, "n_epochs": 10, "ent_coef": 0.0, "learning_rate": 1e-3,
        "clip_range": 0.2, "use_sde": True, "sde_sample_freq": 4}),
    "pendulum-sac": Pair(SAC, "Pendulum-v1", 20_000, 1, {"learning_rate": 1e-3}),
    "pendulum-td3": Pair(TD3, "Pendulum-v1", 20_000, 1, DELAYED),
    "pendulum-ddpg": Pair(DDPG, "Pendulum-v1", 20_000, 1, DELAYED),
}  # fmt: skip


class Points(BaseCallback):
    """Keeps the mean return of the last 100 episodes, in even distances."""

    def __init__(self, every: int) -> None:
        super().__init__()
        self.every = every
        self.points: list[tuple[int, float]] = []

    def _on_step(self) -> bool:
        episodes = [episode["r"] for episode in self.model.ep_info_buffer or ()]
        due = (self.points[-1][0] if self.points else 0) + self.every
        if episodes and self.num_timesteps >= due:
            self.points.append((self.num_timesteps, round(float(np.mean(episodes)), 2)))
        return True


def main() -> None:
    """Trains and reports."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pair", choices=PAIRS)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(1)
    pair = PAIRS[args.pair]
    env = make_vec_env(pair.env, pair.num_envs, seed=args.seed)
    model = pair.algorithm("MlpPolicy", env, seed=args.seed, device="cpu", **pair.settings)
    seen = Points(pair.env_steps // POINTS)
    model.learn(pair.env_steps, callback=seen)
    score, _ = evaluate_policy(model, make_vec_env(pair.env, 1, seed=args.seed + 1000), 20)
    names = ("stable-baselines3", "gymnasium", "torch")
    versions = {name: version(name) for name in names}
    print(json.dumps({"points": seen.points, "score": float(score), "versions": versions}))


if __name__ == "__main__":
    main()
