"""Protobuf classes for the messages, built from the descriptions in `messages` without generated files.

`to_bytes` and `from_bytes` of `wire` read and write the same bytes by hand, which is fast enough for files. For what
goes to and fro while agents play there are classes of protobuf here. A field may be declared as *raw*: its bytes are
handed over as they are. That is compatible on the wire, because blocks of numbers and messages inside others are bytes
with a length before them, as bytes are; and arrays are then made of whole blocks.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from rookery.face import ConfigError, install_line
from rookery_mlagents.link.protobuf_wire import WireField, wire_fields

SERVICE, METHOD = "communicator_objects.UnityToExternalProto", "Exchange"
"""The only RPC: sends a `messages.UnityMessageProto` and returns one."""

PACKAGE = "communicator_objects"

Raw = frozenset[tuple[type, str]]
"""Messages with the name of a field whose bytes are passed on without parsing."""

NOTHING_RAW: Raw = frozenset()


def missing(what: str, error: ImportError) -> ConfigError:
    """Returns the error for a missing optional package.

    Args:
        what: Purpose of the package.
        error: What importing it raised.
    """
    return ConfigError(f"{what} needs grpcio and protobuf ({error}): {install_line('unity')}")


@cache
def proto(message: type, raw: Raw = NOTHING_RAW) -> Any:
    """Returns the protobuf class of a message, with the field names of its description.

    Args:
        message: Its description, a dataclass of `messages`.
        raw: Fields that are bytes in it and in the messages inside it.

    Raises:
        ConfigError: If protobuf is not installed.
    """
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    except ImportError as error:
        raise missing("speaking with Unity players", error) from None
    pool = descriptor_pool.DescriptorPool()  # its own, so that names do not clash with those of an installed package
    file = descriptor_pb2.FileDescriptorProto(name=f"{message.__name__}.proto", package=PACKAGE, syntax="proto3")
    for one in _inside(message, raw):
        _describe(file.message_type.add(), one, raw)
    pool.Add(file) if not hasattr(pool, "AddSerializedFile") else pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{message.__name__}"))


def _inside(message: type, raw: Raw) -> Iterable[type]:
    """Yields a message and all nested messages, without duplicates."""
    found: dict[type, None] = {}
    waiting = [message]
    while waiting:
        one = waiting.pop()
        if one not in found:
            found[one] = None
            fields = wire_fields(one).values()
            waiting += [wire.message for name, wire in fields if wire.message and not _is_raw_inside(one, name, raw)]
    return found


def _is_raw_inside(message: type, name: str, raw: Raw) -> bool:
    """Returns whether messages of a field stay unparsed, so that their class is not needed; of a map, whether its
    values do.
    """
    return (message, name) in raw


def _describe(descriptor: Any, message: type, raw: Raw) -> None:
    """Fills a protobuf description (DescriptorProto)."""
    descriptor.name = message.__name__
    for number, (name, wire) in wire_fields(message).items():
        closed = (message, name) in raw
        field = descriptor.field.add(name=name, number=number)
        field.label = field.LABEL_OPTIONAL
        if wire.kind == "map":
            entry = descriptor.nested_type.add(name="".join(part.title() for part in name.split("_")) + "Entry")
            entry.options.map_entry = True
            entry.field.add(name="key", number=1, label=field.LABEL_OPTIONAL, type=field.TYPE_STRING)
            value = entry.field.add(name="value", number=2, label=field.LABEL_OPTIONAL)
            _type(value, wire, closed)
            field.label, field.type = field.LABEL_REPEATED, field.TYPE_MESSAGE
            field.type_name = f".{PACKAGE}.{message.__name__}.{entry.name}"
            continue
        if wire.repeated and not (closed and wire.kind != "message"):
            field.label = field.LABEL_REPEATED
        _type(field, wire, closed)


def _type(field: Any, wire: WireField, closed: bool) -> None:
    """Sets the type of a field; integers and enums have the same encoding."""
    if closed:
        field.type = field.TYPE_BYTES
    elif wire.message is not None:
        field.type, field.type_name = field.TYPE_MESSAGE, f".{PACKAGE}.{wire.message.__name__}"
    else:
        field.type = {
            "int": field.TYPE_INT32, "bool": field.TYPE_BOOL, "float": field.TYPE_FLOAT,
            "text": field.TYPE_STRING, "bytes": field.TYPE_BYTES,
        }[wire.kind]  # fmt: skip
