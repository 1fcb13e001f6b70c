"""Processes beside this one that run our own modules: how they start, what they say to each other, how they end.

A child is a fresh interpreter, ``python -m MODULE ...``, with inherited file descriptors and objects by cloudpickle. It
ends when its driver does, however that ends. Nothing is started through `multiprocessing`: nothing of the user's script
is imported again, and nothing has a name in the file system that could stay behind.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import cloudpickle

from rookery.core.process.waits import exit_code_of
from rookery.core.settings.starting_folder import cwd_of_children

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
"""What libraries read to know how many cores they have."""

PR_SET_PDEATHSIG = 1


class Gone(Exception):
    """The other side has closed its end."""


def start_child(
    module: str, arguments: Sequence[str], files: Sequence[int], threads: int, variables: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Starts ``python -m MODULE ARGUMENTS... DRIVER DEATH_SIGNAL``; the last two are for its `die_with`.

    The child inherits `files` under the same numbers, with so many threads for libraries that start their own and with
    `variables` changed in its environment. It begins in the starting folder (`core/settings/starting_folder.py`).
    """
    # A parent death signal is sent when the thread ends that started the process; only the main one stays.
    lasting = int(threading.current_thread() is threading.main_thread())
    source = str(Path(__file__).parents[3])
    paths = os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH", ""))))
    return subprocess.Popen(
        [sys.executable, "-P", "-m", module, *arguments, str(os.getpid()), str(lasting)],
        pass_fds=tuple(files),
        stdin=subprocess.DEVNULL,
        env={**os.environ, **dict.fromkeys(THREAD_VARIABLES, str(threads)), "PYTHONPATH": paths, **variables},
        cwd=cwd_of_children(),
        process_group=0,  # Ctrl-C at a terminal is for the driver alone
    )


def die_with(driver: int, line: socket.socket, by_signal: bool) -> None:
    """Sees to it that this process ends when its driver does, also while other people's code does not come back.

    Only the driver has the other end of `line`. A signal serves where the thread that started this process stays.
    """
    if by_signal and sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != driver:
            os._exit(1)

    def watch() -> None:
        poll = select.poll()
        poll.register(line, 0)  # nothing but the other end's disappearance
        poll.poll()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def describe_end(process: subprocess.Popen[bytes]) -> str:
    """How a child ended that does not answer any more, in words: ``was killed by SIGKILL``."""
    code = exit_code_of(process, 1.0)
    if code is None:
        return "closed its connection"
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended by itself with exit code {code}"


def send_frame(line: socket.socket, message: Any, files: tuple[int, ...] = ()) -> None:
    """Sends a message, with open files beside it; raises a Gone if nobody is there any more."""
    body = cloudpickle.dumps(message)
    try:
        socket.send_fds(line, [struct.pack("q", len(body))], files)
        line.sendall(body)
    except (BrokenPipeError, ConnectionError, TimeoutError):
        raise Gone from None


def receive_frame(line: socket.socket) -> tuple[Any, list[int]]:
    """Receives a message and the files beside it. Both ends are processes of one run, so it may be unpickled.

    Raises:
        Gone: If nobody is there any more.
    """
    try:
        head, files, _, _ = socket.recv_fds(line, 8, 4)
        if not head:
            raise Gone
        head += _exactly(line, 8 - len(head))
        body = _exactly(line, struct.unpack("q", head)[0])
    except (ConnectionError, TimeoutError):
        raise Gone from None
    return cloudpickle.loads(body), files


def _exactly(line: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        part = line.recv(min(size - len(received), 1 << 20))
        if not part:
            raise Gone
        received += part
    return bytes(received)
