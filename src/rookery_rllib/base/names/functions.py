"""Names of ``ray.rllib.utils``: what scripts import around models, policies and environments."""

_NUMPY = {
    name: f"batch.numpy_functions:{name}"
    for name in (
        "LARGE_INTEGER", "MAX_LOG_NN_OUTPUT", "MIN_LOG_NN_OUTPUT", "SMALL_NUMBER", "aligned_array",
        "concat_aligned", "concat_multi_gpu_td_errors", "convert_to_numpy", "fc", "flatten_inputs_to_1d_tensor",
        "huber_loss", "l2_loss", "lstm", "make_action_immutable", "one_hot", "one_hot_multidiscrete", "relu",
        "sigmoid", "softmax",
    )
}  # fmt: skip
_TORCH = {
    name: f"batch.torch_functions:{name}"
    for name in (
        "FLOAT_MAX", "FLOAT_MIN", "apply_grad_clipping", "atanh", "convert_to_non_torch_type",
        "convert_to_torch_tensor", "explained_variance", "global_norm", "huber_loss", "l2_loss",
        "minimize_and_clip", "one_hot", "reduce_mean_ignore_inf", "sequence_mask",
        "softmax_cross_entropy_with_logits",
    )
} | {
    "Swish": "keras.framework:Swish",
    "concat_multi_gpu_td_errors": "batch.numpy_functions:concat_multi_gpu_td_errors",
    "flatten_inputs_to_1d_tensor": "batch.numpy_functions:flatten_inputs_to_1d_tensor",
}  # fmt: skip
_TENSORFLOW = {
    name: f"batch.torch_functions:{name}"
    for name in ("explained_variance", "huber_loss", "make_tf_callable", "one_hot", "reduce_mean_ignore_inf")
} | {"convert_to_non_tf_type": "batch.torch_functions:convert_to_non_torch_type"}
_SCHEDULES = {
    name: f"base.schedules:{name}"
    for name in (
        "ConstantSchedule", "ExponentialSchedule", "LinearSchedule", "PiecewiseSchedule", "PolynomialSchedule",
        "Schedule",
    )
}  # fmt: skip
_DEPRECATION = {
    name: f"base.deprecation:{name}"
    for name in (
        "DEPRECATED_VALUE", "deprecation_warning", "moved_function", "renamed_agent", "renamed_class",
        "renamed_function",
    )
}  # fmt: skip
_ANNOTATIONS = {name: f"base.annotations:{name}" for name in ("override", "PublicAPI", "DeveloperAPI", "Deprecated")}
_FRAMEWORK = {
    name: f"keras.framework:{name}"
    for name in (
        "get_activation_fn", "get_variable", "tf_function", "try_import_jax", "try_import_tf", "try_import_tfp",
        "try_import_torch",
    )
}  # fmt: skip
_CHECKS = {
    name: f"trainer.checks:{name}"
    for name in (
        "check", "check_compute_single_action", "check_learning_achieved", "check_train_results",
        "framework_iterator", "run_learning_tests_from_yaml",
    )
}  # fmt: skip
_TYPES = {
    name: f"base.type_names:{name}"
    for name in (
        "AgentID", "AlgorithmConfigDict", "EnvActionType", "EnvConfigDict", "EnvCreator", "EnvID", "EnvInfoDict",
        "EnvObsType", "EnvType", "EpisodeID", "FileType", "FromConfigSpec", "GradInfoDict", "LearnerStatsDict",
        "LocalOptimizer", "ModelConfigDict", "ModelGradients", "ModelInputDict", "ModelWeights", "MultiAgentDict",
        "MultiAgentPolicyConfigDict", "MultiEnvDict", "PartialAlgorithmConfigDict", "PartialTrainerConfigDict",
        "PolicyID", "PolicyState", "ResultDict", "SampleBatchType", "SpaceStruct", "TensorShape",
        "TensorStructType", "TensorType", "TrainerConfigDict", "UnrollID", "ViewRequirementsDict",
    )
}  # fmt: skip
_FILTERS = {
    name: f"model.filters:{name}"
    for name in ("ConcurrentMeanStdFilter", "Filter", "MeanStdFilter", "NoFilter", "RunningStat", "get_filter")
}
_SPACES = {
    name: f"gym.rllib_spaces:{name}"
    for name in (
        "clip_action", "flatten_space", "flatten_to_single_ndarray", "get_base_struct_from_space",
        "get_dummy_batch_for_space", "normalize_action", "unbatch", "unsquash_action",
    )
}  # fmt: skip
_DICTS = {
    name: f"base.nested_dicts:{name}"
    for name in ("add_mixins", "deep_update", "force_list", "force_tuple", "merge_dicts")
}
_SGD = {name: f"batch.minibatches:{name}" for name in ("averaged", "do_minibatch_sgd", "minibatches", "standardized")}
_PACKING = {
    name: f"batch.compression:{name}"
    for name in ("compression_supported", "is_compressed", "pack", "pack_if_needed", "unpack", "unpack_if_needed")
}

NAMES: dict[str, dict[str, str]] = {
    "ray.rllib.utils": {
        **_DICTS,
        **{name: _FRAMEWORK[name] for name in ("try_import_tf", "try_import_tfp", "try_import_torch")},
        **{name: _ANNOTATIONS[name] for name in ("override", "PublicAPI", "DeveloperAPI")},
        **{name: _CHECKS[name] for name in ("check", "check_compute_single_action", "framework_iterator")},
        **{name: told for name, told in _DEPRECATION.items() if name not in ("DEPRECATED_VALUE", "moved_function")},
        **{name: told for name, told in _SCHEDULES.items() if name != "Schedule"},
        **{
            name: _NUMPY[name]
            for name in (
                "LARGE_INTEGER",
                "MAX_LOG_NN_OUTPUT",
                "MIN_LOG_NN_OUTPUT",
                "SMALL_NUMBER",
                "fc",
                "lstm",
                "one_hot",
                "relu",
                "sigmoid",
                "softmax",
            )
        },
        "Filter": "model.filters:Filter",
        "FilterManager": "model.filters:FilterManager",
        "NullContextManager": "base.nested_dicts:NullContextManager",
    },
    "ray.rllib.utils.annotations": _ANNOTATIONS,
    "ray.rllib.utils.compression": _PACKING,
    "ray.rllib.utils.debug": {"log_once": "batch.debug_text:log_once", "summarize": "batch.debug_text:summarize"},
    "ray.rllib.utils.deprecation": _DEPRECATION,
    "ray.rllib.utils.error": {"UnsupportedSpaceException": "gym.rllib_spaces:UnsupportedSpaceException"},
    "ray.rllib.utils.filter": _FILTERS,
    "ray.rllib.utils.filter_manager": {"FilterManager": "model.filters:FilterManager"},
    "ray.rllib.utils.framework": {
        **_FRAMEWORK,
        "TensorShape": "base.type_names:TensorShape",
        "TensorStructType": "base.type_names:TensorStructType",
        "TensorType": "base.type_names:TensorType",
    },
    "ray.rllib.utils.from_config": {
        "from_config": "base.from_config:from_config",
        "from_file": "base.from_config:from_file",
        "lookup_type": "base.from_config:lookup_type",
    },
    "ray.rllib.utils.memory": {
        "aligned_array": "batch.numpy_functions:aligned_array",
        "concat_aligned": "batch.numpy_functions:concat_aligned",
    },
    "ray.rllib.utils.numpy": _NUMPY,
    "ray.rllib.utils.pre_checks.env": {"check_env": "env.envs:check_env"},
    "ray.rllib.utils.schedules": _SCHEDULES,
    "ray.rllib.utils.schedules.constant_schedule": {"ConstantSchedule": "base.schedules:ConstantSchedule"},
    "ray.rllib.utils.schedules.exponential_schedule": {"ExponentialSchedule": "base.schedules:ExponentialSchedule"},
    "ray.rllib.utils.schedules.linear_schedule": {"LinearSchedule": "base.schedules:LinearSchedule"},
    "ray.rllib.utils.schedules.piecewise_schedule": {"PiecewiseSchedule": "base.schedules:PiecewiseSchedule"},
    "ray.rllib.utils.schedules.polynomial_schedule": {"PolynomialSchedule": "base.schedules:PolynomialSchedule"},
    "ray.rllib.utils.schedules.schedule": {"Schedule": "base.schedules:Schedule"},
    "ray.rllib.utils.sgd": _SGD,
    "ray.rllib.utils.spaces.flexdict": {"FlexDict": "gym.rllib_spaces:FlexDict"},
    "ray.rllib.utils.spaces.repeated": {"Repeated": "gym.rllib_spaces:Repeated"},
    "ray.rllib.utils.spaces.simplex": {"Simplex": "gym.rllib_spaces:Simplex"},
    "ray.rllib.utils.spaces.space_utils": _SPACES,
    "ray.rllib.utils.test_utils": _CHECKS,
    "ray.rllib.utils.tf_ops": _TENSORFLOW,
    "ray.rllib.utils.tf_utils": _TENSORFLOW,
    "ray.rllib.utils.threading": {"with_lock": "base.locks:with_lock"},
    "ray.rllib.utils.timer": {"TimerStat": "base.running_statistics:TimerStat"},
    "ray.rllib.utils.torch_ops": _TORCH,
    "ray.rllib.utils.torch_utils": _TORCH,
    "ray.rllib.utils.tracking_dict": {"UsageTrackingDict": "batch.sample_batch:SampleBatch"},
    "ray.rllib.utils.typing": _TYPES | {name: f"=typing:{name}" for name in ("Any", "Dict", "List", "Tuple", "Union")},
    "ray.rllib.utils.window_stat": {"WindowStat": "base.running_statistics:WindowStat"},
}

_ACTORS = "pools of Ray actors; calls run in order in this process, and trainers play copies in helpers (num_workers)"
_GRAPH = "TensorFlow's graphs; nothing is compiled here, functions of tensors are called"

GONE: dict[str, str] = {
    "ray.rllib.utils.actors": _ACTORS,
    "ray.rllib.utils.tf_ops.get_placeholder": _GRAPH,
    "ray.rllib.utils.tf_ops.scope_vars": _GRAPH,
    "ray.rllib.utils.tf_ops.minimize_and_clip": "TensorFlow's optimizers; set grad_clip in the configuration",
    "ray.rllib.utils.tf_run_builder": _GRAPH,
    "ray.rllib.utils.tests": "RLlib's own tests",
}
