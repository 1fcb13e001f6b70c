"""A pretended player in a thread of the test, which the environment takes for the Editor."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rookery_mlagents.api import UnityEnvironment
from rookery_mlagents.testing.player import FakePlayer
from rookery_mlagents.testing.player_options import parse


def free_port() -> int:
    """Returns a port that is free at the moment."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def start_player(port: int, log: Any, *arguments: str) -> threading.Thread:
    """Connects a player as soon as a trainer listens."""
    options = parse([*arguments, "--mlagents-port", str(port), "-logFile", str(log)])

    def play() -> None:
        for _ in range(500):
            with socket.socket() as one:
                if one.connect_ex(("127.0.0.1", port)) == 0:
                    FakePlayer(options).run()
                    return
            time.sleep(0.01)

    thread = threading.Thread(target=play, daemon=True)
    thread.start()
    return thread


@contextmanager
def opened(tmp_path: Any, *arguments: str, **kwargs: Any) -> Iterator[UnityEnvironment]:
    """An environment with a player, both of which end with it."""
    port = free_port()
    player = start_player(port, tmp_path / "player.log", *arguments)
    env = UnityEnvironment(base_port=port, **{"timeout_wait": 10, **kwargs})
    try:
        yield env
    finally:
        env.close()
        player.join(10)
        assert not player.is_alive(), "the player does not end"
