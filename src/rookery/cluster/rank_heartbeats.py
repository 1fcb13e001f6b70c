"""Heartbeats of ranks, by which rank 0 detects a frozen learner while waiting for it in compiled code."""

from __future__ import annotations

import os
import secrets
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from weakref import WeakMethod

from rookery.core.process.heartbeats import HEARTBEAT_SECONDS, Heartbeats, describe_frozen, send_heartbeats

CONNECT_SECONDS = 10.0
"""Seconds for another rank to connect to rank 0."""


@dataclass(frozen=True)
class Introduction:
    """First message of a rank when it connects.

    Attributes:
        token: Proves that it belongs to the run.
        rank: Its number.
        machine: Name of its machine.
        process: Number of its process there.
    """

    token: str
    rank: int
    machine: str
    process: int

    def to_line(self) -> bytes:
        """Returns the message as a line of text."""
        return f"{self.token} {self.rank} {self.machine} {self.process}\n".encode()

    @classmethod
    def from_line(cls, line: bytes) -> Introduction:
        """Parses a message from a line of text; raises a ValueError if it is invalid."""
        token, rank, machine, process = line.decode().split()
        return cls(token, int(rank), machine, int(process))


class RankHeartbeats:
    """The heartbeats of all other ranks, at rank 0.

    Args:
        others: The connection of each rank that has connected.
        size: Number of ranks.
        give_up: Method that is called in a thread of its own when a rank is frozen: ends the waits for it. Its object
            is not kept alive.

    Attributes:
        problem: Description of the frozen rank; empty before.
    """

    def __init__(self, others: dict[Introduction, socket.socket], size: int, give_up: Callable[[], None]) -> None:
        here = socket.gethostname()
        self._size, self._give_up, self.problem = size, WeakMethod(give_up), ""
        self._heartbeats = {
            one: Heartbeats(line, one.process if one.machine == here else None) for one, line in others.items()
        }
        self._lines = list(others.values())
        self._ended = threading.Event()
        threading.Thread(target=self._watch, name="rookery: ranks' heartbeats", daemon=True).start()

    def _watch(self) -> None:
        while not self._ended.wait(HEARTBEAT_SECONDS) and self._give_up() is not None:
            for one, heartbeats in self._heartbeats.items():
                if heartbeats.is_frozen() and not self._ended.is_set():
                    self.problem = (
                        f"learner {one.rank} of {self._size} on {one.machine} (process {one.process}) "
                        f"{describe_frozen()}"
                    )
                    if (give_up := self._give_up()) is not None:
                        give_up()
                    return

    def close(self) -> None:
        """Closes the connections."""
        self._ended.set()
        for line in self._lines:
            line.close()


def connect_heartbeats(
    rank: int, size: int, host: str, gather: Callable[[Any], list[Any]], give_up: Callable[[], None]
) -> RankHeartbeats | None:
    """Connects all other ranks with rank 0, and starts their heartbeats. All ranks call it together. A rank that cannot
    connect sends no heartbeats and is not monitored.

    Args:
        rank: Number of this rank.
        size: Number of ranks.
        host: Address of this machine that the others can reach.
        gather: Returns the values of all ranks, in their order.
        give_up: See `RankHeartbeats`.

    Returns:
        Their heartbeats at rank 0; None at the others.
    """
    if rank:
        (address, token), *_ = gather(None)
        try:
            line = socket.create_connection(address, CONNECT_SECONDS)
            line.sendall(Introduction(token, rank, socket.gethostname(), os.getpid()).to_line())
            send_heartbeats(line)
        except OSError:
            gather(False)
        else:
            gather(True)
        return None
    token = secrets.token_hex(16)
    with socket.create_server((host, 0), backlog=size) as door:
        gather((door.getsockname()[:2], token))
        connected = sum(gather(False))  # they wait to be accepted
        return RankHeartbeats(accepted(door, token, connected), size, give_up)


def accepted(door: socket.socket, token: str, count: int) -> dict[Introduction, socket.socket]:
    """Accepts this number of connections of ranks that know a token."""
    others: dict[Introduction, socket.socket] = {}
    door.settimeout(CONNECT_SECONDS)
    with suppress(TimeoutError):
        while len(others) < count:
            line, _ = door.accept()
            line.settimeout(CONNECT_SECONDS)
            with suppress(OSError, ValueError):  # without the token
                introduction = Introduction.from_line(line.makefile("rb", buffering=0).readline(1 << 10))
                if secrets.compare_digest(introduction.token, token):
                    others[introduction] = line
    return others
