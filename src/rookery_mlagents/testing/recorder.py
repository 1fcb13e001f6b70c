"""Sessions as files: a `Recorder` between a player and its trainer, and a player that replays a recording.

A recorder is launched by a trainer in the place of the player, which it launches itself; or it waits for an Editor. It
forwards every message unchanged, so that neither side notices, and writes it to a file.
"""

from __future__ import annotations

import argparse
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from rookery.face import RookeryError
from rookery_mlagents.link.messages import (
    GOODBYE,
    OK,
    QUIT,
    RESET,
    HeaderProto,
    UnityMessageProto,
    UnityOutputProto,
    UnityRLInputProto,
)
from rookery_mlagents.link.protobuf_classes import METHOD, SERVICE, missing, proto
from rookery_mlagents.link.protobuf_wire import to_bytes
from rookery_mlagents.testing.player import PlayerLog
from rookery_mlagents.testing.player_line import UNLIMITED, Line, LineLost
from rookery_mlagents.testing.player_options import unity_flags
from rookery_mlagents.testing.session_file import SessionMessage, SessionWriter, read_session

TICK = 0.2
"""Seconds between two checks that a player still runs."""


class Recorder:
    """Forwards the messages of a player and a trainer to each other, and writes them to a file.

    Args:
        file: Where it is written; a file that is there is replaced.
        trainer: Port of the trainer.
        port: Port for the player; 0 for any that is free.

    Attributes:
        port: The port for the player.

    Raises:
        FileError: If the file cannot be written.
        ConfigError: If grpcio is not installed.
    """

    def __init__(self, file: str, trainer: int, port: int = 0) -> None:
        try:
            import grpc
        except ImportError as error:
            raise missing("recording a session", error) from None
        self._trainer, self._unavailable = trainer, grpc.StatusCode.UNAVAILABLE
        self._writer = SessionWriter(file)
        self._line = Line(trainer, self._writer)
        self._server = grpc.server(ThreadPoolExecutor(2, "recorder"), options=UNLIMITED)
        handler = grpc.unary_unary_rpc_method_handler(self._exchange)
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {METHOD: handler}),))
        self.port = 0
        for host in ("127.0.0.1", "[::1]"):
            try:
                self.port = self._server.add_insecure_port(f"{host}:{self.port or port}")
            except RuntimeError as error:
                if not self.port:  # a machine may have no ::1
                    raise RookeryError(f"port {port} cannot be opened: {error}") from None
        self._server.start()

    def _exchange(self, content: bytes, context: Any) -> bytes:
        """Forwards a message and its answer."""
        try:
            return self._line.exchange(content)
        except LineLost as error:
            self._line.close()  # the next caller connects again
            self._line = Line(self._trainer, self._writer)
            context.abort(self._unavailable, str(error))
            raise

    def close(self) -> None:
        """Ends the recording; the file is complete."""
        self._server.stop(None).wait()
        self._line.close()
        self._writer.close()


def record(arguments: Sequence[str]) -> int:
    """Records a session with the arguments of a command line: ``FILE --player PROGRAM`` or ``FILE --listen PORT``, and
    Unity's flags.

    Unknown flags are passed to the player. Returns the player's exit status.
    """
    reader = argparse.ArgumentParser("python -m rookery_mlagents.testing record", allow_abbrev=False)
    reader.add_argument("file", metavar="FILE")
    which = reader.add_mutually_exclusive_group(required=True)
    which.add_argument("--player", help="the program to launch")
    which.add_argument("--listen", type=int, metavar="PORT", help="wait for an Editor that dials this port")
    unity_flags(reader)
    given, rest = reader.parse_known_args(arguments)
    recorder = Recorder(given.file, given.mlagents_port, given.listen or 0)
    try:
        if given.listen:
            log = PlayerLog(given.logFile)
            log.say(f"waits for a player on port {recorder.port}; the trainer's is {given.mlagents_port}")
            while True:
                time.sleep(TICK)
        flags = ["-batchmode"] * given.batchmode + ["-nographics"] * given.nographics
        flags += ["-logFile", given.logFile] if given.logFile else []
        command = [given.player, *flags, "--mlagents-port", str(recorder.port), *rest]
        with subprocess.Popen(command) as player:
            try:
                return player.wait()
            finally:
                player.terminate()
    except KeyboardInterrupt:
        return 0
    finally:
        recorder.close()


def replay(arguments: Sequence[str]) -> int:
    """Replays a recorded session with the arguments of a command line: ``FILE`` and Unity's flags; returns the exit
    status.

    The recorded messages of the player are sent again, whatever the trainer answers; a command that differs from the
    recorded one is logged.
    """
    reader = argparse.ArgumentParser("python -m rookery_mlagents.testing replay", allow_abbrev=False)
    reader.add_argument("file", metavar="FILE")
    reader.add_argument("--real-time", action="store_true", help="wait as long as the player took then")
    unity_flags(reader)
    given, _ = reader.parse_known_args(arguments)
    log = PlayerLog(given.logFile)
    messages = read_session(given.file)
    count = sum(message.speaker == "player" for message in messages)
    log.say(f"Rookery's pretended Unity player repeats {count:,} messages of {given.file}, port {given.mlagents_port}")
    try:
        return _repeat(messages, given.mlagents_port, given.wait, given.real_time, log)
    except LineLost as error:
        log.say(f"the trainer is gone: {error}")
        return 0


def _repeat(messages: list[SessionMessage], port: int, patience: float, real_time: bool, log: PlayerLog) -> int:
    """Sends the recorded messages of a player again."""
    read = proto(UnityMessageProto, CLOSED)
    replies = [
        (read.FromString(one.content), messages[number + 1 : number + 2])
        for number, one in enumerate(messages)
        if one.speaker == "player"
    ]
    spoken = [one for one in messages if one.speaker == "player"]
    line = Line(port, patience=patience)
    heard_at = time.perf_counter()
    over = False
    for number, (message, (head, then)) in enumerate(zip(spoken, replies, strict=True)):
        if number and _greets(head):  # it came back then, as an Editor does
            line.close()
            line = Line(port)
        if real_time and number:
            before = messages[messages.index(message) - 1].seconds
            time.sleep(max(0.0, message.seconds - before - (time.perf_counter() - heard_at)))
        over = head.header.status == GOODBYE
        answer = read.FromString(line.exchange(message.content))
        heard_at = time.perf_counter()
        if over:
            continue
        command = answer.unity_input.rl_input.command
        if answer.header.status != OK or command == QUIT:
            log.say("the trainer has said goodbye")
            return 0
        if then and then[0].speaker == "trainer":
            was = read.FromString(then[0].content).unity_input.rl_input.command
            if (was == RESET) != (command == RESET):
                resets = "resets" if command == RESET else "does not reset"
                log.say(f"message {number:,}: the trainer {resets} the player here, other than in the recording")
    if not over:
        line.exchange(to_bytes(UnityMessageProto(HeaderProto(GOODBYE))))
    line.close()
    log.say("the session is over")
    return 0


CLOSED = frozenset({(UnityOutputProto, "rl_output"), (UnityRLInputProto, "agent_actions")})
"""Fields that a replaying player leaves unparsed."""


def _greets(message: Any) -> bool:
    """Whether a message is the first one of a player."""
    start = message.unity_output.rl_initialization_output
    return bool(start.communication_version or start.name)
