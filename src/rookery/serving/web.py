"""The policy server over HTTP: what it answers at which address, with which status."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from rookery.core.errors import RookeryError, nearest
from rookery.serving.asking import FIELDS, answered, description, known_policy, plain, read_question, session_of
from rookery.serving.batcher import Batcher, Question, ServedActions, Stopping, TooMuch, UnfitQuestion
from rookery.serving.http_requests import Refused, Request
from rookery.serving.http_server import Exchange
from rookery.serving.reading import WrongObservation
from rookery.serving.sessions import SessionGone
from rookery.serving.tokens import is_loopback, shows

ADDRESSES = ("/act", "/policies", "/health", "/sessions/ID")
"""What there is to ask for."""

STATUS: tuple[tuple[type[RookeryError], int], ...] = (
    (WrongObservation, 422),
    (UnfitQuestion, 422),
    (SessionGone, 410),
    (TooMuch, 429),
    (Stopping, 503),
    (RookeryError, 500),
)
"""What an error is called over HTTP; the first that fits counts."""


class Outbox:
    """Brings answers from the policies' thread to an event loop, all of a batch at once.

    Args:
        loop: The loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._answers: deque[tuple[Callable[[Any], None], Any]] = deque()
        self._called = False

    def put(self, taker: Callable[[Any], None], answer: Any) -> None:
        """Lets the loop call whoever waits with an answer; from any thread."""
        self._answers.append((taker, answer))
        if not self._called:
            self._called = True
            with suppress(RuntimeError):  # the loop is closed: nobody waits there any more
                self._loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        self._called = False
        while self._answers:
            taker, answer = self._answers.popleft()
            taker(answer)


class PolicyApp:
    """Answers requests of HTTP.

    Args:
        batcher: Who answers.
        default: The policy that is asked where a request names none; None = requests have to.
        deterministic: Whether the likeliest actions are given where a request does not say.
        token: What has to be shown; None = nothing.
        health: Gives what there is to say of the server beside what the batcher counts.
    """

    def __init__(
        self,
        batcher: Batcher,
        default: str | None,
        deterministic: bool,
        token: str | None,
        health: Callable[[], dict[str, Any]],
    ) -> None:
        self._batcher, self._default, self._deterministic = batcher, default, deterministic
        self._token, self._health = token, health
        self._outbox: Outbox | None = None

    def handle(self, request: Request, exchange: Exchange) -> None:
        """Answers a request, at once or when a policy has; in the event loop.

        Raises:
            Refused: If it cannot be answered.
        """
        head = request.head
        path, method, known = head.path, head.method, self._check(head.path, head.fields)
        if path == "/act":
            _only(method, "POST", path)
            self._act(_fields(request.body), exchange)
        elif path == "/health":
            _only(method, "GET, HEAD", path)
            exchange.answer({"status": "ok", **(self._health() if known else {})})
        elif path == "/policies":
            _only(method, "GET, HEAD", path)
            version = self._batcher.version
            policies = {name: description(policy) for name, policy in version.policies.items()}
            exchange.answer({"default": self._default, "version": version.name, "policies": policies})
        elif path.startswith("/sessions/"):
            _only(method, "DELETE", path)
            self._forget(path.removeprefix("/sessions/"), exchange)
        else:
            near = nearest(path[:100], ADDRESSES)
            raise Refused(404, f"{path[:100]}: there are {', '.join(ADDRESSES)}{near}")

    def _check(self, path: str, headers: Mapping[bytes, bytes]) -> bool:
        """Says whether somebody may know everything; refuses those who may know nothing."""
        if self._token is not None:
            if shows(headers, self._token):
                return True
            if path == "/health":
                return False
            told = "the token is wrong" if b"authorization" in headers else "the token is missing"
            raise Refused(401, f"{told}; send the header Authorization: Bearer TOKEN")
        # Nobody has to show anything here, so pages of a browser on this machine must not get in.
        host = headers.get(b"host", b"").decode("latin-1")
        name = host[: host.rfind("]") + 1] if host.startswith("[") else host.partition(":")[0]
        if b"origin" in headers or not is_loopback(name):
            raise Refused(403, "without a token, this server answers programs on its own machine alone")
        return True

    def _act(self, fields: dict[str, Any], exchange: Exchange) -> None:
        """Asks a policy."""

        def taker(answer: ServedActions | RookeryError) -> None:
            self._answer(answer, question, is_batch, exchange)

        try:
            name = known_policy(self._batcher.version, fields.get("policy"), self._default)
            session = session_of(fields)
            question, is_batch = read_question(
                fields,
                self._batcher.version.policies[name],
                self._deterministic,
                None if session is None else (name, session),
                self._bring_to(taker),
            )
            self._batcher.ask(question)
        except RookeryError as error:
            raise _refused(error) from None

    def _answer(
        self, answer: ServedActions | RookeryError, question: Question, is_batch: bool, exchange: Exchange
    ) -> None:
        if isinstance(answer, RookeryError):
            exchange.refuse(_refused(answer))
            return
        try:
            exchange.answer(plain(answered(answer, question, is_batch)))
        except Exception as error:  # of actions that JSON cannot hold
            exchange.refuse(Refused(500, f"{type(error).__name__}: {error}"))

    def _forget(self, session: str, exchange: Exchange) -> None:
        """Forgets a session."""
        names, found = list(self._batcher.version.policies), []

        def taker(was_there: bool) -> None:
            found.append(was_there)
            if len(found) == len(names):
                exchange.answer({"session": session, "forgotten": any(found)})

        try:
            for name in names:
                self._batcher.forget((name, session), self._bring_to(taker))
        except RookeryError as error:
            raise _refused(error) from None

    def _bring_to(self, taker: Callable[[Any], None]) -> Callable[[Any], None]:
        """Gives what the policies' thread calls, so that `taker` is called in this event loop."""
        if self._outbox is None:
            self._outbox = Outbox(asyncio.get_running_loop())
        return partial(self._outbox.put, taker)


def _only(method: str, allowed: str, path: str) -> None:
    if method not in allowed.split(", "):
        raise Refused(405, f"{path[:100]}: {method[:20]} is not answered; use {allowed}", allowed)


def _fields(body: bytes) -> dict[str, Any]:
    """The fields of a request to act."""
    if not body:
        raise Refused(400, 'the body is empty; send {"obs": ...}')
    try:
        fields = json.loads(body)
    except RecursionError:
        raise Refused(400, "the body is not JSON that can be read: its lists are nested too deeply") from None
    except ValueError as error:  # says line and column
        raise Refused(400, f"the body is not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise Refused(400, f"the body is a {type(fields).__name__} of JSON, expected an object with obs")
    for name in fields:
        if name not in FIELDS:
            known = f"there are {', '.join(FIELDS)}{nearest(name[:50], FIELDS)}"
            raise Refused(422, f"{name[:50]}: unknown field; {known}")
    return fields


def _refused(error: RookeryError) -> Refused:
    """What an error is over HTTP."""
    status = next(status for kind, status in STATUS if isinstance(error, kind))
    if isinstance(error, WrongObservation):
        return Refused(status, str(error), path=error.path, expected=error.expected, got=error.got)
    return Refused(status, str(error))
