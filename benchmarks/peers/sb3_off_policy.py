"""Stable-Baselines3 with its contrib package, or SBX, its sister in JAX, learns from a replay memory:
``sb3_off_policy.py WORKLOAD --seconds N [--library sbx]``; prints a line of JSON.

Run it as `sb3_ppo.py`, with the Python of the library. Settings are those that Rookery has; what they do not name is
the library's own.
"""

from __future__ import annotations

import argparse
import sys
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from measure import Meter, seconds_since_start
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.noise import NormalActionNoise
from workloads import OFF_POLICY, OffPolicy

if "sbx" in sys.argv:
    from sbx import DQN, SAC, TD3, TQC, CrossQ
else:
    from sb3_contrib import TQC, CrossQ
    from stable_baselines3 import DQN, SAC, TD3

IMPORTED = seconds_since_start()

STEPS = 10**9
"""Total env steps to which shares in settings refer; a run ends before."""


class Metered(BaseCallback):
    """Calls the meter once in `every` steps.

    Args:
        meter: The meter.
        every: Number of steps between two calls.
    """

    def __init__(self, meter: Meter, every: int) -> None:
        super().__init__()
        self.meter = meter
        self.every = every

    def _on_step(self) -> bool:
        if self.num_timesteps % self.every:
            return True
        episodes = [episode["r"] for episode in self.model.ep_info_buffer or ()]
        mean = sum(episodes) / len(episodes) if episodes else None
        return not self.meter.iteration(self.num_timesteps, mean)


def model(workload: str, settings: OffPolicy, seed: int) -> DQN | SAC | TD3 | TQC | CrossQ:
    """The learner."""
    shared: dict[str, Any] = {
        "learning_rate": settings.lr,
        "buffer_size": settings.capacity,
        "learning_starts": settings.iteration_steps,
        "batch_size": settings.batch_size,
        "gamma": settings.gamma,
        "train_freq": settings.train_every,
        "gradient_steps": 1,
        "policy_kwargs": {"net_arch": list(settings.hidden)},  # ReLU by default
        "seed": seed,
        "device": "cpu",
    }
    env = make_vec_env(settings.env, 1, seed=seed)
    if workload == "sac":
        return SAC("MlpPolicy", env, tau=0.005, **shared)
    if workload == "tqc":
        return TQC("MlpPolicy", env, tau=0.005, top_quantiles_to_drop_per_net=2, **shared)
    if workload == "crossq":
        return CrossQ("MlpPolicy", env, policy_delay=1, **shared)
    if workload == "td3":
        noise = NormalActionNoise(np.zeros(env.action_space.shape), 0.1 * np.ones(env.action_space.shape))
        return TD3("MlpPolicy", env, tau=0.005, action_noise=noise, **shared)
    return DQN(
        "MlpPolicy",
        env,
        target_update_interval=settings.target_every * settings.train_every,
        exploration_fraction=settings.epsilon_steps / STEPS,
        exploration_final_eps=0.05,
        **shared,
    )


def main() -> None:
    """Trains and reports."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workload", choices=OFF_POLICY)
    parser.add_argument("--library", choices=("sb3", "sbx"), default="sb3")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    settings = OFF_POLICY[args.workload]
    meter = Meter(IMPORTED, args.seconds, None)
    learner = model(args.workload, settings, args.seed)
    learner.learn(STEPS, callback=Metered(meter, settings.iteration_steps))
    names = ["stable-baselines3", "gymnasium"]
    names += ["sbx-rl", "jax"] if args.library == "sbx" else ["sb3-contrib", "torch"]
    meter.report(threads=torch.get_num_threads(), versions={name: version(name) for name in names})


if __name__ == "__main__":
    main()
