"""Converts observations and actions of Unity players to Rookery's spaces, their messages to arrays, and actions to
messages.

The convention, which ONNX files for Unity (`rookery_mlagents/onnx_unity.py`) and demonstrations
(`rookery_mlagents/files/demo_replay.py`) share:

- A sensor is a leaf. Leaves stand in the order in which the player names its sensors, which is that of their names in
  Unity, so that leaf i becomes the input ``obs_i`` of an exported model. A behaviour with one sensor has its plain
  space, others a Dict by the names of the sensors. A sensor without a name is called ``obs_i``; one whose name is
  taken, or means something here, is called ``NAME_i`` (`paths_of`).
- Numbers are boxes without bounds, of the shape that the player sends; sensors of categories or flags
  are not marked as such, and are numbers. A sensor of shape (0,) is an empty box; an agent with no other sensors
  observes a constant, Discrete(1).
- A sensor that is packed as PNG is an image of bytes, and in units of 1/255 what a model gets. Images of bytes or
  floats keep the shape in which they come, ``[height, width, channels]`` or, of package 3 and later, ``[channels,
  height, width]``, unless networks would take another axis for the channels: then they are turned. A model gets the
  channels first in either case.
- A table with any number of rows is an `EntitySet` of these; rows of zeros are absent entities, as in exported models.
- Goals are leaves like others; `BehaviorLayout.goals` has their paths, for the setting ``model.goals``.
- Numbers that are decided go from -1 to 1. Choices (branches) are Discrete or MultiDiscrete; who decides both has a
  Dict of ``continuous`` and ``discrete``. Behaviours with choices have a mask beside their observations, True where
  allowed.
"""

from __future__ import annotations

import math
import re
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from gymnasium import spaces

from rookery.face import (
    CENTRAL,
    MASK,
    ActionSpec,
    Asking,
    Ended,
    EntitySet,
    ObsSpec,
    SpaceError,
    Tree,
    action_spec,
    image_axes,
    obs_spec,
)
from rookery_mlagents.link.image_messages import channels_first, decoded
from rookery_mlagents.link.messages import (
    CONTINUOUS,
    PNG,
    AgentActionProto,
    AgentInfoProto,
    BrainParametersProto,
    ListAgentActionProto,
    ObservationProto,
)
from rookery_mlagents.link.protobuf_wire import (
    LENGTH,
    WireError,
    from_bytes,
    read_varint,
    to_bytes,
    varint,
    wire_fields,
)

NUMBERS, CHOICES = "continuous", "discrete"
"""Keys of actions with continuous and discrete parts."""

VARIABLE_SIZE = 4
"""Property of a dimension with a variable size, up to its maximum."""

GOAL_SIGNAL = 1
"""Type of an observation: a goal."""

LARGEST, LARGEST_SENSOR = 2**20, 2**26
"""Maximum number of elements or options of an action, and of elements of a sensor; messages with more are rejected."""

EMPTY = (0,)
"""Shape of a sensor without numbers; recorders up to 0.14 write one for agents without vector observations."""

OWN_NUMBER = re.compile(r"obs_\d+")


# --- what there is ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SensorLayout:
    """Layout of one sensor.

    Attributes:
        path: Its leaf.
        name: Its name as the player sends it; older players send none.
        shape: Its shape as sent by the player.
        properties: Properties of its dimensions, likewise.
        is_packed: Whether it sends PNGs.
        is_goal: Whether it is a goal.
        is_turned: Whether the leaf has the channels of the image on the other end.
        is_constant: Whether it stands for an agent without observations: it sends no numbers, and the leaf is 0.
    """

    path: str
    name: str
    shape: tuple[int, ...]
    properties: tuple[int, ...]
    is_packed: bool
    is_goal: bool
    is_turned: bool
    is_constant: bool = False

    @property
    def is_set(self) -> bool:
        """Whether the number of rows is variable."""
        return len(self.shape) == 2 and bool(self.properties) and bool(self.properties[0] & VARIABLE_SIZE)

    @property
    def is_image(self) -> bool:
        """Whether neighbouring values are related along two of three dimensions."""
        return _is_image(self.shape, self.properties, self.is_packed)

    @property
    def space(self) -> spaces.Space[Any]:
        """Space of the sensor's leaf."""
        if self.is_constant:
            return spaces.Discrete(1)
        if self.is_set:
            return EntitySet(spaces.Box(-np.inf, np.inf, self.shape[1:], np.float32), self.shape[0])
        shape = self.shape
        if self.is_turned:
            shape = _turned(shape, channels_first(shape, self.properties))
        if self.is_packed:
            return spaces.Box(0, 255, shape, np.uint8)
        return spaces.Box(-np.inf, np.inf, shape, np.float32)

    def stored(self, values: np.ndarray) -> np.ndarray:
        """Converts values of the player, ``[N, *shape]``, to stored values, ``[N, *leaf.shape]``."""
        if self.is_constant:
            return np.zeros(len(values), np.int64)
        if self.is_set:
            return with_presence(values)
        if self.is_turned:
            return (
                np.moveaxis(values, 1, -1)
                if channels_first(self.shape, self.properties)
                else np.moveaxis(values, -1, 1)
            )
        return values

    def value(self, obs: ObservationProto) -> np.ndarray:
        """Returns the values of one observation, ``[*shape]``: uint8 from PNGs, float32 otherwise.

        Raises:
            WireError: If it is not an observation of this sensor; names it.
        """
        if tuple(obs.shape) != self.shape:
            raise WireError(f"sensor {self.path!r} has the shape {tuple(obs.shape)}, and at first it had {self.shape}")
        if (obs.compression_type == PNG) != self.is_packed:
            kinds = ("numbers", "PNG")
            now, then = kinds[not self.is_packed], kinds[self.is_packed]
            raise WireError(f"sensor {self.path!r} sends {now}, and at first it sent {then}")
        if self.is_packed:
            return decoded(obs)
        values = np.array(() if obs.float_data is None else obs.float_data.data, np.float32)
        if values.size != int(np.prod(self.shape)):
            raise WireError(f"sensor {self.path!r} has the shape {self.shape}, and sends {values.size} numbers")
        return values.reshape(self.shape)


def with_presence(values: np.ndarray) -> np.ndarray:
    """Adds a first column to entities ``[N, rows, numbers]``: 1 for present entities, which are not all zeros."""
    return np.concatenate([values.any(axis=2, keepdims=True).astype(np.float32), values], axis=2)


def sensor_layouts(observations: Sequence[ObservationProto]) -> tuple[SensorLayout, ...]:
    """Returns the layouts of an agent's sensors from their descriptions.

    Raises:
        SpaceError: If one gives nothing.
    """
    found = []
    is_constant = all(tuple(obs.shape) == EMPTY for obs in observations)
    for path, obs in zip(paths_of([obs.name for obs in observations]), observations, strict=True):
        shape, properties = tuple(obs.shape), tuple(obs.dimension_properties)
        if shape != EMPTY and (not shape or min(shape) < 1 or math.prod(shape) > LARGEST_SENSOR):
            raise SpaceError(f"sensor {path!r} has the shape {shape}: give it 1 to {LARGEST_SENSOR:,} numbers in Unity")
        is_packed = obs.compression_type == PNG
        turned = False
        if _is_image(shape, properties, is_packed):
            first = channels_first(shape, properties)
            turned = _is_taken_for(shape, first) and not _is_taken_for(_turned(shape, first), not first)
        is_goal = obs.observation_type == GOAL_SIGNAL
        found.append(SensorLayout(path, obs.name, shape, properties, is_packed, is_goal, turned, is_constant))
    return tuple(found)


def paths_of(names: Sequence[str]) -> list[str]:
    """Returns leaf paths for the sensors of one agent.

    The only sensor is called ``obs``, as plain spaces are. Names that mean something else here get the sensor's number:
    those of masks and of what critics see, and those that are numbered already, by another number.
    """
    if len(names) == 1:
        return ["obs"]
    found: list[str] = []
    for number, given_name in enumerate(names):
        own = f"obs_{number}"
        name = given_name or own
        numbered_otherwise = OWN_NUMBER.fullmatch(name) is not None and name != own
        if numbered_otherwise or name in (MASK, CENTRAL) or name.startswith(f"{CENTRAL}/"):
            name = f"{name.replace('/', '_')}_{number}"
        while name in found:
            name = f"{name}_{number}"
        found.append(name)
    return found


def names_of(sensors: Sequence[SensorLayout]) -> dict[str, str]:
    """Returns the names of the sensors that have one, by the paths of their leaves."""
    return {sensor.path: sensor.name for sensor in sensors if sensor.name}


def sensed_space(sensors: Sequence[SensorLayout]) -> spaces.Space[Any]:
    """Returns the observation space: that of the only sensor, or a Dict of all sensors, in their order."""
    if len(sensors) == 1:
        return sensors[0].space
    return spaces.Dict(OrderedDict((sensor.path, sensor.space) for sensor in sensors))


def decided_space(brain: BrainParametersProto) -> spaces.Space[Any]:
    """Returns the space of a behaviour's actions.

    Raises:
        SpaceError: If it decides nothing.
    """
    spec = brain.action_spec
    numbers, branches = (0, ()) if spec is None else (spec.num_continuous_actions, tuple(spec.discrete_branch_sizes))
    if not numbers and not branches:  # players of API 1.0 to 1.2, and older ones
        sizes = tuple(brain.vector_action_size_deprecated)
        is_numbers = brain.vector_action_space_type_deprecated == CONTINUOUS
        numbers, branches = (sizes[0] if sizes else 0, ()) if is_numbers else (0, sizes)
    if numbers not in range(LARGEST) or any(size not in range(1, LARGEST) for size in branches):
        raise SpaceError(f"behaviour {brain.brain_name!r} decides {numbers} numbers and branches of {branches}")
    box = spaces.Box(-1.0, 1.0, (numbers,), np.float32)
    if numbers and branches:
        return spaces.Dict({NUMBERS: box, CHOICES: spaces.MultiDiscrete(list(branches))})
    if not numbers and not branches:
        raise SpaceError(
            f"behaviour {brain.brain_name!r} has no actions: give its Behavior Parameters in Unity continuous actions "
            "or discrete branches"
        )
    if numbers:
        return box
    return spaces.Discrete(branches[0]) if len(branches) == 1 else spaces.MultiDiscrete(list(branches))


def _turned(shape: tuple[int, ...], first: bool) -> tuple[int, ...]:
    """Returns the shape of an image with its channels moved to the other end; `first`: the channels are first now."""
    return (*shape[1:], shape[0]) if first else (shape[2], *shape[:2])


def _is_taken_for(shape: tuple[int, ...], first: bool) -> bool:
    """Returns whether networks would misread the channel axis of an image."""
    axes = image_axes(shape)
    return axes is not None and axes[3] == first


def _is_image(shape: tuple[int, ...], properties: tuple[int, ...], is_packed: bool) -> bool:
    """Returns whether an array of three dimensions is an image; without properties it is one."""
    return len(shape) == 3 and (is_packed or not any(properties) or properties in ((1, 2, 2), (2, 2, 1)))


@dataclass(frozen=True)
class BehaviorLayout:
    """Observations and actions of a behaviour.

    Attributes:
        name: Its name, with its team: ``Striker?team=1``.
        sensors: Its sensors, in order.
        obs: Its observations.
        action: Its actions.
    """

    name: str
    sensors: tuple[SensorLayout, ...]
    obs: ObsSpec
    action: ActionSpec

    @cached_property
    def goals(self) -> tuple[str, ...]:
        """Paths of the leaves that are goals."""
        return tuple(sensor.path for sensor in self.sensors if sensor.is_goal)

    @cached_property
    def sensor_names(self) -> dict[str, str]:
        """Names of the sensors that have one, by the paths of their leaves."""
        return names_of(self.sensors)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Warnings for the user, shown once: sensors whose image axes networks would misread."""
        found = []
        for sensor in self.sensors:
            if sensor.is_image:
                first = channels_first(sensor.shape, sensor.properties)
                if not sensor.is_turned and _is_taken_for(sensor.shape, first):
                    channels = sensor.shape[0 if first else 2]
                    found.append(
                        f"behaviour {self.name!r}, sensor {sensor.path!r}: networks take the shorter of the first and "
                        f"last of {sensor.shape} for its channels, and it has {channels}; give it fewer channels than "
                        "rows or columns"
                    )
        return tuple(found)


def layout_of(brain: BrainParametersProto, agent_info: AgentInfoProto) -> BehaviorLayout:
    """Returns the layout of a behaviour.

    Args:
        brain: Its description by the player.
        agent_info: Its first agent.

    Raises:
        SpaceError: If it sees or decides nothing.
    """
    if not agent_info.observations:
        raise SpaceError(
            f"behaviour {brain.brain_name!r} senses nothing: give its agent in Unity observations or a sensor component"
        )
    sensors = sensor_layouts(agent_info.observations)
    action = action_spec(decided_space(brain))
    obs = obs_spec(sensed_space(sensors), action.space, info_mask=bool(action.sizes))
    return BehaviorLayout(brain.brain_name, sensors, obs, action)


# --- messages as arrays -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Around:
    """Bytes before and after the values of a sensor, which are the same in all of its messages.

    Attributes:
        before: ``[B]`` uint8, those before the numbers.
        after: ``[A]`` uint8, those after them.
        size: Total number of bytes, including the values.
    """

    before: np.ndarray
    after: np.ndarray
    size: int


def _around(content: bytes, count: int) -> Around | None:
    """Finds the block of `count` values in an observation; None if they are not contiguous, or there are none."""
    if not count:
        return None
    numbers = {name: number for number, (name, _) in wire_fields(ObservationProto).items()}
    view, place = memoryview(content), 0
    while place < len(view):
        key, place = read_varint(view, place)
        if key & 7 != LENGTH:
            _, place = read_varint(view, place)
            continue
        size, place = read_varint(view, place)
        if key >> 3 == numbers["float_data"]:
            block_key, start = read_varint(view, place)
            length, start = read_varint(view, start)
            if block_key != 1 << 3 | LENGTH or length != 4 * count or start + length != place + size:
                return None
            both = np.frombuffer(content, np.uint8)
            return Around(both[:start].copy(), both[start + length :].copy(), len(content))
        place += size
    return None


class BehaviorReader:
    """Reads messages of agents of one behaviour, and writes their actions.

    Args:
        layout: The behaviour.
    """

    def __init__(self, layout: BehaviorLayout) -> None:
        self.layout = layout
        self._arounds: list[Around | None] = [None] * len(layout.sensors)
        self._width = sum(layout.action.sizes)
        self._writer = ActionWriter(layout.action)

    def read(self, infos: Sequence[Any]) -> tuple[Asking | None, Ended | None]:
        """Reads agents of one message.

        Args:
            infos: ``[N]`` messages `AgentInfoProto`, of a class whose observations and masks are raw.

        Returns:
            Agents that request an action, and those whose episode has ended; None if there are none.

        Raises:
            WireError: If one cannot be read, or shows something else than agents of the behaviour do.
        """
        infos = list(infos)  # cached objects need not be created again for each field
        gone = np.array([info.ended for info in infos], dtype=bool)
        if not gone.any():
            return self._asking(infos), None
        if gone.all():
            return None, self._ended(infos)
        ended = [info for info, is_gone in zip(infos, gone, strict=True) if is_gone]
        asking = [info for info, is_gone in zip(infos, gone, strict=True) if not is_gone]
        return self._asking(asking), self._ended(ended)

    def _asking(self, infos: Sequence[Any]) -> Asking:
        ids, reward, groups, group_reward = _agent_columns(infos)
        return Asking(ids, self._seen(infos), reward, groups, group_reward)

    def _ended(self, infos: Sequence[Any]) -> Ended:
        ids, reward, groups, group_reward = _agent_columns(infos)
        truncated = np.array([info.max_step_reached for info in infos], dtype=bool)
        return Ended(ids, self._seen(infos), reward, groups, group_reward, truncated)

    def _seen(self, infos: Sequence[Any]) -> Tree:
        """Returns the observations of agents, ``[N, *leaf.shape]`` by leaf path."""
        sensors = self.layout.sensors
        seen = [info.observations for info in infos]
        if set(map(len, seen)) != {len(sensors)}:
            wrong = next(number for number, one in enumerate(seen) if len(one) != len(sensors))
            raise WireError(f"agent {infos[wrong].id} has {len(seen[wrong])} sensors, and the first had {len(sensors)}")
        tree = {
            sensor.path: sensor.stored(self._values(number, [one[number] for one in seen]))
            for number, sensor in enumerate(sensors)
        }
        if self._width:
            tree[MASK] = self._allowed([info.action_mask for info in infos])
        return tree

    def _values(self, number: int, contents: list[bytes]) -> np.ndarray:
        """Returns the values of a sensor, ``[N, *shape]``; read in one operation if messages only differ in the
        values.
        """
        sensor, around = self.layout.sensors[number], self._arounds[number]
        if around is not None:
            whole = b"".join(contents)
            if len(whole) == around.size * len(contents) and len(set(map(len, contents))) == 1:
                table = np.frombuffer(whole, np.uint8).reshape(len(contents), around.size)
                start, end = len(around.before), around.size - len(around.after)
                if (table[:, :start] == around.before).all() and (table[:, end:] == around.after).all():
                    block = np.ascontiguousarray(table[:, start:end]).view("<f4")
                    return block.reshape(len(contents), *sensor.shape)
        values = [sensor.value(from_bytes(ObservationProto, content)) for content in contents]
        if not sensor.is_packed:
            self._arounds[number] = _around(contents[0], int(np.prod(sensor.shape)))
        return np.stack(values)

    def _allowed(self, masks: list[bytes]) -> np.ndarray:
        """Returns the action mask, ``[N, sum of branches]`` bool; all True for an agent that sends none."""
        width = self._width
        if not any(masks):
            return np.ones((len(masks), width), dtype=bool)
        if wrong := set(map(len, masks)) - {0, width}:
            raise WireError(f"a mask is of {wrong.pop()} actions, and there are {width}")
        whole = b"".join([mask or bytes(width) for mask in masks])
        return np.asarray(np.frombuffer(whole, np.uint8).reshape(len(masks), width) == 0)

    def write(self, actions: np.ndarray) -> bytes:
        """Converts actions ``[N, ...]`` in the form of the space to a `ListAgentActionProto`."""
        return self._writer.write(actions)


def _agent_columns(infos: Sequence[Any]) -> tuple[list[Hashable], np.ndarray, list[Hashable | None], np.ndarray | None]:
    """Returns ids, rewards ``[N]``, and for agents in groups their groups and group rewards."""
    ids: list[Hashable] = [info.id for info in infos]
    reward = np.array([info.reward for info in infos], np.float32)
    numbers = [info.group_id for info in infos]
    if not any(numbers):
        return ids, reward, [], None
    groups: list[Hashable | None] = [number or None for number in numbers]
    return ids, reward, groups, np.array([info.group_reward for info in infos], np.float32)


# --- actions as messages ----------------------------------------------------------------------------------------------

SMALL = 128
"""Integers below this take one byte in a message."""


class ActionWriter:
    """Converts all actions of a behaviour to messages in one operation.

    Numbers and choices are written twice, as all players since API 1.3 read them, and as older ones do.

    Args:
        action: What is decided.
    """

    def __init__(self, action: ActionSpec) -> None:
        self._action = action
        self._is_small = all(size <= SMALL for size in action.sizes)
        numbers = {name: number for number, (name, _) in wire_fields(AgentActionProto).items()}
        floats, whole = action.num_numbers, len(action.sizes)
        row = bytearray()
        starts = []
        for name, size in (
            ("vector_actions_deprecated", 4 * (floats + whole)),
            ("continuous_actions", 4 * floats),
            ("discrete_actions", whole),
        ):
            if size:
                row += varint(numbers[name] << 3 | LENGTH) + varint(size)
            starts.append(len(row))
            row += bytes(size)
        head = varint(next(iter(wire_fields(ListAgentActionProto))) << 3 | LENGTH) + varint(len(row))
        self._starts = [len(head) + start for start in starts]
        self._row = np.frombuffer(head + row, np.uint8)

    def write(self, actions: np.ndarray) -> bytes:
        """Converts actions ``[N, ...]`` in the form of the space to a `ListAgentActionProto`."""
        floats, choices = self._apart(actions)
        num = len(actions)
        both = np.concatenate([floats, choices], axis=1, dtype=np.float32)
        if not self._is_small:
            rows = zip(both.tolist(), floats.tolist(), choices.tolist(), strict=True)
            return to_bytes(
                ListAgentActionProto(tuple(AgentActionProto(old, 0.0, some, whole) for old, some, whole in rows))
            )
        table = np.empty((num, len(self._row)), np.uint8)
        table[:] = self._row
        old, new, whole = self._starts
        table[:, old : old + 4 * both.shape[1]] = _bytes_of(both)
        table[:, new : new + 4 * floats.shape[1]] = _bytes_of(floats)
        table[:, whole : whole + choices.shape[1]] = choices
        return table.tobytes()

    def _apart(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Splits actions into continuous ``[N, C]`` float32 and discrete ``[N, D]`` parts."""
        num, spec = len(actions), self._action
        if spec.kind == "composite":
            floats = np.array([one[NUMBERS] for one in actions], np.float32).reshape(num, spec.num_numbers)
            return floats, np.array([one[CHOICES] for one in actions], np.int64).reshape(num, len(spec.sizes))
        flat = actions.reshape(num, -1)
        if spec.num_numbers:
            return flat.astype(np.float32, copy=False), np.zeros((num, 0), np.int64)
        return np.zeros((num, 0), np.float32), flat


def _bytes_of(floats: np.ndarray) -> np.ndarray:
    """Returns the bytes ``[N, 4 * C]`` of values ``[N, C]``."""
    return np.ascontiguousarray(floats, "<f4").view(np.uint8)
