"""Our own processes, forked from one that has imported what they need, in a tenth of the time of a fresh interpreter.

A test whose claim is how a process starts or what it imports asks for the fixture `fresh_children`.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import SimpleNamespace

from rookery.core.process import child_process

SERVER = Path(__file__).with_name("fork_server.py")

HELPERS = ("rookery.envs.vector.child", "rookery.run.plan.background_load")
"""What is run and imports no torch."""

TORCH = ("rookery.tune.executors.worker_process", "rookery.run.ranks.rank_process", "rookery.run.plan.exchange_cost")
"""What is run and does."""

WITH_TORCH = (
    "torch",
    "gymnasium.envs.classic_control",
    "rookery.run.trainer",
    "rookery.core.native",
    "rookery.cli.train",
)

AT_START = ("PYTHON", "LC_", "LANG", "OMP_", "MKL_", "OPENBLAS_", "NUMEXPR_", "LD_", "MALLOC_")
"""What an interpreter or a library reads but once: a child with another value than the server's begins anew."""


class ForkedChild:
    """Stands for `subprocess.Popen` for a child that another process has forked.

    Attributes:
        pid: Its number.
        args: The command.
        returncode: As of `subprocess.Popen`.
    """

    stdin = stdout = stderr = None

    def __init__(self, args: list[str], line: socket.socket) -> None:
        self.args, self.returncode, self._line = args, None, line
        self.pid = int(self._line.recv(64).split()[1])

    def __enter__(self) -> ForkedChild:
        return self

    def __exit__(self, *error: object) -> None:
        self.kill()
        self.wait()
        for file in (self.stdout, self.stderr):
            if file is not None:
                file.close()

    def poll(self) -> int | None:
        try:
            return self.wait(0.0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        deadline = None if timeout is None else time.monotonic() + timeout
        while self.returncode is None:
            left = None if deadline is None else max(deadline - time.monotonic(), 0.0)
            if not select.select([self._line], [], [], left)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout)
            self.returncode = int((self._line.recv(64) or b"ended -9").split()[1])
            self._line.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has ended since
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


SERVERS: list[tuple[socket.socket, subprocess.Popen]] = []


@cache
def server(owner: int, modules: tuple[str, ...]) -> tuple[socket.socket, dict[str, str]]:
    """Starts a process of `owner` that forks; gives the line to it, and the environment that it began with."""
    line, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    environment = {
        **os.environ,
        **dict.fromkeys(child_process.THREAD_VARIABLES, "1"),
        "PYTHONPATH": str(Path(child_process.__file__).parents[3]),
    }
    with far:
        process = subprocess.Popen(
            [sys.executable, "-P", SERVER, str(far.fileno()), *modules],
            stdin=subprocess.DEVNULL, pass_fds=[far.fileno()], env=environment, cwd="/", start_new_session=True,
        )  # fmt: skip
    SERVERS.append((line, process))
    return line, environment


def close() -> None:
    """Ends all servers."""
    for line, process in SERVERS:
        line.close()
        process.wait()
    SERVERS.clear()
    server.cache_clear()


def at_start(environment: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in environment.items() if key.startswith(AT_START) and key != "PYTHONPATH"}


def popen(command, *, pass_fds, env, cwd, **others):
    """Starts what `child_process.start_child` starts: by a fork where that makes no difference, else as it would."""
    executable, _, _, module, *arguments = command
    warm = next((modules for modules in (HELPERS, TORCH) if module in modules), None)
    if warm is not None and executable == sys.executable and sys.platform == "linux":
        line, environment = server(os.getpid(), warm + WITH_TORCH * (warm is TORCH))
        if at_start(environment) == at_start(env):
            arguments[-1] = "0"  # no death signal: its parent is the server
            return forked(line, module, arguments, pass_fds, env, cwd, (1, 2))
    return subprocess.Popen(command, pass_fds=pass_fds, env=env, cwd=cwd, **others)


def forked(line, module, arguments, files, environment, folder, output) -> ForkedChild:
    """Makes a server fork a child; its output and its errors are written to `output`."""
    end, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    request = {
        "module": module, "arguments": arguments, "files": list(files), "environment": environment,
        "folder": None if folder is None else os.fspath(folder),
    }  # fmt: skip
    with far:
        socket.send_fds(line, [json.dumps(request).encode()], [far.fileno(), *output, *files])
    return ForkedChild([module, *arguments], end)


def command(*words: object, folder: Path, module: str = "rookery", **variables: str) -> ForkedChild:
    """Starts ``rookery WORDS``, or another module, in a folder, with these environment variables; `stdout` and `stderr`
    are texts.
    """
    line, environment = server(os.getpid(), TORCH + WITH_TORCH)
    (out, out_end), (err, err_end) = os.pipe(), os.pipe()
    environment = {**environment, **variables}
    child = forked(line, module, [str(word) for word in words], (), environment, folder, (out_end, err_end))
    os.close(out_end)
    os.close(err_end)
    child.stdout, child.stderr = open(out, encoding="utf-8"), open(err, encoding="utf-8")
    return child


def script(file: Path, *words: object) -> ForkedChild:
    """Starts ``python -m NAME WORDS`` in the folder of a script; `stdout` and `stderr` are texts."""
    paths = os.pathsep.join([str(file.parent), str(Path(child_process.__file__).parents[3])])
    return command(*words, folder=file.parent, module=file.stem, PYTHONPATH=paths)


LIKE_SUBPROCESS = SimpleNamespace(Popen=popen, DEVNULL=subprocess.DEVNULL)
"""What `core/process/child_process.py` finds in place of the module."""
