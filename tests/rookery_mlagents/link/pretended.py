"""Pretended players in threads of the test, and the environment that they play with."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import monotonic, sleep

from rookery_mlagents.link.unity_env import UnityEnv
from rookery_mlagents.testing.player import FakePlayer
from rookery_mlagents.testing.player_options import parse


def free_port() -> int:
    """A port that is free at the moment."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Pretended:
    """A player in a thread.

    Attributes:
        status: Its exit status, once it has ended.
    """

    def __init__(self, port: int, log: str, *arguments: str) -> None:
        self.status: int | None = None
        options = parse([*arguments, "--mlagents-port", str(port), "-logFile", log])
        self._thread = threading.Thread(target=lambda: self._run(FakePlayer(options)), daemon=True)

    def _run(self, player: FakePlayer) -> None:
        self.status = player.run()

    def start(self) -> None:
        self._thread.start()

    def start_when_heard(self, port: int) -> None:
        """Starts it as soon as a server listens: a client that cannot connect tries again only after a second."""

        def wait() -> None:
            until = monotonic() + 20
            while monotonic() < until:
                with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                    break
                sleep(0.01)
            self._thread.start()

        self._starter = threading.Thread(target=wait, daemon=True)
        self._starter.start()

    def join(self) -> None:
        self._thread.join(10)
        assert not self._thread.is_alive(), "the player does not end"


@contextmanager
def played(log: str, *arguments: str, **config: object) -> Iterator[tuple[UnityEnv, Pretended]]:
    """An environment that plays with a player, which it takes for the Editor."""
    port = free_port()
    player = Pretended(port, log, *arguments, "--wait", "20")
    player.start_when_heard(port)
    env = UnityEnv(1, None, base_port=port, timeout_wait=20, **config)
    try:
        yield env, player
    finally:
        env.close()
