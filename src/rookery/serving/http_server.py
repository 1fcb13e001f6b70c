"""`HttpServer`: connections of HTTP/1.1 in one event loop; requests of a connection are answered in their order."""

from __future__ import annotations

import asyncio
import json
import math
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from rookery.serving.http_requests import Refused, Request, RequestReader

MUCH = 256 << 10
"""Bytes that may wait on a connection whose last request is not answered yet."""

TICK = 0.05
"""Seconds between two looks at the clocks of connections."""

SHUT_SECONDS = 2.0
"""How long a sender who is refused may take to read why."""

STOP_SECONDS = 10.0
"""How long a server that stops waits for its answers."""

write_json = json.JSONEncoder(separators=(",", ":")).encode


Handle = Callable[[Request, "Exchange"], None]
"""Takes a request; answers it at once or later, and may raise `Refused`."""


@dataclass(frozen=True)
class HttpLimits:
    """What is borne.

    Attributes:
        max_bytes: The largest body of a request.
        max_connections: Connections at a time.
        head_seconds: How long the head of a request may take.
        body_seconds: How long its body may take, and reading an answer.
        idle_seconds: How long a connection stays open without a request.
    """

    max_bytes: int
    max_connections: int = 2048
    head_seconds: float = 20.0
    body_seconds: float = 30.0
    idle_seconds: float = 75.0


class Exchange:
    """A request that waits for its answer.

    Args:
        connection: Where it came from.
        request: What was asked.
    """

    __slots__ = ("_connection", "_request")

    def __init__(self, connection: Connection, request: Request) -> None:
        self._connection, self._request = connection, request

    def answer(self, body: Any) -> None:
        """Answers with what is written as JSON; in the event loop."""
        self._connection.answer(self._request, 200, body)

    def refuse(self, refused: Refused) -> None:
        """Answers with an error; in the event loop."""
        self._connection.answer(self._request, refused.status, refused.body, refused.allow)


class Connection(asyncio.Protocol):
    """One connection: a request is read when the one before is answered.

    Args:
        server: Whose it is.
    """

    def __init__(self, server: HttpServer) -> None:
        self._server, self._limits = server, server.limits
        self._reader = RequestReader(server.limits.max_bytes)
        self._transport: asyncio.Transport
        self._state, self._deadline = "", math.inf
        self._busy = self._full = self._held = self._last = False

    # -- what the event loop tells -------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begins; refuses one too many."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if len(self._server.connections) >= self._limits.max_connections:
            self._server.connections.add(self)
            self._end(Refused(503, f"{self._limits.max_connections:,} connections are open; come again later"))
            return
        self._server.connections.add(self)
        self._enter("new", self._limits.head_seconds)

    def data_received(self, data: bytes) -> None:
        """Takes bytes."""
        if self._state == "shut":
            return
        self._reader.feed(data)
        if not (self._busy or self._full):
            self._go_on()
        elif self._reader.waiting > MUCH and not self._held:
            self._held = True
            self._transport.pause_reading()

    def eof_received(self) -> bool:
        """Answers what was asked before, and closes."""
        self._last = True
        if not self._busy:
            self._server.loop.call_soon(self._go_on)
        return self._state != "shut"  # True leaves it open for answers

    def pause_writing(self) -> None:
        """Reads nothing more until answers are taken."""
        self._full = True
        self._enter("full", self._limits.body_seconds)

    def resume_writing(self) -> None:
        """Goes on."""
        self._full = False
        if self._state == "full":
            self._enter("idle", self._limits.idle_seconds)
            self._go_on()

    def connection_lost(self, exc: Exception | None) -> None:
        """Is over."""
        self._state = "shut"
        self._server.connections.discard(self)

    # -- requests and answers ------------------------------------------------------------------------------------------

    def answer(self, request: Request, status: int, body: Any, allow: str = "") -> None:
        """Answers the request that waits."""
        self._busy = False
        if self._transport.is_closing() or self._state == "shut":
            return
        closes = self._last or self._server.stopping or not request.head.keeps
        closes = closes and not (self._last and self._reader.waiting)
        self._transport.write(answered(status, body, allow, closes, request.head.method != "HEAD"))
        if closes:
            self._close()
        elif self._full:
            return
        elif self._reader.waiting:
            self._server.loop.call_soon(self._go_on)  # others have their turn first
        else:
            self._enter("idle", self._limits.idle_seconds)

    def look(self, now: float) -> None:
        """Ends what takes too long."""
        if now < self._deadline:
            return
        if self._state in ("head", "body"):
            seconds = self._limits.head_seconds if self._state == "head" else self._limits.body_seconds
            self._end(Refused(408, f"the {self._state} of the request did not arrive within {seconds:g} seconds"))
        else:
            self._transport.abort()

    def finish(self) -> None:
        """Closes if nobody waits for an answer; else the answer is the last."""
        if not self._busy and self._state in ("new", "idle"):
            self._close()

    def abort(self) -> None:
        """Closes, whoever waits."""
        self._transport.abort()

    def _go_on(self) -> None:
        """Takes the next request, if it is there."""
        if self._busy or self._full or self._state == "shut" or self._transport.is_closing():
            return
        try:
            request = self._reader.take()
        except Refused as refused:
            self._end(refused)
            return
        if self._held and (request is None or self._reader.waiting <= MUCH):
            self._held = False
            self._transport.resume_reading()
        if request is not None:
            self._busy = True
            self._enter("asked", math.inf)
            exchange = Exchange(self, request)
            try:
                self._server.handle(request, exchange)
            except Refused as refused:
                exchange.refuse(refused)
            except Exception as error:  # a mistake of ours is told to who has met it, and the server goes on
                exchange.refuse(Refused(500, f"{type(error).__name__}: {error}"))
        elif self._last:
            self._close()
        elif self._reader.head is not None:
            if self._state != "body":
                self._enter("body", self._limits.body_seconds)
                if self._reader.wants_body:
                    self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        elif self._reader.waiting:
            if self._state != "head":
                self._enter("head", self._limits.head_seconds)
        elif self._state not in ("new", "idle"):
            self._enter("idle", self._limits.idle_seconds)

    def _close(self) -> None:
        """Closes when what was answered is sent."""
        self._enter("shut", self._limits.body_seconds)
        self._transport.close()

    def _enter(self, state: str, seconds: float) -> None:
        self._state, self._deadline = state, time.monotonic() + seconds

    def _end(self, refused: Refused) -> None:
        """Refuses what cannot be read; what still comes is thrown away, so that the answer arrives."""
        self._transport.write(answered(refused.status, refused.body, "", True, True))
        if self._transport.can_write_eof():
            self._transport.write_eof()
        if self._held:
            self._transport.resume_reading()
        self._enter("shut", SHUT_SECONDS)


class HttpServer:
    """Answers requests of HTTP/1.1.

    Args:
        handle: Answers them.
        listening: A socket that listens.
        limits: What is borne.

    Attributes:
        connections: Those that are open.
        loop: The event loop, while `serve` lasts.
        started: Whether connections are taken.
        stopping: Whether somebody wants it to stop.
    """

    def __init__(self, handle: Handle, listening: socket.socket, limits: HttpLimits) -> None:
        self.handle, self.limits, self._listening = handle, limits, listening
        self.connections: set[Connection] = set()
        self.loop: asyncio.AbstractEventLoop
        self.started = self.stopping = False

    async def serve(self, has_to_stop: Callable[[], bool]) -> None:
        """Answers until it has to stop; then answers those who have asked, for ten seconds at most."""
        self.loop = asyncio.get_running_loop()
        taking = await self.loop.create_server(lambda: Connection(self), sock=self._listening, backlog=1024)
        self.started = True
        while not has_to_stop():
            await self._tick(TICK)
        self.stopping = True
        taking.close()
        until = time.monotonic() + STOP_SECONDS
        while self.connections and time.monotonic() < until:
            for connection in list(self.connections):
                connection.finish()
            await self._tick(0.01)
        for connection in list(self.connections):
            connection.abort()
        await asyncio.sleep(0)

    async def _tick(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        now = time.monotonic()
        for connection in list(self.connections):
            connection.look(now)


def answered(status: int, body: Any, allow: str, closes: bool, has_body: bool) -> bytes:
    """Gives the bytes of an answer."""
    text = write_json(body).encode()
    head = f"HTTP/1.1 {status} {REASONS[status]}\r\ncontent-type: application/json\r\ncontent-length: {len(text)}\r\n"
    if allow:
        head += f"allow: {allow}\r\n"
    if status == 401:
        head += "www-authenticate: Bearer\r\n"
    if closes:
        head += "connection: close\r\n"
    return f"{head}\r\n".encode() + (text if has_body else b"")


REASONS = {status.value: status.phrase for status in HTTPStatus}
