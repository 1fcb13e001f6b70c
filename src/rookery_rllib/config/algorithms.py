"""Algorithms of 2021: the algorithm each maps to, its changes of the defaults, and its note."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

A = "algorithm."
M = "algorithm.model."
X = "algorithm.exploration."
R = "algorithm.replay."
"""Prefixes of settings paths."""

DEFAULT_POLICY_ID = "default_policy"
"""Name of the only policy of a configuration that names none."""

PPO_KIND = ("PPO", "DDPPO")
A2C_KIND = ("A2C", "A3C")
IMPALA_KIND = ("IMPALA", "APPO")
ON_POLICY = (*PPO_KIND, *A2C_KIND, *IMPALA_KIND)

DQN_KIND = ("DQN", "R2D2", "APEX")
Q_KIND = (*DQN_KIND, "SimpleQ")
DDPG_KIND = ("DDPG", "TD3", "APEX_DDPG")
APEX_KIND = ("APEX", "APEX_DDPG")
SAC_KIND = ("SAC", "CQL")
OFF_POLICY = (*Q_KIND, *SAC_KIND, *DDPG_KIND)

CLONING_KIND = ("MARWIL", "BC")
OFFLINE = (*CLONING_KIND, "CQL")
"""Algorithms that learn from recorded experience (`input`)."""

EVOLUTION = ("ES", "ARS")
"""Algorithms that learn from the returns of candidates."""

BANDITS = ("LinUCB", "LinTS")
"""Algorithms that learn the rewards of single decisions."""

ONE_STEP = {
    "num_workers": 0, "framework": "torch", "rollout_fragment_length": 1, "train_batch_size": 1,
    "timesteps_per_iteration": 100,
}  # fmt: skip


@dataclass(frozen=True)
class OldAlgorithm:
    """An algorithm of 2021.

    Attributes:
        name: Our algorithm.
        base: The algorithm whose keys and changes it inherits; empty = those of all algorithms.
        changes: Defaults that differ from those of the rows, or of the base.
        line: Note for the user if it runs under another name, or in another form.
    """

    name: str
    base: str = ""
    changes: Mapping[str, Any] = field(default_factory=dict)
    line: str = ""


EPSILON_GREEDY = {"type": "EpsilonGreedy", "initial_epsilon": 1.0, "final_epsilon": 0.02, "epsilon_timesteps": 10000}

OU_NOISE = {
    "type": "OrnsteinUhlenbeckNoise", "random_timesteps": 1000, "ou_base_scale": 0.1, "ou_theta": 0.15, "ou_sigma": 0.2,
    "initial_scale": 1.0, "final_scale": 1.0, "scale_timesteps": 10000,
}  # fmt: skip

GAUSSIAN_NOISE = {
    "type": "GaussianNoise", "random_timesteps": 10000, "stddev": 0.1,
    "initial_scale": 1.0, "final_scale": 1.0, "scale_timesteps": 1,
}  # fmt: skip

AHEAD = (
    "collects one batch while it learns from another here, with weights one update older: equal seeds give equal runs"
)

FROM_REPLAY = {"num_workers": 0, "min_iter_time_s": 1, "timesteps_per_iteration": 1000}

APEX = {
    "optimizer": {"max_weight_sync_delay": 400, "num_replay_buffer_shards": 4, "debug": False},
    "num_workers": 32, "rollout_fragment_length": 50, "train_batch_size": 512, "timesteps_per_iteration": 25_000,
    "min_iter_time_s": 30, "buffer_size": 2_000_000, "learning_starts": 50_000, "n_step": 3,
    "target_network_update_freq": 500_000, "worker_side_prioritization": True,
}  # fmt: skip

ALGORITHMS = {
    "PPO": OldAlgorithm("ppo", changes={"train_batch_size": 4000, "lr": 5e-5, "model": {"vf_share_layers": False}}),
    "DDPPO": OldAlgorithm("ppo", "PPO", {
        "rollout_fragment_length": 100, "num_envs_per_worker": 5, "train_batch_size": -1, "sgd_minibatch_size": 50,
        "num_sgd_iter": 10, "framework": "torch", "num_gpus_per_worker": 1,
    }, "DDPPO is PPO here: one learner with the batch of all workers"),
    "A2C": OldAlgorithm("a2c", "A3C", {
        "rollout_fragment_length": 20, "min_iter_time_s": 10, "sample_async": False,
    }),
    "A3C": OldAlgorithm("a2c", "", {
        "rollout_fragment_length": 10, "grad_clip": 40.0, "entropy_coeff": 0.01, "min_iter_time_s": 5,
        "sample_async": True,
    }, "A3C is A2C here: synchronous gradients, without stale weights"),
    "IMPALA": OldAlgorithm("impala", "", {
        "rollout_fragment_length": 50, "train_batch_size": 500, "min_iter_time_s": 10, "num_gpus": 1,
        "grad_clip": 40.0, "lr": 0.0005, "entropy_coeff": 0.01,
    }, f"IMPALA {AHEAD}"),
    "APPO": OldAlgorithm("appo", "IMPALA", {
        "clip_param": 0.4, "num_gpus": 0, "replay_buffer_num_slots": 100,
    }, f"APPO {AHEAD}"),
    "PG": OldAlgorithm("reinforce", changes={"num_workers": 0, "lr": 0.0004}),
    "DQN": OldAlgorithm("dqn", "SimpleQ"),
    "SimpleQ": OldAlgorithm("dqn", changes={
        **FROM_REPLAY, "exploration_config": EPSILON_GREEDY, "evaluation_config": {"explore": False}, "lr": 5e-4,
        "grad_clip": 40, "rollout_fragment_length": 4, "train_batch_size": 32,
    }),
    "R2D2": OldAlgorithm("dqn", "DQN", {
        "lr": 1e-4, "gamma": 0.997, "train_batch_size": 64 * 20, "adam_epsilon": 1e-3, "num_workers": 2,
        "batch_mode": "complete_episodes", "buffer_size": 100000, "prioritized_replay": False,
        "replay_sequence_length": -1, "target_network_update_freq": 2500,
    }, "R2D2 is DQN on sequences, from the recurrent states stored with them"),
    "SAC": OldAlgorithm("sac", changes={
        **FROM_REPLAY, "timesteps_per_iteration": 100, "rollout_fragment_length": 1, "train_batch_size": 256,
        "normalize_actions": True, "buffer_size": 1_000_000, "prioritized_replay": False,
    }),
    "CQL": OldAlgorithm("cql", "SAC", {"input_evaluation": []}),
    "MARWIL": OldAlgorithm("marwil", changes={
        "postprocess_inputs": True, "batch_mode": "complete_episodes", "train_batch_size": 2000, "num_workers": 0,
    }),
    "BC": OldAlgorithm("bc", "MARWIL", {"beta": 0.0, "postprocess_inputs": False, "input_evaluation": []}),
    "DDPG": OldAlgorithm("ddpg", changes={
        **FROM_REPLAY, "rollout_fragment_length": 1, "train_batch_size": 256, "exploration_config": OU_NOISE,
        "evaluation_config": {"explore": False}, "twin_q": False, "tau": 0.002, "use_state_preprocessor": False,
    }),
    "TD3": OldAlgorithm("td3", "DDPG", {
        "twin_q": True, "policy_delay": 2, "smooth_target_policy": True, "exploration_config": GAUSSIAN_NOISE,
        "learning_starts": 10000, "l2_reg": 0.0, "tau": 5e-3, "train_batch_size": 100, "buffer_size": 1_000_000,
        "prioritized_replay": False, "clip_rewards": False,
    }),
    "APEX": OldAlgorithm("dqn", "DQN", {
        **APEX, "num_gpus": 1, "exploration_config": {"type": "PerWorkerEpsilonGreedy"},
    }, "APEX steps all environments in lockstep here, each with its own epsilon by index; priorities are the "
       "learner's"),
    "APEX_DDPG": OldAlgorithm("ddpg", "DDPG", {
        **APEX, "exploration_config": {"type": "PerWorkerOrnsteinUhlenbeckNoise"},
    }, "APEX_DDPG steps all environments in lockstep here, each with its own noise scale by index; priorities are the "
       "learner's"),
    "ES": OldAlgorithm("es", changes={
        "num_workers": 10, "observation_filter": "MeanStdFilter", "train_batch_size": 10_000,
    }),
    "ARS": OldAlgorithm("ars", changes={
        "observation_filter": "MeanStdFilter", "eval_prob": 0.03, "action_noise_std": 0.0,
    }),
    "LinUCB": OldAlgorithm("linucb", changes={
        **ONE_STEP, "exploration_config": {"type": "ray.rllib.contrib.bandits.exploration.UCB"},
    }),
    "LinTS": OldAlgorithm("lints", "", {
        **ONE_STEP, "exploration_config": {"type": "ray.rllib.contrib.bandits.exploration.ThompsonSampling"},
    }, "LinTS draws weights with the covariance of the posterior here; in RLlib it stays that of the prior"),
    "QMIX": OldAlgorithm("qmix", "", {
        **FROM_REPLAY, "exploration_config": EPSILON_GREEDY, "evaluation_config": {"explore": False}, "lr": 0.0005,
        "rollout_fragment_length": 4, "train_batch_size": 32,
        "model": {"lstm_cell_size": 64, "max_seq_len": 999999},
    }, "QMIX learns sequences of up to 16 decisions here, and whole episodes there"),
    "MADDPG": OldAlgorithm("maddpg", "", {
        "num_workers": 1, "timesteps_per_iteration": 1000, "rollout_fragment_length": 100, "train_batch_size": 1024,
        "gamma": 0.95, "buffer_size": 1_000_000, "learning_starts": 1024 * 25, "grad_norm_clipping": 0.5,
    }, "MADDPG has one critic of the summed reward here, and one for each agent there; its agents are the members "
       "of one policy"),
}  # fmt: skip
"""The algorithms by the names of 2021."""

LINES_ON_CLUSTER = {
    **{
        name: f"{name} learns from rollouts of cluster workers, made with any weights: equal seeds give runs "
        "that differ"
        for name in IMPALA_KIND
    },
    **{
        name: f"{name}: each environment explores with its own rate, by index; workers on the cluster do not wait: "
        "equal seeds give runs that differ"
        for name in APEX_KIND
    },
}
"""Notes of algorithms whose workers run on a cluster."""


PINS: list[tuple[Collection[str], dict[str, Any]]] = [
    (ALGORITHMS, {
        "model.layer_norm": False, "model.shared_trunk": False, "model.obs_clip": 10.0, "model.log_std_init": 0.0,
        "model.categorical_images": (), "model.precision": "float32", "model.initial_weights": "orthogonal",
    }),
    ((*ON_POLICY, "PG", *Q_KIND), {"model.initial_weights": "unit_rows"}),
    (PPO_KIND, {
        "normalize_advantage": "batch", "scale_rewards": False, "normalize_values": False, "target_kl": None,
        "log_std_min": -20.0, "log_std_max": 2.0, "adam_eps": 1e-8,
    }),
    ((*A2C_KIND, *IMPALA_KIND), {
        "normalize_advantage": False, "scale_rewards": False, "normalize_values": False,
    }),
    (A2C_KIND, {"optimizer": "adam", "adam_eps": 1e-8}),
    (IMPALA_KIND, {"gae_lambda": 1.0, "c_bar": 1.0, "adam_eps": 1e-8}),
    (("APPO",), {
        "target_every": 1, "target_kl": None, "value_clip": None, "log_std_min": -20.0, "log_std_max": 2.0,
    }),
    (("PG",), {"normalize_returns": False, "entropy_coef": 0.0, "max_grad_norm": None, "adam_eps": 1e-8}),
    (("QMIX",), {
        "n_step": 1, "dueling": False, "values.kind": "mean", "share": True, "replay.burn_in": 0,
        "target.kind": "hard",
    }),
    (("MADDPG",), {"adam_eps": 1e-8, "critic.number": 1, "share": False, "replay.burn_in": 0}),
    (("SimpleQ",), {
        "n_step": 1, "double": False, "dueling": False, "dueling_hidden": (), "values.kind": "mean",
        "values.rescale": False,
    }),
    (("DQN", "SimpleQ", "APEX", *SAC_KIND, *DDPG_KIND), {"replay.burn_in": 0}),
    (EVOLUTION, {"episodes_per_candidate": 1, "max_grad_norm": None}),
    (("ES",), {"return_shaping": "ranks", "optimizer": "adam"}),
    (("ARS",), {"weight_decay": 0.0}),
    (BANDITS, {"discount": 1.0, "intercept": False}),
    (CLONING_KIND, {"validation": 0.0, "distribution": "gaussian", "entropy_coef": 0.0, "adam_eps": 1e-8}),
    (Q_KIND, {"target.kind": "hard"}),
    ((*SAC_KIND, *DDPG_KIND), {"adam_eps": 1e-7, "critic.norm": "none", "critic.quantiles": None}),
    (("SAC",), {"critic.huber": 1.0}),
    (SAC_KIND, {"alpha": None, "entropy_share": 0.98, "log_std": "clamp"}),
    (("CQL",), {"critic.huber": None, "soft_targets": False}),
]  # fmt: skip
"""Settings below ``algorithm`` that no key sets but a space preset would, with the algorithms that have them."""

OF_VTRACE = {f"{A}{name}" for name in ("target_every", "rho_bar", "c_bar", "batch_uses", "buffered_batches")}
"""Settings of APPO that it does not have without V-trace."""

OF_TEAMS = {f"{A}share"}
"""Settings of QMIX that it does not have without a mixer."""


def pins(algorithm: str) -> dict[str, Any]:
    """Returns the settings that no key sets, so that no space preset interferes."""
    return {f"{A}{path}": value for only, values in PINS if algorithm in only for path, value in values.items()}
