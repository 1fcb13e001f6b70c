"""Stable-Baselines3 trains one workload of the benchmark: ``sb3_ppo.py WORKLOAD --seconds N``; prints a line of JSON.

Run it with the Python that `install.sh` made and with `benchmarks` on PYTHONPATH, as `benchmarks/run.py` does. Settings
are those that Rookery has; what they do not name is the library's own.
"""

from __future__ import annotations

import argparse
from importlib.metadata import version
from typing import Any

import ale_py
import gymnasium
import torch
from measure import Meter, seconds_since_start
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_atari_env, make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecEnv, VecFrameStack
from workloads import BEST, MATCHED, TARGETS
from workloads import PPO as Settings

IMPORTED = seconds_since_start()

VECTORS = {"dummy": DummyVecEnv, "subproc": SubprocVecEnv}


class Metered(BaseCallback):
    """Tells the meter of every iteration: its end is where the next one begins to play."""

    def __init__(self, meter: Meter) -> None:
        super().__init__()
        self.meter = meter
        self.enough = False

    def _on_rollout_start(self) -> None:
        if self.num_timesteps:
            episodes = [episode["r"] for episode in self.model.ep_info_buffer or ()]
            mean = sum(episodes) / len(episodes) if episodes else None
            self.enough = self.meter.iteration(self.num_timesteps, mean)

    def _on_step(self) -> bool:
        return not self.enough


def make_env(settings: Settings, vector: type[VecEnv], seed: int) -> VecEnv:
    """The copies, in the way the library's documentation makes them."""
    if not settings.env.startswith("ALE/"):
        return make_vec_env(settings.env, settings.num_envs, seed=seed, vec_env_cls=vector)
    gymnasium.register_envs(ale_py)
    plain = {"frameskip": 1, "repeat_action_probability": 0.0}  # the wrappers skip frames
    env = make_atari_env(settings.env, settings.num_envs, seed=seed, vec_env_cls=vector, env_kwargs=plain)
    return VecFrameStack(env, 4)


def model(settings: Settings, env: VecEnv, seed: int) -> PPO:
    """The learner."""
    network: dict[str, Any] = {}
    if not settings.env.startswith("ALE/"):
        activation = {"tanh": torch.nn.Tanh, "relu": torch.nn.ReLU}[settings.activation]
        network = {"net_arch": list(settings.hidden), "activation_fn": activation}
    return PPO(
        "CnnPolicy" if settings.env.startswith("ALE/") else "MlpPolicy",
        env,
        learning_rate=settings.lr,
        n_steps=settings.fragment_length,
        batch_size=settings.minibatch_size,
        n_epochs=settings.epochs,
        gamma=settings.gamma,
        gae_lambda=settings.gae_lambda,
        clip_range=settings.clip,
        ent_coef=settings.entropy_coef,
        policy_kwargs=network,
        seed=seed,
        device="cpu",
    )


def main() -> None:
    """Trains and reports."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workload")
    parser.add_argument("--settings", help="settings of cartpole-best, sb3-256 say")
    parser.add_argument("--vector", choices=VECTORS, default="dummy")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    settings = BEST[args.settings] if args.settings else MATCHED[args.workload]
    meter = Meter(IMPORTED, args.seconds, TARGETS.get(args.workload))
    env = make_env(settings, VECTORS[args.vector], args.seed)
    model(settings, env, args.seed).learn(10**9, callback=Metered(meter))
    names = ("stable-baselines3", "gymnasium", "torch")
    meter.report(threads=torch.get_num_threads(), versions={name: version(name) for name in names})
    env.close()


if __name__ == "__main__":
    main()
