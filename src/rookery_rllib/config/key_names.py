"""Names of keys: those of an algorithm, their names in other versions, and suggestions for unknown ones."""

from __future__ import annotations

from rookery.face import nearest
from rookery_rllib.config.defaults import DEFAULT_CONFIGS
from rookery_rllib.config.table import ROWS, rows_of

LATER_ARGUMENTS: dict[str, dict[str, str]] = {
    "env_runners": {
        "num_env_runners": "num_workers", "num_rollout_workers": "num_workers",
        "num_envs_per_env_runner": "num_envs_per_worker", "num_cpus_per_env_runner": "num_cpus_per_worker",
        "num_gpus_per_env_runner": "num_gpus_per_worker",
        "custom_resources_per_env_runner": "custom_resources_per_worker",
        "create_env_on_local_worker": "create_env_on_driver",
    },
    "training": {
        "train_batch_size_per_learner": "train_batch_size", "lambda_": "lambda", "num_epochs": "num_sgd_iter",
        "minibatch_size": "sgd_minibatch_size", "num_steps_sampled_before_learning_starts": "learning_starts",
        "optimization_config": "optimization", "q_model_config": "Q_model", "policy_model_config": "policy_model",
    },
    "resources": {
        "num_cpus_for_local_worker": "num_cpus_for_driver", "num_cpus_for_main_process": "num_cpus_for_driver",
        "num_gpus_per_learner_worker": "num_gpus",
    },
    "learners": {"num_gpus_per_learner": "num_gpus"},
    "evaluation": {
        "evaluation_num_env_runners": "evaluation_num_workers", "custom_evaluation_function": "custom_eval_function",
    },
    "callbacks": {"callbacks_class": "callbacks"},
    "reporting": {
        "metrics_num_episodes_for_smoothing": "metrics_smoothing_episodes",
        "min_time_s_per_iteration": "min_iter_time_s", "min_time_s_per_reporting": "min_iter_time_s",
        "min_sample_timesteps_per_iteration": "timesteps_per_iteration",
        "min_sample_timesteps_per_reporting": "timesteps_per_iteration",
    },
    "offline_data": {"input_": "input"},
    "fault_tolerance": {
        "ignore_env_runner_failures": "ignore_worker_failures", "restart_failed_env_runners": "ignore_worker_failures",
        "recreate_failed_workers": "ignore_worker_failures",
        "restart_failed_sub_environments": "ignore_worker_failures",
    },
}  # fmt: skip
"""Arguments of RLlib 2's methods that are a key of 2021 under another name."""

RENAMED: dict[str, str] = {
    "sample_batch_size": "rollout_fragment_length", "use_pytorch": "framework", "eager": "framework",
    "evaluation_duration": "evaluation_num_episodes", "straggler_mitigation": "num_workers",
    "schedule_max_timesteps": "exploration_config.epsilon_timesteps",
    "exploration_final_eps": "exploration_config.final_epsilon",
    "exploration_final_scale": "exploration_config.final_scale",
    "per_worker_exploration": "exploration_config.type", "parameter_noise": "exploration_config.type",
    "soft_q": "exploration_config.type", "softmax_temp": "exploration_config.temperature",
    "learning_rate": "lr", "vf_coef": "vf_loss_coeff", "ent_coef": "entropy_coeff", "clip_range": "clip_param",
    "gae_lambda": "lambda", "fcnet_layers": "model.fcnet_hiddens", "custom_options": "model.custom_model_config",
    **{later: key for arguments in LATER_ARGUMENTS.values() for later, key in arguments.items()},
}  # fmt: skip
"""Names in 2021 of keys of earlier and later versions, and of other libraries."""


def keys_of(section: str, algorithm: str, kind: str = "") -> list[str]:
    """Returns the keys of a section by their bare names."""
    if not section:
        return list(DEFAULT_CONFIGS[algorithm])
    inside = [key.removeprefix(f"{section}.") for key in rows_of(algorithm) if key.startswith(f"{section}.")]
    return [key.rpartition(".")[2] for key in inside if "." not in key or key.startswith(f"{kind}.")]


def why_unknown(algorithm: str, path: str, known: list[str]) -> str:
    """Returns the error text for a key that an algorithm does not have, with a suggestion."""
    section, _, name = path.rpartition(".")
    if name in RENAMED:
        return f"it was called {RENAMED[name]!r} in 2021"
    others = [] if section else [other for other, config in DEFAULT_CONFIGS.items() if name in config]
    if others:
        return f"it is a key of {', '.join(others)}, not of {algorithm}{nearest(name, known)}"
    near = nearest(name, known)
    elsewhere = [row.key for row in ROWS if row.key.rpartition(".")[2] == name]
    if not near and elsewhere:
        near = f"; did you mean {elsewhere[0]!r}?"
    where = f"{section} has" if section else f"{algorithm} has"
    return f"{where} no such key{near}"
