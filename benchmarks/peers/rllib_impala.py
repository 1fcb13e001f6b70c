"""RLlib's IMPALA with one copy of a slow environment each env runner: ``rllib_impala.py RUNNERS --seconds N``.

It prints a line of JSON: env steps a second and a CPU second, without the start. Run it with the Python that
`install.sh` made and with `benchmarks` on PYTHONPATH, as ``benchmarks/studies/workers.py --rllib`` does. It uses the
new API stack. By RLlib's default a learner and two actors that aggregate batches have processes of their own; with
``--learners 0 --aggregators 0`` the learner is in the driver, as ours is.
"""

from __future__ import annotations

import argparse
import json
import logging
import time
from importlib.metadata import version

import ray
import torch
from ray.rllib.algorithms.impala import IMPALAConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from sleeper import BATCH, FRAGMENT, HIDDEN, IN_FLIGHT, Sleeper, processor_seconds


def main() -> None:
    """Trains and reports."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runners", type=int)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument(
        "--in-flight", type=int, default=IN_FLIGHT, help="fragments that each runner is asked for ahead"
    )
    parser.add_argument("--learners", type=int, default=1, help="learners of their own; 0 = in the driver")
    parser.add_argument("--aggregators", type=int, default=2, help="aggregator actors of each learner")
    args = parser.parse_args()
    torch.set_num_threads(1)
    cores = args.runners + 1 + args.learners * (1 + args.aggregators)
    ray.init("local", num_cpus=cores, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    config = (
        IMPALAConfig()
        .environment(Sleeper)
        .env_runners(
            num_env_runners=args.runners, num_envs_per_env_runner=1, rollout_fragment_length=FRAGMENT,
            max_requests_in_flight_per_env_runner=args.in_flight,
        )
        .learners(num_learners=args.learners, num_aggregator_actors_per_learner=args.aggregators)
        .training(train_batch_size_per_learner=BATCH)
        .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=list(HIDDEN), vf_share_layers=False))
        .reporting(min_time_s_per_iteration=1)
        .debugging(seed=0, log_level="ERROR")
    )  # fmt: skip
    algorithm = config.build_algo()

    def played() -> int:
        return int(algorithm.train()["env_runners"].get("num_env_steps_sampled_lifetime", 0))

    def grown(before: int) -> int:
        """Plays on until the count grows, which it does by whole fragments or batches."""
        while (now := played()) == before:
            pass
        return now

    now = 0
    while now < max(200 * args.runners, 2 * BATCH):
        now = grown(now)
    steps = now
    began, used = time.perf_counter(), processor_seconds()
    while time.perf_counter() - began < args.seconds:
        now = grown(now)
    took, spent = time.perf_counter() - began, processor_seconds() - used
    found = {"rate": (now - steps) / took, "per_processor_second": (now - steps) / spent, "ray": version("ray")}
    print(json.dumps(found), flush=True)
    algorithm.stop()
    ray.shutdown()


if __name__ == "__main__":
    main()
