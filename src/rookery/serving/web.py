"""The policy server over HTTP: routes, answers and status codes."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, MutableMapping
from contextlib import suppress
from functools import partial
from time import perf_counter
from typing import Any

from rookery.core.errors import RookeryError, nearest
from rookery.core.process.internal_errors import InternalErrors
from rookery.serving.batcher import (
    Batcher,
    InferenceFailed,
    InvalidRequest,
    LimitExceeded,
    ServedActions,
    ServerStopping,
)
from rookery.serving.metrics import CONTENT_TYPE, RequestMetrics
from rookery.serving.observations import WrongObservation
from rookery.serving.origins import PREFLIGHT, answer_headers, is_allowed, is_preflight
from rookery.serving.requests import (
    FIELDS,
    answer_fields,
    describe_policy,
    plain_actions,
    read_question,
    requested_policy,
    session_of,
)
from rookery.serving.sessions import SessionEvicted
from rookery.serving.tokens import has_token, is_loopback_host

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

ADDRESSES = ("/act", "/policies", "/health", "/metrics", "/sessions/ID")
"""Routes of the server."""

BODY_SECONDS = 30.0
"""Time limit for the body of a request."""

STATUS: tuple[tuple[type[RookeryError], int], ...] = (
    (WrongObservation, 422),
    (InvalidRequest, 422),
    (SessionEvicted, 410),
    (LimitExceeded, 429),
    (ServerStopping, 503),
    (InferenceFailed, 500),
)
"""HTTP status of errors, by class; the first match counts, and all other errors are internal."""


REFUSED = tuple(kind for kind, _ in STATUS)


class Refused(Exception):
    """Error answer to a request.

    Attributes:
        status: HTTP status.
        body: JSON body.
        allowed: Methods of the route, if the method is wrong.
    """

    def __init__(self, status: int, problem: str, allowed: str = "", **more: Any) -> None:
        self.status, self.body, self.allowed = status, {"error": problem, **more}, allowed
        super().__init__(problem)


class Outbox:
    """Delivers answers from the batcher's thread to futures of an event loop, all of a batch at once.

    Args:
        loop: The loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._answers: deque[tuple[asyncio.Future[Any], Any]] = deque()
        self._called = False

    def put(self, waiting: asyncio.Future[Any], answer: Any) -> None:
        """Delivers an answer to a future; for any thread."""
        self._answers.append((waiting, answer))
        if not self._called:
            self._called = True
            with suppress(RuntimeError):  # the loop is closed, with all its futures
                self._loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        self._called = False
        while self._answers:
            waiting, answer = self._answers.popleft()
            if not waiting.cancelled():  # the client may have disconnected
                waiting.set_result(answer)


class PolicyApp:
    """The ASGI application.

    Args:
        batcher: Answers questions.
        default: The policy for requests without a name; None = requests must name one.
        deterministic: Whether the most likely actions are returned if a request does not choose.
        token: Token that requests must have; None = none.
        max_bytes: Maximum size of a request's body.
        health: Returns the state of the server for ``/health``.
        internal_errors: Logs internal errors; a client gets only the id.
        origins: Origins whose pages may use the server.
    """

    def __init__(
        self,
        batcher: Batcher,
        default: str | None,
        deterministic: bool,
        token: str | None,
        max_bytes: int,
        health: Callable[[], dict[str, Any]],
        internal_errors: InternalErrors,
        origins: Collection[str] = (),
    ) -> None:
        self._internal_errors, self._origins, self._metrics = internal_errors, origins, RequestMetrics()
        self._batcher, self._default, self._deterministic = batcher, default, deterministic
        self._token, self._max_bytes, self._health = token, max_bytes, health
        self._outbox: Outbox | None = None

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answers one request."""
        if scope["type"] != "http":
            return
        allowed, began = "", perf_counter()
        fields = dict(scope["headers"])
        if is_preflight(scope["method"], fields, self._origins):
            await self._send(send, 204, b"", [*answer_headers(fields, self._origins), *PREFLIGHT])
            return
        try:
            status, body = 200, await self._answer(scope, receive)
        except Refused as refused:
            status, body, allowed = refused.status, refused.body, refused.allowed
        except Exception as error:
            status, body = 500, {"error": self._internal_errors.report(error)}
        try:
            is_text = isinstance(body, bytes)
            encoded = body if is_text else json.dumps(body, separators=(",", ":")).encode()
        except (TypeError, ValueError) as error:  # an action that JSON cannot represent
            status, encoded = 500, json.dumps({"error": self._internal_errors.report(error)}).encode()
        headers = [(b"content-type", CONTENT_TYPE if is_text else b"application/json")]
        headers += answer_headers(fields, self._origins)
        if status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        if allowed:
            headers.append((b"allow", allowed.encode()))
        if status in (401, 403, 408, 413):
            headers.append((b"connection", b"close"))
        self._metrics.count(_route(scope["path"]), status, perf_counter() - began)
        await self._send(send, status, encoded, headers)

    @staticmethod
    async def _send(send: Send, status: int, body: bytes, headers: list[tuple[bytes, bytes]]) -> None:
        length = [] if status == 204 else [(b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers + length})
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, scope: MutableMapping[str, Any], receive: Receive) -> Any:
        """Returns the body of the answer; raises `Refused`."""
        path, method, headers = scope["path"], scope["method"], _unique(scope["headers"])
        known = self._check(path, headers)
        if path == "/act":
            _only(method, "POST", path)
            request = _fields(await self._body(headers, receive))
            return await self._act(request)
        if path == "/health":
            _only(method, "GET, HEAD", path)
            return {"status": "ok" if self._batcher.is_running else "stopped", **(self._health() if known else {})}
        if path == "/metrics":
            _only(method, "GET, HEAD", path)
            version, errors = self._batcher.version.name, self._internal_errors.count
            return self._metrics.text(version, self._batcher.counts, errors).encode()
        if path == "/policies":
            _only(method, "GET, HEAD", path)
            policies = self._batcher.version.policies
            return {
                "default": self._default,
                "version": self._batcher.version.name,
                "policies": {name: describe_policy(policy) for name, policy in policies.items()},
            }
        if path.startswith("/sessions/"):
            _only(method, "DELETE", path)
            return await self._forget(path.removeprefix("/sessions/"))
        raise Refused(404, f"{path[:100]}: there are {', '.join(ADDRESSES)}{nearest(path[:100], ADDRESSES)}")

    def _check(self, path: str, headers: dict[bytes, bytes]) -> bool:
        """Returns whether a client may see everything; refuses a client without access."""
        if self._token is not None:
            if has_token(headers, self._token):
                return True
            if path == "/health":
                return False
            problem = "the token is wrong" if b"authorization" in headers else "the token is missing"
            raise Refused(401, f"{problem}; send the header Authorization: Bearer TOKEN")
        # Without a token, web pages in a browser on this machine must not have access, except those that are allowed.
        host = headers.get(b"host", b"").decode("latin-1")
        foreign = b"origin" in headers and not is_allowed(headers, self._origins)
        if foreign or not is_loopback_host(host):
            raise Refused(403, "without a token, this server answers only programs on its own machine")
        return True

    async def _body(self, headers: dict[bytes, bytes], receive: Receive) -> bytes:
        """Returns the body of a request, within the limits of time and size."""
        too_large = f"a request may have at most {self._max_bytes:,} bytes; send less at a time"
        length = headers.get(b"content-length", b"")
        if length.isdigit() and int(length) > self._max_bytes:
            raise Refused(413, too_large)
        body = bytearray()
        try:
            async with asyncio.timeout(BODY_SECONDS):
                while True:
                    message = await receive()
                    if message["type"] != "http.request":
                        raise Refused(400, "the request was cut off")
                    body += message.get("body", b"")
                    if len(body) > self._max_bytes:
                        raise Refused(413, too_large)
                    if not message.get("more_body"):
                        return bytes(body)
        except TimeoutError:
            raise Refused(408, f"the request did not arrive within {BODY_SECONDS:g} seconds") from None

    async def _act(self, request: dict[str, Any]) -> dict[str, Any]:
        """Returns the answer of a policy."""
        outbox, waiting = self._waiting()
        try:
            name = requested_policy(self._batcher.version, request.get("policy"), self._default)
            session = session_of(request)
            question, is_batch = read_question(
                request,
                self._batcher.version.policies[name],
                self._deterministic,
                None if session is None else (name, session),
                partial(outbox.put, waiting),
            )
            self._batcher.ask(question)
            answer = await waiting
            if isinstance(answer, RookeryError):
                raise answer
        except REFUSED as error:
            raise _refused(error) from None
        assert isinstance(answer, ServedActions)
        fields: dict[str, Any] = plain_actions(answer_fields(answer, question, is_batch))
        return fields

    async def _forget(self, session: str) -> dict[str, Any]:
        """Deletes a session."""
        found = []
        for name in self._batcher.version.policies:
            outbox, waiting = self._waiting()
            try:
                self._batcher.forget((name, session), partial(outbox.put, waiting))
            except REFUSED as error:
                raise _refused(error) from None
            found.append(await waiting)
        return {"session": session, "forgotten": any(found)}

    def _waiting(self) -> tuple[Outbox, asyncio.Future[Any]]:
        loop = asyncio.get_running_loop()
        if self._outbox is None:
            self._outbox = Outbox(loop)
        return self._outbox, loop.create_future()


def _route(path: str) -> str:
    """Returns the route of a path, so that clients cannot add names to the metrics."""
    route = "/sessions/ID" if path.startswith("/sessions/") else path
    return route if route in ADDRESSES else "other"


def _only(method: str, allowed: str, path: str) -> None:
    if method not in allowed.split(", "):
        raise Refused(405, f"{path[:100]}: method {method[:20]} is not supported; use {allowed}", allowed)


def _unique(fields: Iterable[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """Returns the header fields by name; refuses duplicates that different readers would interpret differently."""
    found: dict[bytes, bytes] = {}
    for name, value in fields:
        if name in found and name in (b"authorization", b"content-length", b"host"):
            raise Refused(400, f"the request has two fields {name.decode()}")
        found[name] = value
    return found


def _fields(body: bytes) -> dict[str, Any]:
    """Returns the fields of a request for actions."""
    if not body:
        raise Refused(400, 'the body is empty; send {"obs": ...}')
    try:
        fields = json.loads(body)
    except RecursionError:
        raise Refused(400, "the body is not JSON that can be read: its lists are nested too deeply") from None
    except ValueError as error:  # its text has line and column
        raise Refused(400, f"the body is not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise Refused(400, f"the body is a {type(fields).__name__} of JSON, expected an object with obs")
    for name in fields:
        if name not in FIELDS:
            known = f"there are {', '.join(FIELDS)}{nearest(name[:50], FIELDS)}"
            raise Refused(422, f"{name[:50]}: unknown field; {known}")
    return fields


def _refused(error: RookeryError) -> Refused:
    """Returns the HTTP answer for an error."""
    status = next(status for kind, status in STATUS if isinstance(error, kind))
    if isinstance(error, WrongObservation):
        return Refused(status, str(error), path=error.path, expected=error.expected, got=error.got)
    return Refused(status, str(error))
