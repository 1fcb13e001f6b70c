"""Objects of Rookery for the names of `mlagents_envs` (and of `gym_unity`, and what plug-ins need of `mlagents`), by
their modules.
"""

from __future__ import annotations

VERSION = "1.1.0"
"""The release of `mlagents_envs` whose names are supported."""

STATS_WRITER_GROUP = "mlagents.stats_writer"
"""Group of the entry points of stats writers."""

_WRITERS = ("StatsWriter", "StatsSummary", "StatsPropertyType", "StatsAggregationMethod")
_SETTINGS = ("RunOptions", "CheckpointSettings", "EngineSettings", "EnvironmentSettings", "TorchSettings")
_CHANNELS = {
    "SideChannel": "side_channels:SideChannel",
    "IncomingMessage": "channel_messages:IncomingMessage",
    "OutgoingMessage": "channel_messages:OutgoingMessage",
}
_ENGINE = {
    "EngineConfig": "side_channels:EngineConfig",
    "EngineConfigurationChannel": "side_channels:EngineConfigurationChannel",
}
_EXCEPTIONS = {
    name: f"exceptions:{name}"
    for name in (
        "UnityException", "UnityEnvironmentException", "UnityCommunicationException",
        "UnityCommunicatorStoppedException", "UnityObservationException", "UnityActionException",
        "UnityTimeOutException", "UnitySideChannelException", "UnityWorkerInUseException", "UnityPolicyException",
    )
}  # fmt: skip
_SPECS = {
    name: f"specs:{name}"
    for name in (
        "AgentId", "GroupId", "BehaviorName", "ActionTuple", "ActionSpec", "DimensionProperty", "ObservationType",
        "ObservationSpec", "BehaviorSpec", "BehaviorMapping",
    )
}  # fmt: skip
_STEPS = {name: f"steps:{name}" for name in ("DecisionStep", "DecisionSteps", "TerminalStep", "TerminalSteps")}
_GYM = {name: f"gym_wrapper:{name}" for name in ("UnityToGymWrapper", "UnityGymException", "ActionFlattener")}
_REGISTRY = {name: f"player_registry:{name}" for name in ("default_registry", "UnityEnvRegistry")}
_STATS = ("StatsAggregationMethod", "StatsSideChannel", "StatList", "EnvironmentStats")
_LOGGERS = ("get_logger", "set_log_level", "CRITICAL", "FATAL", "ERROR", "WARNING", "INFO", "DEBUG", "NOTSET")

NAMES: dict[str, dict[str, str]] = {
    "mlagents_envs": {"__version__": "mlagents_names:VERSION"},
    "mlagents_envs.base_env": {"BaseEnv": "base_env:BaseEnv", **_SPECS, **_STEPS},
    "mlagents_envs.environment": {
        "UnityEnvironment": "unity_environment:UnityEnvironment",
        "BaseEnv": "base_env:BaseEnv",
        "SideChannel": "side_channels:SideChannel",
        "SideChannelManager": "side_channels:SideChannelManager",
        **{
            name: _SPECS[name] for name in ("BehaviorSpec", "ActionTuple", "BehaviorName", "AgentId", "BehaviorMapping")
        },
        **{name: _STEPS[name] for name in ("DecisionSteps", "TerminalSteps")},
        **{
            name: _EXCEPTIONS[name]
            for name in (
                "UnityEnvironmentException",
                "UnityActionException",
                "UnityTimeOutException",
                "UnityCommunicatorStoppedException",
            )
        },
    },
    "mlagents_envs.exception": _EXCEPTIONS,
    "mlagents_envs.side_channel": _CHANNELS,
    "mlagents_envs.side_channel.side_channel": _CHANNELS,
    "mlagents_envs.side_channel.incoming_message": {"IncomingMessage": _CHANNELS["IncomingMessage"]},
    "mlagents_envs.side_channel.outgoing_message": {"OutgoingMessage": _CHANNELS["OutgoingMessage"]},
    "mlagents_envs.side_channel.engine_configuration_channel": {**_CHANNELS, **_ENGINE},
    "mlagents_envs.side_channel.environment_parameters_channel": {
        **_CHANNELS,
        "EnvironmentParametersChannel": "side_channels:EnvironmentParametersChannel",
    },
    "mlagents_envs.side_channel.float_properties_channel": {
        **_CHANNELS,
        "FloatPropertiesChannel": "side_channels:FloatPropertiesChannel",
    },
    "mlagents_envs.side_channel.raw_bytes_channel": {
        **_CHANNELS,
        "RawBytesChannel": "side_channels:RawBytesChannel",
    },
    "mlagents_envs.side_channel.stats_side_channel": {
        **_CHANNELS,
        **{name: f"side_channels:{name}" for name in _STATS},
    },
    "mlagents_envs.side_channel.side_channel_manager": {
        **_CHANNELS,
        "SideChannelManager": "side_channels:SideChannelManager",
    },
    "mlagents_envs.envs": {},
    "mlagents_envs.envs.unity_gym_env": _GYM,
    "mlagents_envs.envs.unity_aec_env": {"UnityAECEnv": "pettingzoo_wrappers:UnityAECEnv"},
    "mlagents_envs.envs.unity_parallel_env": {"UnityParallelEnv": "pettingzoo_wrappers:UnityParallelEnv"},
    "mlagents_envs.envs.unity_pettingzoo_base_env": {
        "UnityPettingzooBaseEnv": "pettingzoo_wrappers:UnityPettingzooBaseEnv",
    },
    "mlagents_envs.registry": _REGISTRY,
    "mlagents_envs.registry.unity_env_registry": _REGISTRY,
    "mlagents_envs.logging_util": {name: f"loggers:{name}" for name in _LOGGERS},
    "mlagents": {"__version__": "mlagents_names:VERSION"},
    "mlagents.trainers": {"__version__": "mlagents_names:VERSION"},
    "mlagents.trainers.stats": {name: f"stats:{name}" for name in _WRITERS},
    "mlagents.trainers.settings": {name: f"stats:{name}" for name in _SETTINGS},
    "mlagents.plugins": {"ML_AGENTS_STATS_WRITER": "mlagents_names:STATS_WRITER_GROUP"},
    "gym_unity": {"__version__": "mlagents_names:VERSION"},
    "gym_unity.envs": _GYM,
}
"""Targets of names, ``module:Name`` of this package, by module."""

_PROTOCOL = "internal to the connection with players, which Rookery implements itself (rookery_mlagents.link)"

_DOWNLOADS = "it is for downloaded players, and nothing is downloaded here"

GONE = {
    "mlagents.trainers.trainer": (
        "trainers of ML-Agents do not run here; write an algorithm with rookery.extend (docs/how-to/own-algorithm.md)"
    ),
    "mlagents.trainers.learn": "use rookery mlagents learn",
    "mlagents.torch_utils": "internal to ML-Agents' trainers; import torch",
    "mlagents_envs.communicator": _PROTOCOL,
    "mlagents_envs.communicator_objects": _PROTOCOL,
    "mlagents_envs.rpc_communicator": _PROTOCOL,
    "mlagents_envs.rpc_utils": _PROTOCOL,
    "mlagents_envs.mock_communicator": "a mock for tests; python -m rookery_mlagents.testing ENV acts as a player",
    "mlagents_envs.timers": "ML-Agents' timers; use rookery timers RUN",
    "mlagents_envs.env_utils": "it launches players; use UnityEnvironment(file_name=PATH)",
    "mlagents_envs.side_channel.default_training_analytics_side_channel": (
        "it reports Python packages to the Editor, which Rookery does not"
    ),
    "mlagents_envs.envs.pettingzoo_env_factory": "it creates downloaded players; use UnityAECEnv(env)",
    "mlagents_envs.envs.env_helpers": "internal to the wrappers",
    "mlagents_envs.registry.base_registry_entry": _DOWNLOADS,
    "mlagents_envs.registry.remote_registry_entry": _DOWNLOADS,
    "mlagents_envs.registry.binary_utils": _DOWNLOADS,
}
"""Modules that are not supported, with their replacement."""
