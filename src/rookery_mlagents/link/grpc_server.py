"""gRPC server for a Unity player: one port of this machine, one player at a time.

A player speaks first: it greets, and receives our versions; it sends an empty message, and receives a reset; from then
on it sends a message whenever an agent requests an action, and waits for the answer. Each message is parsed in the
thread that received it, which then sleeps until `PlayerLink.answer` wakes it. All messages are put into one `Mailbox`.
"""

from __future__ import annotations

import queue
import re
import socket
import threading
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent import futures
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rookery.face import Answer, Asking, Ended, EnvError, RookeryError
from rookery_mlagents.link.layouts import BehaviorLayout, BehaviorReader, layout_of
from rookery_mlagents.link.messages import (
    GOODBYE,
    OK,
    RESET,
    STEP,
    AgentInfoProto,
    BrainParametersProto,
    HeaderProto,
    ObservationProto,
    UnityInputProto,
    UnityMessageProto,
    UnityRLCapabilitiesProto,
    UnityRLInitializationInputProto,
    UnityRLInitializationOutputProto,
    UnityRLInputProto,
)
from rookery_mlagents.link.protobuf_classes import METHOD, SERVICE, Raw, missing, proto
from rookery_mlagents.link.protobuf_wire import WireError, from_bytes, to_bytes

HOSTS = ("127.0.0.1", "::1")
"""Addresses of the server: players of this machine reach it, other machines do not."""

RAW_OUTPUT: Raw = frozenset(
    {
        (AgentInfoProto, "observations"),
        (AgentInfoProto, "action_mask"),
        (UnityRLInitializationOutputProto, "brain_parameters"),
    }
)
"""Raw fields in messages of players: they are converted to arrays, or occur only once."""

RAW_INPUT: Raw = frozenset({(UnityRLInputProto, "agent_actions")})
"""Raw fields in messages to players: actions, which are written together."""

BEFORE_1 = "0.15.0"
"""Protocol version before 1.0; its players require the same version."""

FIRST_PACKAGES = "0.20.0"
"""Version of the Python package reported to C# packages 1.x, which refuse 0.26 and later."""

PACKAGE = "1.1.0"
"""Version of the Python package reported to later C# packages."""

OUR_CAPABILITIES = UnityRLCapabilitiesProto(True, True, True, True, False, True, True)
"""Supported capabilities: all except sending analytics to the Editor."""

SILENCE = 5.0
"""Seconds of silence after which a player counts as gone if another one connects."""

PARTING = 1.0
"""Seconds in which a player may send another request after `quit`, to receive the command."""

THREADS = 4
"""Number of calls served at a time: one waits for its answer, others are refused meanwhile."""

OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.so_reuseport", 0),
)
"""gRPC options: unlimited message length, exclusive use of the port."""


# --- messages ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Hello:
    """Greeting of the trainer to players.

    Attributes:
        package_version: Reported version of mlagents_envs; empty for one that the player accepts.
        communication_version: The version of the protocol; players of 0.15.0 receive their own.
        seed: For what is drawn in the player.
        num_areas: Number of training areas that a player makes, if it can.
    """

    package_version: str = ""
    communication_version: str = "1.5.0"
    seed: int = 0
    num_areas: int = 1


@dataclass(frozen=True)
class Greeting:
    """Greeting of a player.

    Attributes:
        name: Of the game.
        package_version: Of its C# package; old ones say none.
        communication_version: Of the exchange.
        capabilities: Supported features beyond the first version.
        log_path: Where it writes its log.
    """

    name: str
    package_version: str
    communication_version: str
    capabilities: UnityRLCapabilitiesProto
    log_path: str


@dataclass
class Output:
    """Message of a player that waits for `PlayerLink.answer`.

    Attributes:
        asking: By behaviour, the agents that request an action.
        ended: By behaviour, those whose episode has ended.
        new: Behaviours that have agents for the first time.
        side_channel: Its messages on side channels, see `side_channel_codec`.
        first: Whether the player reports with it that it is ready, and wants a reset; it has no agents.
    """

    asking: dict[str, Asking] = field(default_factory=dict)
    ended: dict[str, Ended] = field(default_factory=dict)
    new: dict[str, BehaviorLayout] = field(default_factory=dict)
    side_channel: bytes = b""
    first: bool = False


@dataclass(frozen=True)
class Closed:
    """A player is gone; another one may connect to the same port.

    Attributes:
        reason: The reason, as a sentence continues after "player 2 on port 5007".
        refused: Whether it would be gone again: its version is not understood, or what it sends cannot be used.
    """

    reason: str
    refused: bool = False


PlayerMessage = Greeting | Output | Closed


class Mailbox:
    """Queue of the messages of all players that were not taken yet."""

    def __init__(self) -> None:
        self._messages: queue.SimpleQueue[tuple[int, PlayerMessage]] = queue.SimpleQueue()

    def put(self, lane: int, message: PlayerMessage) -> None:
        """Adds a message of a player."""
        self._messages.put((lane, message))

    def take(self, seconds: float) -> list[tuple[int, PlayerMessage]]:
        """Waits for a message, `seconds` at most; returns all messages, each with its lane, in order."""
        try:
            found = [self._messages.get(timeout=max(seconds, 0.0))]
        except queue.Empty:
            return []
        while True:
            try:
                found.append(self._messages.get_nowait())
            except queue.Empty:
                return found


# --- versions ---------------------------------------------------------------------------------------------------------


def version_problem(version: str) -> str:
    """Returns the reason why players of a protocol version are refused, or an empty string."""
    if version == BEFORE_1 or re.fullmatch(r"1\.\d+\.\d+\S*", version):
        return ""
    old = re.fullmatch(r"API-(\d+)", version)
    whose = f"ML-Agents 0.{old[1]}" if old else "an unknown release of ML-Agents"
    if re.fullmatch(r"0\.\d+\.\d+\S*", version):
        whose = f"a preview of ML-Agents {version.rsplit('.', 1)[0]}"
    elif re.fullmatch(r"\d+\.\d+\.\d+\S*", version):
        whose = "a release of ML-Agents after 23"
    return (
        f"it speaks version {version or '(none)'} of the exchange, that of {whose}; {BEFORE_1} and all of 1.x are "
        "understood: build it with com.unity.ml-agents 1.0 to 4.0 (releases 1 to 23), or 0.15"
    )


def introduction(hello: Hello, greeting: Greeting) -> UnityRLInitializationInputProto:
    """Returns the answer to a greeting, with the versions that the player expects."""
    before_1 = greeting.communication_version == BEFORE_1
    old = before_1 or re.match(r"[01]\.", greeting.package_version or "1.") is not None
    return UnityRLInitializationInputProto(
        seed=hello.seed,
        communication_version=BEFORE_1 if before_1 else hello.communication_version,
        package_version=hello.package_version or (FIRST_PACKAGES if old else PACKAGE),
        capabilities=OUR_CAPABILITIES,
        num_areas=hello.num_areas,
    )


# --- the line ---------------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class OpenCall:
    """A call that waits for its answer.

    Attributes:
        waiting_agents: By behaviour, the agents that ask, in the order in which the player wants their actions.
        replies: Where its thread waits; None ends it without an answer.
    """

    waiting_agents: dict[str, Sequence[Hashable]] = field(default_factory=dict)
    replies: queue.SimpleQueue[bytes | None] = field(default_factory=queue.SimpleQueue)


class PlayerLink:
    """Server side of one player's connection.

    Attributes:
        lane: The player's number.
        port: The port, on 127.0.0.1 and ::1.
        layouts: The behaviours that the player has shown, by name.
        greeting: Its greeting; None before it has come.
        num_strange: Calls that were no player's, or a second player's.
        strange: Problem of the last of these.
    """

    def __init__(self, lane: int, mailbox: Mailbox, port: int, hello: Hello) -> None:
        """Opens the port.

        Args:
            lane: The player's number.
            mailbox: Queue for its messages.
            port: The port; 0 for any that is free.
            hello: Our greeting.

        Raises:
            EnvError: If the port is taken.
            ConfigError: If grpcio or protobuf is not installed.
        """
        self.lane, self._mailbox, self._hello = lane, mailbox, hello
        self.layouts: dict[str, BehaviorLayout] = {}
        self.greeting: Greeting | None = None
        self.num_strange, self.strange = 0, ""
        self._readers: dict[str, BehaviorReader] = {}
        self._brains: dict[str, BrainParametersProto] = {}
        self._lock = threading.Condition()
        self._peer = ""  # the player's own end, once it has greeted
        self._last_seen = 0.0  # when it last spoke
        self._parts_at = 0.0  # when it was to quit
        self._call: OpenCall | None = None
        self._is_ready = self._is_closing = False
        self._output_class = proto(UnityMessageProto, RAW_OUTPUT)
        self._input_class = proto(UnityMessageProto, RAW_INPUT)
        self._threads = Threads(THREADS, f"unity player {lane}")
        self._server, self.port = _serve(self._exchange, self._threads, lane, port)

    # -- incoming calls ------------------------------------------------------------------------------------------------

    def _exchange(self, content: bytes, context: Any) -> bytes:
        """Serves one call; runs in a thread of the server."""
        try:
            message = self._output_class.FromString(content)
        except Exception:  # protobuf's DecodeError, which has moved between its versions
            message = None
        peer = context.peer()
        if self._is_closing:
            with self._lock:
                self._peer = "" if peer == self._peer else self._peer
                self._lock.notify_all()
            return _goodbye()
        if message is None or not message.HasField("header"):
            return self._not_understood(peer, context)
        if message.header.status != OK:
            return self._left(peer, message.header.message)
        start = message.unity_output.rl_initialization_output
        if start.communication_version or start.name:
            return self._greeted(peer, start, context)
        return self._observed(peer, message.unity_output, context)

    def _not_understood(self, peer: str, context: Any) -> bytes:
        """Handles bytes that are not a message."""
        problem = "bytes that are not a message of ML-Agents came"
        with self._lock:
            if peer == self._peer and self._call is None:
                self._gone(Closed(f"sent {problem.removesuffix(' came')}; is its package com.unity.ml-agents?", True))
            else:
                self._note_strange(f"{problem} from {peer}")
        return _abort(context, "INVALID_ARGUMENT", problem)

    def _left(self, peer: str, message: str) -> bytes:
        """Handles the goodbye of a player."""
        with self._lock:
            if peer == self._peer:
                self._gone(Closed("said goodbye" + (f": {message}" if message else "")))
        return _goodbye()

    def _greeted(self, peer: str, start: Any, context: Any) -> bytes:
        """Handles a greeting; it waits until another connected player has been silent for long enough."""
        capabilities = from_bytes(UnityRLCapabilitiesProto, start.capabilities.SerializeToString())
        version = start.communication_version
        greeting = Greeting(start.name, start.package_version, version, capabilities, start.log_path)
        with self._lock:
            while self._peer and peer != self._peer and not self._is_closing:
                left = self._last_seen + SILENCE - time.monotonic()
                if self._call is not None:
                    self._note_strange(f"a second player ({greeting.name or 'without a name'}) came from {peer}")
                    break
                if left <= 0:
                    self._gone(Closed(f"was silent for {SILENCE:.0f} s, and another one came to its port"))
                else:
                    self._lock.wait(left)
            if self._is_closing:
                return _goodbye()
            if self._call is None:
                if self._peer:
                    self._gone(Closed("began anew"))
                tell = HeaderProto(OK)
                if problem := version_problem(version):
                    self._mailbox.put(self.lane, Closed(f"is refused: {problem}", True))
                    tell = HeaderProto(GOODBYE, problem)
                else:
                    self._peer, self._last_seen, self._is_ready = peer, time.monotonic(), False
                    self.greeting, self.layouts, self._readers, self._brains = greeting, {}, {}, {}
                    self._mailbox.put(self.lane, greeting)
                unity_input = UnityInputProto(rl_initialization_input=introduction(self._hello, greeting))
                return to_bytes(UnityMessageProto(tell, unity_input=unity_input))
        return _abort(context, "ALREADY_EXISTS", f"port {self.port} has a player already: give this one another port")

    def _observed(self, peer: str, unity_output: Any, context: Any) -> bytes:
        """Handles a message with the observations of agents; the player waits for actions."""
        with self._lock:
            if self.greeting is None or not self._peer:
                self._note_strange(f"a message came from {peer} before a greeting")
                return _goodbye("greet first")
            if self._call is not None:
                self._note_strange(f"a second call came from {peer}")
                peer = ""
            else:
                self._peer, self._last_seen = peer, time.monotonic()
                self._lock.notify_all()
                call = self._call = OpenCall()
        if not peer:
            return _abort(context, "ALREADY_EXISTS", f"port {self.port} has a player that waits for its answer")
        try:
            output = self._output(unity_output)
        except Exception as error:  # whatever it is, a player must not wait for ever
            reason = str(error) if isinstance(error, RookeryError) else f"{type(error).__name__}: {error}"
            with self._lock:
                if self._call is call:
                    self._gone(Closed(f"is refused: {reason}", True))
            return _goodbye(reason)
        call.waiting_agents = {name: asking.ids for name, asking in output.asking.items()}
        if not context.add_callback(lambda: self._dropped(call)):
            self._dropped(call)
        with self._lock:
            if self._call is call:
                self._mailbox.put(self.lane, output)
        reply = call.replies.get()
        return _goodbye() if reply is None else reply

    def _output(self, unity_output: Any) -> Output:
        """Parses a message.

        Raises:
            RookeryError: If it is not what agents of these behaviours send.
        """
        if not self._is_ready:
            self._is_ready = True
            if not unity_output.rl_output.agent_infos:
                return Output(side_channel=unity_output.rl_output.side_channel, first=True)
        for content in unity_output.rl_initialization_output.brain_parameters:
            brain = from_bytes(BrainParametersProto, content)
            self._brains[brain.brain_name] = brain
        output = Output(side_channel=unity_output.rl_output.side_channel)
        for name, listed in unity_output.rl_output.agent_infos.items():
            infos = listed.value
            if not len(infos):
                continue
            try:
                reader = self._readers.get(name)
                if reader is None:
                    reader = self._reader(name, infos[0])
                    output.new[name] = reader.layout
                asking, ended = reader.read(infos)
            except RookeryError as error:
                raise WireError(f"behaviour {name!r}: {error}") from None
            if asking is not None:
                output.asking[name] = asking
            if ended is not None:
                output.ended[name] = ended
        return output

    def _reader(self, name: str, info: Any) -> BehaviorReader:
        """Creates the layout of a behaviour from its first agent."""
        if name not in self._brains:
            raise WireError("has agents, and the player has never sent their action space")
        observations = tuple(from_bytes(ObservationProto, content) for content in info.observations)
        layout = layout_of(self._brains[name], AgentInfoProto(observations=observations))
        self.layouts = {**self.layouts, name: layout}
        reader = self._readers[name] = BehaviorReader(layout)
        return reader

    def _dropped(self, call: OpenCall) -> None:
        """Handles the end of a call; if it has not been answered, the player has gone."""
        with self._lock:
            if self._call is call:
                self._gone(
                    Closed("broke off the connection: it has crashed, was stopped, or its editor left play mode")
                )

    def _gone(self, closed: Closed) -> None:
        """Marks the player as gone, so that another may connect. Needs the lock."""
        call, self._call, self._peer = self._call, None, ""
        if call is not None:
            call.replies.put(None)
        self._lock.notify_all()
        if not self._is_closing:
            self._mailbox.put(self.lane, closed)

    def _note_strange(self, what: str) -> None:
        """Counts messages that are not from a player. Needs the lock."""
        self.num_strange, self.strange = self.num_strange + 1, what

    # -- outgoing ------------------------------------------------------------------------------------------------------

    @property
    def is_waiting(self) -> bool:
        """Whether the player waits for an answer."""
        return self._call is not None

    @property
    def is_connected(self) -> bool:
        """Whether a player is connected."""
        return bool(self._peer)

    def answer(self, answers: Mapping[str, Answer], side_channel: bytes = b"", reset: bool = False) -> None:
        """Answers the player's last message. Does nothing if the player is gone, which the mailbox will report.

        Args:
            answers: By behaviour, an action for each agent that asked, in any order; none are looked at with `reset`.
            side_channel: Messages to it on side channels, see `side_channel_codec`.
            reset: Whether it is to begin anew.

        Raises:
            EnvError: If it waits for no answer, or an agent that asked has no action; names it.
        """
        with self._lock:
            call = self._call
            if call is None:
                if self._peer:
                    raise EnvError(f"{self._name()}: waits for no answer, and is given one")
                return
        message = self._input_class()
        message.header.status = OK
        rl_input = message.unity_input.rl_input
        rl_input.command = RESET if reset else STEP
        if side_channel:
            rl_input.side_channel = side_channel
        if not reset:
            for name, ids in call.waiting_agents.items():
                rl_input.agent_actions[name] = self._actions(name, ids, answers.get(name))
        self._reply(call, message.SerializeToString())

    def _actions(self, name: str, ids: Sequence[Hashable], answer: Answer | None) -> bytes:
        """Writes actions in the order of the player's requests."""
        if answer is None:
            raise EnvError(f"{self._name()}: no actions for {len(ids)} agents of behaviour {name!r}")
        actions = answer.actions
        if len(actions) != len(answer.ids):
            raise EnvError(f"{self._name()}: {len(actions)} actions for {len(answer.ids)} agents of behaviour {name!r}")
        if list(answer.ids) != list(ids):
            places = {agent: place for place, agent in enumerate(answer.ids)}
            left_out = [agent for agent in ids if agent not in places]
            if left_out:
                raise EnvError(f"{self._name()}: no action for agent {left_out[0]} of behaviour {name!r}")
            actions = actions[[places[agent] for agent in ids]]
        return self._readers[name].write(np.asarray(actions))

    def _reply(self, call: OpenCall, content: bytes) -> None:
        with self._lock:
            if self._call is call:
                self._call, self._last_seen = None, time.monotonic()
                call.replies.put(content)

    def quit(self) -> None:
        """Makes the player quit, at once if it waits for an answer, else with its next message."""
        with self._lock:
            if not self._is_closing:
                self._is_closing, self._parts_at = True, time.monotonic()
            call, self._call = self._call, None
            if call is not None:
                self._peer = ""
                call.replies.put(None)
            self._lock.notify_all()

    def close(self, patience: float = PARTING) -> None:
        """Makes the player quit, and frees the port; later calls are refused.

        Args:
            patience: Seconds that a player that waits for no answer has, from `quit` on, to ask for one and receive
                the command; 0 for one that is known to be gone.
        """
        self.quit()
        with self._lock:
            left = self._parts_at + patience - time.monotonic()
            self._lock.wait_for(lambda: not self._peer, max(left, 0.0))
        self._server.stop(0.5).wait()
        self._threads.close()

    def _name(self) -> str:
        game = f" ({self.greeting.name})" if self.greeting and self.greeting.name else ""
        return f"player {self.lane}{game} on port {self.port}"


def _goodbye(message: str = "") -> bytes:
    """Returns the message that makes a player quit."""
    return to_bytes(UnityMessageProto(HeaderProto(GOODBYE, message)))


def _abort(context: Any, code: str, details: str) -> bytes:
    """Ends a call with an error."""
    import grpc

    context.set_code(getattr(grpc.StatusCode, code))
    context.set_details(details)
    return b""


# --- the server -------------------------------------------------------------------------------------------------------


class Threads(futures.Executor):
    """Daemon threads that serve calls; the program can end without waiting for them.

    Args:
        count: Number of threads.
        name: Name of the threads.
    """

    def __init__(self, count: int, name: str) -> None:
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._threads = [threading.Thread(target=self._run, name=name, daemon=True) for _ in range(count)]
        for thread in self._threads:
            thread.start()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> futures.Future[Any]:
        """Calls a function in a thread."""
        future: futures.Future[Any] = futures.Future()

        def call() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(fn(*args, **kwargs))
                except BaseException as error:
                    future.set_exception(error)

        self._work.put(call)
        return future

    def _run(self) -> None:
        while (call := self._work.get()) is not None:
            call()

    def close(self) -> None:
        """Ends the threads once they are idle."""
        for _ in self._threads:
            self._work.put(None)
        for thread in self._threads:
            thread.join(5.0)


def _serve(call: Callable[[bytes, Any], bytes], threads: Threads, lane: int, port: int) -> tuple[Any, int]:
    """Starts a server for one call, on a local port; returns it and the port.

    Raises:
        EnvError: If the port is taken.
        ConfigError: If grpcio is not installed.
    """
    try:
        import grpc
    except ImportError as error:
        raise missing("speaking with Unity players", error) from None
    if port and (taken := _taken(port)):
        threads.close()
        raise EnvError(
            f"player {lane}: port {port} is taken ({taken}): another training or a player that was left behind has it; "
            "end that one, or give this run another base port"
        )
    handler = grpc.unary_unary_rpc_method_handler(call)  # bytes in, bytes out
    server = grpc.server(threads, options=OPTIONS)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {METHOD: handler}),))
    for host in HOSTS:
        if host == "::1" and not _has_ipv6():
            continue
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            found = server.add_insecure_port(address)
        except RuntimeError:
            found = 0
        if not found:
            threads.close()
            raise EnvError(f"player {lane}: port {port} cannot be opened on {host}: give this run another base port")
        port = port or found
    server.start()
    return server, port


def _taken(port: int) -> str:
    """Returns the reason why a port cannot be opened, or an empty string."""
    for host in HOSTS:
        kind = socket.AF_INET6 if ":" in host else socket.AF_INET
        if kind == socket.AF_INET6 and not _has_ipv6():
            continue
        with socket.socket(kind, socket.SOCK_STREAM) as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                one.bind((host, port))
            except OSError as error:
                return f"{host}: {error.strerror}"
    return ""


def _has_ipv6() -> bool:
    """Returns whether this machine has the address ::1."""
    if not socket.has_ipv6:
        return False
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as one:
            one.bind(("::1", 0))
    except OSError:
        return False
    return True
