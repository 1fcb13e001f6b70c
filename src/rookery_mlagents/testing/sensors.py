"""Observations and actions in the messages of a simulated player: the counterpart of `link.layouts`.

Each leaf of an observation is a sensor; sensors are in the order of their names. Categories are sent as one-hots,
flags as numbers, sets of entities as tables whose rows are zeros from the last entity on, and images as numbers from
0 to 1 or as PNGs. What is for critics alone is not sent. Choices and flags of actions are branches; numbers are
continuous actions.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from PIL import Image

from rookery.face import CATEGORIES, ActionSpec, EnvError, Leaf, ObsSpec, Tree
from rookery_mlagents.link.image_messages import PLAIN, TRANSLATIONAL, UNUSED
from rookery_mlagents.link.messages import (
    CONTINUOUS,
    DISCRETE,
    PNG,
    UNCOMPRESSED,
    ActionSpecProto,
    BrainParametersProto,
    FloatData,
    ObservationProto,
)
from rookery_mlagents.link.protobuf_wire import to_bytes
from rookery_mlagents.testing.player_options import PlayerOptions

VARIABLE_SIZE = 4
"""Property of a dimension with a variable size, up to its maximum."""

GOAL_SIGNAL = 1
"""Type of an observation: a goal."""

CONCATENATED, MAPPED, HYBRID, NAMED = (1, 1), (1, 2), (1, 3), (1, 5)
"""Versions of the API that introduced several PNGs in an observation, a mapping of their channels, actions of both
kinds, and names, types and properties of sensors."""

MARK = 1.5e30
"""Value for finding the position of the values in a serialized observation."""


class SensorWriter:
    """Writes the observations of one sensor.

    Args:
        leaf: Leaf that the sensor sends.
        name: What messages call it.
        options: Of the player.

    Attributes:
        path: The leaf.
        name: Name of the sensor in messages.
        shape: Its shape in messages.
    """

    def __init__(self, leaf: Leaf, name: str, options: PlayerOptions) -> None:
        self._leaf, self.path, self.name = leaf, leaf.path, name
        self.is_image = leaf.kind == "box" and len(leaf.shape) == 3
        properties: tuple[int, ...] = ()
        self._axes: tuple[int, ...] = ()
        if self.is_image:
            first, height, width = leaf.shape
            from_last = width <= first
            planes = (height, width) if not from_last else (first, height)
            channels = width if from_last else first
            to_last = options.layout == "hwc"
            self.shape: tuple[int, ...] = (*planes, channels) if to_last else (channels, *planes)
            properties = (TRANSLATIONAL, TRANSLATIONAL, PLAIN) if to_last else (PLAIN, TRANSLATIONAL, TRANSLATIONAL)
            if from_last != to_last:
                self._axes = (0, 2, 3, 1) if to_last else (0, 3, 1, 2)
        elif leaf.entities is not None:
            self.shape = (leaf.shape[0], leaf.shape[1] - 1)
            properties = (VARIABLE_SIZE, PLAIN)
        else:
            width = sum(leaf.sizes) if leaf.kind in CATEGORIES else int(np.prod(leaf.shape, dtype=np.int64))
            self.shape, properties = (width,), (PLAIN,)
        self._mapping, self._is_packed = self._packing(options)
        named = options.api_number >= NAMED
        self._like = ObservationProto(
            shape=self.shape,
            compression_type=PNG if self._is_packed else UNCOMPRESSED,
            compressed_channel_mapping=self._mapping if options.api_number >= MAPPED else (),
            dimension_properties=properties if named else (),
            observation_type=GOAL_SIGNAL if named and leaf.path in options.goals else 0,
            name=name if named else "",
        )
        numbers = (MARK,) * int(np.prod(self.shape))
        whole = to_bytes(replace(self._like, float_data=FloatData(numbers)))
        block = struct.pack(f"<{len(numbers)}f", *numbers)
        place = whole.index(block)
        self._head, self._tail = whole[:place], whole[place + len(block) :]

    def _packing(self, options: PlayerOptions) -> tuple[tuple[int, ...], bool]:
        """Returns the image channel of each PNG channel, and whether the observation is sent as PNGs."""
        if not self.is_image or self._leaf.dtype != np.uint8 or options.pictures == "float":
            return (), False
        channels = self.shape[2] if options.layout == "hwc" else self.shape[0]
        if options.pictures == "png_each":
            mapping = tuple(np.repeat(np.arange(channels), 3).tolist())
        else:
            mapping = (0, 0, 0) if channels == 1 else (*range(channels), *([UNUSED] * (-channels % 3)))
        usual = mapping == (0, 0, 0) or (UNUSED not in mapping and mapping == tuple(range(len(mapping))))
        can = options.api_number
        return mapping, (len(mapping) == 3 or can >= CONCATENATED) and (usual or can >= MAPPED)

    def numbers(self, values: np.ndarray) -> np.ndarray:
        """Returns the values to send, ``[N, *shape]`` float32.

        Args:
            values: ``[N, *leaf.shape]`` in stored form.
        """
        leaf = self._leaf
        if leaf.entities is not None:
            values = values[:, :, 1:]
        elif leaf.kind in CATEGORIES:
            columns = values.reshape(len(values), -1)
            values = np.concatenate([np.eye(n, dtype=np.float32)[columns[:, i]] for i, n in enumerate(leaf.sizes)], 1)
        elif leaf.dtype == np.uint8 and leaf.kind == "box":
            values = values / np.float32(leaf.scale)
        if self._axes:
            values = values.transpose(self._axes)
        return np.ascontiguousarray(values.reshape(len(values), *self.shape), dtype="<f4")

    def written(self, values: np.ndarray) -> list[bytes]:
        """Returns the observations, a message for each row.

        Args:
            values: ``[N, *leaf.shape]`` in stored form.
        """
        if self._is_packed:
            return [to_bytes(replace(self._like, compressed_data=self._packed(value))) for value in values]
        block = self.numbers(values).reshape(len(values), -1)
        head, tail = self._head, self._tail
        return [head + row.tobytes() + tail for row in block]

    def _packed(self, picture: np.ndarray) -> bytes:
        """Encodes an image as concatenated PNGs of three channels each."""
        planes = picture if self._leaf.shape[2] <= self._leaf.shape[0] else np.moveaxis(picture, 0, 2)
        content = io.BytesIO()
        for start in range(0, len(self._mapping), 3):
            three = [planes[:, :, max(one, 0)] * (one >= 0) for one in self._mapping[start : start + 3]]
            Image.fromarray(np.stack(three, axis=2).astype(np.uint8)).save(content, "PNG", compress_level=1)
        return content.getvalue()


def sensor_writers(obs: ObsSpec, options: PlayerOptions) -> list[SensorWriter]:
    """Returns the sensors of agents that observe `obs`, in Unity's order."""
    leaves = [leaf for leaf in obs.leaves if leaf.kind != "mask" and not leaf.is_central]
    names = unity_names(leaves) if options.unity_names else [leaf.path for leaf in leaves]
    found = [SensorWriter(leaf, name, options) for leaf, name in zip(leaves, names, strict=True)]
    return sorted(found, key=lambda sensor: sensor.name)


def unity_names(leaves: Sequence[Leaf]) -> list[str]:
    """Returns the default names of Unity's sensors, with a number after equal names."""
    found: list[str] = []
    for leaf in leaves:
        size = sum(leaf.sizes) if leaf.kind in CATEGORIES else leaf.shape[-1] if leaf.shape else 1
        name = f"VectorSensor_size{size}"
        if leaf.entities is not None:
            name = "BufferSensor"
        elif leaf.kind == "box" and len(leaf.shape) == 3:
            name = "CameraSensor"
        elif "rays" in leaf.path:
            name = "RayPerceptionSensor"
        elif len(leaf.shape) == 2 and leaf.kind == "box":
            name = f"StackingSensor_size{leaf.shape[0]}_{name}"
        found.append(name if name not in found else f"{name}_{len(found)}")
    return found


def observations(sensors: Sequence[SensorWriter], tree: Tree) -> list[tuple[bytes, ...]]:
    """Returns the observations of N agents, those of all sensors for each.

    Args:
        sensors: The sensors.
        tree: ``[N, ...]`` what is seen.
    """
    return list(zip(*(sensor.written(tree[sensor.path]) for sensor in sensors), strict=True))


class ActionReader:
    """Describes and reads the actions of agents.

    Args:
        spec: Their actions.
        behavior: The name of their behaviour.
        options: Of the player.

    Attributes:
        branches: Number of options of each discrete action and each flag.
        num_numbers: Number of continuous actions.

    Raises:
        EnvError: If a player of that version of the API has no such actions.
    """

    def __init__(self, spec: ActionSpec, behavior: str, options: PlayerOptions) -> None:
        self.spec, self._behavior, self._api = spec, behavior, options.api_number
        self.branches = (*spec.sizes, *(2,) * spec.num_flags)
        self.num_numbers = spec.num_numbers
        self._sizes = np.array(self.branches, dtype=np.int64)
        if self.branches and self.num_numbers and self._api < HYBRID:
            since = ".".join(map(str, HYBRID))
            raise EnvError(
                f"behaviour {behavior}: API {options.api} has no actions of both sorts; there are since {since}"
            )

    def brain(self, hybrid: bool) -> BrainParametersProto:
        """Returns the player's description of the behaviour.

        Args:
            hybrid: Whether the trainer understands actions of both sorts.
        """
        if hybrid and self._api >= HYBRID:
            action_spec = ActionSpecProto(self.num_numbers, len(self.branches), self.branches)
            return BrainParametersProto(brain_name=self._behavior, is_training=True, action_spec=action_spec)
        if self.branches and self.num_numbers:
            raise EnvError(f"behaviour {self._behavior}: the trainer knows no actions of both sorts")
        return BrainParametersProto(
            vector_action_size_deprecated=self.branches or (self.num_numbers,),
            vector_action_space_type_deprecated=DISCRETE if self.branches else CONTINUOUS,
            brain_name=self._behavior,
            is_training=True,
        )

    def flags(self, mask: np.ndarray) -> np.ndarray:
        """Converts masks ``[N, flags]`` to the forbidden actions of messages, ``[N, sum(branches)]`` bool."""
        rest = np.zeros((len(mask), 2 * self.spec.num_flags), dtype=bool)
        return np.concatenate([~mask, rest], axis=1)

    def read(self, actions: Sequence[object]) -> np.ndarray:
        """Returns stored actions ``[N, elements]``.

        Args:
            actions: N messages (`AgentActionProto`).

        Raises:
            EnvError: If one has not as many numbers and choices as the behaviour, or there is no such choice.
        """
        numbers, choices = self.num_numbers, len(self.branches)
        if self._api < HYBRID:
            rows = [list(one.vector_actions_deprecated) for one in actions]  # type: ignore[attr-defined]
        else:
            rows = [[*one.discrete_actions, *one.continuous_actions] for one in actions]  # type: ignore[attr-defined]
        if wrong := [len(row) for row in rows if len(row) != numbers + choices]:
            expected = f"{choices} choices and {numbers} numbers"
            raise EnvError(f"behaviour {self._behavior}: an action of {wrong[0]} values where there are {expected}")
        found = np.array(rows, dtype=self.spec.dtype).reshape(len(rows), numbers + choices)
        chosen = found[:, :choices]
        if ((chosen < 0) | (chosen >= self._sizes)).any():
            raise EnvError(f"behaviour {self._behavior}: choices {chosen.tolist()}, of {list(self.branches)}")
        return found
