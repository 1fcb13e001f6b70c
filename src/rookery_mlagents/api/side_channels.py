"""Side channels of ML-Agents' low-level API: bytes sent in addition to observations and actions, by channel."""

from __future__ import annotations

import logging
import uuid
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Mapping
from enum import Enum, IntEnum
from typing import NamedTuple

from rookery_mlagents.api.channel_messages import IncomingMessage, OutgoingMessage
from rookery_mlagents.api.exceptions import (
    UnityCommunicationException,
    UnityEnvironmentException,
    UnitySideChannelException,
)
from rookery_mlagents.link.side_channel_codec import (
    ENGINE,
    PARAMETERS,
    PROPERTIES,
    STATISTICS,
    SideChannelError,
    pack,
    unpack,
)


class SideChannel(ABC):
    def __init__(self, channel_id: uuid.UUID) -> None:
        self._channel_id = channel_id
        self.message_queue: list[bytes | bytearray] = []

    @property
    def channel_id(self) -> uuid.UUID:
        return self._channel_id

    def queue_message_to_send(self, msg: OutgoingMessage) -> None:
        self.message_queue.append(msg.buffer)

    @abstractmethod
    def on_message_received(self, msg: IncomingMessage) -> None: ...


class _OneWayChannel(SideChannel):
    """A channel on which games send nothing."""

    def on_message_received(self, msg: IncomingMessage) -> None:
        raise UnityCommunicationException(
            f"the game sent {len(msg.buffer):,} bytes through {type(self).__name__}, which only Python sends through; "
            "is the channel's id used by another one of the game?"
        )


class EngineConfig(NamedTuple):
    """Display and time settings of the player; None leaves a setting unchanged."""

    width: int | None
    height: int | None
    quality_level: int | None
    time_scale: float | None
    target_frame_rate: int | None
    capture_frame_rate: int | None

    @staticmethod
    def default_config() -> EngineConfig:
        return EngineConfig(80, 80, 1, 20.0, -1, 60)


class EngineConfigurationChannel(_OneWayChannel):
    class ConfigurationType(IntEnum):
        SCREEN_RESOLUTION = 0
        QUALITY_LEVEL = 1
        TIME_SCALE = 2
        TARGET_FRAME_RATE = 3
        CAPTURE_FRAME_RATE = 4

    def __init__(self) -> None:
        super().__init__(ENGINE)

    def set_configuration_parameters(
        self,
        width: int | None = None,
        height: int | None = None,
        quality_level: int | None = None,
        time_scale: float | None = None,
        target_frame_rate: int | None = None,
        capture_frame_rate: int | None = None,
    ) -> None:
        """Sets the given parameters with the next message; raises a UnitySideChannelException for a width without
        height.
        """
        if (width is None) != (height is None):
            given, missing = ("width", "height") if height is None else ("height", "width")
            raise UnitySideChannelException(f"the window has a {given} and no {missing}; set both, or none")
        kinds = self.ConfigurationType
        for kind, values in (
            (kinds.SCREEN_RESOLUTION, (width, height)),
            (kinds.QUALITY_LEVEL, (quality_level,)),
            (kinds.TIME_SCALE, (time_scale,)),
            (kinds.TARGET_FRAME_RATE, (target_frame_rate,)),
            (kinds.CAPTURE_FRAME_RATE, (capture_frame_rate,)),
        ):
            if values[0] is None:
                continue
            message = OutgoingMessage()
            message.write_int32(kind)
            for value in values:
                assert value is not None
                if kind is kinds.TIME_SCALE:
                    message.write_float32(value)
                else:
                    message.write_int32(int(value))
            self.queue_message_to_send(message)

    def set_configuration(self, config: EngineConfig) -> None:
        self.set_configuration_parameters(**config._asdict())


class EnvironmentParametersChannel(_OneWayChannel):
    class EnvironmentDataTypes(IntEnum):
        FLOAT = 0
        SAMPLER = 1

    class SamplerTypes(IntEnum):
        UNIFORM = 0
        GAUSSIAN = 1
        MULTIRANGEUNIFORM = 2

    def __init__(self) -> None:
        super().__init__(PARAMETERS)

    def set_float_parameter(self, key: str, value: float) -> None:
        message = OutgoingMessage()
        message.write_string(key)
        message.write_int32(self.EnvironmentDataTypes.FLOAT)
        message.write_float32(value)
        self.queue_message_to_send(message)

    def set_uniform_sampler_parameters(self, key: str, min_value: float, max_value: float, seed: int) -> None:
        message = self._sampler(key, self.SamplerTypes.UNIFORM, seed)
        message.write_float32(min_value)
        message.write_float32(max_value)
        self.queue_message_to_send(message)

    def set_gaussian_sampler_parameters(self, key: str, mean: float, st_dev: float, seed: int) -> None:
        message = self._sampler(key, self.SamplerTypes.GAUSSIAN, seed)
        message.write_float32(mean)
        message.write_float32(st_dev)
        self.queue_message_to_send(message)

    def set_multirangeuniform_sampler_parameters(
        self, key: str, intervals: list[tuple[float, float]], seed: int
    ) -> None:
        message = self._sampler(key, self.SamplerTypes.MULTIRANGEUNIFORM, seed)
        message.write_float32_list([bound for interval in intervals for bound in interval])
        self.queue_message_to_send(message)

    def _sampler(self, key: str, kind: SamplerTypes, seed: int) -> OutgoingMessage:
        message = OutgoingMessage()
        message.write_string(key)
        message.write_int32(self.EnvironmentDataTypes.SAMPLER)
        message.write_int32(seed)
        message.write_int32(kind)
        return message


class StatsAggregationMethod(Enum):
    AVERAGE = 0
    MOST_RECENT = 1
    SUM = 2
    HISTOGRAM = 3


StatList = list[tuple[float, StatsAggregationMethod]]
EnvironmentStats = Mapping[str, StatList]


class StatsSideChannel(SideChannel):
    def __init__(self) -> None:
        super().__init__(STATISTICS)
        self.stats: dict[str, StatList] = defaultdict(list)

    def on_message_received(self, msg: IncomingMessage) -> None:
        name, value = msg.read_string(), msg.read_float32()
        self.stats[name].append((value, StatsAggregationMethod(msg.read_int32())))

    def get_and_reset_stats(self) -> EnvironmentStats:
        stats, self.stats = self.stats, defaultdict(list)
        return stats


class FloatPropertiesChannel(SideChannel):
    def __init__(self, channel_id: uuid.UUID | None = None) -> None:
        super().__init__(channel_id or PROPERTIES)
        self._float_properties: dict[str, float] = {}

    def on_message_received(self, msg: IncomingMessage) -> None:
        name = msg.read_string()
        self._float_properties[name] = msg.read_float32()

    def set_property(self, key: str, value: float) -> None:
        self._float_properties[key] = value
        message = OutgoingMessage()
        message.write_string(key)
        message.write_float32(value)
        self.queue_message_to_send(message)

    def get_property(self, key: str) -> float | None:
        return self._float_properties.get(key)

    def list_properties(self) -> list[str]:
        return list(self._float_properties)

    def get_property_dict_copy(self) -> dict[str, float]:
        return dict(self._float_properties)


class RawBytesChannel(SideChannel):
    def __init__(self, channel_id: uuid.UUID) -> None:
        super().__init__(channel_id)
        self._received_messages: list[bytearray] = []

    def on_message_received(self, msg: IncomingMessage) -> None:
        self._received_messages.append(msg.get_raw_bytes())

    def get_and_clear_received_messages(self) -> list[bytearray]:
        received, self._received_messages = self._received_messages, []
        return received

    def send_raw_data(self, data: bytes | bytearray) -> None:
        message = OutgoingMessage()
        message.set_raw_bytes(data)
        self.queue_message_to_send(message)


class SideChannelManager:
    def __init__(self, side_channels: Iterable[SideChannel] | None = None) -> None:
        self._side_channels_dict: dict[uuid.UUID, SideChannel] = {}
        for channel in side_channels or ():
            if (other := self._side_channels_dict.get(channel.channel_id)) is not None:
                raise UnityEnvironmentException(
                    f"{type(other).__name__} and {type(channel).__name__} have the same channel_id "
                    f"{channel.channel_id}; each side channel needs one of its own"
                )
            self._side_channels_dict[channel.channel_id] = channel

    def process_side_channel_message(self, data: bytes) -> None:
        """Passes each channel its messages; messages of an unknown channel are logged once."""
        try:
            messages = unpack(data)
        except SideChannelError as error:
            raise UnityEnvironmentException(f"what came through side channels cannot be read: {error}") from None
        for channel_id, message in messages:
            if (channel := self._side_channels_dict.get(channel_id)) is not None:
                channel.on_message_received(IncomingMessage(message))
            elif channel_id not in _unknown:
                _unknown.add(channel_id)
                logging.getLogger(__name__).warning("the game sends through side channel %s, not here", channel_id)

    def generate_side_channel_messages(self) -> bytearray:
        waiting: list[tuple[uuid.UUID, bytes]] = []
        for channel_id, channel in self._side_channels_dict.items():
            waiting += [(channel_id, bytes(message)) for message in channel.message_queue]
            channel.message_queue = []
        return bytearray(pack(waiting))


_unknown: set[uuid.UUID] = set()
