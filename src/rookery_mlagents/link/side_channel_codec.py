"""Side channels: messages between a player and a trainer in addition to observations and actions.

Messages of all channels lie one after the other: 16 bytes that name the channel, the length, and the content. What
numbers and texts are made of there is the same for all channels (`ChannelWriter`, `ChannelReader`).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import UUID

from rookery.face import (
    ConfigError,
    ConstantSampler,
    IntervalsSampler,
    NormalSampler,
    RookeryError,
    Sampler,
    UniformSampler,
)

ENGINE = UUID("e951342c-4f7e-11ea-b238-784f4387d1f7")
PARAMETERS = UUID("534c891e-810f-11ea-a9d0-822485860400")
STATISTICS = UUID("a1d8f7b7-cec8-50f9-b78b-d3e165a78520")
PROPERTIES = UUID("60ccf7d0-4f7e-11ea-b238-784f4387d1f7")
ANALYTICS = UUID("b664a4a9-d86f-5a5f-95cb-e8353a7e8356")
"""Channels of Unity's own package; all others belong to the game."""

NAMES = {
    ENGINE: "engine", PARAMETERS: "parameters", STATISTICS: "statistics", PROPERTIES: "float properties",
    ANALYTICS: "analytics",
}  # fmt: skip

How = Literal["average", "most_recent", "sum", "histogram"]
HOWS: tuple[How, ...] = ("average", "most_recent", "sum", "histogram")
"""Aggregations of a statistic's values, in the order of their numbers."""

SAMPLED = 1
"""Type of a message to `PARAMETERS` with a distribution; 0 is a value."""

UNIFORM, NORMAL, INTERVALS = range(3)
"""Kinds of distributions."""

Message = tuple[UUID, bytes]
"""A channel, and the content of a message on it."""


class SideChannelError(RookeryError):
    """A message of a side channel that cannot be read."""


# --- all messages together --------------------------------------------------------------------------------------------


def pack(messages: Iterable[Message]) -> bytes:
    """Concatenates messages in the format of side channels."""
    return b"".join(channel.bytes_le + struct.pack("<i", len(content)) + content for channel, content in messages)


def unpack(content: bytes) -> list[Message]:
    """Splits messages.

    Raises:
        SideChannelError: If they end too early; names the place.
    """
    found, problem = unpack_whole(content)
    if problem:
        raise SideChannelError(problem)
    return found


def unpack_whole(content: bytes) -> tuple[list[Message], str]:
    """Splits messages; returns the complete ones, and the error of the rest, or an empty string."""
    found: list[Message] = []
    place = 0
    while place < len(content):
        if place + 20 > len(content):
            return found, f"byte {place:,}: {len(content) - place} bytes are left, and a message begins with 20"
        channel = UUID(bytes_le=bytes(content[place : place + 16]))
        (size,) = struct.unpack_from("<i", content, place + 16)
        start = place + 20
        if size < 0 or start + size > len(content):
            problem = f"a message of {size:,} bytes on channel {channel}, and {len(content) - start:,} are left"
            return found, f"byte {place:,}: {problem}"
        found.append((channel, bytes(content[start : start + size])))
        place = start + size
    return found, ""


# --- one message ------------------------------------------------------------------------------------------------------


class ChannelWriter:
    """Message of a side channel to write."""

    def __init__(self) -> None:
        self.content = b""

    def flag(self, value: bool) -> ChannelWriter:
        """Adds a boolean."""
        self.content += struct.pack("<?", value)
        return self

    def whole(self, value: int) -> ChannelWriter:
        """Adds a 32-bit integer."""
        self.content += struct.pack("<i", value)
        return self

    def number(self, value: float) -> ChannelWriter:
        """Adds a 32-bit float."""
        self.content += struct.pack("<f", value)
        return self

    def numbers(self, values: Iterable[float]) -> ChannelWriter:
        """Adds a list of floats."""
        several = list(values)
        self.content += struct.pack(f"<i{len(several)}f", len(several), *several)
        return self

    def text(self, value: str) -> ChannelWriter:
        """Adds a text.

        Raises:
            ConfigError: If it has letters that Unity does not read.
        """
        if not value.isascii():
            raise ConfigError(f"{value!r} cannot be sent to Unity: names there consist of ASCII letters alone")
        self.content += struct.pack("<i", len(value)) + value.encode()
        return self


class ChannelReader:
    """Message of a side channel to read, from its start to its end.

    Args:
        content: Its bytes.
    """

    def __init__(self, content: bytes) -> None:
        self._content, self._place = content, 0

    def _next(self, form: str) -> Any:
        try:
            found = struct.unpack_from(f"<{form}", self._content, self._place)
        except struct.error:
            problem = f"ends after {len(self._content)} bytes, in the middle of a value"
            raise SideChannelError(problem) from None
        self._place += struct.calcsize(f"<{form}")
        return found

    def flag(self) -> bool:
        """Reads a boolean."""
        return bool(self._next("?")[0])

    def whole(self) -> int:
        """Reads an integer."""
        return int(self._next("i")[0])

    def number(self) -> float:
        """Reads a float."""
        return float(self._next("f")[0])

    def numbers(self) -> tuple[float, ...]:
        """Reads a list of floats."""
        return tuple(self._next(f"{self._size(4)}f"))

    def text(self) -> str:
        """Reads a text; invalid characters are replaced by question marks."""
        return bytes(self._next(f"{self._size(1)}s")[0]).decode("ascii", "replace")

    def _size(self, each: int) -> int:
        size = self.whole()
        if size < 0 or size * each > len(self._content):
            raise SideChannelError(f"announces that {size:,} values follow, and has {len(self._content)} bytes in all")
        return size


# --- messages to players ----------------------------------------------------------------------------------------------


def engine(
    *,
    width: int | None = None,
    height: int | None = None,
    quality_level: int | None = None,
    time_scale: float | None = None,
    target_frame_rate: int | None = None,
    capture_frame_rate: int | None = None,
) -> list[Message]:
    """Returns messages with the settings of the engine; None leaves a setting unchanged.

    Args:
        width: Of the window, in pixels; with `height`.
        height: Of the window, in pixels.
        quality_level: Of the graphics, from 0.
        time_scale: Seconds of the game in a second.
        target_frame_rate: Frames per second, -1 for as many as possible.
        capture_frame_rate: Frames per second of game time; 0 for no fixed number.

    Raises:
        ConfigError: If only one of `width` and `height` is given.
    """
    if (width is None) != (height is None):
        raise ConfigError(f"width={width} and height={height} of a player's window: give both or none")
    found = [] if width is None or height is None else [ChannelWriter().whole(0).whole(width).whole(height)]
    if quality_level is not None:
        found.append(ChannelWriter().whole(1).whole(quality_level))
    if time_scale is not None:
        found.append(ChannelWriter().whole(2).number(time_scale))
    if target_frame_rate is not None:
        found.append(ChannelWriter().whole(3).whole(target_frame_rate))
    if capture_frame_rate is not None:
        found.append(ChannelWriter().whole(4).whole(capture_frame_rate))
    return [(ENGINE, one.content) for one in found]


def parameter(name: str, value: float | Sampler, seed: int | None = None) -> Message:
    """Returns the message that sets a parameter of the environment to a value, or to a distribution from which the game
    draws.

    Args:
        name: The parameter.
        value: A number, or one of the samplers that Unity has: uniform, normal, intervals, constant.
        seed: Of the player's draws, where the sampler has none of its own; None for 0.

    Raises:
        ConfigError: If Unity has no such distribution, or the name has letters that it does not read.
    """
    writer = ChannelWriter().text(name)
    if isinstance(value, ConstantSampler):
        value = value.value
    if not isinstance(value, Sampler):
        return PARAMETERS, writer.whole(0).number(float(value)).content
    writer.whole(SAMPLED).whole((seed or 0) if value.seed is None else value.seed)
    if isinstance(value, UniformSampler):
        writer.whole(UNIFORM).number(value.low).number(value.high)
    elif isinstance(value, NormalSampler):
        writer.whole(NORMAL).number(value.mean).number(value.std)
    elif isinstance(value, IntervalsSampler):
        writer.whole(INTERVALS).numbers(value.numbers())
    else:
        kind = type(value).__name__.removesuffix("Sampler").lower()
        raise ConfigError(
            f"parameter {name!r}: Unity draws no values of the kind {kind}; it has uniform, normal and intervals, and "
            "takes values that are drawn here"
        )
    return PARAMETERS, writer.content


def float_property(name: str, value: float) -> Message:
    """Returns the message of a named number, for games with a FloatPropertiesChannel."""
    return PROPERTIES, ChannelWriter().text(name).number(value).content


def raw(channel: UUID | str, content: bytes) -> Message:
    """Returns the message with bytes on a custom channel of the game."""
    return channel if isinstance(channel, UUID) else UUID(channel), content


# --- messages of players ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Statistic:
    """Value of a statistic reported by a game.

    Attributes:
        name: Of the statistic.
        value: The value.
        how: Aggregation of its values.
    """

    name: str
    value: float
    how: How


def statistic(name: str, value: float, how: How) -> Message:
    """Returns the message of a statistic's value, in the format of players."""
    return STATISTICS, ChannelWriter().text(name).number(value).whole(HOWS.index(how)).content


def read_statistic(content: bytes) -> Statistic:
    """Reads a value of a statistic.

    Raises:
        SideChannelError: If it is none.
    """
    reader = ChannelReader(content)
    name, value, how = reader.text(), reader.number(), reader.whole()
    if how not in range(len(HOWS)):
        raise SideChannelError(f"statistic {name!r} is to be summed up in way {how}, and there are {len(HOWS)}")
    return Statistic(name, value, HOWS[how])


def read_float_property(content: bytes) -> tuple[str, float]:
    """Reads a number with its name.

    Raises:
        SideChannelError: If it is none.
    """
    reader = ChannelReader(content)
    return reader.text(), reader.number()


def read_parameter(content: bytes) -> tuple[str, float | Sampler]:
    """Reads a message from `parameter`, like a player.

    Raises:
        SideChannelError: If it is none.
    """
    reader = ChannelReader(content)
    name, kind = reader.text(), reader.whole()
    if kind == 0:
        return name, reader.number()
    if kind != SAMPLED:
        raise SideChannelError(f"parameter {name!r} has the message kind {kind}, and there are 2")
    seed, kind = reader.whole(), reader.whole()
    own = {"seed": abs(seed)}
    try:
        if kind == UNIFORM:
            return name, UniformSampler(reader.number(), reader.number(), **own)
        if kind == NORMAL:
            return name, NormalSampler(reader.number(), reader.number(), **own)
        if kind == INTERVALS:
            ends = reader.numbers()
            return name, IntervalsSampler(tuple(zip(ends[::2], ends[1::2], strict=True)), **own)
    except ValueError as error:
        raise SideChannelError(f"parameter {name!r}: {error}") from None
    raise SideChannelError(f"parameter {name!r} is of distribution {kind}, and there are 3")


def read_engine(content: bytes) -> dict[str, float]:
    """Reads a message from `engine`, like a player: values by name.

    Raises:
        SideChannelError: If it is none.
    """
    reader = ChannelReader(content)
    kind = reader.whole()
    if kind == 0:
        return {"width": reader.whole(), "height": reader.whole()}
    if kind == 2:
        return {"time_scale": reader.number()}
    names = {1: "quality_level", 3: "target_frame_rate", 4: "capture_frame_rate"}
    if kind not in names:
        raise SideChannelError(f"the engine message has the kind {kind}, and there are 5")
    return {names[kind]: reader.whole()}


@dataclass
class Inbox:
    """Side channel messages of one player that were not taken yet.

    Unreadable messages are skipped: they are counted, and the error of the first is kept in `problem`, to be reported
    once.

    Attributes:
        statistics: Values of statistics, in order.
        properties: Numbers by their names, the latest of each.
        raw: Messages on channels of the game's own.
        num_broken: Number of unreadable messages since the start.
        problem: The error of the first of these; empty if there is none.
    """

    statistics: list[Statistic] = field(default_factory=list)
    properties: dict[str, float] = field(default_factory=dict)
    raw: list[Message] = field(default_factory=list)
    num_broken: int = 0
    problem: str = ""

    def receive(self, content: bytes) -> str:
        """Sorts the messages of one moment.

        Returns:
            The first problem since the start; otherwise an empty text.
        """
        messages, problem = unpack_whole(content)
        problems = [problem] if problem else []
        for channel, payload in messages:
            try:
                if channel == STATISTICS:
                    self.statistics.append(read_statistic(payload))
                elif channel == PROPERTIES:
                    name, value = read_float_property(payload)
                    self.properties[name] = value
                elif channel not in NAMES:
                    self.raw.append((channel, payload))
            except SideChannelError as error:
                problems.append(f"channel {NAMES[channel]}: {error}")
        self.num_broken += len(problems)
        if problems and not self.problem:
            self.problem = problems[0]
            return self.problem
        return ""

    def take_statistics(self) -> Mapping[str, tuple[How, list[float]]]:
        """Returns the values of all statistics since the last call, by name, with their aggregation."""
        taken, self.statistics = self.statistics, []
        found: dict[str, tuple[How, list[float]]] = {}
        for one in taken:
            found.setdefault(one.name, (one.how, []))[1].append(one.value)
        return found
