"""`Client`: connects a simulator or program of your own to a training, from another process or machine.

This file needs only Python and numpy, and may be copied to where Rookery is not installed. docs/how-to/external.md
describes the wire format, for clients in other languages.

    client = Client("127.0.0.1:9900", token)
    episode = client.start_episode()
    action = client.get_action(episode, observation)
    client.log_returns(episode, reward)
    client.end_episode(episode, last_observation)
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import math
import os
import random
import socket
import struct
import sys
import threading
import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

import numpy as np

PROTOCOL = 1
"""Version of the protocol."""

LENGTHS = struct.Struct("<QI")
"""First bytes of every message: the number of bytes after the first eight, and that of the JSON text."""

ARRAY, TUPLE = "$array", "$tuple"
"""Keys of the objects in the JSON text that represent an array and a tuple."""

DTYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
)  # fmt: skip
"""Data types of arrays; their bytes are little-endian."""

MOST_AXES = 8

MAX_TEXT = 1 << 20
"""Longest JSON text of a message, in bytes; larger values must be sent as arrays."""


class MessageError(ValueError):
    """Raised for bytes that are not a message of the protocol, or a value that no message can hold."""


class ExternalError(RuntimeError):
    """Raised if the training refuses a request, with its message."""


class EpisodeLost(ExternalError):
    """Raised if the training has given up an episode; the next call is `Client.start_episode`."""


class TrainingOver(ExternalError):
    """Raised if the training has ended, or does not accept this client."""


# -- messages ------------------------------------------------------------------------------------------------------


def pack(message: Mapping[str, Any]) -> bytes:
    """Packs a message: its lengths, its JSON text, and the concatenated bytes of its arrays.

    Args:
        message: JSON values, tuples, numpy's numbers, and arrays of a type of `DTYPES`, nested.

    Raises:
        MessageError: If a value is of another type.
    """
    arrays: list[np.ndarray] = []
    body = _plain(message, arrays)
    body["arrays"] = [[str(array.dtype), list(array.shape)] for array in arrays]
    text = json.dumps(body, separators=(",", ":")).encode()
    raw = [np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes() for array in arrays]
    return b"".join([LENGTHS.pack(4 + len(text) + sum(map(len, raw)), len(text)), text, *raw])


def _plain(value: Any, arrays: list[np.ndarray]) -> Any:
    """Converts a value to JSON, with arrays collected separately."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(inner, arrays) for key, inner in value.items()}
    if isinstance(value, tuple):
        return {TUPLE: [_plain(inner, arrays) for inner in value]}
    if isinstance(value, list):
        return [_plain(inner, arrays) for inner in value]
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        return _plain(value.item(), arrays)
    if isinstance(value, np.ndarray):
        if value.dtype.name not in DTYPES:
            raise MessageError(f"an array of type {value.dtype} cannot be sent; use one of {', '.join(DTYPES)}")
        arrays.append(value)
        return {ARRAY: len(arrays) - 1}
    raise MessageError(
        f"a value of type {type(value).__name__} cannot be sent; use numbers, texts, lists, dicts, arrays"
    )


def unpack(payload: bytes | bytearray | memoryview) -> dict[str, Any]:
    """Unpacks a message, given without its first eight bytes; arrays are copies.

    Raises:
        MessageError: If it is not a message: with the reason.
    """
    view = memoryview(payload)
    if len(view) < 4:
        raise MessageError(f"a message of {len(view)} bytes without the length of its text")
    (size,) = struct.unpack_from("<I", view)
    if size > len(view) - 4:
        raise MessageError(f"a text of {size:,} bytes in a message of {len(view):,}")
    try:
        body = json.loads(bytes(view[4 : 4 + size]))
    except (ValueError, RecursionError) as error:
        raise MessageError(f"the text of a message is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise MessageError(f"the text of a message is a {type(body).__name__}, expected an object")
    try:
        arrays = _arrays(body.pop("arrays", []), view[4 + size :])
        return {key: _restored(value, arrays) for key, value in body.items()}
    except RecursionError:
        raise MessageError("the text of a message is nested too deeply") from None


def _arrays(described: Any, raw: memoryview) -> list[np.ndarray]:
    """Returns the arrays of a message, which must use up its bytes."""
    found, at = [], 0
    if not isinstance(described, list):
        raise MessageError("arrays of a message: expected a list of [type, shape]")
    for entry in described:
        fits = isinstance(entry, list) and len(entry) == 2 and entry[0] in DTYPES and isinstance(entry[1], list)
        if not fits or len(entry[1]) > MOST_AXES or not all(type(n) is int and 0 <= n < 2**48 for n in entry[1]):
            raise MessageError(f"an array is described as {str(entry)[:80]}, expected [type, shape]")
        dtype = np.dtype(entry[0]).newbyteorder("<")
        size = math.prod(entry[1]) * dtype.itemsize
        if size > len(raw) - at:
            raise MessageError(f"an array of {size:,} bytes where {len(raw) - at:,} are left in the message")
        try:
            array = np.frombuffer(raw[at : at + size], dtype).reshape(entry[1])
        except ValueError as error:  # an empty array with axes that are too long
            raise MessageError(f"an array of shape {entry[1]}: {error}") from None
        found.append(array.astype(dtype.newbyteorder("=")))
        at += size
    if at != len(raw):
        raise MessageError(f"{len(raw) - at:,} bytes after the last array of a message")
    return found


def _restored(value: Any, arrays: list[np.ndarray]) -> Any:
    """Replaces references to arrays and tuples in a JSON value."""
    if isinstance(value, list):
        return [_restored(inner, arrays) for inner in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1 and ARRAY in value:
        number = value[ARRAY]
        if type(number) is not int or not 0 <= number < len(arrays):
            raise MessageError(f"array {str(number)[:20]} of a message that has {len(arrays)}")
        return arrays[number]
    if len(value) == 1 and isinstance(value.get(TUPLE), list):
        return tuple(_restored(inner, arrays) for inner in value[TUPLE])
    return {key: _restored(inner, arrays) for key, inner in value.items()}


def proof(token: str, who: str, challenge: str) -> str:
    """Returns the proof that the sender knows the token: the HMAC-SHA256 of ``who:challenge``, in hexadecimal
    digits.
    """
    return hmac.new(token.encode(), f"{who}:{challenge}".encode(), hashlib.sha256).hexdigest()


def keep_alive(sock: socket.socket) -> None:
    """Makes the system detect a lost connection within half a minute, and send small messages at once."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 4)):
        if hasattr(socket, option):  # not on every system
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


# -- the client ----------------------------------------------------------------------------------------------------


@dataclass
class _Running:
    """Rewards and ends of an episode since the last message."""

    plan: dict[str, Any]
    rewards: dict[str, float] = field(default_factory=dict)
    ended: dict[str, str] = field(default_factory=dict)
    info: Any = None


class Client:
    """Plays episodes of a training from outside: it requests actions, and sends rewards and ends.

    A lost connection is opened again, and requests without an answer are repeated; the training counts them once. Calls
    from several threads wait for each other, so give each thread a client of its own.
    """

    def __init__(self, url: str, token: str | None = None, *, timeout: float = 60.0, quiet: bool = False) -> None:
        """Connects to a training.

        Args:
            url: ``host:port``; a scheme before it, as in ``http://host:port``, is ignored.
            token: The token that the training has printed or stored; None = that of the environment variable
                ``ROOKERY_TOKEN``.
            timeout: Seconds to retry if the training does not answer, before a call raises.
            quiet: Do not report on standard error, once, that an episode waits for a lane.

        Raises:
            ValueError: If `url` has no host and port, or there is no token.
            ConnectionError: If there is no answer within `timeout`.
            TrainingOver: If the token is wrong, or there are too many clients.
        """
        host, _, port = url.rpartition("://")[2].rstrip("/").rpartition(":")
        if not host or not port.isdigit():
            raise ValueError(f"url {url!r}: expected host:port, as in 127.0.0.1:9900")
        token = os.environ.get("ROOKERY_TOKEN") if token is None else token
        if not token:
            raise ValueError("a token is needed: Client(url, token), or the environment variable ROOKERY_TOKEN")
        self._address, self._token = (host.strip("[]"), int(port)), token
        self._timeout, self._quiet = timeout, quiet
        self._name = uuid.uuid4().hex
        self._number = 0  # of the last request
        self._socket: socket.socket | None = None
        self._lock = threading.RLock()
        self._running: dict[str, _Running] = {}
        self.reconnected = 0
        """Number of times that a lost connection was opened again."""
        self.queued = 0
        """Number of episodes that had to wait for a lane; reported once."""
        self.welcome: dict[str, Any] = {}
        """Description of the training: ``name``, ``agents`` with their spaces, ``max_message_bytes``."""
        with self._lock:
            self._retry(lambda: None)

    def start_episode(self, episode_id: str | None = None, learned: bool = True) -> str:
        """Begins an episode, and returns its id; waits until the training has a free lane.

        Args:
            episode_id: A name of at most 200 characters that no running episode has; None = a new one is generated.
            learned: Whether the episode is learned from and counted; False = the policy only plays it.

        Raises:
            ExternalError: If an episode of that name is running.
        """
        name = uuid.uuid4().hex if episode_id is None else str(episode_id)
        request = {"op": "start_episode", "episode": name}
        plan = self._ask(request if learned else {**request, "learned": False})
        self._running[name] = _Running(plan)
        return name

    def plan(self, episode_id: str) -> dict[str, Any]:
        """Returns the plan of an episode from the training: ``seed``, ``parameters`` and ``lessons``, by name."""
        return self._episode(episode_id).plan

    def get_action(self, episode_id: str, observation: Any) -> Any:
        """Sends the current observation, and waits for the action of the policy.

        Args:
            episode_id: Id from `start_episode`.
            observation: Observation as the spaces define: arrays, numbers, dicts of them; with several agents, a dict
                by agent of those that must act.

        Returns:
            The action; with several agents, a dict by agent.

        Raises:
            EpisodeLost: If the training has given up the episode.
            ExternalError: If an observation does not fit the spaces; the episode continues.
        """
        answer = self._tell(episode_id, {"op": "get_action", "obs": observation})
        return answer["action"]

    def log_action(self, episode_id: str, observation: Any, action: Any) -> None:
        """Reports an action that the policy did not choose; see docs/how-to/external.md for what is learned.

        Args:
            episode_id: Id from `start_episode`.
            observation: Observation before the action, as for `get_action`.
            action: The action taken; with several agents, a dict by agent.
        """
        self._tell(episode_id, {"op": "log_action", "obs": observation, "action": action})

    def log_returns(
        self, episode_id: str, reward: Any, info: Any = None, ended: Mapping[str, bool | str] | None = None
    ) -> None:
        """Adds a reward since the last action; it is sent with the next message.

        Args:
            episode_id: Id from `start_episode`.
            reward: A number; with several agents, a dict by agent.
            info: Infos for callbacks of the training: numbers, texts, lists, dicts.
            ended: With several agents: those that have ended, True or ``"terminated"``, or ``"truncated"`` if the
                episode was cut off.

        Raises:
            ValueError: If a reward is not a finite number, an agent is unknown, or `info` cannot be sent; nothing is
                recorded then.
        """
        running = self._episode(episode_id)
        _plain(info, [])  # refused here if it cannot be sent, before anything is recorded
        earned = {
            agent: float(value) for agent, value in (reward if isinstance(reward, Mapping) else {"": reward}).items()
        }
        self._check_agents("reward", earned if isinstance(reward, Mapping) else ())
        self._check_agents("ended", ended or ())
        for agent, value in earned.items():
            if not math.isfinite(value):
                raise ValueError(f"reward {value}{f' of agent {agent}' * bool(agent)}: expected a finite number")
        for agent, value in earned.items():
            running.rewards[agent] = running.rewards.get(agent, 0.0) + value
        for agent, end in (ended or {}).items():
            if end and agent != "__all__":
                running.ended[agent] = "truncated" if end == "truncated" else "terminated"
        running.info = info or running.info

    def _check_agents(self, what: str, named: Iterable[Any]) -> None:
        """Raises an error for unknown names of agents, if the training has named its agents."""
        known = self.welcome.get("agents")
        if not known or not self.welcome.get("several"):
            return
        for agent in map(str, named):
            group, mark, own = agent.partition("#")
            is_member = bool(own) and group + mark in known
            if agent != "__all__" and not is_member and (mark or agent not in known):
                near = get_close_matches(agent, known, 1)
                meant = f"; did you mean {near[0]}?" if near else ""
                raise ValueError(f"{what} of agent {agent!r}, which is unknown{meant} (agents: {', '.join(known)})")

    def end_episode(self, episode_id: str, observation: Any = None, truncated: bool = False) -> None:
        """Ends an episode.

        Args:
            episode_id: Id from `start_episode`.
            observation: Last observation; needed with `truncated`.
            truncated: Whether the episode was cut off, so that its final value is bootstrapped.
        """
        self._tell(episode_id, {"op": "end_episode", "obs": observation, "truncated": bool(truncated)})
        self._running.pop(episode_id, None)

    def close(self) -> None:
        """Disconnects; the training gives up episodes that have not ended."""
        with self._lock:
            if self._socket is not None:
                with contextlib.suppress(OSError):
                    self._socket.sendall(pack({"op": "leave", "seq": self._number + 1}))
            self._drop()

    def __enter__(self) -> Client:
        """Returns the client."""
        return self

    def __exit__(self, *_: object) -> None:
        """Closes the client."""
        self.close()

    # -- requests ------------------------------------------------------------------------------------------------------

    def _episode(self, episode_id: str) -> _Running:
        if episode_id not in self._running:
            raise ValueError(f"episode {episode_id} was not started by this client, or is over")
        return self._running[episode_id]

    def _tell(self, episode_id: str, request: dict[str, Any]) -> dict[str, Any]:
        """Sends a request with the rewards collected before it."""
        running = self._episode(episode_id)
        request |= {"episode": episode_id, "reward": dict(running.rewards), "ended": dict(running.ended)}
        if running.info is not None:
            request["info"] = running.info
        try:
            answer = self._ask(request)
        except EpisodeLost:
            self._running.pop(episode_id, None)
            raise
        running.rewards.clear()
        running.ended.clear()
        running.info = None
        return answer

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Sends a request, and repeats it until it is answered."""
        with self._lock:
            self._number += 1
            packed = pack(request | {"seq": self._number})
            limit = self.welcome.get("max_message_bytes")
            if limit is not None and len(packed) > limit:
                raise ExternalError(f"a message of {len(packed):,} bytes; this training takes {limit:,} at most")
            if (size := LENGTHS.unpack_from(packed)[1]) > MAX_TEXT:
                raise ExternalError(
                    f"a text of {size:,} bytes, where {MAX_TEXT:,} are the limit; send long lists as arrays of numpy"
                )

            def attempt() -> dict[str, Any]:
                assert self._socket is not None
                self._socket.sendall(packed)
                while True:
                    answer = self._receive()
                    if answer.get("seq") != self._number:
                        continue  # of a request that was given up
                    if "queued" not in answer:
                        return answer
                    self.queued += 1
                    if self.queued == 1 and not self._quiet:
                        sys.stderr.write(f"rookery: an episode waits: {answer['queued']}\n")

            try:
                answer = self._retry(attempt)
            except BaseException:
                self._drop()  # after an interrupt its answer must not be taken for that of the next request
                raise
        if "lost" in answer:
            raise EpisodeLost(answer["lost"])
        if "error" in answer:
            raise ExternalError(answer["error"])
        found: dict[str, Any] = answer["ok"]
        return found

    def _retry(self, attempt: Any) -> Any:
        """Runs a function over a connection; opens a new one when it is lost, for `timeout` seconds at most."""
        pause, since = 0.02, None
        while True:
            try:
                if self._socket is None:
                    self._connect()
                return attempt()
            except (OSError, MessageError, struct.error) as error:
                if self._socket is not None:
                    self._drop()
                    self.reconnected += 1
                    pause, since = 0.02, None
                now = time.monotonic()
                since = now if since is None else since
                if now - since > self._timeout:
                    host, port = self._address
                    raise ConnectionError(
                        f"no training at {host}:{port} for {self._timeout:g} seconds ({error}); is it running, and "
                        "does this machine reach it?"
                    ) from error
                time.sleep(pause * (0.5 + random.random()))
                pause = min(pause * 1.6, 1.0)

    def _connect(self) -> None:
        """Connects; both sides prove that they know the token."""
        sock = socket.create_connection(self._address, timeout=10.0)
        try:
            keep_alive(sock)
            offer = self._receive(sock)
            mine = uuid.uuid4().hex
            if offer.get("rookery") != "external" or not isinstance(offer.get("challenge"), str):
                raise TrainingOver(offer.get("closed", "the program that listens there is not a training of Rookery"))
            shown = proof(self._token, "client", offer["challenge"])
            greeting = {"protocol": PROTOCOL, "client": self._name, "proof": shown, "challenge": mine}
            sock.sendall(pack(greeting))
            welcome = self._receive(sock)
            received = str(welcome.get("proof", ""))
            if not hmac.compare_digest(received, proof(self._token, "training", mine)):
                raise TrainingOver("the program that listens there does not know the token")
            self.welcome = welcome
            sock.settimeout(None)
        except BaseException:
            sock.close()
            raise
        self._socket = sock

    def _receive(self, sock: socket.socket | None = None) -> dict[str, Any]:
        """Returns the next message."""
        sock = self._socket if sock is None else sock
        assert sock is not None
        (size,) = struct.unpack("<Q", _exactly(sock, 8))
        if size > 1 << 32:
            raise MessageError(f"a message of {size:,} bytes")
        message = unpack(_exactly(sock, size))
        if "closed" in message:
            self._drop()
            raise TrainingOver(message["closed"])
        return message

    def _drop(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _exactly(sock: socket.socket, size: int) -> bytearray:
    """Reads exactly this number of bytes from a connection."""
    found = bytearray()
    while len(found) < size:
        part = sock.recv(min(size - len(found), 1 << 20))
        if not part:
            raise ConnectionError("the connection was closed")
        found += part
    return found
