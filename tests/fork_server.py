"""Forks children that begin with modules imported: ``python -P fork_server.py SOCKET MODULE...``.

A request names a module and its arguments, and brings open files: one for the child's start and end, its output, its
errors, and those that it inherits. The child continues like a fresh interpreter that was started with ``-P -m MODULE``.
"""

from __future__ import annotations

import fcntl
import importlib
import io
import json
import os
import runpy
import select
import signal
import socket
import sys


def serve(requests: socket.socket) -> dict | None:
    """Forks a child for each request until the last client closes; returns the request in each child, and None here."""
    woken, waking = os.pipe()
    for end in (woken, waking):
        os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
    ends: dict[int, socket.socket] = {}
    while True:
        ready = select.select([requests, woken], [], [])[0]
        if woken in ready:
            os.read(woken, 1024)
            for pid in list(ends):
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    tell(ends.pop(pid), f"ended {os.waitstatus_to_exitcode(status)}")
        if requests in ready:
            message, files, _, _ = socket.recv_fds(requests, 1 << 20, 64)
            if not message:
                return None
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for line in (requests, *ends.values()):
                    line.detach()  # their numbers are for other files from now on
                return prepare(json.loads(message), files)
            ends[pid] = socket.socket(fileno=files[0])
            tell(ends[pid], f"began {pid}")
            for file in files[1:]:
                os.close(file)


def tell(end: socket.socket, message: str) -> None:
    try:
        end.send(message.encode())
    except OSError:
        pass  # the process that asked for the child is gone


def prepare(request: dict, files: list[int]) -> dict:
    """Makes this process what a new one would be."""
    os.setpgid(0, 0)
    os.close(files.pop(0))
    targets = [1, 2, *request["files"]]
    above = max([*targets, *files]) + 1
    moved = [fcntl.fcntl(file, fcntl.F_DUPFD, above) for file in files]
    os.closerange(3, above)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    for file, target in zip(moved, targets, strict=True):
        os.dup2(file, target)
        os.close(file)
    sys.stdin = sys.__stdin__ = io.TextIOWrapper(open(0, "rb", closefd=False))
    sys.stdout = sys.__stdout__ = io.TextIOWrapper(open(1, "wb", closefd=False))
    sys.stderr = sys.__stderr__ = io.TextIOWrapper(
        open(2, "wb", closefd=False), errors="backslashreplace", line_buffering=True
    )
    if request["folder"] is not None:
        os.chdir(request["folder"])
    own = set(os.environ.get("PYTHONPATH", "").split(os.pathsep))
    os.environ.clear()
    os.environ.update(request["environment"])
    asked = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[:] = [*asked, *(path for path in sys.path if path not in own)]
    sys.argv = [request["module"], *request["arguments"]]
    return request


if __name__ == "__main__":
    for name in sys.argv[2:]:
        importlib.import_module(name)
    if (asked := serve(socket.socket(fileno=int(sys.argv[1])))) is not None:
        sys.modules.pop(asked["module"], None)  # it is run, and not imported
        runpy.run_module(asked["module"], run_name="__main__", alter_sys=True)
