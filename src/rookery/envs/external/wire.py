"""`MessageReader`: messages from the pieces in which they arrive, with limits. The format is in `client`, which has no
other imports.

A message is 8 bytes, the length of what follows (little-endian, unsigned); 4 bytes, the length of a JSON text in UTF-8;
that text, an object; and the bytes of the arrays that its entry ``arrays`` describes, in that order, without gaps.
"""

from __future__ import annotations

from typing import Any

from rookery.envs.external.client import LENGTHS, MAX_TEXT, MessageError, pack, unpack

__all__ = ["FIRST_BYTES", "MAX_TEXT", "MessageError", "MessageReader", "pack", "unpack"]

FIRST_BYTES = 4096
"""Longest message of a client without proof of the token."""


class MessageReader:
    """Assembles messages from pieces. Memory grows with the bytes received, not with the announced length.

    Args:
        limit: The longest message, in bytes after the first eight; may be changed.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._bytes = bytearray()

    @property
    def is_between(self) -> bool:
        """Whether no byte of a next message has arrived."""
        return not self._bytes

    def feed(self, piece: bytes) -> list[dict[str, Any]]:
        """Adds a piece; returns the messages that are complete now.

        Raises:
            MessageError: If a length is beyond the limit, or a message is invalid.
        """
        self._bytes += piece
        found = []
        while len(self._bytes) >= 8:
            size = int.from_bytes(self._bytes[:8], "little")
            if size > self.limit:
                raise MessageError(f"a message of {size:,} bytes, where {self.limit:,} are the limit")
            if len(self._bytes) >= LENGTHS.size and LENGTHS.unpack_from(self._bytes)[1] > MAX_TEXT:
                raise MessageError(
                    f"a text of a message is longer than {MAX_TEXT:,} bytes; send large values as arrays"
                )
            if len(self._bytes) < 8 + size:
                break
            found.append(unpack(bytes(self._bytes[8 : 8 + size])))
            del self._bytes[: 8 + size]
        return found
