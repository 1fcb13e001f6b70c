"""Defaults of RLlib 2.60, as keys of 2021 that differ from the defaults of then."""

from __future__ import annotations

from functools import cache
from typing import Any

from rookery_rllib.config.defaults import DEFAULT_CONFIGS, Config, merge_trainer_configs

AUTO = "auto"
"""Value of ``rollout_fragment_length``: as many steps as the algorithm needs for a batch."""

COMMON: Config = {"num_workers": 0, "framework": "torch"}

EPSILON = {"type": "EpsilonGreedy", "epsilon_schedule": {
    "type": "PiecewiseSchedule", "endpoints": [(0, 1.0), (10000, 0.05)],
}}  # fmt: skip

CHANGES: dict[str, Config] = {
    "PPO": {"num_workers": 2, "rollout_fragment_length": AUTO, "_clip_vf_loss": True},
    "IMPALA": {"num_workers": 2, "num_gpus": 0},
    "APPO": {"num_workers": 2, "num_gpus": 0, "minibatch_buffer_size": 8, "num_sgd_iter": 2},
    "DQN": {"rollout_fragment_length": AUTO, "exploration_config": EPSILON, "hiddens": []},
    "SAC": {
        "rollout_fragment_length": AUTO, "prioritized_replay": True, "optimization": {
            "actor_learning_rate": 3e-5, "critic_learning_rate": 3e-4, "entropy_learning_rate": 3e-4,
        },
    },
    "CQL": {"optimization": {
        "actor_learning_rate": 1e-4, "critic_learning_rate": 1e-3, "entropy_learning_rate": 1e-3,
    }},
}  # fmt: skip
"""By algorithm, the keys whose defaults differ on the new stack."""

OLD_STACK: dict[str, Config] = {
    "DQN": {"hiddens": [256], "exploration_config": {
        "type": "EpsilonGreedy", "initial_epsilon": 1.0, "final_epsilon": 0.02, "epsilon_timesteps": 10000,
    }},
    "SAC": {"optimization": {
        "actor_learning_rate": 3e-4, "critic_learning_rate": 3e-4, "entropy_learning_rate": 3e-4,
    }},
}  # fmt: skip
"""Defaults of the old stack that differ from those of the new one."""


@cache
def changes(algorithm: str, old_stack: bool = False) -> Config:
    """Returns the defaults of 2.60 that differ from those of 2021."""
    made = COMMON | CHANGES.get(algorithm, {})
    return made | OLD_STACK.get(algorithm, {}) if old_stack else made


def default_config(algorithm: str, old_stack: bool = False) -> Config:
    """Returns all keys of an algorithm with the defaults of 2.60."""
    return merge_trainer_configs(DEFAULT_CONFIGS[algorithm], changes(algorithm, old_stack), True)


def fragment_length(algorithm: str, config: Config) -> Any:
    """Returns ``rollout_fragment_length`` in steps of one environment, for ``"auto"`` too."""
    given = config["rollout_fragment_length"]
    if given != AUTO:
        return given
    if "n_step" in config:
        return config["n_step"]
    lanes = max(int(config["num_workers"]), 1) * int(config["num_envs_per_worker"])
    return max(-(-int(config["train_batch_size"]) // lanes), 1)
