"""Arguments of the methods of RLlib 2's configurations, of any release, as keys of 2021: `arguments`.

Most arguments are a key under its own or another name: the rows of `config/table.py` name the methods that take their
keys, and `config/key_names.py` has the later names. `METHODS` has the others, each with a function that returns keys.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from rookery.face import ConfigError, nearest, show
from rookery_rllib.config.defaults import DEFAULT_CONFIGS
from rookery_rllib.config.key_names import LATER_ARGUMENTS
from rookery_rllib.config.table import ROWS
from rookery_rllib.rllib2.connectors import connector_keys
from rookery_rllib.rllib2.env_runners import EnvRunner
from rookery_rllib.rllib2.rllib_callbacks import LATER_HOOKS

LEARNER = "a custom algorithm replaces a Learner: docs/how-to/own-algorithm.md"
AGGREGATION = "the trainer itself combines what workers send"
ONE_LEARNER = (
    "a policy has one learner; several are cluster.learners of Rookery's own (docs/how-to/several-learners.md)"
)

Taken = Callable[[Mapping[str, Any], Any], Mapping[str, Any]]
"""Function of the keys given so far and of the argument's value; returns keys."""


def _lr(given: Mapping[str, Any], value: Any) -> Mapping[str, Any]:
    if isinstance(value, list | tuple):
        return {"lr": float(value[0][1]), "lr_schedule": [list(point) for point in value]}
    return {} if value is None else {"lr": value}


def _entropy(given: Mapping[str, Any], value: Any) -> Mapping[str, Any]:
    if isinstance(value, list | tuple):
        return {"entropy_coeff": float(value[0][1]), "entropy_coeff_schedule": [list(point) for point in value]}
    return {"entropy_coeff": value}


def _no_kl(given: Mapping[str, Any], value: Any) -> Mapping[str, Any]:
    return {} if value else {"kl_coeff": 0.0}


def _epsilon(given: Mapping[str, Any], value: Any) -> Mapping[str, Any]:
    points = value if isinstance(value, list | tuple) else [(0, value), (1, value)]
    schedule = {"type": "PiecewiseSchedule", "endpoints": [tuple(point) for point in points]}
    return {"exploration_config": {"type": "EpsilonGreedy", "epsilon_schedule": schedule}}


def _n_step(given: Mapping[str, Any], value: Any) -> Mapping[str, Any]:
    if isinstance(value, list | tuple):
        raise ConfigError(
            f"rllib config: = {show(value)}: a random number of steps for each sample is not supported; give one "
            f"number, such as {value[0]}"
        )
    return {"n_step": value}


BUFFER_KEYS = {
    "capacity": "buffer_size",
    "alpha": "prioritized_replay_alpha",
    "beta": "prioritized_replay_beta",
    "prioritized_replay": "prioritized_replay",
    "prioritized_replay_alpha": "prioritized_replay_alpha",
    "prioritized_replay_beta": "prioritized_replay_beta",
    "prioritized_replay_eps": "prioritized_replay_eps",
    "learning_starts": "learning_starts",
}
"""Keys of 2021 by key of ``replay_buffer_config``."""

BUFFER_DEFAULTS = {
    "_enable_replay_buffer_api": True, "storage_unit": "timesteps", "replay_sequence_length": 1, "replay_burn_in": 0,
    "replay_zero_init_states": True, "worker_side_prioritization": False, "replay_mode": "independent",
}  # fmt: skip
"""Further keys of ``replay_buffer_config``, which have one value here."""


def _replay(given: Mapping[str, Any], value: Any) -> Mapping[str, Any]:
    parts = dict(value)
    kind = parts.pop("type", "")
    kind = str(getattr(kind, "__name__", kind))
    for name, only in BUFFER_DEFAULTS.items():
        if parts.get(name, only) in (only, "fragments"):
            parts.pop(name, None)
    for name in parts:
        if name not in BUFFER_KEYS:
            raise ConfigError(
                f"rllib config: replay_buffer_config.{name} = {show(parts[name])}: there is no such key here"
                f"{nearest(str(name), list(BUFFER_KEYS))}; it has type, {', '.join(BUFFER_KEYS)}"
            )
    keys = {BUFFER_KEYS[name]: part for name, part in parts.items()}
    return ({"prioritized_replay": "Prioritized" in kind} if kind else {}) | keys


def _rate(name: str) -> Taken:
    return lambda given, value: {} if value is None else {"optimization": {f"{name}_learning_rate": value}}


def _episodes(given: Mapping[str, Any], value: Any) -> Mapping[str, Any]:
    if value == "auto":
        raise ConfigError("rllib config: = 'auto': an evaluation comes between two iterations; give a number")
    return {"evaluation_num_episodes": value}


def _evaluated(given: Mapping[str, Any], value: Any) -> Mapping[str, Any]:
    return {"evaluation_config": dict(getattr(value, "given", value) or {})}


def _by_policy(given: Mapping[str, Any], value: Any) -> Mapping[str, Any]:
    named = given.get("multiagent", {}).get("policies") or {}
    listed = dict(named) if isinstance(named, Mapping) else dict.fromkeys(named)
    for name, keys in value.items():
        spec: Any = listed.get(name) or (None, None, None, {})
        if not isinstance(spec, list | tuple):
            spec = (spec.policy_class, spec.observation_space, spec.action_space, spec.config)
        listed[name] = (*spec[:3], {**(spec[3] or {}), **getattr(keys, "given", keys)})
    return {"multiagent": {"policies": listed}}


def nested(key: str, value: Any) -> dict[str, Any]:
    section, _, name = key.rpartition(".")
    return {section: {name: value}} if section else {key: value}


def only(*allowed: Any, why: str) -> Taken:
    """Accepts the values that describe the fixed behaviour here."""

    def check(given: Mapping[str, Any], value: Any) -> Mapping[str, Any]:
        if not any(value is one or value == one for one in allowed):
            raise ConfigError(f"rllib config: {why}, not {show(value)}; leave it out")
        return {}

    return check


def no(why: str) -> Taken:
    """Accepts None and False only; the error states the reason."""

    def refuse(given: Mapping[str, Any], value: Any) -> Mapping[str, Any]:
        if value is None or value is False or value == {} or value == 0:
            return {}
        raise ConfigError(f"rllib config: = {show(value)}: {why}")

    return refuse


def nothing(given: Mapping[str, Any], value: Any) -> Mapping[str, Any]:
    """Accepts an argument without an effect here."""
    return {}


def all_are(taken: Taken, names: str) -> dict[str, str | Taken]:
    """Returns arguments with the same handling."""
    return dict.fromkeys(names.split(), taken)


TRAINING: dict[str, dict[str, str | Taken]] = {
    "PPO": {"entropy_coeff": _entropy, "use_kl_loss": _no_kl},
    "IMPALA": {
        "entropy_coeff": _entropy, "vf_loss_coeff": "vf_loss_coeff", "vtrace": "vtrace",
        "num_gpu_loader_threads": nothing, "simple_queue_size": nothing, "timeout_s_sampler_manager": nothing,
        "timeout_s_aggregator_manager": nothing, "learner_queue_size": "learner_queue_size",
        "broadcast_interval": "broadcast_interval", "use_env_runner_state_server": nothing,
        "vtrace_clip_rho_threshold": "vtrace_clip_rho_threshold", "grad_clip": "grad_clip",
        "vtrace_clip_pg_rho_threshold": "vtrace_clip_pg_rho_threshold", "opt_type": "opt_type",
    },
    "APPO": {
        "use_circular_buffer": only(True, why="APPO keeps batches in a circular buffer"),
        "circular_buffer_num_batches": "minibatch_buffer_size",
        "circular_buffer_iterations_per_batch": "num_sgd_iter", "kl_coeff": "kl_coeff", "use_kl_loss": "use_kl_loss",
        "target_network_update_freq": only(1, 2, why="the target network follows each batch"),
        "target_worker_clipping": only(2.0, why="rows are weighted by the bounds of V-trace alone"),
        "tau": only(1, 1.0, why="the target network of APPO is copied, tau = 1"),
    },
    "DQN": {
        "replay_buffer_config": _replay, "epsilon": _epsilon, "n_step": _n_step,
        "tau": only(1, 1.0, why="the target network of DQN is copied, tau = 1"),
        "td_error_loss_fn": only("huber", why="DQN has a Huber loss"),
        "burn_in_len": only(0, why="burn_in is a key of R2D2"),
        "categorical_distribution_temperature": only(1, 1.0, why="the temperature of atoms is 1"),
    },
    "SAC": {
        "replay_buffer_config": _replay, "n_step": _n_step,
        "actor_lr": _rate("actor"), "critic_lr": _rate("critic"), "alpha_lr": _rate("entropy"),
        "clip_actions": nothing, "lr": only(None, why="the rates of SAC are actor_lr, critic_lr and alpha_lr"),
    },
}  # fmt: skip
"""Arguments of ``training`` that algorithms have beside those of all."""

BASES = {"APPO": "IMPALA", "CQL": "SAC"}
"""Algorithms that take the arguments of another one, too."""

METHODS: dict[str, dict[str, str | Taken]] = {
    "environment": {
        **all_are(nothing, "disable_env_checking is_atari auto_wrap_old_gym_envs normalize_actions "
                  "clip_actions observation_space action_space"),
        "action_mask_key": only("action_mask", why="the key of action masks in an observation is action_mask"),
    },
    "env_runners": {
        "exploration_config": "exploration_config", "rollout_fragment_length": "rollout_fragment_length",
        **all_are(nothing, "sample_timeout_s create_local_env_runner validate_env_runners_after_construction "
                  "validate_workers_after_construction max_requests_in_flight_per_env_runner episodes_to_numpy "
                  "gym_env_vectorize_mode merge_env_runner_states broadcast_env_runner_states "
                  "use_env_runner_state_server env_runner_state_server_max_concurrency "
                  "update_worker_filter_stats use_worker_filter_stats enable_connectors "
                  "rollout_fragment_length_auto episode_lookback_horizon "
                  "add_default_connectors_to_env_to_module_pipeline "
                  "add_default_connectors_to_module_to_env_pipeline"),
        **all_are(connector_keys, "env_to_module_connector module_to_env_connector"),
        "env_runner_cls": only(None, EnvRunner, why="there is one sampling loop (rollout/worker.py)"),
        "sample_collector": no("there is one sampling loop: see rollout/worker.py"),
    },
    "training": {
        "model": "model", "lr": _lr,
        "grad_clip_by": only("global_norm", why="gradients are clipped by their global norm"),
        **all_are(nothing, "max_requests_in_flight_per_sampler_worker shuffle_batch_per_epoch _enable_learner_api "
                  "store_buffer_in_checkpoints add_default_connectors_to_learner_pipeline"),
        **all_are(no(LEARNER), "learner_class learner_config_dict"),
        "learner_connector": connector_keys,
    },
    "resources": all_are(nothing, "num_learner_workers num_cpus_per_learner_worker local_gpu_idx"),
    "learners": {
        "num_learners": only(0, 1, why=ONE_LEARNER),
        **all_are(nothing, "num_cpus_per_learner local_gpu_idx max_requests_in_flight_per_learner "
                  "max_requests_in_flight_per_aggregator_actor"),
        "num_aggregator_actors_per_learner": no(AGGREGATION),
    },
    "framework": all_are(
        nothing, "eager_max_retraces torch_compile_learner torch_compile_learner_what_to_compile "
        "torch_compile_learner_dynamo_mode torch_compile_learner_dynamo_backend torch_compile_worker "
        "torch_compile_worker_dynamo_backend torch_compile_worker_dynamo_mode torch_ddp_kwargs "
        "torch_skip_nan_gradients"),
    "api_stack": {},
    "evaluation": {
        "evaluation_duration": _episodes,
        "evaluation_config": _evaluated,
        "evaluation_duration_unit": only("episodes", why="evaluations are counted in episodes"),
        **all_are(nothing, "evaluation_sample_timeout_s evaluation_force_reset_envs_before_iteration "
                  "enable_async_evaluation always_attach_evaluation_results "
                  "evaluation_auto_duration_min_env_steps_per_sample "
                  "evaluation_auto_duration_max_env_steps_per_sample"),
        **all_are(no("evaluations run episodes; rookery evaluate RUN --replay DATA estimates returns from data"),
                  "off_policy_estimation_methods ope_split_batch_by_episode "
                  "offline_evaluation_interval"),
    },
    "multi_agent": {
        "algorithm_config_overrides_per_module": _by_policy,
        **all_are(nothing, "policy_map_capacity policy_states_are_swappable policy_map_cache"),
    },
    "callbacks": {name: f"later_callbacks.{name}" for name in LATER_HOOKS},
    "reporting": {
        "min_train_timesteps_per_iteration": no("write min_sample_timesteps_per_iteration"),
        **all_are(nothing, "keep_per_episode_custom_metrics metrics_episode_collection_timeout_s log_gradients "
                  "custom_stats_cls_lookup"),
    },
    "debugging": all_are(nothing, "logger_creator worker_cls log_level log_sys_usage"),
    "offline_data": all_are(
        nothing, "output_max_rows_per_file output_write_remaining_data output_write_method output_write_method_kwargs "
        "output_write_episodes map_batches_kwargs iter_batches_kwargs materialize_data materialize_mapped_data"),
    "checkpointing": all_are(nothing, "export_native_model_files checkpoint_trainable_policies_only"),
    "fault_tolerance": all_are(
        nothing, "max_num_env_runner_restarts delay_between_env_runner_restarts_s "
        "num_consecutive_env_runner_failures_tolerance env_runner_health_probe_timeout_s "
        "env_runner_restore_timeout_s max_num_worker_restarts delay_between_worker_restarts_s "
        "worker_health_probe_timeout_s worker_restore_timeout_s num_consecutive_worker_failures_tolerance "
        "restart_failed_env_runners recreate_failed_workers recreate_failed_env_runners"),
    "rl_module": {
        "model_config": "model_config", "model_config_dict": "model_config", "rl_module_spec": "rl_module_spec",
        "algorithm_config_overrides_per_module": _by_policy, "_enable_rl_module_api": nothing,
    },
    "python_environment": {},
    "experimental": all_are(nothing, "_enable_new_api_stack _tf_policy_handles_more_than_one_loss "
                            "_disable_preprocessor_api _disable_action_flattening _disable_execution_plan_api "
                            "_disable_initialize_loss_from_dummy_batch _torch_grad_scaler_class "
                            "_use_default_native_models _validate_config _use_msgpack_checkpoints "
                            "_prior_exploration_config"),
}  # fmt: skip
"""Arguments of each method that are not simply a key: a function returns keys; a few are sections of keys."""


@cache
def arguments(method: str, algorithm: str) -> dict[str, str | Taken]:
    """Returns the arguments of a method, each with its key of 2021, or a function that returns keys."""
    later = LATER_ARGUMENTS.get(method, {})
    by_row = {row.key.rpartition(".")[2]: row.key for row in ROWS if method in row.methods}
    known = DEFAULT_CONFIGS[algorithm] if algorithm else {key for config in DEFAULT_CONFIGS.values() for key in config}
    keys: dict[str, str | Taken] = {
        name: key for name, key in (later | by_row).items() if key.partition(".")[0] in known
    }
    found = {**keys, **METHODS[method]}
    if method == "training":
        for each in (BASES.get(algorithm, ""), algorithm):
            found |= TRAINING.get(each, {})
    return found
