"""The machine as ``ray.init`` describes it to trials, and its address in the network."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable


class Machine:
    """Arguments of ``ray.init``.

    Attributes:
        local_mode: Whether trials run in this process.
        num_cpus: Cores that trials may use together; None = all.
        actors: Returns the names of actors in this process, which trials in other processes could not call.
    """

    local_mode = False
    num_cpus: float | None = None
    actors: Callable[[], list[str]] = staticmethod(list)


def use_machine(local_mode: bool, num_cpus: float | None, actors: Callable[[], list[str]] = list) -> None:
    Machine.local_mode, Machine.num_cpus, Machine.actors = local_mode, num_cpus, staticmethod(actors)


def node_ip() -> str:
    """Returns the address of this machine in its network; the loopback address without a network."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # reserved for documentation: nothing is sent, the route alone is looked up
        return str(probe.getsockname()[0])
    return "127.0.0.1"
