"""`ClientListener`: accepts clients that know the token, and handles each of their requests once, in a separate thread.

A client has a *session*, which outlives its connections. It sends one request at a time, with a number that grows, and
waits for the answer; a request repeated after a lost connection is answered again but handled once. The meaning of
requests is left to a `RequestHandler`.
"""

from __future__ import annotations

import heapq
import hmac
import secrets
import selectors
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Protocol

from rookery.core.errors import EnvError
from rookery.envs.external.client import PROTOCOL, keep_alive, proof
from rookery.envs.external.wire import FIRST_BYTES, MessageError, MessageReader, pack

if sys.platform != "win32":
    import resource

MOST_UNREAD = 1 << 20
"""Unread bytes of a client after which it is dropped."""


def max_unauthenticated(max_connections: int) -> int:
    """Returns the largest number of open connections without proof of the token.

    Each uses a file descriptor of the process, which needs them for clients with the token and for its results.

    Args:
        max_connections: Most connections of all kinds.
    """
    if sys.platform == "win32":  # it has no such limit
        return max_connections
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max_connections if files == resource.RLIM_INFINITY else min(max_connections, max(files // 4, 1))


@dataclass(frozen=True)
class ConnectionLimits:
    """Limits of a listener.

    Attributes:
        max_message_bytes: Longest message of a client that has proved the token.
        max_connections: Connections at the same time. When there are more, the oldest without proof of the token is
            dropped.
        message_seconds: Seconds for the bytes of one message, or for the proof of the token.
        patience: Seconds after which a client without a connection counts as gone.
        silence: Seconds after which a connected but silent client counts as gone.
    """

    max_message_bytes: int = 64 << 20
    max_connections: int = 2048
    message_seconds: float = 20.0
    patience: float = 60.0
    silence: float = 600.0


class RequestHandler(Protocol):
    """Handler of requests; called in the listener's thread."""

    def requested(self, session: str, number: int, request: Mapping[str, Any]) -> None:
        """Handles a request; it is answered by `ClientListener.answer`, at once or later.

        Raises:
            MessageError: If the request is invalid: the client receives the message.
        """

    def gone(self, session: str) -> None:
        """Called when a client is gone; its requests under this name become void."""

    def failed(self, error: Exception) -> None:
        """Called when the listener cannot continue."""


@dataclass(eq=False)
class _Connection:
    """One socket of a client, perhaps without proof of the token so far."""

    socket: socket.socket
    reader: MessageReader
    challenge: str
    session: _Session | None = None
    unsent: bytearray = field(default_factory=bytearray)
    deadline: float | None = None
    writing: bool = False
    last: bool = False  # closed when all is sent


@dataclass(eq=False)
class _Session:
    """One client."""

    name: str
    connection: _Connection | None = None
    number: int = 0  # of its last request
    waiting: bool = False  # for the answer to that
    answer: bytes = b""  # the last
    last_seen: float = 0.0
    timed: float | None = None  # time of the next check


class ClientListener:
    """Listens on a port, from construction until `close`.

    Attributes:
        address: Host and port; with port 0 the one that the system has chosen.
        refused: Number of connections that were closed: without the token, with invalid bytes, or too slow.
    """

    def __init__(
        self,
        requests: RequestHandler,
        host: str,
        port: int,
        token: str,
        limits: ConnectionLimits,
        welcome: Mapping[str, Any],
    ) -> None:
        """Begins to listen.

        Args:
            requests: Handler of requests.
            host: Address of this machine to listen at; ``127.0.0.1`` can be reached from this machine only.
            port: Port; 0 = any free one.
            token: Token that clients must know.
            limits: Limits of connections.
            welcome: Description of the training that accepted clients receive.

        Raises:
            EnvError: If the port is taken, or there is no such address.
        """
        self._requests, self._token, self._limits, self._welcome = requests, token, limits, dict(welcome)
        self._max_unauthenticated = max_unauthenticated(limits.max_connections)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind((host, port))
            self._socket.listen(1024)
        except (OSError, OverflowError) as error:
            self._socket.close()
            raise EnvError(
                f"external:{port}: cannot listen at {host}:{port} ({error}); is another training there? Give another "
                "port, or 0 for any that is free"
            ) from error
        self._socket.setblocking(False)
        self.address: tuple[str, int] = self._socket.getsockname()[:2]
        self.refused = 0
        self._wake, self._woken = socket.socketpair()
        self._wake.setblocking(False)
        self._woken.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._socket, selectors.EVENT_READ, None)
        self._selector.register(self._woken, selectors.EVENT_READ, None)
        self._connections: set[_Connection] = set()
        self._strangers: dict[_Connection, None] = {}  # connections without proof of the token, the oldest first
        self._sessions: dict[str, _Session] = {}
        self._timers: list[tuple[float, int, _Connection | _Session | None]] = []
        self._order = count()
        self._outbox: deque[tuple[str, int, dict[str, Any], bool]] = deque()
        self._closing: str | None = None
        self._thread = threading.Thread(target=self._run, name=f"listener {self.address[1]}", daemon=True)
        self._thread.start()

    # -- for all threads -----------------------------------------------------------------------------------------------

    def answer(self, session: str, number: int, answer: Mapping[str, Any]) -> None:
        """Answers a request; from any thread. An answer to a client that is gone is dropped."""
        self._send(session, number, answer, final=True)

    def notify(self, session: str, number: int, notice: Mapping[str, Any]) -> None:
        """Sends a client a message before its request is answered; from any thread. May be lost."""
        self._send(session, number, notice, final=False)

    def close(self, reason: str) -> None:
        """Sends all clients a reason, and stops; later connections are refused."""
        self._closing = reason
        self._rouse()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _send(self, session: str, number: int, answer: Mapping[str, Any], final: bool) -> None:
        self._outbox.append((session, number, {**answer, "seq": number}, final))
        if threading.current_thread() is not self._thread:
            self._rouse()

    def _rouse(self) -> None:
        with suppress(BlockingIOError, OSError):  # a full pipe wakes it up as well
            self._wake.send(b"x")

    # -- the thread ----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._serve()
        except Exception as error:
            self._requests.failed(error)
            self._closing = "the training has failed"
        self._send_close()

    def _serve(self) -> None:
        while self._closing is None:
            self._post()
            for key, events in self._selector.select(self._seconds_left()):
                if key.fileobj is self._socket:
                    self._accept()
                elif key.fileobj is self._woken:
                    with suppress(BlockingIOError):
                        while self._woken.recv(4096):
                            pass
                elif key.data in self._connections:
                    if events & selectors.EVENT_WRITE:
                        self._write(key.data)
                    if events & selectors.EVENT_READ and key.data in self._connections:
                        self._read(key.data)
            self._expire()

    def _send_close(self) -> None:
        self._post()
        goodbye = pack({"closed": self._closing})
        for connection in list(self._connections):
            if connection.session is not None:
                connection.unsent += goodbye
            self._write(connection)
        for connection in list(self._connections):
            self._drop(connection)
        self._selector.close()
        for one in (self._socket, self._wake, self._woken):
            one.close()

    def _post(self) -> None:
        """Sends the queued answers."""
        while self._outbox:
            name, number, answer, final = self._outbox.popleft()
            session = self._sessions.get(name)
            if session is None or number != session.number or not session.waiting:
                continue
            packed = pack(answer)
            if final:
                session.waiting, session.answer, session.last_seen = False, packed, time.monotonic()
                self._watch(session)
            if session.connection is not None:
                self._queue(session.connection, packed)

    def _queue(self, connection: _Connection, packed: bytes) -> None:
        if len(connection.unsent) > MOST_UNREAD:
            self._drop(connection)  # it sends and does not read
            return
        connection.unsent += packed
        self._write(connection)

    def _write(self, connection: _Connection) -> None:
        """Writes as much as the socket takes; the rest later."""
        try:
            while connection.unsent:
                sent = connection.socket.send(memoryview(connection.unsent)[: 1 << 18])
                del connection.unsent[:sent]
        except BlockingIOError:
            pass
        except OSError:
            self._drop(connection)
            return
        if connection.last and not connection.unsent:
            self._drop(connection)
        elif connection.writing != bool(connection.unsent):
            connection.writing = bool(connection.unsent)
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.writing else 0)
            self._selector.modify(connection.socket, events, connection)

    def _accept(self) -> None:
        """Accepts new connections, and requests the token from them."""
        for _ in range(64):
            try:
                sock, _ = self._socket.accept()
            except BlockingIOError:
                return
            except OSError:  # no more files: another connection must close first
                if self._drop_unauthenticated():
                    continue
                self._selector.unregister(self._socket)
                self._at(time.monotonic() + 0.5, None)
                return
            sock.setblocking(False)
            with suppress(OSError):
                keep_alive(sock)
            connection = _Connection(sock, MessageReader(FIRST_BYTES), secrets.token_hex(16))
            if len(self._strangers) >= self._max_unauthenticated:
                self._drop_unauthenticated()
            if len(self._connections) >= self._limits.max_connections and not self._drop_unauthenticated():
                self.refused += 1
                with suppress(OSError):
                    sock.send(pack({"closed": f"there are {self._limits.max_connections} clients, which is the limit"}))
                sock.close()
                continue
            self._connections.add(connection)
            self._strangers[connection] = None
            self._selector.register(sock, selectors.EVENT_READ, connection)
            self._set_deadline(connection)
            self._queue(
                connection, pack({"rookery": "external", "protocol": PROTOCOL, "challenge": connection.challenge})
            )

    def _drop_unauthenticated(self) -> bool:
        """Drops the oldest connection without proof of the token; returns whether there was one."""
        oldest = next(iter(self._strangers), None)
        if oldest is None:
            return False
        self.refused += 1
        self._drop(oldest)
        return True

    def _read(self, connection: _Connection) -> None:
        """Reads bytes that have arrived."""
        try:
            piece = connection.socket.recv(1 << 18)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        if not piece:
            self._drop(connection)
            return
        if connection.last:
            return  # it was refused, and has not read the reason
        try:
            began = connection.reader.is_between
            for message in connection.reader.feed(piece):
                if connection not in self._connections or connection.last:
                    return
                if connection.session is None:
                    self._check_proof(connection, message)
                else:
                    self._take(connection, connection.session, message)
            if connection not in self._connections:
                return
            if connection.reader.is_between:
                if connection.session is not None:
                    connection.deadline = None
            elif began and connection.session is not None:
                self._set_deadline(connection)
        except MessageError as error:
            self._refuse(connection, str(error))

    def _check_proof(self, connection: _Connection, message: Mapping[str, Any]) -> None:
        """Checks the proof that a client knows the token."""
        shown, name, challenge = (message.get(key) for key in ("proof", "client", "challenge"))
        if not (isinstance(shown, str) and isinstance(name, str) and isinstance(challenge, str)):
            raise MessageError("expected proof, client and challenge")
        if message.get("protocol") != PROTOCOL:
            raise MessageError(f"protocol {str(message.get('protocol'))[:20]}, expected {PROTOCOL}")
        wanted = proof(self._token, "client", connection.challenge)
        if not hmac.compare_digest(wanted.encode(), shown.encode(errors="replace")):
            raise MessageError("wrong token; it is what the training has printed or stored")
        if not 8 <= len(name) <= 64 or not 8 <= len(challenge) <= 200 or not (name + challenge).isascii():
            raise MessageError("expected a name of 8 to 64 and a challenge of 8 to 200 letters and digits")
        session = self._sessions.get(name)
        if session is None:
            session = self._sessions[name] = _Session(name)
        elif session.connection is not None:
            self._drop(session.connection)
        session.connection, session.last_seen = connection, time.monotonic()
        connection.session, connection.deadline = session, None
        connection.reader.limit = self._limits.max_message_bytes
        self._strangers.pop(connection, None)
        self._watch(session)
        answer = {**self._welcome, "proof": proof(self._token, "training", challenge)}
        self._queue(connection, pack({**answer, "max_message_bytes": self._limits.max_message_bytes}))

    def _take(self, connection: _Connection, session: _Session, message: Mapping[str, Any]) -> None:
        """Handles a request, unless it was handled before."""
        number = message.get("seq")
        if type(number) is not int or not 0 < number < 2**62:
            raise MessageError("a request has no number seq")
        if message.get("op") == "leave":
            self._forget(session)
            return
        if number <= session.number:
            if number == session.number and not session.waiting:
                self._queue(connection, session.answer)  # the first answer was lost on its way
            return
        session.number, session.waiting, session.answer = number, True, b""
        try:
            self._requests.requested(session.name, number, message)
        except MessageError as error:
            self.answer(session.name, number, {"error": str(error)})

    def _refuse(self, connection: _Connection, reason: str) -> None:
        """Sends the reason, and closes."""
        self.refused += 1
        connection.last = True
        self._queue(connection, pack({"closed": reason}))
        if connection in self._connections:  # unsent bytes are dropped then
            self._set_deadline(connection)

    def _drop(self, connection: _Connection) -> None:
        if connection not in self._connections:
            return
        self._connections.discard(connection)
        self._strangers.pop(connection, None)
        self._selector.unregister(connection.socket)
        connection.socket.close()
        connection.reader, connection.unsent = MessageReader(0), bytearray()  # its timer may keep it for a while
        session = connection.session
        if session is not None and session.connection is connection:
            session.connection, session.last_seen = None, time.monotonic()
            self._watch(session)

    def _forget(self, session: _Session) -> None:
        """Removes a client that is gone."""
        self._sessions.pop(session.name, None)
        connection, session.connection = session.connection, None
        if connection is not None:
            self._drop(connection)
        self._requests.gone(session.name)

    # -- deadlines -----------------------------------------------------------------------------------------------------

    def _at(self, moment: float, what: _Connection | _Session | None) -> None:
        heapq.heappush(self._timers, (moment, next(self._order), what))

    def _set_deadline(self, connection: _Connection) -> None:
        connection.deadline = time.monotonic() + self._limits.message_seconds
        self._at(connection.deadline, connection)

    def _seconds_left(self) -> float | None:
        if self._outbox:
            return 0.0
        return max(self._timers[0][0] - time.monotonic(), 0.0) if self._timers else None

    def _expire(self) -> None:
        """Handles expired deadlines."""
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            moment, _, what = heapq.heappop(self._timers)
            if what is None:
                self._selector.register(self._socket, selectors.EVENT_READ, None)
            elif isinstance(what, _Connection):
                if what in self._connections and what.deadline is not None and what.deadline <= now:
                    if what.last or what.unsent:
                        self._drop(what)
                    else:
                        self._refuse(what, f"a message took longer than {self._limits.message_seconds:g} seconds")
            elif self._sessions.get(what.name) is what and moment == what.timed:
                what.timed = None
                if self._due(what) > now:
                    self._watch(what)
                elif what.connection is None or not what.waiting:
                    self._forget(what)

    def _due(self, session: _Session) -> float:
        """Returns the time at which a client's absence or silence exceeds its limit."""
        return session.last_seen + (self._limits.patience if session.connection is None else self._limits.silence)

    def _watch(self, session: _Session) -> None:
        """Schedules a check of a client; there is one timer for each, or few."""
        due = self._due(session)
        if session.timed is None or due < session.timed:
            session.timed = due
            self._at(due, session)
