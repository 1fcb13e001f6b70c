"""Messages of side channels: `OutgoingMessage` writes values one by one, `IncomingMessage` reads them."""

from __future__ import annotations

import logging
import struct
from collections.abc import Sequence
from typing import Any

from rookery_mlagents.api.exceptions import UnitySideChannelException


class IncomingMessage:
    def __init__(self, buffer: bytes, offset: int = 0) -> None:
        self.buffer, self.offset = buffer, offset

    def read_bool(self, default_value: bool = False) -> bool:
        return bool(self._value("<?", 1, default_value))

    def read_int32(self, default_value: int = 0) -> int:
        return int(self._value("<i", 4, default_value))

    def read_float32(self, default_value: float = 0.0) -> float:
        return float(self._value("<f", 4, default_value))

    def read_float32_list(self, default_value: list[float] | None = None) -> list[float]:
        if self._at_end():
            return [] if default_value is None else default_value
        return list(struct.unpack(f"<{(size := self.read_int32())}f", self._taken(4 * size)))

    def read_string(self, default_value: str = "") -> str:
        if self._at_end():
            return default_value
        return bytes(self._taken(self.read_int32())).decode("ascii")

    def get_raw_bytes(self) -> bytearray:
        return bytearray(self.buffer)

    def _at_end(self) -> bool:
        return self.offset >= len(self.buffer)

    def _value(self, form: str, size: int, default: Any) -> Any:
        return default if self._at_end() else struct.unpack(form, self._taken(size))[0]

    def _taken(self, size: int) -> bytes:
        taken = self.buffer[self.offset : self.offset + size]
        if size < 0 or len(taken) < size:
            raise UnitySideChannelException(
                f"a message of a side channel has {len(self.buffer):,} bytes, and a value of {size:,} bytes should "
                f"stand at {self.offset:,}"
            )
        self.offset += size
        return taken


class OutgoingMessage:
    def __init__(self) -> None:
        self.buffer = bytearray()

    def write_bool(self, b: bool) -> None:
        self.buffer += struct.pack("<?", b)

    def write_int32(self, i: int) -> None:
        self.buffer += struct.pack("<i", i)

    def write_float32(self, f: float) -> None:
        self.buffer += struct.pack("<f", f)

    def write_float32_list(self, float_list: Sequence[float]) -> None:
        self.write_int32(len(float_list))
        for number in float_list:
            self.write_float32(number)

    def write_string(self, s: str) -> None:
        text = s.encode("ascii")
        self.write_int32(len(text))
        self.buffer += text

    def set_raw_bytes(self, buffer: bytes | bytearray) -> None:
        if self.buffer:
            logging.getLogger(__name__).warning("set_raw_bytes() replaces what was written into the message before")
        self.buffer = bytearray(buffer)
