"""rsl-rl trains PPO on Pendulum-v1: ``rsl_rl_ppo.py pendulum-matched --seconds N``; prints a line of JSON.

Run it with the Python that `install.sh` made and with `benchmarks` on PYTHONPATH, as `benchmarks/run.py` does. The
library has distributions of continuous actions only, so that it has a workload of its own; its OnPolicyRunner trains on
Gymnasium's SyncVectorEnv, which is given the library's interface here. Settings are those that Rookery has; what they
do not name is that of the other libraries, but that the library clips gradients of each network by themselves. Its
`torch_compile_mode` is left out: with it, training takes half as long again for networks of this size.
"""

from __future__ import annotations

import argparse
import contextlib
import io
from collections import deque
from importlib.metadata import version
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from measure import Meter, seconds_since_start
from rsl_rl.env import VecEnv
from rsl_rl.runners import OnPolicyRunner
from tensordict import TensorDict
from workloads import MATCHED
from workloads import PPO as Settings

IMPORTED = seconds_since_start()

VALUE_COEF, MAX_GRAD_NORM = 0.5, 0.5
"""What `workloads.PPO` does not name, since it is the default of the other libraries."""


class Enough(Exception):
    """Ends the training."""


class Copies(VecEnv):
    """Gymnasium's copies in one process, as the library takes them."""

    def __init__(self, settings: Settings, seed: int) -> None:
        makers = [lambda: gymnasium.make(settings.env)] * settings.num_envs
        self.envs = SyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP)
        space = self.envs.single_action_space
        self.low, self.high = space.low, space.high
        self.num_envs, self.num_actions = settings.num_envs, space.shape[0]
        self.max_episode_length = self.envs.envs[0].spec.max_episode_steps
        self.episode_length_buf = torch.zeros(self.num_envs, dtype=torch.long)  # the environments count by themselves
        self.device, self.cfg = "cpu", {}
        self.running, self.episodes = np.zeros(self.num_envs), deque[float](maxlen=100)
        self.obs = self._named(self.envs.reset(seed=seed)[0])

    def get_observations(self) -> TensorDict:
        """Those at this moment."""
        return self.obs

    def step(self, actions: torch.Tensor) -> tuple[TensorDict, torch.Tensor, torch.Tensor, dict[str, Any]]:
        """Steps all copies with actions clipped to their bounds."""
        obs, reward, fell, cut, _ = self.envs.step(actions.numpy().clip(self.low, self.high))
        ended = fell | cut
        self.running += reward
        if ended.any():
            self.episodes.extend(self.running[ended].tolist())
            self.running[ended] = 0.0
        self.obs = self._named(obs)
        timed_out = torch.from_numpy(cut & ~fell).float()
        return self.obs, torch.from_numpy(reward).float(), torch.from_numpy(ended), {"time_outs": timed_out}

    def _named(self, obs: np.ndarray) -> TensorDict:
        return TensorDict({"policy": torch.from_numpy(obs)}, batch_size=self.num_envs)


def configuration(settings: Settings) -> dict[str, Any]:
    """Settings of the runner."""
    network = {"class_name": "MLPModel", "hidden_dims": list(settings.hidden), "activation": settings.activation}
    return {
        "num_steps_per_env": settings.fragment_length,
        "save_interval": 10**9,
        "check_for_nan": False,
        "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
        "actor": {**network, "distribution_cfg": {"class_name": "GaussianDistribution", "std_type": "log"}},
        "critic": network,
        "algorithm": {
            "class_name": "PPO",
            "num_learning_epochs": settings.epochs,
            "num_mini_batches": settings.num_envs * settings.fragment_length // settings.minibatch_size,
            "learning_rate": settings.lr,
            "schedule": "fixed",
            "gamma": settings.gamma,
            "lam": settings.gae_lambda,
            "clip_param": settings.clip,
            "entropy_coef": settings.entropy_coef,
            "value_loss_coef": VALUE_COEF,
            "use_clipped_value_loss": False,
            "max_grad_norm": MAX_GRAD_NORM,
            "normalize_advantage_per_mini_batch": True,
        },
    }


def train(settings: Settings, seed: int, meter: Meter) -> None:
    """Iterations until the meter has seen enough."""
    torch.manual_seed(seed)
    env = Copies(settings, seed)
    runner = OnPolicyRunner(env, configuration(settings))
    steps = settings.num_envs * settings.fragment_length

    def log(it: int, **_: Any) -> None:
        episodes = env.episodes
        if meter.iteration((it + 1) * steps, sum(episodes) / len(episodes) if episodes else None):
            raise Enough

    runner.logger.log = log  # called at the end of every iteration
    with contextlib.suppress(Enough):
        runner.learn(10**9)
    env.envs.close()


def main() -> None:
    """Trains and reports."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workload", choices=("pendulum-matched",))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    meter = Meter(IMPORTED, args.seconds, None)
    with contextlib.redirect_stdout(io.StringIO()):  # it prints its networks
        train(MATCHED[args.workload], args.seed, meter)
    names = ("rsl-rl-lib", "tensordict", "gymnasium", "torch")
    meter.report(threads=torch.get_num_threads(), versions={name: version(name) for name in names})


if __name__ == "__main__":
    main()
