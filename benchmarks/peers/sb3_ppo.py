"""Stable-Baselines3, or SBX, its sister in JAX, trains one workload of the benchmark: ``sb3_ppo.py WORKLOAD --seconds N
[--library sbx]``; prints a line of JSON.

Run it with the Python that `install.sh` made and with `benchmarks` and `src` on PYTHONPATH, as `benchmarks/run.py`
does. Settings are those that Rookery has; what they do not name is the library's own. With an LSTM it is RecurrentPPO
of SB3-contrib that trains, on Rookery's own `StatelessCartPole`, so that the rules are the same.
"""

from __future__ import annotations

import argparse
import sys
from importlib.metadata import version
from typing import Any

import gymnasium
import torch
from measure import Meter, seconds_since_start
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_atari_env, make_vec_env
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecEnv, VecFrameStack
from workloads import BEST, MATCHED, TARGETS
from workloads import PPO as Settings

if "sbx" in sys.argv:
    from flax.linen import relu, tanh
    from sbx import PPO

    RecurrentPPO, ACTIVATIONS = None, {"tanh": tanh, "relu": relu}
    ENVS = {}
else:
    from sb3_contrib import RecurrentPPO
    from stable_baselines3 import PPO

    from rookery.tasks.memory_tasks import StatelessCartPole

    ACTIVATIONS = {"tanh": torch.nn.Tanh, "relu": torch.nn.ReLU}
    ENVS = {"StatelessCartPole": StatelessCartPole}

IMPORTED = seconds_since_start()

VECTORS = {"dummy": DummyVecEnv, "subproc": SubprocVecEnv}


class Layers(BaseFeaturesExtractor):
    """Hidden layers in front of the LSTM, where RecurrentPPO by itself has none."""

    def __init__(self, space: gymnasium.spaces.Box, hidden: tuple[int, ...], activation: type[torch.nn.Module]) -> None:
        super().__init__(space, hidden[-1])
        widths = (space.shape[0], *hidden)
        pairs = zip(widths, hidden, strict=False)
        self.layers = torch.nn.Sequential(*(m for pair in pairs for m in (torch.nn.Linear(*pair), activation())))

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        """Features ``[N, hidden[-1]]``."""
        return self.layers(obs)


class Metered(BaseCallback):
    """Calls the meter after every iteration, which ends where the next one begins to sample."""

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
        env = ENVS.get(settings.env, settings.env)
        return make_vec_env(env, settings.num_envs, seed=seed, vec_env_cls=vector)
    import ale_py

    gymnasium.register_envs(ale_py)
    plain = {"frameskip": 1, "repeat_action_probability": 0.0}  # the wrappers skip frames
    env = make_atari_env(settings.env, settings.num_envs, seed=seed, vec_env_cls=vector, env_kwargs=plain)
    return VecFrameStack(env, 4)


def network(settings: Settings, critic_lstm: bool) -> tuple[str, dict[str, Any]]:
    """The name of the policy's class, and its settings.

    With an LSTM, policy and value are read from it directly. Unless the critic has its own, it stands on the policy's,
    whose output then gets no gradient from values.
    """
    if settings.env.startswith("ALE/"):
        return "CnnPolicy", {}
    activation = ACTIVATIONS[settings.activation]
    if not settings.lstm:
        return "MlpPolicy", {"net_arch": list(settings.hidden), "activation_fn": activation}
    return "MlpLstmPolicy", {
        "features_extractor_class": Layers,
        "features_extractor_kwargs": {"hidden": settings.hidden, "activation": activation},
        "lstm_hidden_size": settings.lstm,
        "shared_lstm": not critic_lstm,
        "enable_critic_lstm": critic_lstm,
        "net_arch": [],
    }


def model(settings: Settings, env: VecEnv, seed: int, critic_lstm: bool) -> PPO | RecurrentPPO:
    """The learner."""
    policy, policy_settings = network(settings, critic_lstm)
    return (RecurrentPPO if settings.lstm else PPO)(
        policy,
        env,
        learning_rate=settings.lr,
        n_steps=settings.fragment_length,
        batch_size=settings.minibatch_size,
        n_epochs=settings.epochs,
        gamma=settings.gamma,
        gae_lambda=settings.gae_lambda,
        clip_range=settings.clip,
        ent_coef=settings.entropy_coef,
        policy_kwargs=policy_settings,
        seed=seed,
        device="cpu",
    )


def main() -> None:
    """Trains and reports."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workload")
    parser.add_argument("--settings", help="settings of cartpole-best, sb3-256 say")
    parser.add_argument("--library", choices=("sb3", "sbx"), default="sb3")
    parser.add_argument("--vector", choices=VECTORS, default="dummy")
    parser.add_argument("--critic-lstm", action="store_true", help="with an LSTM: one more for the critic")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    settings = BEST[args.settings] if args.settings else MATCHED[args.workload]
    meter = Meter(IMPORTED, args.seconds, TARGETS.get(args.workload))
    env = make_env(settings, VECTORS[args.vector], args.seed)
    model(settings, env, args.seed, args.critic_lstm).learn(10**9, callback=Metered(meter))
    names = ["stable-baselines3", "gymnasium"]
    names += ["sbx-rl", "jax"] if args.library == "sbx" else ["sb3-contrib", "torch"]
    meter.report(threads=torch.get_num_threads(), versions={name: version(name) for name in names})
    env.close()


if __name__ == "__main__":
    main()
