"""Names of environments, spaces, preprocessors and batches: ``ray.rllib.env`` and what belongs to it."""

_MULTI = {
    "MultiAgentEnv": "env.envs:MultiAgentEnv",
    "make_multi_agent": "env.envs:make_multi_agent",
    "ENV_STATE": "env.envs:ENV_STATE",
}
_GROUPS = {
    "GroupAgentsWrapper": "env.envs:GroupAgentsWrapper",
    "GROUP_REWARDS": "env.envs:GROUP_REWARDS",
    "GROUP_INFO": "env.envs:GROUP_INFO",
}
_ZOO = {"PettingZooEnv": "env.envs:PettingZooEnv", "ParallelPettingZooEnv": "env.envs:ParallelPettingZooEnv"}
_BASE = {
    "BaseEnv": "env.base_env:BaseEnv",
    "ASYNC_RESET_RETURN": "env.base_env:ASYNC_RESET_RETURN",
    "_DUMMY_AGENT_ID": "env.base_env:DUMMY_AGENT_ID",
}
_UNITY = {"Unity3DEnv": "env.unity3d_env:Unity3DEnv"}
_TASKS = {"TaskSettableEnv": "env.envs:TaskSettableEnv", "TaskType": "env.envs:TaskType"}
_ATARI = {
    name: f"gym.atari_wrappers:{name}"
    for name in (
        "is_atari", "get_wrapper_by_cls", "MonitorEnv", "NoopResetEnv", "ClipRewardEnv", "FireResetEnv",
        "EpisodicLifeEnv", "MaxAndSkipEnv", "WarpFrame", "FrameStack", "FrameStackTrajectoryView",
        "ScaledFloatFrame", "wrap_deepmind",
    )
}  # fmt: skip
_PREPROCESSORS = {
    name: f"model.preprocessors:{name}"
    for name in (
        "ATARI_OBS_SHAPE", "ATARI_RAM_OBS_SHAPE", "OBS_VALIDATION_INTERVAL", "Preprocessor", "NoPreprocessor",
        "OneHotPreprocessor", "GenericPixelPreprocessor", "AtariRamPreprocessor", "TupleFlatteningPreprocessor",
        "DictFlatteningPreprocessor", "RepeatedValuesPreprocessor", "get_preprocessor",
    )
}  # fmt: skip
_BATCHES = {
    "SampleBatch": "batch.sample_batch:SampleBatch",
    "MultiAgentBatch": "batch.sample_batch:MultiAgentBatch",
    "DEFAULT_POLICY_ID": "batch.sample_batch:DEFAULT_POLICY_ID",
}
_BUILDERS = {"SampleBatchBuilder": "batch.sample_batch:SampleBatchBuilder"}

NAMES: dict[str, dict[str, str]] = {
    "ray.rllib": {
        "MultiAgentEnv": "env.envs:MultiAgentEnv",
        "VectorEnv": "env.envs:VectorEnv",
        "ExternalEnv": "env.envs:ExternalEnv",
        "BaseEnv": "env.base_env:BaseEnv",
        "SampleBatch": "batch.sample_batch:SampleBatch",
        "MultiAgentBatch": "batch.sample_batch:MultiAgentBatch",
    },
    "ray.rllib.env": {
        "BaseEnv": "env.base_env:BaseEnv",
        "EnvContext": "env.envs:EnvContext",
        "ExternalEnv": "env.envs:ExternalEnv",
        "ExternalMultiAgentEnv": "env.envs:ExternalMultiAgentEnv",
        "GroupAgentsWrapper": "env.envs:GroupAgentsWrapper",
        "MultiAgentEnv": "env.envs:MultiAgentEnv",
        "PettingZooEnv": "env.envs:PettingZooEnv",
        "ParallelPettingZooEnv": "env.envs:ParallelPettingZooEnv",
        "PolicyClient": "trainer.policy_server:PolicyClient",
        "PolicyServerInput": "trainer.policy_server:PolicyServerInput",
        "Unity3DEnv": "env.unity3d_env:Unity3DEnv",
        "VectorEnv": "env.envs:VectorEnv",
    },
    "ray.rllib.env.apis.task_settable_env": _TASKS,
    "ray.rllib.env.atari_wrappers": _ATARI,
    "ray.rllib.env.base_env": _BASE,
    "ray.rllib.env.constants": {"GROUP_REWARDS": "env.envs:GROUP_REWARDS", "GROUP_INFO": "env.envs:GROUP_INFO"},
    "ray.rllib.env.env_context": {"EnvContext": "env.envs:EnvContext"},
    "ray.rllib.env.external_env": {"ExternalEnv": "env.envs:ExternalEnv"},
    "ray.rllib.env.external_multi_agent_env": {"ExternalMultiAgentEnv": "env.envs:ExternalMultiAgentEnv"},
    "ray.rllib.env.group_agents_wrapper": _GROUPS,
    "ray.rllib.env.meta_env": {"MetaEnv": "env.envs:TaskSettableEnv"},
    "ray.rllib.env.multi_agent_env": _MULTI,
    "ray.rllib.env.normalize_actions": {"NormalizeActionWrapper": "env.envs:NormalizeActionWrapper"},
    "ray.rllib.env.pettingzoo_env": _ZOO,
    "ray.rllib.env.policy_client": {"PolicyClient": "trainer.policy_server:PolicyClient"},
    "ray.rllib.env.policy_server_input": {"PolicyServerInput": "trainer.policy_server:PolicyServerInput"},
    "ray.rllib.env.unity3d_env": _UNITY,
    "ray.rllib.env.utils": {"gym_env_creator": "env.envs:gym_env_creator"},
    "ray.rllib.env.vector_env": {"VectorEnv": "env.envs:VectorEnv", "_VectorizedGymEnv": "env.envs:VectorOfOldEnvs"},
    "ray.rllib.env.wrappers.atari_wrappers": _ATARI,
    "ray.rllib.env.wrappers.group_agents_wrapper": _GROUPS,
    "ray.rllib.env.wrappers.pettingzoo_env": _ZOO,
    "ray.rllib.env.wrappers.unity3d_env": _UNITY,
    "ray.rllib.env.wrappers.uncertainty_wrappers": {
        "add_RewardUncertaintyEnvClassWrapper": "env.envs:add_reward_uncertainty",
    },
    "ray.rllib.evaluation": {
        "MultiAgentBatch": "batch.sample_batch:MultiAgentBatch",
        "SampleBatch": "batch.sample_batch:SampleBatch",
        "SampleBatchBuilder": "batch.sample_batch:SampleBatchBuilder",
        "compute_advantages": "batch.postprocessing:compute_advantages",
    },
    "ray.rllib.evaluation.postprocessing": {
        "Postprocessing": "batch.postprocessing:Postprocessing",
        "adjust_nstep": "batch.postprocessing:adjust_nstep",
        "compute_advantages": "batch.postprocessing:compute_advantages",
        "compute_gae_for_sample_batch": "batch.postprocessing:compute_gae_for_sample_batch",
        "discount_cumsum": "batch.postprocessing:discount_cumsum",
    },
    "ray.rllib.evaluation.sample_batch_builder": _BUILDERS,
    "ray.rllib.models": {"Preprocessor": "model.preprocessors:Preprocessor"},
    "ray.rllib.models.modelv2": {"restore_original_dimensions": "model.preprocessors:restore_original_dimensions"},
    "ray.rllib.models.preprocessors": _PREPROCESSORS,
    "ray.rllib.models.repeated_values": {"RepeatedValues": "batch.repeated_values:RepeatedValues"},
    "ray.rllib.policy.sample_batch": _BATCHES,
    "ray.rllib.policy.view_requirement": {"ViewRequirement": "batch.view_requirement:ViewRequirement"},
}

_DM = "dm_control's environments for the old Gym; use shimmy's, gymnasium.make('dm_control/...'), by register_env"
_REMOTE = "copies as Ray actors; copies are stepped by helper processes here (num_workers)"
_MODELS = "environments that are a learned model (MB-MPO, Dreamer); those algorithms are not here"
_RECSIM = "RecSim's environments for SlateQ, which is not here; wrap them as a Gymnasium environment"
_COLLECTOR = "how RLlib's workers collect rows; a callback's on_postprocess_trajectory sees and changes them"

GONE: dict[str, str] = {
    "ray.rllib.env.DMCEnv": _DM,
    "ray.rllib.env.DMEnv": _DM,
    "ray.rllib.env.dm_control_wrapper": _DM,
    "ray.rllib.env.dm_env_wrapper": _DM,
    "ray.rllib.env.wrappers.dm_control_wrapper": _DM,
    "ray.rllib.env.wrappers.dm_env_wrapper": _DM,
    "ray.rllib.env.RemoteVectorEnv": _REMOTE,
    "ray.rllib.env.remote_vector_env": _REMOTE,
    "ray.rllib.env.model_vector_env": _MODELS,
    "ray.rllib.env.wrappers.model_vector_env": _MODELS,
    "ray.rllib.env.wrappers.recsim_wrapper": _RECSIM,
    "ray.rllib.env.wrappers.kaggle_wrapper": "Kaggle's football for the old Gym; write a MultiAgentEnv of 30 lines",
    "ray.rllib.env.wrappers.exception_wrapper": (
        "resets after an environment raised; set env.on_error=restart, which counts and reports them"
    ),
    "ray.rllib.evaluation.MultiAgentSampleBatchBuilder": _COLLECTOR,
    "ray.rllib.evaluation.collectors": _COLLECTOR,
    "ray.rllib.evaluation.sample_batch_builder.MultiAgentSampleBatchBuilder": _COLLECTOR,
}
