"""RLlib trains at the settings of its tutorial of 2021: ``rllib_tutorial.py one|two --iterations N``; prints JSON.

What the tutorial leaves at its defaults is what RLlib's defaults still are: batches of 4,000 steps from two runners, 30
passes in minibatches of 128, two layers of 256, the KL penalty on. `benchmarks/studies/rllib_tutorial.py` starts it.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import time

import ray
import torch
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from rllib_ppo import Arena, flatten, own_policy, shared_policy

RATES = {"pol1": 3e-4, "pol2": 4e-4}


def configured(two: bool, seed: int) -> PPOConfig:
    """The tutorial's configuration in the words of today."""
    overrides = {name: PPOConfig.overrides(lr=rate) for name, rate in RATES.items()}
    network = DefaultModelConfig(fcnet_hiddens=[256, 256], fcnet_activation="tanh", vf_share_layers=False)
    return (
        PPOConfig()
        .environment(Arena)
        .env_runners(num_env_runners=2, rollout_fragment_length=200, env_to_module_connector=flatten)
        .training(
            lr=5e-5,
            train_batch_size_per_learner=4000,
            num_epochs=30,
            minibatch_size=128,
            use_kl_loss=True,
            kl_coeff=0.2,
            kl_target=0.01,
            clip_param=0.3,
            lambda_=1.0,
        )
        .rl_module(model_config=network)
        .multi_agent(
            policies=set(RATES) if two else {"shared"},
            policy_mapping_fn=own_policy if two else shared_policy,
            algorithm_config_overrides_per_module=overrides if two else {},
        )
        .debugging(seed=seed, log_level="ERROR")
    )


def main() -> None:
    """Trains and reports the seconds of each iteration after the first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workload", choices=["one", "two"])
    parser.add_argument("--iterations", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    ray.init(num_cpus=os.cpu_count() + 1, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    algorithm = configured(args.workload == "two", args.seed).build_algo()
    seconds, steps = [], 0
    for _ in range(args.iterations + 1):
        began = time.perf_counter()
        result = algorithm.train()
        seconds.append(time.perf_counter() - began)
        steps = int(result["env_runners"]["num_env_steps_sampled_lifetime"])
    told = {"seconds": seconds[1:], "env_steps": steps / len(seconds), "version": f"RLlib {ray.__version__}"}
    print(json.dumps(told), flush=True)
    algorithm.stop()
    ray.shutdown()


if __name__ == "__main__":
    main()
