"""Names of environments, spaces, preprocessors and batches: ``ray.rllib.env`` and what belongs to it."""

_MULTI = {
    "MultiAgentEnv": "envs:MultiAgentEnv",
    "make_multi_agent": "envs:make_multi_agent",
    "ENV_STATE": "envs:ENV_STATE",
}
_GROUPS = {
    "GroupAgentsWrapper": "envs:GroupAgentsWrapper",
    "GROUP_REWARDS": "envs:GROUP_REWARDS",
    "GROUP_INFO": "envs:GROUP_INFO",
}
_ZOO = {"PettingZooEnv": "envs:PettingZooEnv", "ParallelPettingZooEnv": "envs:ParallelPettingZooEnv"}
_BASE = {
    "BaseEnv": "base_env:BaseEnv",
    "ASYNC_RESET_RETURN": "base_env:ASYNC_RESET_RETURN",
    "_DUMMY_AGENT_ID": "base_env:DUMMY_AGENT_ID",
}
_UNITY = {"Unity3DEnv": "unity3d_env:Unity3DEnv"}
_TASKS = {"TaskSettableEnv": "envs:TaskSettableEnv", "TaskType": "envs:TaskType"}
_ATARI = {
    name: f"atari_wrappers:{name}"
    for name in (
        "is_atari", "get_wrapper_by_cls", "MonitorEnv", "NoopResetEnv", "ClipRewardEnv", "FireResetEnv",
        "EpisodicLifeEnv", "MaxAndSkipEnv", "WarpFrame", "FrameStack", "FrameStackTrajectoryView",
        "ScaledFloatFrame", "wrap_deepmind",
    )
}  # fmt: skip
_PREPROCESSORS = {
    name: f"preprocessors:{name}"
    for name in (
        "ATARI_OBS_SHAPE", "ATARI_RAM_OBS_SHAPE", "OBS_VALIDATION_INTERVAL", "Preprocessor", "NoPreprocessor",
        "OneHotPreprocessor", "GenericPixelPreprocessor", "AtariRamPreprocessor", "TupleFlatteningPreprocessor",
        "DictFlatteningPreprocessor", "RepeatedValuesPreprocessor", "get_preprocessor",
    )
}  # fmt: skip
_BATCHES = {
    "SampleBatch": "sample_batch:SampleBatch",
    "MultiAgentBatch": "sample_batch:MultiAgentBatch",
    "DEFAULT_POLICY_ID": "sample_batch:DEFAULT_POLICY_ID",
}
_BUILDERS = {"SampleBatchBuilder": "sample_batch:SampleBatchBuilder"}

NAMES: dict[str, dict[str, str]] = {
    "ray.rllib": {
        "MultiAgentEnv": "envs:MultiAgentEnv",
        "VectorEnv": "envs:VectorEnv",
        "ExternalEnv": "envs:ExternalEnv",
        "BaseEnv": "base_env:BaseEnv",
        "SampleBatch": "sample_batch:SampleBatch",
        "MultiAgentBatch": "sample_batch:MultiAgentBatch",
    },
    "ray.rllib.env": {
        "BaseEnv": "base_env:BaseEnv",
        "EnvContext": "envs:EnvContext",
        "ExternalEnv": "envs:ExternalEnv",
        "ExternalMultiAgentEnv": "envs:ExternalMultiAgentEnv",
        "GroupAgentsWrapper": "envs:GroupAgentsWrapper",
        "MultiAgentEnv": "envs:MultiAgentEnv",
        "PettingZooEnv": "envs:PettingZooEnv",
        "ParallelPettingZooEnv": "envs:ParallelPettingZooEnv",
        "PolicyClient": "policy_server:PolicyClient",
        "PolicyServerInput": "policy_server:PolicyServerInput",
        "Unity3DEnv": "unity3d_env:Unity3DEnv",
        "VectorEnv": "envs:VectorEnv",
    },
    "ray.rllib.env.apis.task_settable_env": _TASKS,
    "ray.rllib.env.atari_wrappers": _ATARI,
    "ray.rllib.env.base_env": _BASE,
    "ray.rllib.env.constants": {"GROUP_REWARDS": "envs:GROUP_REWARDS", "GROUP_INFO": "envs:GROUP_INFO"},
    "ray.rllib.env.env_context": {"EnvContext": "envs:EnvContext"},
    "ray.rllib.env.external_env": {"ExternalEnv": "envs:ExternalEnv"},
    "ray.rllib.env.external_multi_agent_env": {"ExternalMultiAgentEnv": "envs:ExternalMultiAgentEnv"},
    "ray.rllib.env.group_agents_wrapper": _GROUPS,
    "ray.rllib.env.meta_env": {"MetaEnv": "envs:TaskSettableEnv"},
    "ray.rllib.env.multi_agent_env": _MULTI,
    "ray.rllib.env.normalize_actions": {"NormalizeActionWrapper": "envs:NormalizeActionWrapper"},
    "ray.rllib.env.pettingzoo_env": _ZOO,
    "ray.rllib.env.policy_client": {"PolicyClient": "policy_server:PolicyClient"},
    "ray.rllib.env.policy_server_input": {"PolicyServerInput": "policy_server:PolicyServerInput"},
    "ray.rllib.env.unity3d_env": _UNITY,
    "ray.rllib.env.utils": {"gym_env_creator": "envs:gym_env_creator"},
    "ray.rllib.env.vector_env": {"VectorEnv": "envs:VectorEnv", "_VectorizedGymEnv": "envs:VectorOfOldEnvs"},
    "ray.rllib.env.wrappers.atari_wrappers": _ATARI,
    "ray.rllib.env.wrappers.group_agents_wrapper": _GROUPS,
    "ray.rllib.env.wrappers.pettingzoo_env": _ZOO,
    "ray.rllib.env.wrappers.unity3d_env": _UNITY,
    "ray.rllib.env.wrappers.uncertainty_wrappers": {
        "add_RewardUncertaintyEnvClassWrapper": "envs:add_reward_uncertainty",
    },
    "ray.rllib.evaluation": {
        "MultiAgentBatch": "sample_batch:MultiAgentBatch",
        "SampleBatch": "sample_batch:SampleBatch",
        "SampleBatchBuilder": "sample_batch:SampleBatchBuilder",
        "compute_advantages": "postprocessing:compute_advantages",
    },
    "ray.rllib.evaluation.postprocessing": {
        "Postprocessing": "postprocessing:Postprocessing",
        "adjust_nstep": "postprocessing:adjust_nstep",
        "compute_advantages": "postprocessing:compute_advantages",
        "compute_gae_for_sample_batch": "postprocessing:compute_gae_for_sample_batch",
        "discount_cumsum": "postprocessing:discount_cumsum",
    },
    "ray.rllib.evaluation.sample_batch_builder": _BUILDERS,
    "ray.rllib.models": {"Preprocessor": "preprocessors:Preprocessor"},
    "ray.rllib.models.modelv2": {"restore_original_dimensions": "preprocessors:restore_original_dimensions"},
    "ray.rllib.models.preprocessors": _PREPROCESSORS,
    "ray.rllib.models.repeated_values": {"RepeatedValues": "repeated_values:RepeatedValues"},
    "ray.rllib.policy.sample_batch": _BATCHES,
    "ray.rllib.policy.view_requirement": {"ViewRequirement": "view_requirement:ViewRequirement"},
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
