"""Background load: processes that only compute, to measure the cost of a step as with workers that share cores.

``python -m rookery.run.plan.background_load LINE DRIVER DEATH_SIGNAL`` runs one of them.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from rookery.core.process.child_process import (
    STARTS_CHILDREN,
    ConnectionClosed,
    die_with,
    receive_frame,
    send_frame,
    start_child,
)
from rookery.core.process.waits import exit_code_of

WORKING_SET = 1 << 17
"""Numbers in the array that each process updates: about the working set of a worker between two waits."""


@contextmanager
def background_load(size: int) -> Iterator[None]:
    """Context in which a number of other processes compute; none where no child can be started."""
    members: list[tuple[socket.socket, subprocess.Popen[bytes]]] = []
    try:
        for _ in range(size if STARTS_CHILDREN else 0):
            line, far = socket.socketpair()
            with far:
                members.append(
                    (line, start_child("rookery.run.plan.background_load", [str(far.fileno())], [far.fileno()], 1, {}))
                )
        for line, _ in members:
            receive_frame(line)
        yield
    finally:
        for line, process in members:
            line.close()
            process.kill()
            exit_code_of(process)


def compute() -> None:
    """Computes on arrays and in Python until this process ends."""
    numbers, kept = np.ones(WORKING_SET), {number: float(number) for number in range(1000)}
    while True:
        numbers *= 0.5
        numbers += 0.5
        for number in kept:
            kept[number] += 1.0


if __name__ == "__main__":
    line = socket.socket(fileno=int(sys.argv[1]))
    die_with(int(sys.argv[2]), line, bool(int(sys.argv[3])))
    try:
        send_frame(line, "here")
        compute()
    except ConnectionClosed:
        os._exit(0)
