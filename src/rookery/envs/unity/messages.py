"""Messages of Unity's ML-Agents toolkit (communicator API 1.0 to 1.5) that demonstrations consist of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from rookery.envs.unity.wire import WireField

UNCOMPRESSED, PNG = 0, 1
"""How an observation is packed."""

DISCRETE, CONTINUOUS = 0, 1
"""What actions were, before there were both."""


@dataclass(frozen=True)
class DemonstrationMetaProto:
    """What a demonstration file says of itself."""

    api_version: Annotated[int, WireField(1, "int")] = 0
    demonstration_name: Annotated[str, WireField(2, "text")] = ""
    number_steps: Annotated[int, WireField(3, "int")] = 0
    number_episodes: Annotated[int, WireField(4, "int")] = 0
    mean_reward: Annotated[float, WireField(5, "float")] = 0.0


@dataclass(frozen=True)
class ActionSpecProto:
    """What an agent decides: numbers, and choices (branches), each of so many."""

    num_continuous_actions: Annotated[int, WireField(1, "int")] = 0
    num_discrete_actions: Annotated[int, WireField(2, "int")] = 0
    discrete_branch_sizes: Annotated[tuple[int, ...], WireField(3, "int", repeated=True)] = ()
    action_descriptions: Annotated[tuple[str, ...], WireField(4, "text", repeated=True)] = ()


@dataclass(frozen=True)
class BrainParametersProto:
    """What a behaviour is called, and what it decides."""

    vector_action_size_deprecated: Annotated[tuple[int, ...], WireField(3, "int", repeated=True)] = ()
    vector_action_descriptions_deprecated: Annotated[tuple[str, ...], WireField(5, "text", repeated=True)] = ()
    vector_action_space_type_deprecated: Annotated[int, WireField(6, "int")] = 0
    brain_name: Annotated[str, WireField(7, "text")] = ""
    is_training: Annotated[bool, WireField(8, "bool")] = False
    action_spec: Annotated[ActionSpecProto | None, WireField(9, "message", False, ActionSpecProto)] = None


@dataclass(frozen=True)
class FloatData:
    """The numbers of an observation."""

    data: Annotated[tuple[float, ...], WireField(1, "float", repeated=True)] = ()


@dataclass(frozen=True)
class ObservationProto:
    """What one sensor shows, as numbers or as pictures."""

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
    """What an agent sees when it decides, or when its episode has ended."""

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
    """What an agent decided."""

    vector_actions_deprecated: Annotated[tuple[float, ...], WireField(1, "float", repeated=True)] = ()
    value: Annotated[float, WireField(4, "float")] = 0.0
    continuous_actions: Annotated[tuple[float, ...], WireField(6, "float", repeated=True)] = ()
    discrete_actions: Annotated[tuple[int, ...], WireField(7, "int", repeated=True)] = ()


@dataclass(frozen=True)
class AgentInfoActionPairProto:
    """A row of a demonstration: what an agent saw, and what it did."""

    agent_info: Annotated[AgentInfoProto | None, WireField(1, "message", False, AgentInfoProto)] = None
    action_info: Annotated[AgentActionProto | None, WireField(2, "message", False, AgentActionProto)] = None
