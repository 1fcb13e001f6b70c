"""Player side of the connection to a trainer."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any

from rookery.face import RookeryError
from rookery_mlagents.link.protobuf_classes import METHOD, SERVICE, missing
from rookery_mlagents.testing.session_file import SessionWriter

UNLIMITED = [
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    ("grpc.enable_http_proxy", 0),
]
"""gRPC options: unlimited message length, and no proxy."""


class LineLost(RookeryError):
    """No process is at the other end of the connection."""


class Line:
    """Connection of a player, which sends the first message.

    Args:
        port: Where the trainer listens on this machine.
        record: What all messages are written to, if anything.
        patience: Seconds to wait for a trainer that does not listen yet; players of Unity have none.

    Raises:
        ConfigError: If grpcio is not installed.
    """

    def __init__(self, port: int, record: SessionWriter | None = None, patience: float = 0.0) -> None:
        try:
            import grpc
        except ImportError as error:
            raise missing("a pretended player", error) from None
        self._lost, self._record = grpc.RpcError, record
        self._channel = grpc.insecure_channel(f"localhost:{port}", UNLIMITED)
        if patience:
            with suppress(grpc.FutureTimeoutError):  # the first message will report that no trainer listens
                grpc.channel_ready_future(self._channel).result(timeout=patience)
        call: Any = self._channel.unary_unary(f"/{SERVICE}/{METHOD}")  # bytes out, bytes in
        self._call: Callable[[bytes], bytes] = call

    def exchange(self, content: bytes) -> bytes:
        """Sends a message and waits for the answer, however long that takes.

        Raises:
            LineLost: If there is none.
        """
        record = self._record
        if record is not None:
            record.write("player", content)
        try:
            answer = self._call(content)
        except self._lost as error:
            detail = str(getattr(error, "details", lambda: "")() or "no answer")
            if record is not None:
                record.write("nobody", detail.encode())
            raise LineLost(detail) from None
        if record is not None:
            record.write("trainer", answer)
        return answer

    def close(self) -> None:
        """Closes the connection."""
        self._channel.close()

    def __enter__(self) -> Line:
        """Returns the line."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes the connection."""
        self.close()
