"""`ExternalEnv`: programs in any language that connect, run episodes at their own pace, and request actions.

A lane is a running episode. Clients come and go; episodes for which there is no lane wait; lanes without an episode do
not step.
"""

from __future__ import annotations

import atexit
import os
import secrets
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from rookery.core.errors import EnvError
from rookery.core.io.open_files import NO_LINK
from rookery.core.settings.reach import Harmless, Reaches, Within
from rookery.envs.async_copies.async_env import AsyncCopiesEnv
from rookery.envs.async_copies.step_message import Answer, StepMessage
from rookery.envs.base import SeedPlan, Step
from rookery.envs.external.episode_server import EpisodeServer, ServedEnv
from rookery.envs.external.listener import ConnectionLimits
from rookery.envs.external.spaces import ExternalSpaces, read_spaces

TOKEN = "ROOKERY_TOKEN"
"""The environment variable that holds the token."""

LOOPBACK = ("127.0.0.1", "::1", "localhost")

SCHEME = "external:"
"""Prefix of the name of such an environment, before its port."""


class ExternalCopies:
    """The lanes of one `ExternalEnv`, as `Copies`.

    Args:
        server: Server of the episodes.
        served: The lanes.
        notes: Lines a user should read once.
        release: Called on close.
    """

    own_episodes = False

    def __init__(self, server: EpisodeServer, served: ServedEnv, notes: tuple[str, ...]) -> None:
        self._server, self.served, self.notes = server, served, notes
        self.name = server.name
        self.behaviors = server.spaces.behaviors
        self.parameters = server.spaces.parameters
        self.counters = served.counters
        self.began: list[int] = []
        """Lanes in which an episode began with the last messages."""

    def begin(self, lane: int, episode: int, plan: SeedPlan) -> None:
        """Restarts a lane; see `Copies.begin`."""
        self._server.begin(self.served, lane, episode, plan)

    def replan(self, plan: SeedPlan) -> None:
        """Sets other seeds and parameters for later episodes."""
        self._server.replan(self.served, plan)

    def step_messages(self, seconds: float) -> list[StepMessage]:
        """Waits for clients; see `Copies.step_messages`."""
        found, self.began = self._server.step_messages(self.served, seconds)
        return found

    def answer(self, lane: int, episode: int, answers: Mapping[str, Answer]) -> None:
        """Sends actions to the client whose episode runs in a lane."""
        self._server.answer(self.served, lane, answers)

    def close(self) -> None:
        """Gives up running episodes, and stops listening if no other environment uses the port."""
        leave(self._server, self.served)


class ExternalEnv(AsyncCopiesEnv):
    """Episodes that clients (`Client`) play. The port is open as soon as the object exists.

    Attributes:
        address: Host and port at which it listens.
        token: Token that clients must know.
    """

    run_arguments = frozenset(
        ("token", "token_file", "host", "patience", "silence", "max_message_bytes", "max_connections")
    )
    """Arguments that define how clients connect, and may change when a training resumes (`make.run_arguments`)."""

    def __init__(
        self,
        num_lanes: int,
        port: Annotated[int, Within(65_535)],
        spaces: Annotated[Mapping[str, Any], Harmless("spaces as data"), Within(16_777_216)] | None = None,
        token: Annotated[str, Reaches("a known token", default_will_do=True)] | None = None,
        token_file: Annotated[str, Reaches("a path", default_will_do=True)] | None = None,
        host: Annotated[str, Reaches("an address of this machine", default_will_do=True, but=LOOPBACK)] = "127.0.0.1",
        patience: float = ConnectionLimits.patience,
        silence: float = ConnectionLimits.silence,
        max_message_bytes: Annotated[int, Within(1_073_741_824)] = ConnectionLimits.max_message_bytes,
        max_connections: Annotated[int, Within(65_536)] = ConnectionLimits.max_connections,
    ) -> None:
        """Listens for clients.

        Args:
            num_lanes: Episodes that may run at the same time; others wait.
            port: Port to listen at; 0 = any free port. Environments of one process with the same port share its
                clients: an evaluation borrows those of the training. Those of port 0 share them if they have the same
                spaces and the same given token.
            spaces: Observations and actions of agents, in the form of `read_spaces`; needed.
            token: Token that clients must know; None = that of the environment variable ``ROOKERY_TOKEN``, or of
                `token_file`; a new one if there is none.
            token_file: File to read the token from, or to write a new one to.
            host: Address to listen at; addresses other than loopback can be reached from the network.
            patience: Seconds after which the episode of a client without a connection is given up.
            silence: Seconds after which the episode of a connected but silent client is given up.
            max_message_bytes: Longest message.
            max_connections: Largest number of clients.

        Raises:
            EnvError: If the port is taken, or the spaces cannot be used.
        """
        limits = ConnectionLimits(max_message_bytes, max_connections, patience=patience, silence=silence)
        read = read_spaces(spaces)
        secret, where = find_token(token, token_file)
        given_token = token or os.environ.get(TOKEN) or token_file or ""
        server, is_first = enter(read, host, port, secret, given_token, limits)
        self.address, self.token = server.listener.address, server.token
        at = f"{self.address[0]}:{self.address[1]}"
        notes = [f"external: waiting for clients at {at}, token in {where}"] if is_first else []
        if is_first and host not in LOOPBACK:
            notes.append(f"external: {at} can be reached from the network, and messages are not encrypted")
        served = ServedEnv(num_lanes)
        try:
            self._external = ExternalCopies(server, served, tuple(notes))
            super().__init__(self._external, num_lanes)
        except BaseException:
            leave(server, served)
            raise

    @property
    def in_turn(self) -> bool:
        """Whether an episode begins in the lane with the fewest episodes, instead of the first free one."""
        return self._external.served.evenly

    @in_turn.setter
    def in_turn(self, evenly: bool) -> None:
        """Sets `in_turn`."""
        self._external.served.evenly = evenly

    def step(self, actions: Sequence[np.ndarray]) -> Step:
        """Answers clients that have requested actions, and waits for others; see `AsyncCopiesEnv.step`."""
        step = super().step(actions)
        if self._external.began and step.stepped is not None:
            step.stepped[self._external.began] = False  # they have shown their first observation
        if self.keep_infos != "none":
            latest = self._external.served.infos
            self.infos = {lane: infos for lane, infos in latest.items() if self.keep_infos == "all" or step.ended[lane]}
        return step


# -- sharing a port ------------------------------------------------------------------------------------------------

_LOCK = threading.Lock()
_OPEN: dict[EpisodeServer, int] = {}
"""Servers of this process, and the number of environments that use each."""


def enter(
    spaces: ExternalSpaces, host: str, port: int, token: str, given_token: str, limits: ConnectionLimits
) -> tuple[EpisodeServer, bool]:
    """Returns the server at an address, and whether it is new.

    Args:
        spaces: Observations and actions of the agents.
        host: Address to listen at.
        port: Port, or 0.
        token: Token that clients must know, for a new server.
        given_token: The user's own token; empty if none was given.
        limits: Limits of connections, for a new server.

    Raises:
        EnvError: If the port is taken, or used with other spaces.
    """
    with _LOCK:
        for server in _OPEN:
            alike = repr(server.spaces) == repr(spaces)
            same_port = bool(port) and (server.host, server.listener.address[1]) == (host, port)
            if same_port and not alike:
                raise EnvError(f"{SCHEME}{port}: another environment of this process, with other spaces, is there")
            if same_port or ((server.host, server.port, server.given_token) == (host, port, given_token) and alike):
                _OPEN[server] += 1
                return server, False
        server = EpisodeServer(f"{SCHEME}{port}", spaces, host, port, token, limits, given_token)
        _OPEN[server] = 1
        return server, True


def leave(server: EpisodeServer, served: ServedEnv) -> None:
    """Closes a `ServedEnv`, and the server after its last one."""
    with _LOCK:
        if served.closed:
            return
        served.closed = True
        users = _OPEN[server] - 1
        _OPEN[server] = users
        if not users:
            del _OPEN[server]
    server.close(served)
    if not users:
        server.listener.close("the training is over")


@atexit.register
def _close_clients() -> None:
    """Disconnects clients when this process ends, even if environments were not closed."""
    for server in list(_OPEN):
        server.listener.close("the training is over")


def find_token(token: str | None, file: str | None) -> tuple[str, str]:
    """Finds the token and its source; creates a token if there is none.

    Args:
        token: The token, if given.
        file: File to read it from or write it to, if it is not given.

    Raises:
        EnvError: If the file cannot be read or written, or holds no token.
    """
    if token is None and file is None and not os.environ.get(TOKEN):
        made = secrets.token_urlsafe(24)
        return made, f"{TOKEN}={made}"
    if token is not None:
        return _long_enough(token, "token"), "env.config.token"
    if os.environ.get(TOKEN):
        return _long_enough(os.environ[TOKEN], TOKEN), f"${TOKEN}"
    path = Path(str(file))
    try:
        try:
            descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | NO_LINK, 0o600)
        except FileExistsError:
            return _long_enough(path.read_text(encoding="utf-8").strip(), str(path)), str(path)
        made = secrets.token_urlsafe(24)
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(made + "\n")
    except OSError as error:
        raise EnvError(f"{SCHEME} token_file {path}: {error.strerror}; set {TOKEN} instead") from error
    return made, str(path)


def _long_enough(token: str, what: str) -> str:
    if len(token) < 8:
        raise EnvError(f"{SCHEME} {what}: a token has 8 characters at least; make one: openssl rand -base64 24")
    return token
