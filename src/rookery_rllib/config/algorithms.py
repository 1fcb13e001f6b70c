"""Algorithms of 2021: what each is here, what it changes of the defaults, and what is to be said of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

A = "algorithm."
M = "algorithm.model."
X = "algorithm.exploration."
R = "algorithm.replay."
"""What paths of settings begin with."""

PPO_KIND = ("PPO", "DDPPO")
A2C_KIND = ("A2C", "A3C")
IMPALA_KIND = ("IMPALA", "APPO")
ON_POLICY = (*PPO_KIND, *A2C_KIND, *IMPALA_KIND)

DQN_KIND = ("DQN", "R2D2", "APEX")
Q_KIND = (*DQN_KIND, "SimpleQ")
DDPG_KIND = ("DDPG", "TD3", "APEX_DDPG")
APEX_KIND = ("APEX", "APEX_DDPG")
OFF_POLICY = (*Q_KIND, "SAC", *DDPG_KIND)


@dataclass(frozen=True)
class OldAlgorithm:
    """An algorithm of 2021.

    Attributes:
        name: Our algorithm.
        base: The algorithm whose keys and changes it begins with; empty = it begins with what all have.
        changes: Defaults that are not those of the rows, or of the base.
        line: What is to be said of it if it is here by another name, or in another form.
    """

    name: str
    base: str = ""
    changes: Mapping[str, Any] = field(default_factory=dict)
    line: str = ""


EPSILON_GREEDY = {"type": "EpsilonGreedy", "initial_epsilon": 1.0, "final_epsilon": 0.02, "epsilon_timesteps": 10000}

FROM_REPLAY = {"num_workers": 0, "min_iter_time_s": 1, "timesteps_per_iteration": 1000}

AHEAD = (
    "plays one batch while it learns from another here, by weights that are one update older: equal seeds give equal "
    "runs"
)

APEX = {
    "optimizer": {"max_weight_sync_delay": 400, "num_replay_buffer_shards": 4, "debug": False},
    "n_step": 3,
    "num_workers": 32,
    "buffer_size": 2_000_000,
    "learning_starts": 50_000,
    "train_batch_size": 512,
    "rollout_fragment_length": 50,
    "target_network_update_freq": 500_000,
    "timesteps_per_iteration": 25_000,
    "worker_side_prioritization": True,
    "min_iter_time_s": 30,
}

ALGORITHMS = {
    "PPO": OldAlgorithm("ppo", changes={"train_batch_size": 4000, "lr": 5e-5, "model": {"vf_share_layers": False}}),
    "DDPPO": OldAlgorithm(
        "ppo",
        base="PPO",
        changes={
            "rollout_fragment_length": 100,
            "num_envs_per_worker": 5,
            "sgd_minibatch_size": 50,
            "num_sgd_iter": 10,
            "framework": "torch",
            "num_gpus_per_worker": 1,
            "train_batch_size": -1,
        },
        line="DDPPO is PPO here: one learner with the batch of all workers",
    ),
    "A2C": OldAlgorithm(
        "a2c",
        base="A3C",
        changes={"rollout_fragment_length": 20, "min_iter_time_s": 10, "sample_async": False},
        line="A2C learns by RMSprop here, and by Adam there",
    ),
    "A3C": OldAlgorithm(
        "a2c",
        changes={
            "rollout_fragment_length": 10,
            "grad_clip": 40.0,
            "entropy_coeff": 0.01,
            "min_iter_time_s": 5,
            "sample_async": True,
        },
        line="A3C is A2C here: gradients of one moment, and none of older weights",
    ),
    "IMPALA": OldAlgorithm(
        "impala",
        changes={
            "rollout_fragment_length": 50,
            "train_batch_size": 500,
            "min_iter_time_s": 10,
            "num_gpus": 1,
            "grad_clip": 40.0,
            "lr": 0.0005,
            "entropy_coeff": 0.01,
        },
        line=f"IMPALA {AHEAD}",
    ),
    "APPO": OldAlgorithm(
        "appo",
        base="IMPALA",
        changes={"clip_param": 0.4, "num_gpus": 0, "replay_buffer_num_slots": 100},
        line=f"APPO {AHEAD}",
    ),
    "PG": OldAlgorithm("reinforce", changes={"num_workers": 0, "lr": 0.0004}),
    "DQN": OldAlgorithm("dqn", base="SimpleQ"),
    "SimpleQ": OldAlgorithm(
        "dqn",
        changes={
            **FROM_REPLAY,
            "exploration_config": EPSILON_GREEDY,
            "evaluation_config": {"explore": False},
            "lr": 5e-4,
            "grad_clip": 40,
            "rollout_fragment_length": 4,
            "train_batch_size": 32,
        },
    ),
    "R2D2": OldAlgorithm(
        "dqn",
        base="DQN",
        changes={
            "lr": 1e-4,
            "gamma": 0.997,
            "train_batch_size": 64 * 20,
            "adam_epsilon": 1e-3,
            "num_workers": 2,
            "batch_mode": "complete_episodes",
            "buffer_size": 100000,
            "prioritized_replay": False,
            "replay_sequence_length": -1,
            "target_network_update_freq": 2500,
        },
        line="R2D2 is DQN on sequences, from what was remembered when they were played",
    ),
    "SAC": OldAlgorithm(
        "sac",
        changes={
            **FROM_REPLAY,
            "normalize_actions": True,
            "timesteps_per_iteration": 100,
            "buffer_size": 1_000_000,
            "prioritized_replay": False,
            "rollout_fragment_length": 1,
            "train_batch_size": 256,
        },
    ),
    "DDPG": OldAlgorithm(
        "ddpg",
        changes={
            **FROM_REPLAY,
            "twin_q": False,
            "use_state_preprocessor": False,
            "exploration_config": {
                "type": "OrnsteinUhlenbeckNoise",
                "random_timesteps": 1000,
                "ou_base_scale": 0.1,
                "ou_theta": 0.15,
                "ou_sigma": 0.2,
                "initial_scale": 1.0,
                "final_scale": 1.0,
                "scale_timesteps": 10000,
            },
            "evaluation_config": {"explore": False},
            "tau": 0.002,
            "rollout_fragment_length": 1,
            "train_batch_size": 256,
        },
    ),
    "TD3": OldAlgorithm(
        "td3",
        base="DDPG",
        changes={
            "twin_q": True,
            "policy_delay": 2,
            "smooth_target_policy": True,
            "exploration_config": {
                "type": "GaussianNoise",
                "random_timesteps": 10000,
                "stddev": 0.1,
                "initial_scale": 1.0,
                "final_scale": 1.0,
                "scale_timesteps": 1,
            },
            "learning_starts": 10000,
            "l2_reg": 0.0,
            "tau": 5e-3,
            "train_batch_size": 100,
            "buffer_size": 1_000_000,
            "prioritized_replay": False,
            "clip_rewards": False,
        },
    ),
    "APEX": OldAlgorithm(
        "dqn",
        base="DQN",
        changes={**APEX, "num_gpus": 1, "exploration_config": {"type": "PerWorkerEpsilonGreedy"}},
        line="APEX plays all copies in step here, each with an epsilon of its own, by its number; priorities are the "
        "learner's",
    ),
    "APEX_DDPG": OldAlgorithm(
        "ddpg",
        base="DDPG",
        changes={**APEX, "exploration_config": {"type": "PerWorkerOrnsteinUhlenbeckNoise"}},
        line="APEX_DDPG plays all copies in step here, each with noise of its own size, by its number; priorities "
        "are the learner's",
    ),
    "QMIX": OldAlgorithm(
        "qmix",
        changes={
            **FROM_REPLAY,
            "evaluation_config": {"explore": False},
            "exploration_config": EPSILON_GREEDY,
            "lr": 0.0005,
            "rollout_fragment_length": 4,
            "train_batch_size": 32,
            "model": {"lstm_cell_size": 64, "max_seq_len": 999999},
        },
        line="QMIX learns sequences of up to 16 decisions here, and whole episodes there",
    ),
    "MADDPG": OldAlgorithm(
        "maddpg",
        changes={
            "gamma": 0.95,
            "buffer_size": 1_000_000,
            "grad_norm_clipping": 0.5,
            "learning_starts": 1024 * 25,
            "rollout_fragment_length": 100,
            "train_batch_size": 1024,
            "num_workers": 1,
            "timesteps_per_iteration": 1000,
        },
        line="MADDPG has one critic of the sum of all rewards here, and one for each agent there; its agents are the "
        "members of one policy",
    ),
}
"""The algorithms by the names of 2021."""

LINES_ON_CLUSTER = {
    **{
        name: f"{name} learns from what workers on the cluster send, whatever weights they had: equal seeds give runs "
        "that differ"
        for name in IMPALA_KIND
    },
    **{
        name: f"{name}: copies explore each at a rate of its own, by its number; workers on the cluster play on: "
        "equal seeds give runs that differ"
        for name in APEX_KIND
    },
}
"""What is said of algorithms instead where workers play on a cluster."""


def pins(algorithm: str) -> dict[str, Any]:
    """Returns what no key says, and a preset for a space would: so that none of them interferes."""
    values: dict[str, Any] = {
        f"{M}layer_norm": False, f"{M}shared_trunk": False, f"{M}obs_clip": 10.0, f"{M}log_std_init": 0.0,
        f"{M}codes": (), f"{M}precision": "float32",
    }  # fmt: skip
    if algorithm in PPO_KIND:
        return values | {
            f"{A}normalize_advantage": "batch", f"{A}scale_rewards": False, f"{A}normalize_values": False,
            f"{A}target_kl": None, f"{A}adam_eps": 1e-8,
        }  # fmt: skip
    if algorithm in A2C_KIND:
        return values | {f"{A}normalize_advantage": False, f"{A}scale_rewards": False, f"{A}normalize_values": False}
    if algorithm in IMPALA_KIND:
        values |= {
            f"{A}normalize_advantage": False, f"{A}scale_rewards": False, f"{A}normalize_values": False,
            f"{A}gae_lambda": 1.0, f"{A}c_bar": 1.0, f"{A}adam_eps": 1e-8,
        }  # fmt: skip
        own = {f"{A}target_every": 1, f"{A}target_kl": None, f"{A}value_clip": None}
        return values if algorithm == "IMPALA" else values | own
    if algorithm == "PG":
        return values | {
            f"{A}normalize_returns": False, f"{A}entropy_coef": 0.0, f"{A}max_grad_norm": None, f"{A}adam_eps": 1e-8
        }  # fmt: skip
    if algorithm == "QMIX":
        return values | {
            f"{A}n_step": 1, f"{A}dueling": False, f"{A}values.kind": "mean", f"{A}share": True, f"{R}burn_in": 0,
            f"{A}target.kind": "hard",
        }  # fmt: skip
    if algorithm == "MADDPG":
        return values | {f"{A}adam_eps": 1e-8, f"{A}critic.number": 1, f"{A}share": False, f"{R}burn_in": 0}
    if algorithm == "SimpleQ":
        values |= {
            f"{A}n_step": 1, f"{A}double": False, f"{A}dueling": False, f"{A}dueling_hidden": (),
            f"{A}values.kind": "mean", f"{A}values.rescale": False,
        }  # fmt: skip
    if algorithm != "R2D2":
        values[f"{R}burn_in"] = 0
    if algorithm in Q_KIND:
        return values | {f"{A}target.kind": "hard"}
    values |= {f"{A}adam_eps": 1e-7, f"{A}critic.norm": "none", f"{A}critic.quantiles": None}
    if algorithm == "SAC":
        values |= {f"{A}alpha": None, f"{A}entropy_share": 0.98, f"{A}log_std": "clamp"}
    return values
