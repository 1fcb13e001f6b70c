"""BenchMARL trains simple_spread: ``benchmarl_spread.py spread-ippo|spread-mappo --seconds N``; prints a line of JSON.

Settings are those of `workloads.py`. BenchMARL counts rows of a minibatch as env steps with all agents, Rookery as
decisions of single agents; the numbers of gradient steps are equal. Environments are TorchRL's copies in one process;
they come from mpe2, the successor of PettingZoo's MPE, which TorchRL's `PettingZooEnv` does not find by name.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
from importlib.metadata import version
from typing import Any

import benchmarl.environments.pettingzoo.common as benchmarl_pettingzoo
import torch
from benchmarl.algorithms import IppoConfig, MappoConfig
from benchmarl.environments import PettingZooTask
from benchmarl.experiment import Callback, Experiment, ExperimentConfig
from benchmarl.models.mlp import MlpConfig
from measure import Meter, seconds_since_start
from mpe2 import simple_spread_v3
from torchrl.envs import PettingZooWrapper
from workloads import MATCHED

IMPORTED = seconds_since_start()
AGENTS = 3


def make_env(task: str, parallel: bool, render_mode: str, **given: Any) -> PettingZooWrapper:
    """Returns the environment, in place of TorchRL's `PettingZooEnv`."""
    names = ("categorical_actions", "device", "seed", "return_state")
    env = simple_spread_v3.parallel_env(**{name: value for name, value in given.items() if name not in names})
    return PettingZooWrapper(env, **{name: given[name] for name in names})


class Enough(Exception):
    """Ends the experiment."""


class Metered(Callback):
    """Calls the meter after every iteration."""

    def __init__(self, meter: Meter) -> None:
        super().__init__()
        self.meter = meter

    def on_train_end(self, training_td: Any, group: str) -> None:
        """An iteration is over."""
        if self.meter.iteration(self.experiment.total_frames, None):
            raise Enough


def main() -> None:
    """Trains and reports."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workload", choices=("spread-ippo", "spread-mappo"))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    settings = MATCHED[args.workload]
    folder = tempfile.mkdtemp()
    config = ExperimentConfig.get_from_yaml()
    for name, value in {
        "sampling_device": "cpu", "train_device": "cpu", "buffer_device": "cpu", "share_policy_params": True,
        "gamma": settings.gamma, "lr": settings.lr, "max_n_frames": 10**9,
        "on_policy_n_envs_per_worker": settings.num_envs,
        "on_policy_collected_frames_per_batch": settings.num_envs * settings.fragment_length,
        "on_policy_n_minibatch_iters": settings.epochs,
        "on_policy_minibatch_size": settings.minibatch_size // AGENTS,
        "prefer_continuous_actions": False,
        "evaluation": False, "render": False, "loggers": [], "create_json": False, "save_folder": folder,
    }.items():  # fmt: skip
        assert hasattr(config, name), name
        setattr(config, name, value)
    algorithm = (IppoConfig if args.workload == "spread-ippo" else MappoConfig).get_from_yaml()
    algorithm.clip_epsilon, algorithm.lmbda, algorithm.entropy_coef = settings.clip, settings.gae_lambda, 0.0
    task = PettingZooTask.SIMPLE_SPREAD.get_from_yaml()
    task.config["max_cycles"] = 25
    benchmarl_pettingzoo.PettingZooEnv = make_env
    network = MlpConfig(
        num_cells=list(settings.hidden), activation_class=torch.nn.Tanh, layer_class=torch.nn.Linear
    )  # fmt: skip
    meter = Meter(IMPORTED, args.seconds, None)
    experiment = Experiment(
        task=task, algorithm_config=algorithm, model_config=network, critic_model_config=network, seed=args.seed,
        config=config, callbacks=[Metered(meter)],
    )  # fmt: skip
    with contextlib.suppress(Enough):
        experiment.run()
    names = ("benchmarl", "torchrl", "pettingzoo", "torch")
    meter.report(threads=torch.get_num_threads(), versions={name: version(name) for name in names})


if __name__ == "__main__":
    main()
