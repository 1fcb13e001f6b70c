"""Names of ``ray.rllib.utils``: helpers for models, policies and environments, and explorations."""

from rookery_rllib.base.names import gone_in, names_in

NAMES = names_in("""
ray.rllib.utils.annotations  base.annotations: override PublicAPI DeveloperAPI Deprecated
ray.rllib.utils.compression  batch.compression:
    compression_supported is_compressed pack pack_if_needed unpack unpack_if_needed
ray.rllib.utils.debug  batch.debug_text: log_once summarize
ray.rllib.utils.deprecation  base.deprecation:
    DEPRECATED_VALUE deprecation_warning moved_function renamed_agent renamed_class renamed_function
ray.rllib.utils.exploration  policy.explorations: exploration.Exploration stochastic_sampling.StochasticSampling
    random.Random epsilon_greedy.EpsilonGreedy soft_q.SoftQ gaussian_noise.GaussianNoise
    ornstein_uhlenbeck_noise.OrnsteinUhlenbeckNoise  .*: *
ray.rllib.utils.filter  model.filters: ConcurrentMeanStdFilter Filter MeanStdFilter NoFilter RunningStat get_filter
ray.rllib.utils.framework
    keras.framework: get_activation_fn get_variable tf_function try_import_jax try_import_tf try_import_tfp
        try_import_torch
    base.type_names: TensorShape TensorStructType TensorType
ray.rllib.utils.from_config  base.from_config: from_config from_file lookup_type
ray.rllib.utils.memory  batch.numpy_functions: aligned_array concat_aligned
ray.rllib.utils.numpy  batch.numpy_functions:
    LARGE_INTEGER MAX_LOG_NN_OUTPUT MIN_LOG_NN_OUTPUT SMALL_NUMBER aligned_array concat_aligned
    concat_multi_gpu_td_errors convert_to_numpy fc flatten_inputs_to_1d_tensor huber_loss l2_loss lstm
    make_action_immutable one_hot one_hot_multidiscrete relu sigmoid softmax
ray.rllib.utils.schedules  base.schedules: constant_schedule.ConstantSchedule exponential_schedule.ExponentialSchedule
    linear_schedule.LinearSchedule piecewise_schedule.PiecewiseSchedule polynomial_schedule.PolynomialSchedule
    schedule.Schedule  .*: *
ray.rllib.utils.sgd  batch.minibatches: averaged do_minibatch_sgd minibatches standardized
ray.rllib.utils.spaces  gym.rllib_spaces: flexdict.FlexDict repeated.Repeated simplex.Simplex
ray.rllib.utils.spaces.space_utils  gym.rllib_spaces:
    clip_action flatten_space flatten_to_single_ndarray get_base_struct_from_space get_dummy_batch_for_space
    normalize_action unbatch unsquash_action
ray.rllib.utils.test_utils  trainer.checks:
    check check_compute_single_action check_learning_achieved check_train_results framework_iterator
    run_learning_tests_from_yaml
ray.rllib.utils.tf_ops ray.rllib.utils.tf_utils  batch.torch_functions:
    explained_variance huber_loss make_tf_callable one_hot reduce_mean_ignore_inf
    convert_to_non_tf_type=convert_to_non_torch_type
ray.rllib.utils.torch_ops ray.rllib.utils.torch_utils
    batch.torch_functions: FLOAT_MAX FLOAT_MIN apply_grad_clipping atanh convert_to_non_torch_type
        convert_to_torch_tensor explained_variance global_norm huber_loss l2_loss minimize_and_clip one_hot
        reduce_mean_ignore_inf sequence_mask softmax_cross_entropy_with_logits
    batch.numpy_functions: concat_multi_gpu_td_errors flatten_inputs_to_1d_tensor
    keras.framework: Swish
ray.rllib.utils.typing
    base.type_names: AgentID AlgorithmConfigDict EnvActionType EnvConfigDict EnvCreator EnvID EnvInfoDict EnvObsType
        EnvType EpisodeID FileType FromConfigSpec GradInfoDict LearnerStatsDict LocalOptimizer ModelConfigDict
        ModelGradients ModelInputDict ModelWeights MultiAgentDict MultiAgentPolicyConfigDict MultiEnvDict
        PartialAlgorithmConfigDict PartialTrainerConfigDict PolicyID PolicyState ResultDict SampleBatchType SpaceStruct
        TensorShape TensorStructType TensorType TrainerConfigDict UnrollID ViewRequirementsDict
    =typing: Any Dict List Tuple Union

ray.rllib.utils
    base.nested_dicts: add_mixins deep_update force_list force_tuple merge_dicts NullContextManager
    base.running_statistics: timer.TimerStat window_stat.WindowStat
    base.locks: threading.with_lock
    batch.sample_batch: tracking_dict.UsageTrackingDict=SampleBatch
    env.envs: pre_checks.env.check_env
    gym.rllib_spaces: error.UnsupportedSpaceException
    model.filters: Filter FilterManager filter_manager.FilterManager
    .annotations: override PublicAPI DeveloperAPI
    .deprecation: deprecation_warning renamed_agent renamed_class renamed_function
    .framework: try_import_tf try_import_tfp try_import_torch
    .numpy: LARGE_INTEGER MAX_LOG_NN_OUTPUT MIN_LOG_NN_OUTPUT SMALL_NUMBER fc lstm one_hot relu sigmoid softmax
    .schedules: ConstantSchedule ExponentialSchedule LinearSchedule PiecewiseSchedule PolynomialSchedule
    .test_utils: check check_compute_single_action framework_iterator
""")

_PER_WORKER = "exploration rates per worker; all environments are in one worker here and explore alike; use"

GONE = gone_in(f"""
ray.rllib.utils
    actors: pools of Ray actors; here remote calls run in order in this process, and environment processes step the
        environments (num_workers)
    tf_ops.get_placeholder tf_ops.scope_vars tf_run_builder: functions for TensorFlow graphs;
        call functions of torch tensors directly
    tf_ops.minimize_and_clip: a function for TensorFlow optimizers; set grad_clip in the configuration
    tests: RLlib's own tests
ray.rllib.utils.exploration
    per_worker_epsilon_greedy PerWorkerEpsilonGreedy per_worker_epsilon_greedy.PerWorkerEpsilonGreedy:
        {_PER_WORKER} EpsilonGreedy
    per_worker_gaussian_noise PerWorkerGaussianNoise per_worker_gaussian_noise.PerWorkerGaussianNoise:
        {_PER_WORKER} GaussianNoise
    per_worker_ornstein_uhlenbeck_noise PerWorkerOrnsteinUhlenbeckNoise
        per_worker_ornstein_uhlenbeck_noise.PerWorkerOrnsteinUhlenbeckNoise: {_PER_WORKER} OrnsteinUhlenbeckNoise
    curiosity Curiosity curiosity.Curiosity: set exploration_config = {{'type': 'Curiosity'}} with PPO, A2C or PG, which
        uses Rookery's reward signal (algorithm.signals.curiosity)
    re3 RE3 re3.RE3: novelty rewards; add them in postprocess_trajectory of a custom Exploration
    parameter_noise ParameterNoise parameter_noise.ParameterNoise: set exploration_config =
        {{'type': 'ParameterNoise'}} with DQN, which uses Rookery's setting (algorithm.exploration.kind = parameters)
    slate_epsilon_greedy SlateEpsilonGreedy slate_epsilon_greedy.SlateEpsilonGreedy slate_soft_q SlateSoftQ
        slate_soft_q.SlateSoftQ: exploration of slates, which are not supported
""")
