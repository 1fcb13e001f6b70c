"""The fluent form of RLlib 2: ``PPOConfig().environment(...).training(...).build()``, as a dict of 2021.

Each method takes the arguments it had in any version, by keyword; an argument becomes a key of 2021, with the defaults
of 2021 for all other keys. The rows of `config/table.py` name the methods that take their keys. What belongs to
RLModules, Learners and connectors is refused with its replacement here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, ClassVar, Self

from rookery.face import ConfigError, nearest, show
from rookery_rllib.config.defaults import DEFAULT_CONFIGS, Config, copied, merge_trainer_configs
from rookery_rllib.config.key_names import LATER_ARGUMENTS, keys_of
from rookery_rllib.config.table import ROWS
from rookery_rllib.trainer import trainers


class Nothing:
    """Placeholder of an argument that was not passed."""


NotProvided = Nothing()
"""RLlib 2's placeholder of an argument that was not passed."""

MODULE = "networks are models here: register one with ModelCatalog, or use Rookery's own model.module"
LEARNER = "a custom algorithm replaces a Learner: docs/how-to/own-algorithm.md"
CONNECTOR = "wrap the environment, or change batches in on_postprocess_trajectory and on_learn_on_batch"
AGGREGATION = "the trainer itself combines what workers send"
ONE_LEARNER = (
    "a policy has one learner; several are cluster.learners of Rookery's own (docs/how-to/several-learners.md)"
)

Taken = Callable[["AlgorithmConfig", Any], Mapping[str, Any]]


def _lr(config: AlgorithmConfig, value: Any) -> Mapping[str, Any]:
    if isinstance(value, list | tuple):
        return {"lr": float(value[0][1]), "lr_schedule": [list(point) for point in value]}
    return {} if value is None else {"lr": value}


def _entropy(config: AlgorithmConfig, value: Any) -> Mapping[str, Any]:
    if isinstance(value, list | tuple):
        return {"entropy_coeff": float(value[0][1]), "entropy_coeff_schedule": [list(point) for point in value]}
    return {"entropy_coeff": value}


def _fragment(config: AlgorithmConfig, value: Any) -> Mapping[str, Any]:
    config.auto_fragment = value == "auto"
    return {} if config.auto_fragment else {"rollout_fragment_length": value}


def _no_kl(config: AlgorithmConfig, value: Any) -> Mapping[str, Any]:
    return {} if value else {"kl_coeff": 0.0}


def _epsilon(config: AlgorithmConfig, value: Any) -> Mapping[str, Any]:
    schedule = {"type": "PiecewiseSchedule", "endpoints": value} if isinstance(value, list | tuple) else value
    return {"exploration_config": {"type": "EpsilonGreedy", "epsilon_schedule": schedule}}


def _replay(config: AlgorithmConfig, value: Any) -> Mapping[str, Any]:
    parts = dict(value)
    kind = str(getattr(parts.get("type"), "__name__", parts.pop("type", "")))
    parts.pop("type", None)
    keys = {
        "capacity": "buffer_size",
        "alpha": "prioritized_replay_alpha",
        "beta": "prioritized_replay_beta",
        "prioritized_replay_alpha": "prioritized_replay_alpha",
        "prioritized_replay_beta": "prioritized_replay_beta",
        "prioritized_replay_eps": "prioritized_replay_eps",
        "learning_starts": "learning_starts",
    }
    for name in parts:
        if name not in keys:
            raise ConfigError(
                f"rllib config: replay_buffer_config.{name} = {show(parts[name])}: there is no such key here"
                f"{nearest(str(name), list(keys))}; it has type, {', '.join(keys)}"
            )
    given = {keys[name]: part for name, part in parts.items()}
    return ({"prioritized_replay": "Prioritized" in kind} if kind else {}) | given


def _rate(name: str) -> Taken:
    return lambda config, value: {"optimization": {f"{name}_learning_rate": value}}


def _episodes(config: AlgorithmConfig, value: Any) -> Mapping[str, Any]:
    if value == "auto":
        raise ConfigError("rllib config: = 'auto': an evaluation comes between two iterations; give a number")
    return {"evaluation_num_episodes": value}


def _by_policy(config: AlgorithmConfig, value: Any) -> Mapping[str, Any]:
    named = config.given.get("multiagent", {}).get("policies") or {}
    listed = dict(named) if isinstance(named, Mapping) else dict.fromkeys(named)
    for name, keys in value.items():
        spec: Any = listed.get(name) or (None, None, None, {})
        if not isinstance(spec, list | tuple):
            spec = (spec.policy_class, spec.observation_space, spec.action_space, spec.config)
        overrides = keys.given if isinstance(keys, AlgorithmConfig) else dict(keys)
        listed[name] = (*spec[:3], {**(spec[3] or {}), **overrides})
    return {"multiagent": {"policies": listed}}


def _nested(key: str, value: Any) -> Config:
    section, _, name = key.rpartition(".")
    return {section: {name: value}} if section else {key: value}


def _extra(config: AlgorithmConfig, value: Any) -> Mapping[str, Any]:
    """Reads ``model_config`` of an RLModule, whose keys are mostly those of ``model``."""
    known = keys_of("model", config.algorithm)
    if isinstance(value, Mapping):
        return {"model": dict(value)}
    return {"model": {key: part for key, part in vars(value).items() if key in known}}


def only(*allowed: Any, why: str) -> Taken:
    """Accepts the values that describe the fixed behaviour here."""

    def check(config: AlgorithmConfig, value: Any) -> Mapping[str, Any]:
        if not any(value is one or value == one for one in allowed):
            raise ConfigError(f"rllib config: {why}, not {show(value)}; leave it out")
        return {}

    return check


def no(why: str) -> Taken:
    """Accepts None and False only; the error states the reason."""

    def refuse(config: AlgorithmConfig, value: Any) -> Mapping[str, Any]:
        if value is None or value is False or value == {} or value == 0:
            return {}
        raise ConfigError(f"rllib config: = {show(value)}: {why}")

    return refuse


def nothing(config: AlgorithmConfig, value: Any) -> Mapping[str, Any]:
    """Accepts an argument without an effect here."""
    return {}


def all_are(taken: Taken, names: str) -> dict[str, str | Taken]:
    """Returns arguments with the same handling."""
    return dict.fromkeys(names.split(), taken)


PPO_TRAINING: dict[str, str | Taken] = {"entropy_coeff": _entropy, "use_kl_loss": _no_kl}

DQN_TRAINING: dict[str, str | Taken] = {
    "replay_buffer_config": _replay,
    "epsilon": _epsilon,
    "tau": only(1, 1.0, why="the target network of DQN is copied, tau = 1"),
    "td_error_loss_fn": only("huber", why="DQN has a Huber loss"),
    "burn_in_len": only(0, why="burn_in is a key of R2D2"),
    "categorical_distribution_temperature": only(1, 1.0, why="the temperature of atoms is 1"),
}

SAC_TRAINING: dict[str, str | Taken] = {
    "replay_buffer_config": _replay,
    "actor_lr": _rate("actor"), "critic_lr": _rate("critic"), "alpha_lr": _rate("entropy"),
    "clip_actions": "clip_actions", "lr": only(None, why="the rates of SAC are actor_lr, critic_lr and alpha_lr"),
}  # fmt: skip

METHODS: dict[str, dict[str, str | Taken]] = {
    "environment": {
        **all_are(nothing, "disable_env_checking observation_space action_space is_atari auto_wrap_old_gym_envs"),
        "action_mask_key": only("action_mask", why="the key of action masks in an observation is action_mask"),
    },
    "env_runners": {
        "exploration_config": "exploration_config", "rollout_fragment_length": _fragment,
        **all_are(nothing, "sample_timeout_s create_local_env_runner validate_env_runners_after_construction "
                  "validate_workers_after_construction max_requests_in_flight_per_env_runner episodes_to_numpy "
                  "gym_env_vectorize_mode merge_env_runner_states broadcast_env_runner_states "
                  "update_worker_filter_stats use_worker_filter_stats enable_connectors "
                  "rollout_fragment_length_auto episode_lookback_horizon "
                  "add_default_connectors_to_env_to_module_pipeline "
                  "add_default_connectors_to_module_to_env_pipeline"),
        **all_are(no(CONNECTOR), "env_to_module_connector module_to_env_connector"),
        **all_are(no("there is one sampling loop: see rollout/worker.py"), "env_runner_cls sample_collector"),
    },
    "training": {
        "model": "model", "lr": _lr,
        "grad_clip_by": only("global_norm", why="gradients are clipped by their global norm"),
        **all_are(nothing, "max_requests_in_flight_per_sampler_worker shuffle_batch_per_epoch "
                  "store_buffer_in_checkpoints add_default_connectors_to_learner_pipeline"),
        **all_are(no(LEARNER), "learner_class learner_config_dict"),
        "learner_connector": no(CONNECTOR),
    },
    "resources": all_are(nothing, "num_learner_workers num_cpus_per_learner_worker local_gpu_idx"),
    "learners": {
        "num_learners": only(0, 1, why=ONE_LEARNER),
        **all_are(nothing, "num_cpus_per_learner local_gpu_idx max_requests_in_flight_per_learner"),
        "num_aggregator_actors_per_learner": no(AGGREGATION),
    },
    "framework": all_are(
        nothing, "eager_max_retraces torch_compile_learner torch_compile_learner_what_to_compile "
        "torch_compile_learner_dynamo_mode torch_compile_learner_dynamo_backend torch_compile_worker "
        "torch_compile_worker_dynamo_backend torch_compile_worker_dynamo_mode torch_ddp_kwargs "
        "torch_skip_nan_gradients"),
    "api_stack": all_are(nothing, "enable_rl_module_and_learner enable_env_runner_and_connector_v2"),
    "evaluation": {
        "evaluation_duration": _episodes,
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
    "callbacks": all_are(
        no("write a class of DefaultCallbacks with this method"),
        "on_algorithm_init on_train_result on_evaluate_start on_evaluate_end on_sample_end on_episode_created "
        "on_episode_start on_episode_step on_episode_end on_environment_created on_env_runners_recreated "
        "on_checkpoint_loaded"),
    "reporting": {
        "min_train_timesteps_per_iteration": no("write min_sample_timesteps_per_iteration"),
        **all_are(nothing, "keep_per_episode_custom_metrics metrics_episode_collection_timeout_s log_gradients "
                  "custom_stats_cls_lookup"),
    },
    "debugging": all_are(nothing, "logger_creator worker_cls"),
    "offline_data": all_are(
        no("experience is collected here; to learn from files: rookery replay import FOLDER -o DATA, then "
           "rookery train --algo iql (bc, marwil, cql, ...) --replay DATA"),
        "input_config actions_in_input_normalized output_config offline_sampling dataset_num_iters_per_learner "
        "input_read_method input_read_method_kwargs input_read_schema map_batches_kwargs iter_batches_kwargs "
        "prelearner_class output_write_method output_max_rows_per_file output_write_episodes"),
    "checkpointing": all_are(nothing, "export_native_model_files checkpoint_trainable_policies_only"),
    "fault_tolerance": all_are(
        nothing, "max_num_env_runner_restarts delay_between_env_runner_restarts_s "
        "num_consecutive_env_runner_failures_tolerance env_runner_health_probe_timeout_s "
        "env_runner_restore_timeout_s max_num_worker_restarts delay_between_worker_restarts_s "
        "worker_health_probe_timeout_s worker_restore_timeout_s num_consecutive_worker_failures_tolerance"),
    "rl_module": {
        "model_config": _extra, "model_config_dict": _extra,
        **all_are(no(MODULE), "rl_module_spec algorithm_config_overrides_per_module"),
        "_enable_rl_module_api": nothing,
    },
    "experimental": all_are(nothing, "_enable_new_api_stack _tf_policy_handles_more_than_one_loss "
                            "_disable_preprocessor_api _disable_action_flattening _disable_execution_plan_api "
                            "_disable_initialize_loss_from_dummy_batch _torch_grad_scaler_class "
                            "_use_default_native_models _validate_config"),
}  # fmt: skip
"""Arguments of each method that are not simply a key: a function returns keys; a few are sections of keys."""


@cache
def arguments(method: str, algorithm: str) -> dict[str, str | Taken]:
    """Returns the arguments of a method, each with its key of 2021, or a function that returns keys."""
    later = LATER_ARGUMENTS.get(method, {})
    by_row = {row.key.rpartition(".")[2]: row.key for row in ROWS if method in row.methods}
    known = DEFAULT_CONFIGS[algorithm] if algorithm else {key for config in DEFAULT_CONFIGS.values() for key in config}
    keys = {name: key for name, key in (later | by_row).items() if key.partition(".")[0] in known}
    return {**keys, **METHODS[method]}


POSITIONS = {
    "environment": ("env",),
    "framework": ("framework",),
    "callbacks": ("callbacks_class",),
}
"""Positional arguments."""


def _method(name: str) -> Callable[..., Any]:
    """Creates a method, which takes its `arguments` and returns the configuration."""

    def method(self: AlgorithmConfig, *args: Any, **kwargs: Any) -> AlgorithmConfig:
        return self._say(name, args, kwargs)

    method.__name__, method.__qualname__ = name, f"AlgorithmConfig.{name}"
    return method


class AlgorithmConfig:
    """A configuration with chainable methods.

    Attributes:
        algorithm: Name of the algorithm; empty = none yet, and arguments may be keys of any.
        given: The keys of 2021 that were set so far.
        auto_fragment: Whether fragment lengths follow from the batch size.
    """

    algorithm: ClassVar[str] = ""
    own: ClassVar[Mapping[str, str | Taken]] = {}

    def __init__(self, algo_class: Any = None) -> None:
        self.given: Config = {}
        self.auto_fragment = False

    environment = _method("environment")
    env_runners = rollouts = exploration = _method("env_runners")
    training = _method("training")
    resources = _method("resources")
    learners = _method("learners")
    framework = _method("framework")
    api_stack = _method("api_stack")
    evaluation = _method("evaluation")
    multi_agent = _method("multi_agent")
    callbacks = _method("callbacks")
    reporting = _method("reporting")
    debugging = _method("debugging")
    offline_data = _method("offline_data")
    checkpointing = _method("checkpointing")
    fault_tolerance = _method("fault_tolerance")
    rl_module = _method("rl_module")
    experimental = _method("experimental")

    def _say(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Self:
        """Sets the arguments of a method; raises a ConfigError with a line for each unknown or impossible one."""
        here = arguments(method, self.algorithm) | (dict(self.own) if method == "training" else {})
        places = POSITIONS.get(method, ())
        where = f"{type(self).__name__}.{method}"
        problems = []
        if len(args) > len(places):
            problems.append(f"rllib config: {where}() takes its arguments by name, as in {next(iter(here))}=...")
        for name, value in {**dict(zip(places, args, strict=False)), **kwargs}.items():
            if value is NotProvided:
                continue
            taken = here.get(name)
            if taken is None:
                elsewhere = next((other for other in METHODS if name in arguments(other, self.algorithm)), "")
                near = f"; did you mean {elsewhere}({name}=...)?" if elsewhere else nearest(name, list(here))
                problems.append(f"rllib config: {where}({name} = {show(value)}): there is no such argument{near}")
                continue
            try:
                changes = _nested(taken, value) if isinstance(taken, str) else taken(self, value)
                self.given = merge_trainer_configs(self.given, changes, True)
            except ConfigError as error:
                said_by = f"{where}({name})"
                problems += [
                    line.replace("rllib config:", f"rllib config: {said_by}:", 1).replace(": = ", " = ", 1)
                    for line in error.problems
                ]
        if problems:
            raise ConfigError(*problems)
        return self

    @classmethod
    def overrides(cls, **keys: Any) -> Config:
        return dict(keys)

    def update_from_dict(self, config: Mapping[str, Any]) -> Self:
        self.given = merge_trainer_configs(self.given, config, True)
        return self

    def copy(self, copy_frozen: bool | None = None) -> Self:
        other = type(self)()
        other.given, other.auto_fragment = copied(self.given), self.auto_fragment
        return other

    def to_dict(self) -> Config:
        """Returns all keys of 2021, with defaults for those not set."""
        whole = merge_trainer_configs(DEFAULT_CONFIGS[self.algorithm], self.given)
        if self.auto_fragment and "train_batch_size" in whole:
            lanes = max(int(whole["num_workers"]), 1) * int(whole["num_envs_per_worker"])
            whole["rollout_fragment_length"] = max(-(-int(whole["train_batch_size"]) // lanes), 1)
        return whole

    def __getitem__(self, key: str) -> Any:
        return self.to_dict()[key]

    def keys(self) -> Any:
        """Returns the keys of 2021, so that ``dict(config)`` and ``PPO(config=config)`` work."""
        return self.to_dict().keys()

    def get(self, key: str, default: Any = None) -> Any:
        return self.to_dict().get(key, default)

    @property
    def algo_class(self) -> Any:
        return getattr(trainers, f"{self.algorithm}Trainer")

    def build(self, env: Any = None, logger_creator: Any = None, **ignored: Any) -> Any:
        config = self.given | {"rollout_fragment_length": self.to_dict()["rollout_fragment_length"]}
        found = env if env is not None else config.get("env")
        return self.algo_class(config=config if self.auto_fragment else self.given, env=found,
                               logger_creator=logger_creator)  # fmt: skip

    def build_algo(self, env: Any = None, logger_creator: Any = None, **ignored: Any) -> Any:
        return self.build(env, logger_creator, **ignored)


class PPOConfig(AlgorithmConfig):
    algorithm = "PPO"
    own = PPO_TRAINING


class DQNConfig(AlgorithmConfig):
    algorithm = "DQN"
    own = DQN_TRAINING


class SACConfig(AlgorithmConfig):
    algorithm = "SAC"
    own = SAC_TRAINING
