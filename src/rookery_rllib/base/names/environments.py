"""Names of environments, spaces, preprocessors and batches: ``ray.rllib.env``, ``.offline`` and related modules."""

from rookery_rllib.base.names import gone_in, names_in

NAMES = names_in("""
ray.rllib  env.envs: MultiAgentEnv VectorEnv ExternalEnv  env.base_env: BaseEnv
    batch.sample_batch: SampleBatch MultiAgentBatch

ray.rllib.env.base_env  env.base_env: BaseEnv ASYNC_RESET_RETURN _DUMMY_AGENT_ID=DUMMY_AGENT_ID
ray.rllib.env.group_agents_wrapper ray.rllib.env.wrappers.group_agents_wrapper
    env.envs: GroupAgentsWrapper GROUP_REWARDS GROUP_INFO
ray.rllib.env.multi_agent_env  env.envs: MultiAgentEnv make_multi_agent ENV_STATE
ray.rllib.env.pettingzoo_env ray.rllib.env.wrappers.pettingzoo_env  env.envs: PettingZooEnv ParallelPettingZooEnv
ray.rllib.env.unity3d_env ray.rllib.env.wrappers.unity3d_env  env.unity3d_env: Unity3DEnv
ray.rllib.env.vector_env  env.envs: VectorEnv _VectorizedGymEnv=VectorOfOldEnvs
ray.rllib.env
    trainer.policy_server: policy_client.PolicyClient policy_server_input.PolicyServerInput
    env.envs: env_context.EnvContext external_env.ExternalEnv external_multi_agent_env.ExternalMultiAgentEnv
    .env_context: *  .external_env: *  .external_multi_agent_env: *  .pettingzoo_env: *  .policy_client: *
    .policy_server_input: *  .unity3d_env: *
    .base_env: BaseEnv  .group_agents_wrapper: GroupAgentsWrapper  .multi_agent_env: MultiAgentEnv
    .vector_env: VectorEnv
    env.envs: apis.task_settable_env.TaskSettableEnv apis.task_settable_env.TaskType constants.GROUP_REWARDS
        constants.GROUP_INFO meta_env.MetaEnv=TaskSettableEnv normalize_actions.NormalizeActionWrapper
        utils.gym_env_creator
        wrappers.uncertainty_wrappers.add_RewardUncertaintyEnvClassWrapper=add_reward_uncertainty
ray.rllib.env.atari_wrappers ray.rllib.env.wrappers.atari_wrappers  gym.atari_wrappers:
    is_atari get_wrapper_by_cls MonitorEnv NoopResetEnv ClipRewardEnv FireResetEnv EpisodicLifeEnv MaxAndSkipEnv
    WarpFrame FrameStack FrameStackTrajectoryView ScaledFloatFrame wrap_deepmind

ray.rllib.evaluation.postprocessing  batch.postprocessing:
    Postprocessing adjust_nstep compute_advantages compute_gae_for_sample_batch discount_cumsum
ray.rllib.evaluation  .postprocessing: compute_advantages
    batch.sample_batch: MultiAgentBatch SampleBatch SampleBatchBuilder sample_batch_builder.SampleBatchBuilder

ray.rllib.models  model.preprocessors: Preprocessor modelv2.restore_original_dimensions
    batch.repeated_values: repeated_values.RepeatedValues
ray.rllib.models.preprocessors  model.preprocessors:
    ATARI_OBS_SHAPE ATARI_RAM_OBS_SHAPE OBS_VALIDATION_INTERVAL Preprocessor NoPreprocessor OneHotPreprocessor
    GenericPixelPreprocessor AtariRamPreprocessor TupleFlatteningPreprocessor DictFlatteningPreprocessor
    RepeatedValuesPreprocessor get_preprocessor

ray.rllib.offline  batch.offline:
    io_context.IOContext input_reader.InputReader output_writer.OutputWriter output_writer.NoopOutput
    json_reader.JsonReader json_writer.JsonWriter mixed_input.MixedInput shuffled_input.ShuffledInput  .*: *
    batch.estimators: off_policy_estimator.OffPolicyEstimator off_policy_estimator.OffPolicyEstimate
        is_estimator.ImportanceSamplingEstimator wis_estimator.WeightedImportanceSamplingEstimator
ray._private.utils  batch.offline: get_user_temp_dir

ray.rllib.policy.sample_batch  batch.sample_batch: SampleBatch MultiAgentBatch DEFAULT_POLICY_ID
ray.rllib.policy.view_requirement  batch.view_requirement: ViewRequirement
""")

GONE = gone_in("""
ray.rllib.env
    DMCEnv DMEnv dm_control_wrapper dm_env_wrapper wrappers.dm_control_wrapper wrappers.dm_env_wrapper: dm_control
        environments for the old Gym; install shimmy and register gymnasium.make('dm_control/...') by register_env
    RemoteVectorEnv remote_vector_env: environments as Ray actors; here environment processes step them (num_workers)
    model_vector_env wrappers.model_vector_env: learned environment models of MB-MPO and Dreamer, which are not
        implemented
    wrappers.recsim_wrapper: RecSim environments for SlateQ, which is not implemented; wrap them as a Gymnasium
        environment
    wrappers.kaggle_wrapper: Kaggle football for the old Gym; write a MultiAgentEnv (about 30 lines)
    wrappers.exception_wrapper: resets environments that raise an exception; set env.on_error=restart, which also
        counts and reports the exceptions
ray.rllib.evaluation
    MultiAgentSampleBatchBuilder collectors sample_batch_builder.MultiAgentSampleBatchBuilder: internal classes
        of RLlib's sampler; use the callback on_postprocess_trajectory to read or change a batch
ray.rllib.offline
    D4RLReader d4rl_reader: D4RL datasets; `rookery replay import` reads their .hdf5 files, and Minari datasets
    estimators: later names of off-policy estimators; use input_evaluation, or `rookery replay import FOLDER -o DATA`,
        then `rookery evaluate RUN --replay DATA --stochastic`
ray
    _private: internal functions of Ray; only get_user_temp_dir exists here
""")
