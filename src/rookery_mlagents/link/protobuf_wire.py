"""Wire format of protocol buffers, as far as Unity's messages need it: fields by number, without generated code.

A message is a frozen dataclass whose fields name their encoding: ``Annotated[int, WireField(number, kind)]``, with a
default of 0, nothing or None. Fields that a message does not know are passed over when it is read, so that newer
senders can be understood; fields that have their default value are left out when it is written, as every writer of the
format does.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, get_type_hints

from rookery.face import RookeryError

Kind = Literal["int", "bool", "float", "text", "bytes", "message", "map"]

VARINT, EIGHT_BYTES, LENGTH, FOUR_BYTES = 0, 1, 2, 5
"""Wire types: the encodings of a field's bytes."""

WIRE_TYPES: dict[str, int] = {
    "int": VARINT, "bool": VARINT, "float": FOUR_BYTES, "text": LENGTH, "bytes": LENGTH, "message": LENGTH,
    "map": LENGTH,
}  # fmt: skip

LONGEST_VARINT = 10
"""Maximum number of bytes of a 64-bit number."""

MOST_MESSAGES = 1 << 16
"""Maximum number of messages in one field; an empty one takes two bytes, and hundreds once it is read."""

M = TypeVar("M")


class WireError(RookeryError):
    """Bytes that are not a message of the expected kind."""


@dataclass(frozen=True)
class WireField:
    """Encoding of a field of a message.

    Attributes:
        number: Field number.
        kind: Kind of a value; ``map``: messages by names.
        repeated: Whether there are any number of values; numbers are packed into one block.
        message: Of messages and maps of them, their class.
    """

    number: int
    kind: Kind
    repeated: bool = False
    message: type | None = None


_FIELDS: dict[type, dict[int, tuple[str, WireField]]] = {}


def wire_fields(message: type) -> dict[int, tuple[str, WireField]]:
    """Returns the fields of a message class by number, each with its name."""
    if message in _FIELDS:
        return _FIELDS[message]
    hints = get_type_hints(message, include_extras=True)
    found: dict[str, WireField] = {one.name: hints[one.name].__metadata__[0] for one in dataclasses.fields(message)}
    ordered = sorted(found.items(), key=lambda pair: pair[1].number)
    return _FIELDS.setdefault(message, {wire.number: (name, wire) for name, wire in ordered})


# --- writing ----------------------------------------------------------------------------------------------------------


def varint(value: int) -> bytes:
    """Encodes an integer in groups of seven bits, lowest first; negative ones as 64-bit complement."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def to_bytes(message: Any) -> bytes:
    """Writes a message: its fields in the order of their numbers, those with a default value left out."""
    out = bytearray()
    for number, (name, wire) in wire_fields(type(message)).items():
        value = getattr(message, name)
        if wire.kind == "map":
            for key, one in value.items():
                entry = b"\x0a" + _single(key, "text") + b"\x12" + _single(one, "message")  # fields 1 and 2
                out += varint(number << 3 | LENGTH) + varint(len(entry)) + entry
        elif wire.repeated and wire.kind in ("int", "bool", "float"):
            if len(value):
                block = _packed(value, wire.kind)
                out += varint(number << 3 | LENGTH) + varint(len(block)) + block
        elif wire.repeated:
            for one in value:
                out += varint(number << 3 | LENGTH) + _single(one, wire.kind)
        elif wire.kind == "message":
            if value is not None:
                out += varint(number << 3 | LENGTH) + _single(value, "message")
        elif value or (wire.kind == "float" and struct.pack("<f", value) != bytes(4)):  # -0.0 is sent
            out += varint(number << 3 | WIRE_TYPES[wire.kind]) + _single(value, wire.kind)
    return bytes(out)


def _packed(values: Any, kind: str) -> bytes:
    if kind == "float":
        return struct.pack(f"<{len(values)}f", *values)
    return b"".join(varint(int(value)) for value in values)


def _single(value: Any, kind: str) -> bytes:
    if kind == "float":
        return struct.pack("<f", value)
    if kind in ("int", "bool"):
        return varint(int(value))
    content = to_bytes(value) if kind == "message" else value.encode() if kind == "text" else bytes(value)
    return varint(len(content)) + content


# --- reading ----------------------------------------------------------------------------------------------------------


def read_varint(content: memoryview, place: int) -> tuple[int, int]:
    """Decodes an integer at an offset; returns it and the offset after it.

    Raises:
        WireError: If the content ends in it, or it has no end.
    """
    value = shift = 0
    for position in range(place, place + LONGEST_VARINT):
        if position >= len(content):
            raise WireError(f"ends after {len(content):,} bytes, in the middle of a number")
        byte = content[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (1 << 64) - 1, position + 1
        shift += 7
    raise WireError(f"byte {place:,}: a number without end")


def from_bytes(message: type[M], content: bytes | memoryview) -> M:
    """Reads a message.

    Args:
        message: Its class.
        content: Its bytes, all of them.

    Raises:
        WireError: If they are not a message; names the place and the reason.
    """
    known = wire_fields(message)
    values: dict[str, Any] = {}
    for number, wire_type, value in _parts(memoryview(content)):
        if number not in known:
            continue
        name, wire = known[number]
        if wire.kind == "map":
            key, one = _entry(value, wire_type, wire)
            values.setdefault(name, {})[key] = one
        elif wire.repeated:
            found = values.setdefault(name, [])
            if wire.kind == "message" and len(found) >= MOST_MESSAGES:
                raise WireError(f"field {number} repeats more than {MOST_MESSAGES:,} times")
            found.extend(_several(value, wire_type, wire))
        else:
            values[name] = _value(value, wire_type, wire)
    return message(**{name: tuple(value) if isinstance(value, list) else value for name, value in values.items()})


def _parts(content: memoryview) -> Iterator[tuple[int, int, Any]]:
    """Yields the fields of a message in order: number, wire type, and a number or the bytes."""
    place = 0
    while place < len(content):
        key, place = read_varint(content, place)
        number, wire_type = key >> 3, key & 7
        if not number:
            raise WireError(f"byte {place:,}: field 0, which no message has")
        if wire_type == VARINT:
            value, place = read_varint(content, place)
            yield number, wire_type, value
            continue
        if wire_type == LENGTH:
            size, place = read_varint(content, place)
        elif wire_type in (EIGHT_BYTES, FOUR_BYTES):
            size = 8 if wire_type == EIGHT_BYTES else 4
        else:
            raise WireError(f"byte {place:,}: field {number} is of the unknown wire type {wire_type}")
        if place + size > len(content):
            raise WireError(f"field {number} should have {size:,} bytes, and there are {len(content) - place:,}")
        yield number, wire_type, content[place : place + size]
        place += size


def has_field(content: memoryview, *numbers: int) -> bool:
    """Returns whether a message has a field: the last of these numbers, in the message of the one before, and so on.

    Raises:
        WireError: If the bytes are no message.
    """
    number, *inside = numbers
    for found, wire_type, value in _parts(content):
        if found == number and (not inside or (wire_type == LENGTH and has_field(value, *inside))):
            return True
    return False


def _entry(value: Any, wire_type: int, wire: WireField) -> tuple[str, Any]:
    """Returns a key of a map and its message; either has its default if it is missing."""
    assert wire.message is not None
    if wire_type != LENGTH:
        raise WireError(f"field {wire.number} is of wire type {wire_type}, and a map of {LENGTH}")
    parts = {number: (inner, part) for number, part, inner in _parts(value)}
    key = _value(*parts[1], WireField(1, "text")) if 1 in parts else ""
    return key, _value(*parts[2], WireField(2, "message", False, wire.message)) if 2 in parts else wire.message()


def _several(value: Any, wire_type: int, wire: WireField) -> list[Any]:
    """Returns consecutive values of a repeated field: a packed block of numbers, or one value."""
    if wire.kind not in ("int", "bool", "float") or wire_type != LENGTH:
        return [_value(value, wire_type, wire)]
    if wire.kind == "float":
        if len(value) % 4:
            raise WireError(f"field {wire.number}: {len(value):,} bytes are no whole number of floats")
        return list(struct.unpack(f"<{len(value) // 4}f", value))
    found, place = [], 0
    while place < len(value):
        number, place = read_varint(value, place)
        found.append(_whole(number, wire.kind))
    return found


def _value(value: Any, wire_type: int, wire: WireField) -> Any:
    if wire_type != WIRE_TYPES[wire.kind]:
        raise WireError(
            f"field {wire.number} is of wire type {wire_type}, and a {wire.kind} of {WIRE_TYPES[wire.kind]}"
        )
    if wire.kind in ("int", "bool"):
        return _whole(value, wire.kind)
    if wire.kind == "float":
        return struct.unpack("<f", value)[0]
    if wire.kind == "bytes":
        return bytes(value)
    if wire.kind == "text":
        try:
            return bytes(value).decode()
        except UnicodeDecodeError as error:
            raise WireError(f"field {wire.number}: is not UTF-8 text ({error})") from None
    assert wire.message is not None
    return from_bytes(wire.message, value)


def _whole(value: int, kind: str) -> Any:
    if kind == "bool":
        return bool(value)
    return value - (1 << 64) if value >= 1 << 63 else value


# --- several messages in one file -------------------------------------------------------------------------------------


def delimited(message: Any) -> bytes:
    """Returns a message with its length in front."""
    content = to_bytes(message)
    return varint(len(content)) + content


def read_delimited(message: type[M], content: memoryview, place: int) -> tuple[M, int]:
    """Returns the length-delimited message at an offset, and the offset after it.

    Raises:
        WireError: If the content ends before it does, or it is none of that class.
    """
    size, start = read_varint(content, place)
    if start + size > len(content):
        raise WireError(
            f"byte {place:,}: {message.__name__} of {size:,} bytes begins, and {len(content) - start:,} are left"
        )
    try:
        return from_bytes(message, content[start : start + size]), start + size
    except WireError as error:
        raise WireError(f"byte {place:,}: no {message.__name__}: {error}") from None
