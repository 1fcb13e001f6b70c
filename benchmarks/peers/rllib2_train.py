"""Trains a tuned example of RLlib 2.60 until its stop: ``rllib2_train.py ppo|sac --seed N``; prints a line of JSON.

The same file runs on RLlib, with the Python that `install.sh` made, and on Rookery, by ``rookery rllib run``.
Settings are those of ``rllib/examples/algorithms/{ppo/cartpole_ppo,sac/pendulum_sac}.py`` of Ray 2.60, of which those
differ that spread work over processes: one process samples and learns, unless ``--runners`` is given. SAC's returns are
of 3 steps, where the example draws their number from 2 to 5 for each sample.
"""

import argparse
import json
import math
import time

import torch
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.algorithms.sac import SACConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from torch import nn

STOP = {"ppo": (450.0, 4_000_000), "sac": (-250.0, 20_000)}
"""Return and env steps at which each training stops."""


def settings(name, seed, runners):
    """Returns the settings of an example."""
    if name == "ppo":
        config = (
            PPOConfig()
            .environment("CartPole-v1")
            .env_runners(num_env_runners=runners, num_envs_per_env_runner=16)
            .training(lr=0.0003, num_epochs=6, vf_loss_coeff=0.01)
            .rl_module(
                model_config=DefaultModelConfig(fcnet_hiddens=[32], fcnet_activation="linear", vf_share_layers=True)
            )
        )
    else:
        buffer = {"type": "PrioritizedEpisodeReplayBuffer", "capacity": 100_000, "alpha": 1.0, "beta": 0.0}
        config = (
            SACConfig()
            .environment("Pendulum-v1")
            .env_runners(num_env_runners=runners)
            .training(
                initial_alpha=1.001,
                actor_lr=2e-4,
                critic_lr=8e-4,
                alpha_lr=9e-4,
                lr=None,
                target_entropy="auto",
                n_step=3,
                tau=0.005,
                train_batch_size_per_learner=256,
                target_network_update_freq=1,
                replay_buffer_config=buffer,
                num_steps_sampled_before_learning_starts=256,
            )
            .rl_module(
                model_config=DefaultModelConfig(
                    fcnet_hiddens=[256, 256],
                    fcnet_activation="relu",
                    fcnet_kernel_initializer=nn.init.xavier_uniform_,
                    head_fcnet_hiddens=[],
                    head_fcnet_activation=None,
                    head_fcnet_kernel_initializer="orthogonal_",
                    head_fcnet_kernel_initializer_kwargs={"gain": 0.01},
                    fusionnet_hiddens=[256, 256, 256],
                    fusionnet_activation="relu",
                )
            )
            .reporting(metrics_num_episodes_for_smoothing=5)
        )
    return config.debugging(seed=seed).learners(num_learners=0)


def main():
    """Trains, and prints steps, seconds of training, the return at the end, and whether the stop was reached."""
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=sorted(STOP))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--runners", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=600.0)
    given = parser.parse_args()
    torch.set_num_threads(1)
    wanted, budget = STOP[given.name]
    algo = settings(given.name, given.seed, given.runners).build_algo()
    began, steps, score = time.perf_counter(), 0, -math.inf
    while steps < budget and time.perf_counter() - began < given.seconds and score < wanted:
        result = algo.train()
        steps = result["num_env_steps_sampled_lifetime"]
        found = result["env_runners"].get("episode_return_mean")
        score = -math.inf if found is None or math.isnan(found) else float(found)
    seconds = time.perf_counter() - began
    algo.stop()
    print(
        json.dumps({"steps": int(steps), "seconds": seconds, "return": score, "reached": score >= wanted}), flush=True
    )


if __name__ == "__main__":
    main()
