"""The configurations of 2021 as dicts: every key with its default, and how two of them are put together.

Keys and values are those of Ray 1.4; what each of them does here is in `config_table.py`. The dicts are made when they
are first asked for, because one value, the class of `callbacks`, stands on much that other names do not need.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from rookery.face import ConfigError, nearest
from rookery_rllib.base.imports import find

Config = dict[str, Any]

DEPRECATED_VALUE = -1
"""Stands in the place of a key that had gone out of use in 2021."""

DEFAULT_POLICY_ID = "default_policy"
"""What the only policy of a trainer is called."""

FREE = (
    "tf_session_args",
    "local_tf_session_args",
    "env_config",
    "model",
    "optimizer",
    "multiagent",
    "custom_resources_per_worker",
    "evaluation_config",
    "exploration_config",
    "extra_python_environs_for_driver",
    "extra_python_environs_for_worker",
)
"""Sections that `merge_trainer_configs` lets take new keys."""

REPLACED_BY_TYPE = ("exploration_config",)
"""Sections that are replaced as a whole where their ``type`` changes."""

MODEL_DEFAULTS: Config = {
    "_use_default_native_models": False,
    "fcnet_hiddens": [256, 256],
    "fcnet_activation": "tanh",
    "conv_filters": None,
    "conv_activation": "relu",
    "post_fcnet_hiddens": [],
    "post_fcnet_activation": "relu",
    "free_log_std": False,
    "no_final_linear": False,
    "vf_share_layers": True,
    "use_lstm": False,
    "max_seq_len": 20,
    "lstm_cell_size": 256,
    "lstm_use_prev_action": False,
    "lstm_use_prev_reward": False,
    "_time_major": False,
    "use_attention": False,
    "attention_num_transformer_units": 1,
    "attention_dim": 64,
    "attention_num_heads": 1,
    "attention_head_dim": 32,
    "attention_memory_inference": 50,
    "attention_memory_training": 50,
    "attention_position_wise_mlp_dim": 32,
    "attention_init_gru_gate_bias": 2.0,
    "attention_use_n_prev_actions": 0,
    "attention_use_n_prev_rewards": 0,
    "num_framestacks": "auto",
    "dim": 84,
    "grayscale": False,
    "zero_mean": True,
    "custom_model": None,
    "custom_model_config": {},
    "custom_action_dist": None,
    "custom_preprocessor": None,
    "lstm_use_prev_action_reward": DEPRECATED_VALUE,
    "framestack": True,
}

COMMON: Config = {
    "num_workers": 2,
    "num_envs_per_worker": 1,
    "create_env_on_driver": False,
    "rollout_fragment_length": 200,
    "batch_mode": "truncate_episodes",
    "train_batch_size": 200,
    "model": MODEL_DEFAULTS,
    "optimizer": {},
    "gamma": 0.99,
    "horizon": None,
    "soft_horizon": False,
    "no_done_at_end": False,
    "env": None,
    "env_config": {},
    "env_task_fn": None,
    "render_env": False,
    "record_env": False,
    "normalize_actions": False,
    "clip_rewards": None,
    "clip_actions": True,
    "preprocessor_pref": "deepmind",
    "lr": 0.0001,
    "log_level": "WARN",
    "callbacks": None,
    "ignore_worker_failures": False,
    "log_sys_usage": True,
    "fake_sampler": False,
    "framework": "tf",
    "eager_tracing": False,
    "explore": True,
    "exploration_config": {"type": "StochasticSampling"},
    "evaluation_interval": None,
    "evaluation_num_episodes": 10,
    "evaluation_parallel_to_training": False,
    "in_evaluation": False,
    "evaluation_config": {},
    "evaluation_num_workers": 0,
    "custom_eval_function": None,
    "sample_async": False,
    "sample_collector": None,
    "observation_filter": "NoFilter",
    "synchronize_filters": True,
    "tf_session_args": {
        "intra_op_parallelism_threads": 2,
        "inter_op_parallelism_threads": 2,
        "gpu_options": {"allow_growth": True},
        "log_device_placement": False,
        "device_count": {"CPU": 1},
        "allow_soft_placement": True,
    },
    "local_tf_session_args": {"intra_op_parallelism_threads": 8, "inter_op_parallelism_threads": 8},
    "compress_observations": False,
    "collect_metrics_timeout": 180,
    "metrics_smoothing_episodes": 100,
    "remote_worker_envs": False,
    "remote_env_batch_wait_ms": 0,
    "min_iter_time_s": 0,
    "timesteps_per_iteration": 0,
    "seed": None,
    "extra_python_environs_for_driver": {},
    "extra_python_environs_for_worker": {},
    "num_gpus": 0,
    "_fake_gpus": False,
    "num_cpus_per_worker": 1,
    "num_gpus_per_worker": 0,
    "custom_resources_per_worker": {},
    "num_cpus_for_driver": 1,
    "placement_strategy": "PACK",
    "input": "sampler",
    "input_evaluation": ["is", "wis"],
    "postprocess_inputs": False,
    "shuffle_buffer_size": 0,
    "output": None,
    "output_compress_columns": ["obs", "new_obs"],
    "output_max_file_size": 64 * 1024 * 1024,
    "multiagent": {
        "policies": {},
        "policy_mapping_fn": None,
        "policies_to_train": None,
        "observation_fn": None,
        "replay_mode": "independent",
        "count_steps_by": "env_steps",
    },
    "logger_config": None,
    "simple_optimizer": DEPRECATED_VALUE,
    "monitor": DEPRECATED_VALUE,
}
"""What all algorithms have, but for the class of ``callbacks``."""

EPSILON_GREEDY: Config = {
    "type": "EpsilonGreedy",
    "initial_epsilon": 1.0,
    "final_epsilon": 0.02,
    "epsilon_timesteps": 10000,
}

PRIORITIES: Config = {
    "prioritized_replay_alpha": 0.6,
    "prioritized_replay_beta": 0.4,
    "final_prioritized_replay_beta": 0.4,
    "prioritized_replay_beta_annealing_timesteps": 20000,
    "prioritized_replay_eps": 1e-6,
}

PPO: Config = {
    "use_critic": True,
    "use_gae": True,
    "lambda": 1.0,
    "kl_coeff": 0.2,
    "rollout_fragment_length": 200,
    "train_batch_size": 4000,
    "sgd_minibatch_size": 128,
    "shuffle_sequences": True,
    "num_sgd_iter": 30,
    "lr": 5e-5,
    "lr_schedule": None,
    "vf_loss_coeff": 1.0,
    "model": {"vf_share_layers": False},
    "entropy_coeff": 0.0,
    "entropy_coeff_schedule": None,
    "clip_param": 0.3,
    "vf_clip_param": 10.0,
    "grad_clip": None,
    "kl_target": 0.01,
    "batch_mode": "truncate_episodes",
    "observation_filter": "NoFilter",
    "vf_share_layers": DEPRECATED_VALUE,
}

DDPPO: Config = {
    "rollout_fragment_length": 100,
    "num_envs_per_worker": 5,
    "sgd_minibatch_size": 50,
    "num_sgd_iter": 10,
    "keep_local_weights_in_sync": True,
    "framework": "torch",
    "torch_distributed_backend": "gloo",
    "num_gpus": 0,
    "num_gpus_per_worker": 1,
    "truncate_episodes": True,
    "train_batch_size": -1,
}

A3C: Config = {
    "use_critic": True,
    "use_gae": True,
    "rollout_fragment_length": 10,
    "lambda": 1.0,
    "grad_clip": 40.0,
    "lr": 0.0001,
    "lr_schedule": None,
    "vf_loss_coeff": 0.5,
    "entropy_coeff": 0.01,
    "min_iter_time_s": 5,
    "sample_async": True,
}

A2C: Config = {"rollout_fragment_length": 20, "min_iter_time_s": 10, "sample_async": False, "microbatch_size": None}

IMPALA: Config = {
    "vtrace": True,
    "vtrace_clip_rho_threshold": 1.0,
    "vtrace_clip_pg_rho_threshold": 1.0,
    "vtrace_drop_last_ts": True,
    "rollout_fragment_length": 50,
    "train_batch_size": 500,
    "min_iter_time_s": 10,
    "num_workers": 2,
    "num_gpus": 1,
    "num_multi_gpu_tower_stacks": 1,
    "num_data_loader_buffers": DEPRECATED_VALUE,
    "minibatch_buffer_size": 1,
    "num_sgd_iter": 1,
    "replay_proportion": 0.0,
    "replay_buffer_num_slots": 0,
    "learner_queue_size": 16,
    "learner_queue_timeout": 300,
    "max_sample_requests_in_flight_per_worker": 2,
    "broadcast_interval": 1,
    "num_aggregation_workers": 0,
    "grad_clip": 40.0,
    "opt_type": "adam",
    "lr": 0.0005,
    "lr_schedule": None,
    "decay": 0.99,
    "momentum": 0.0,
    "epsilon": 0.1,
    "vf_loss_coeff": 0.5,
    "entropy_coeff": 0.01,
    "entropy_coeff_schedule": None,
    "_separate_vf_optimizer": False,
    "_lr_vf": 0.0005,
    "after_train_step": None,
}

APPO: Config = {
    "use_critic": True,
    "use_gae": True,
    "lambda": 1.0,
    "clip_param": 0.4,
    "use_kl_loss": False,
    "kl_coeff": 1.0,
    "kl_target": 0.01,
    "num_gpus": 0,
    "replay_buffer_num_slots": 100,
}

PG: Config = {"num_workers": 0, "lr": 0.0004}

SIMPLE_Q: Config = {
    "exploration_config": EPSILON_GREEDY,
    "evaluation_config": {"explore": False},
    "timesteps_per_iteration": 1000,
    "target_network_update_freq": 500,
    "buffer_size": 50000,
    "replay_sequence_length": 1,
    "compress_observations": False,
    "lr": 5e-4,
    "lr_schedule": None,
    "adam_epsilon": 1e-8,
    "grad_clip": 40,
    "learning_starts": 1000,
    "rollout_fragment_length": 4,
    "train_batch_size": 32,
    "num_workers": 0,
    "min_iter_time_s": 1,
}

DQN: Config = {
    **SIMPLE_Q,
    "num_atoms": 1,
    "v_min": -10.0,
    "v_max": 10.0,
    "noisy": False,
    "sigma0": 0.5,
    "dueling": True,
    "hiddens": [256],
    "double_q": True,
    "n_step": 1,
    "prioritized_replay": True,
    **PRIORITIES,
    "before_learn_on_batch": None,
    "training_intensity": None,
    "worker_side_prioritization": False,
}

R2D2: Config = {
    "lr": 1e-4,
    "gamma": 0.997,
    "train_batch_size": 64 * 20,
    "adam_epsilon": 1e-3,
    "num_workers": 2,
    "batch_mode": "complete_episodes",
    "n_step": 1,
    "zero_init_states": True,
    "burn_in": 0,
    "use_h_function": True,
    "h_function_epsilon": 1e-3,
    "buffer_size": 100000,
    "prioritized_replay": False,
    "replay_sequence_length": -1,
    "target_network_update_freq": 2500,
}

SAC_NETWORK: Config = {
    "fcnet_hiddens": [256, 256],
    "fcnet_activation": "relu",
    "post_fcnet_hiddens": [],
    "post_fcnet_activation": None,
    "custom_model": None,
    "custom_model_config": {},
}

SAC: Config = {
    "twin_q": True,
    "use_state_preprocessor": DEPRECATED_VALUE,
    "Q_model": SAC_NETWORK,
    "policy_model": SAC_NETWORK,
    "normalize_actions": True,
    "no_done_at_end": False,
    "tau": 5e-3,
    "initial_alpha": 1.0,
    "target_entropy": None,
    "n_step": 1,
    "timesteps_per_iteration": 100,
    "buffer_size": 1_000_000,
    "prioritized_replay": False,
    **PRIORITIES,
    "compress_observations": False,
    "training_intensity": None,
    "optimization": {"actor_learning_rate": 3e-4, "critic_learning_rate": 3e-4, "entropy_learning_rate": 3e-4},
    "grad_clip": None,
    "learning_starts": 1500,
    "rollout_fragment_length": 1,
    "train_batch_size": 256,
    "target_network_update_freq": 0,
    "num_gpus": 0,
    "num_workers": 0,
    "num_gpus_per_worker": 0,
    "num_cpus_per_worker": 1,
    "worker_side_prioritization": False,
    "min_iter_time_s": 1,
    "_deterministic_loss": False,
    "_use_beta_distribution": False,
}

DDPG: Config = {
    "twin_q": False,
    "policy_delay": 1,
    "smooth_target_policy": False,
    "target_noise": 0.2,
    "target_noise_clip": 0.5,
    "evaluation_interval": None,
    "evaluation_num_episodes": 10,
    "use_state_preprocessor": False,
    "actor_hiddens": [400, 300],
    "actor_hidden_activation": "relu",
    "critic_hiddens": [400, 300],
    "critic_hidden_activation": "relu",
    "n_step": 1,
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
    "timesteps_per_iteration": 1000,
    "evaluation_config": {"explore": False},
    "buffer_size": 50000,
    "prioritized_replay": True,
    **PRIORITIES,
    "compress_observations": False,
    "training_intensity": None,
    "critic_lr": 1e-3,
    "actor_lr": 1e-3,
    "target_network_update_freq": 0,
    "tau": 0.002,
    "use_huber": False,
    "huber_threshold": 1.0,
    "l2_reg": 1e-6,
    "grad_clip": None,
    "learning_starts": 1500,
    "rollout_fragment_length": 1,
    "train_batch_size": 256,
    "num_workers": 0,
    "worker_side_prioritization": False,
    "min_iter_time_s": 1,
}

TD3: Config = {
    "twin_q": True,
    "policy_delay": 2,
    "smooth_target_policy": True,
    "target_noise": 0.2,
    "target_noise_clip": 0.5,
    "exploration_config": {
        "type": "GaussianNoise",
        "random_timesteps": 10000,
        "stddev": 0.1,
        "initial_scale": 1.0,
        "final_scale": 1.0,
        "scale_timesteps": 1,
    },
    "learning_starts": 10000,
    "actor_hiddens": [400, 300],
    "critic_hiddens": [400, 300],
    "n_step": 1,
    "gamma": 0.99,
    "actor_lr": 1e-3,
    "critic_lr": 1e-3,
    "l2_reg": 0.0,
    "tau": 5e-3,
    "train_batch_size": 100,
    "use_huber": False,
    "target_network_update_freq": 0,
    "num_workers": 0,
    "num_gpus_per_worker": 0,
    "worker_side_prioritization": False,
    "buffer_size": 1_000_000,
    "prioritized_replay": False,
    "clip_rewards": False,
    "use_state_preprocessor": False,
}

APEX: Config = {
    "optimizer": {"max_weight_sync_delay": 400, "num_replay_buffer_shards": 4, "debug": False},
    "n_step": 3,
    "num_gpus": 1,
    "num_workers": 32,
    "buffer_size": 2_000_000,
    "learning_starts": 50_000,
    "train_batch_size": 512,
    "rollout_fragment_length": 50,
    "target_network_update_freq": 500_000,
    "timesteps_per_iteration": 25_000,
    "exploration_config": {"type": "PerWorkerEpsilonGreedy"},
    "worker_side_prioritization": True,
    "min_iter_time_s": 30,
    "training_intensity": None,
}

APEX_DDPG: Config = {
    **APEX,
    "num_gpus": 0,
    "exploration_config": {"type": "PerWorkerOrnsteinUhlenbeckNoise"},
}

QMIX: Config = {
    "mixer": "qmix",
    "mixing_embed_dim": 32,
    "double_q": True,
    "optim_alpha": 0.99,
    "optim_eps": 0.00001,
    "evaluation_interval": None,
    "evaluation_num_episodes": 10,
    "evaluation_config": {"explore": False},
    "exploration_config": {
        "type": "EpsilonGreedy",
        "initial_epsilon": 1.0,
        "final_epsilon": 0.02,
        "epsilon_timesteps": 10000,
    },
    "timesteps_per_iteration": 1000,
    "target_network_update_freq": 500,
    "buffer_size": 10000,
    "lr": 0.0005,
    "grad_norm_clipping": 10,
    "learning_starts": 1000,
    "rollout_fragment_length": 4,
    "train_batch_size": 32,
    "num_workers": 0,
    "worker_side_prioritization": False,
    "min_iter_time_s": 1,
    "model": {"lstm_cell_size": 64, "max_seq_len": 999999},
}

MADDPG: Config = {
    "agent_id": None,
    "use_local_critic": False,
    "evaluation_interval": None,
    "evaluation_num_episodes": 10,
    "use_state_preprocessor": False,
    "actor_hiddens": [64, 64],
    "actor_hidden_activation": "relu",
    "critic_hiddens": [64, 64],
    "critic_hidden_activation": "relu",
    "n_step": 1,
    "good_policy": "maddpg",
    "adv_policy": "maddpg",
    "gamma": 0.95,
    "buffer_size": 1_000_000,
    "critic_lr": 1e-2,
    "actor_lr": 1e-2,
    "target_network_update_freq": 0,
    "tau": 0.01,
    "actor_feature_reg": 0.001,
    "grad_norm_clipping": 0.5,
    "learning_starts": 1024 * 25,
    "rollout_fragment_length": 100,
    "train_batch_size": 1024,
    "num_workers": 1,
    "num_gpus_per_worker": 0,
    "worker_side_prioritization": False,
    "min_iter_time_s": 0,
    "timesteps_per_iteration": 1000,
}

CHANGES: dict[str, tuple[Config, ...]] = {
    "PPO": (PPO,),
    "DDPPO": (PPO, DDPPO),
    "A2C": (A3C, A2C),
    "A3C": (A3C,),
    "IMPALA": (IMPALA,),
    "APPO": (IMPALA, APPO),
    "PG": (PG,),
    "DQN": (DQN,),
    "SimpleQ": (SIMPLE_Q,),
    "R2D2": (DQN, R2D2),
    "SAC": (SAC,),
    "DDPG": (DDPG,),
    "TD3": (DDPG, TD3),
    "APEX": (DQN, APEX),
    "APEX_DDPG": (DDPG, APEX_DDPG),
    "QMIX": (QMIX,),
    "MADDPG": (MADDPG,),
}
"""What each algorithm changes of `COMMON`, the first change first."""

COMMON_CONFIG: Config

DEFAULT_CONFIGS: dict[str, Config]


def __getattr__(name: str) -> Any:
    """Makes the whole configurations when one is first asked for; ``PPO_DEFAULT_CONFIG`` is that of PPO.

    Raises:
        AttributeError: For another name.
    """
    owner = next((each for each in CHANGES if name == f"{each.upper()}_DEFAULT_CONFIG"), None)
    if owner is not None:
        found: Config = __getattr__("DEFAULT_CONFIGS")[owner]
        return found
    if name not in ("COMMON_CONFIG", "DEFAULT_CONFIGS"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    common = copied(COMMON) | {"callbacks": default_callbacks()}
    made: dict[str, Config] = {}
    for algorithm, changes in CHANGES.items():
        made[algorithm] = common
        for change in changes:
            made[algorithm] = merge_trainer_configs(made[algorithm], change, True)
    globals().update(COMMON_CONFIG=common, DEFAULT_CONFIGS={key: copied(config) for key, config in made.items()})
    return globals()[name]


def default_callbacks() -> Any:
    return find("ray.rllib.agents.callbacks.DefaultCallbacks")


def legacy_callbacks(functions: Mapping[str, Any]) -> Any:
    """Makes the callbacks of a dict of functions by hook, as scripts before 2020 gave them."""
    return default_callbacks()(legacy_callbacks_dict=dict(functions))


def copied(value: Any) -> Any:
    """Copies dicts and lists at every depth and shares whatever else stands in them."""
    if isinstance(value, dict):
        return {key: copied(inner) for key, inner in value.items()}
    return [copied(inner) for inner in value] if type(value) is list else value


def with_common_config(extra_config: Mapping[str, Any]) -> Config:
    return merge_trainer_configs(__getattr__("COMMON_CONFIG"), extra_config, True)


def merge_trainer_configs(
    config1: Mapping[str, Any], config2: Mapping[str, Any], _allow_unknown_configs: bool | None = None
) -> Config:
    """Puts one configuration over another: dicts merge by key at every depth, all else is replaced.

    Raises a ConfigError with a line for each key that is unknown; sections such as ``env_config`` and ``model`` take
    new keys in any case.
    """
    over = dict(config2)
    if type(over.get("callbacks")) is dict:
        over["callbacks"] = partial(legacy_callbacks, over["callbacks"])
    problems: list[str] = []
    merged = _over(copied(dict(config1)), over, bool(_allow_unknown_configs), "", problems)
    if problems:
        raise ConfigError(*problems)
    return merged


def _over(low: Config, high: Mapping[str, Any], free: bool, above: str, problems: list[str]) -> Config:
    for key, value in high.items():
        before = low.get(key)
        if key not in low and not free:
            problems.append(f"rllib config: {above}{key}: there is no such key{nearest(str(key), list(low))}")
        elif not (isinstance(before, dict) and isinstance(value, dict)) or _other_type(above + str(key), before, value):
            low[key] = copied(value)
        else:
            low[key] = _over(before, value, free or (not above and key in FREE), f"{above}{key}.", problems)
    return low


def _other_type(path: str, before: Config, value: Mapping[str, Any]) -> bool:
    """Says whether a section is one that a new type replaces, and has one."""
    return path in REPLACED_BY_TYPE and value.get("type", before.get("type")) != before.get("type")
