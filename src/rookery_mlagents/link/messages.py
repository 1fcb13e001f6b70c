"""Messages of Unity's ML-Agents toolkit (communicator API 1.0 to 1.5, and 0.15.0) in demonstrations, and between player
and trainer.

A player speaks first, always: it sends a `UnityMessageProto` with `unity_output`, and gets one with `unity_input`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from rookery_mlagents.link.protobuf_wire import WireField

UNCOMPRESSED, PNG = 0, 1
"""Compression of an observation."""

DISCRETE, CONTINUOUS = 0, 1
"""Type of the actions, from versions in which a behaviour could not have both."""

OK, GOODBYE = 200, 400
"""Status of a message: the exchange continues; this is the last message, from either side."""

STEP, RESET, QUIT = 0, 1, 2
"""Commands to a player."""


@dataclass(frozen=True)
class DemonstrationMetaProto:
    """Header of a demonstration file."""

    api_version: Annotated[int, WireField(1, "int")] = 0
    demonstration_name: Annotated[str, WireField(2, "text")] = ""
    number_steps: Annotated[int, WireField(3, "int")] = 0
    number_episodes: Annotated[int, WireField(4, "int")] = 0
    mean_reward: Annotated[float, WireField(5, "float")] = 0.0


@dataclass(frozen=True)
class ActionSpecProto:
    """Action space of an agent: continuous actions, and discrete ones (branches) with their sizes."""

    num_continuous_actions: Annotated[int, WireField(1, "int")] = 0
    num_discrete_actions: Annotated[int, WireField(2, "int")] = 0
    discrete_branch_sizes: Annotated[tuple[int, ...], WireField(3, "int", repeated=True)] = ()
    action_descriptions: Annotated[tuple[str, ...], WireField(4, "text", repeated=True)] = ()


@dataclass(frozen=True)
class BrainParametersProto:
    """Name and action space of a behaviour."""

    vector_action_size_deprecated: Annotated[tuple[int, ...], WireField(3, "int", repeated=True)] = ()
    vector_action_descriptions_deprecated: Annotated[tuple[str, ...], WireField(5, "text", repeated=True)] = ()
    vector_action_space_type_deprecated: Annotated[int, WireField(6, "int")] = 0
    brain_name: Annotated[str, WireField(7, "text")] = ""
    is_training: Annotated[bool, WireField(8, "bool")] = False
    action_spec: Annotated[ActionSpecProto | None, WireField(9, "message", False, ActionSpecProto)] = None


@dataclass(frozen=True)
class FloatData:
    """Values of an observation."""

    data: Annotated[tuple[float, ...], WireField(1, "float", repeated=True)] = ()


@dataclass(frozen=True)
class ObservationProto:
    """Observation of one sensor, as values or as images."""

    shape: Annotated[tuple[int, ...], WireField(1, "int", repeated=True)] = ()
    compression_type: Annotated[int, WireField(2, "int")] = 0
    compressed_data: Annotated[bytes, WireField(3, "bytes")] = b""
    float_data: Annotated[FloatData | None, WireField(4, "message", False, FloatData)] = None
    compressed_channel_mapping: Annotated[tuple[int, ...], WireField(5, "int", repeated=True)] = ()
    dimension_properties: Annotated[tuple[int, ...], WireField(6, "int", repeated=True)] = ()
    observation_type: Annotated[int, WireField(7, "int")] = 0
    name: Annotated[str, WireField(8, "text")] = ""


@dataclass(frozen=True)
class AgentInfoProto:
    """Observations of an agent when it requests an action, or when its episode has ended."""

    reward: Annotated[float, WireField(7, "float")] = 0.0
    ended: Annotated[bool, WireField(8, "bool")] = False
    max_step_reached: Annotated[bool, WireField(9, "bool")] = False
    id: Annotated[int, WireField(10, "int")] = 0
    action_mask: Annotated[tuple[bool, ...], WireField(11, "bool", repeated=True)] = ()
    observations: Annotated[tuple[ObservationProto, ...], WireField(13, "message", True, ObservationProto)] = ()
    group_id: Annotated[int, WireField(14, "int")] = 0
    group_reward: Annotated[float, WireField(15, "float")] = 0.0


@dataclass(frozen=True)
class AgentActionProto:
    """Action of an agent."""

    vector_actions_deprecated: Annotated[tuple[float, ...], WireField(1, "float", repeated=True)] = ()
    value: Annotated[float, WireField(4, "float")] = 0.0
    continuous_actions: Annotated[tuple[float, ...], WireField(6, "float", repeated=True)] = ()
    discrete_actions: Annotated[tuple[int, ...], WireField(7, "int", repeated=True)] = ()


@dataclass(frozen=True)
class AgentInfoActionPairProto:
    """Row of a demonstration: the observations and the action of an agent."""

    agent_info: Annotated[AgentInfoProto | None, WireField(1, "message", False, AgentInfoProto)] = None
    action_info: Annotated[AgentActionProto | None, WireField(2, "message", False, AgentActionProto)] = None


# --- what players and trainers exchange -------------------------------------------------------------------------------


@dataclass(frozen=True)
class UnityRLCapabilitiesProto:
    """Features that one side supports beyond the first version of the protocol."""

    base_capabilities: Annotated[bool, WireField(1, "bool")] = False
    concatenated_png: Annotated[bool, WireField(2, "bool")] = False
    compressed_channel_mapping: Annotated[bool, WireField(3, "bool")] = False
    hybrid_actions: Annotated[bool, WireField(4, "bool")] = False
    training_analytics: Annotated[bool, WireField(5, "bool")] = False
    variable_length_observation: Annotated[bool, WireField(6, "bool")] = False
    multi_agent_groups: Annotated[bool, WireField(7, "bool")] = False


@dataclass(frozen=True)
class HeaderProto:
    """Status: `OK`, or `GOODBYE`."""

    status: Annotated[int, WireField(1, "int")] = 0
    message: Annotated[str, WireField(2, "text")] = ""


@dataclass(frozen=True)
class ListAgentInfoProto:
    """Agents of one behaviour that request an action, and those whose episode has ended."""

    value: Annotated[tuple[AgentInfoProto, ...], WireField(1, "message", True, AgentInfoProto)] = ()


@dataclass(frozen=True)
class ListAgentActionProto:
    """Actions of one behaviour, for the requesting agents, in their order."""

    value: Annotated[tuple[AgentActionProto, ...], WireField(1, "message", True, AgentActionProto)] = ()


@dataclass(frozen=True)
class UnityRLOutputProto:
    """State of a player at one moment: agents by behaviour."""

    agent_infos: Annotated[Mapping[str, ListAgentInfoProto], WireField(2, "map", message=ListAgentInfoProto)] = field(
        default_factory=dict
    )
    side_channel: Annotated[bytes, WireField(3, "bytes")] = b""


@dataclass(frozen=True)
class UnityRLInitializationOutputProto:
    """First message of a player; later, behaviours with their first agents."""

    name: Annotated[str, WireField(1, "text")] = ""
    communication_version: Annotated[str, WireField(2, "text")] = ""
    log_path: Annotated[str, WireField(3, "text")] = ""
    brain_parameters: Annotated[
        tuple[BrainParametersProto, ...], WireField(5, "message", True, BrainParametersProto)
    ] = ()
    package_version: Annotated[str, WireField(7, "text")] = ""
    capabilities: Annotated[
        UnityRLCapabilitiesProto | None, WireField(8, "message", False, UnityRLCapabilitiesProto)
    ] = None


@dataclass(frozen=True)
class UnityOutputProto:
    """Message of a player."""

    rl_output: Annotated[UnityRLOutputProto | None, WireField(1, "message", False, UnityRLOutputProto)] = None
    rl_initialization_output: Annotated[
        UnityRLInitializationOutputProto | None, WireField(2, "message", False, UnityRLInitializationOutputProto)
    ] = None


@dataclass(frozen=True)
class UnityRLInputProto:
    """Command to a player: `STEP` with these actions, `RESET`, or `QUIT`."""

    agent_actions: Annotated[Mapping[str, ListAgentActionProto], WireField(1, "map", message=ListAgentActionProto)] = (
        field(default_factory=dict)
    )
    command: Annotated[int, WireField(4, "int")] = 0
    side_channel: Annotated[bytes, WireField(5, "bytes")] = b""


@dataclass(frozen=True)
class UnityRLInitializationInputProto:
    """First message of a trainer."""

    seed: Annotated[int, WireField(1, "int")] = 0
    communication_version: Annotated[str, WireField(2, "text")] = ""
    package_version: Annotated[str, WireField(3, "text")] = ""
    capabilities: Annotated[
        UnityRLCapabilitiesProto | None, WireField(4, "message", False, UnityRLCapabilitiesProto)
    ] = None
    num_areas: Annotated[int, WireField(5, "int")] = 0


@dataclass(frozen=True)
class UnityInputProto:
    """Message to a player."""

    rl_input: Annotated[UnityRLInputProto | None, WireField(1, "message", False, UnityRLInputProto)] = None
    rl_initialization_input: Annotated[
        UnityRLInitializationInputProto | None, WireField(2, "message", False, UnityRLInitializationInputProto)
    ] = None


@dataclass(frozen=True)
class UnityMessageProto:
    """The only message type of the connection."""

    header: Annotated[HeaderProto | None, WireField(1, "message", False, HeaderProto)] = None
    unity_output: Annotated[UnityOutputProto | None, WireField(2, "message", False, UnityOutputProto)] = None
    unity_input: Annotated[UnityInputProto | None, WireField(3, "message", False, UnityInputProto)] = None
