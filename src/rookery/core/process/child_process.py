"""Child processes that run our own modules: their start, messages and end.

A child is a fresh interpreter, ``python -m MODULE ...``, with inherited file descriptors and objects by cloudpickle. It
ends when its driver ends for any reason. `multiprocessing` is not used: the user's script is not imported again, and no
names are left in the file system.
"""

from __future__ import annotations

import ctypes
import os
import platform
import select
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import cloudpickle

from rookery.core.errors import ConfigError
from rookery.core.process.signals import KILL, name_of
from rookery.core.process.waits import exit_code_of
from rookery.core.settings.starting_folder import cwd_of_children

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
"""Variables by which libraries choose their number of threads."""

PR_SET_PDEATHSIG = 1

STARTS_CHILDREN = hasattr(socket, "send_fds")
"""Whether a child can inherit and receive open files here: not on Windows."""

NO_CHILDREN = f"{platform.system()} has no processes that inherit open files"
"""Reason why no child can be started, for messages."""


class ConnectionClosed(Exception):
    """The other side has closed its end of the connection."""


def start_child(
    module: str, arguments: Sequence[str], files: Sequence[int], threads: int, variables: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Starts ``python -m MODULE ARGUMENTS... DRIVER DEATH_SIGNAL``; the last two are for its `die_with`.

    The child inherits `files` under the same numbers. Its environment limits the threads of libraries to `threads`, and
    has the changes in `variables`. It begins in the starting folder (`core/settings/starting_folder.py`).

    Raises:
        ConfigError: If no child can be started on this operating system.
    """
    if not STARTS_CHILDREN:
        raise ConfigError(
            f"{NO_CHILDREN}, which learners and trials beside this process need: set cluster.learners=1 or "
            "tune.place=here"
        )
    # A parent death signal is sent when the starting thread ends; only the main thread lasts.
    lasting = int(threading.current_thread() is threading.main_thread())
    source = str(Path(__file__).parents[3])
    paths = os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH", ""))))
    return subprocess.Popen(
        [sys.executable, "-P", "-m", module, *arguments, str(os.getpid()), str(lasting)],
        pass_fds=tuple(files),
        stdin=subprocess.DEVNULL,
        env={**os.environ, **dict.fromkeys(THREAD_VARIABLES, str(threads)), "PYTHONPATH": paths, **variables},
        cwd=cwd_of_children(),
        process_group=0,  # Ctrl-C at a terminal reaches only the driver
    )


def die_with(driver: int, line: socket.socket, by_signal: bool) -> None:
    """Makes this process end when its driver ends, even while user code does not return.

    Only the driver has the other end of `line`. `by_signal` also uses a parent death signal, for a starting thread that
    lasts.
    """
    if by_signal and sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, KILL)
        if os.getppid() != driver:
            os._exit(1)

    def watch() -> None:
        poll = select.poll()
        poll.register(line, 0)  # only the closing of the other end
        poll.poll()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def describe_end(process: subprocess.Popen[bytes]) -> str:
    """Describes how a child that no longer answers has ended: ``was killed by SIGKILL``."""
    code = exit_code_of(process, 1.0)
    if code is None:
        return "closed its connection"
    return f"was killed by {name_of(-code)}" if code < 0 else f"ended by itself with exit code {code}"


def send_frame(line: socket.socket, message: Any, files: tuple[int, ...] = ()) -> None:
    """Sends a message and open files; raises ConnectionClosed if the other side has closed."""
    body = cloudpickle.dumps(message)
    try:
        socket.send_fds(line, [struct.pack("q", len(body))], files)
        line.sendall(body)
    except (BrokenPipeError, ConnectionError, TimeoutError):
        raise ConnectionClosed from None


def receive_frame(line: socket.socket) -> tuple[Any, list[int]]:
    """Receives a message and its files. Both ends are processes of one run, so unpickling is safe.

    Raises:
        ConnectionClosed: If the other side has closed.
    """
    try:
        head, files, _, _ = socket.recv_fds(line, 8, 4)
        if not head:
            raise ConnectionClosed
        head += _exactly(line, 8 - len(head))
        body = _exactly(line, struct.unpack("q", head)[0])
    except (ConnectionError, TimeoutError):
        raise ConnectionClosed from None
    return cloudpickle.loads(body), files


def _exactly(line: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        part = line.recv(min(size - len(received), 1 << 20))
        if not part:
            raise ConnectionClosed
        received += part
    return bytes(received)
