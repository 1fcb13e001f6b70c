"""A player's end of the line to its trainer."""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from rookery.core.errors import RookeryError
from rookery.envs.unity.protocol import METHOD, SERVICE, missing

UNLIMITED = [
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    ("grpc.enable_http_proxy", 0),
]
"""Settings of the connection: messages of any length, and no way round over another machine."""


class LineLost(RookeryError):
    """There is nobody at the other end of the line."""


class Line:
    """The connection of a player, which speaks first and is answered.

    Args:
        port: Where the trainer listens on this machine.
        record: File to which all messages are written; empty for none.

    Raises:
        ConfigError: If grpcio is not installed.
    """

    def __init__(self, port: int, record: str = "") -> None:
        try:
            import grpc
        except ImportError as error:
            raise missing("a pretended player", error) from None
        self._lost = grpc.RpcError
        self._channel = grpc.insecure_channel(f"localhost:{port}", UNLIMITED)
        call: Any = self._channel.unary_unary(f"/{SERVICE}/{METHOD}")
        self._call: Callable[[bytes], bytes] = call

    def exchange(self, content: bytes) -> bytes:
        """Sends a message and waits for the answer, however long that takes.

        Raises:
            LineLost: If there is none.
        """
        try:
            return self._call(content)
        except self._lost as error:
            detail = getattr(error, "details", lambda: "")() or "no answer"
            raise LineLost(str(detail)) from None

    def __enter__(self) -> Line:
        """Returns the line."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Hangs up."""
        self._channel.close()


_ = os, struct, time, Path, BinaryIO
