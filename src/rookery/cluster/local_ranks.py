"""Ranks as processes of this machine: rank 0 starts the others, and reports one that is gone."""

from __future__ import annotations

import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any

from torch import distributed

from rookery.cluster.ranks import LOOPBACK, TIMEOUT, Gathered, RankLostError, groups_of
from rookery.core.errors import LearnerLostError, RemoteError, RookeryError, TrainingError
from rookery.core.process.child_process import ConnectionClosed, describe_end, receive_frame, send_frame, start_child
from rookery.core.process.waits import exit_code_of
from rookery.core.settings.starting_folder import module_paths, starting_folder

LAST_WORDS = 5.0
"""Seconds for a failed rank to report its error."""

READY = "ready"
"""Message of a rank that is ready for its task."""

LEAVE = 2.0
"""Seconds for a rank to end after rank 0 has closed."""


class LocalRanks(Gathered):
    """Rank 0 of several processes of this machine; the others end when it does.

    Args:
        module: Module that each of the others runs, as ``python -m MODULE``; see `joined`.
        task: Task of each of them; it can be pickled.
        size: Number of ranks.

    Raises:
        TrainingError: If one of them does not start; with the reason.
    """

    def __init__(self, module: str, task: Any, size: int) -> None:
        self.description = f"{size} learners: this process and {size - 1} beside it"
        place = Path(tempfile.mkdtemp(prefix="rookery-ranks-"))
        self._lines: list[socket.socket] = []
        self._processes: list[subprocess.Popen[bytes]] = []
        self._end = weakref.finalize(self, _end_all, self._processes, self._lines, os.getpid())
        try:
            for rank in range(1, size):
                self._start(module, (module_paths(sys.path), starting_folder()), (str(place), rank, size, task))
            for number in range(1, size):
                self._read(number, READY)
            there: Any = distributed
            groups = groups_of(there.FileStore(str(place / "meeting"), size), 0, size, TIMEOUT, LOOPBACK)
            super().__init__(groups)
            self.watch_others()  # all have met, and no longer need the file
        except RuntimeError as error:
            loss = self.lost(error)
            self._end()
            raise loss from loss.__cause__
        except BaseException:
            self._end()
            raise
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def _start(self, module: str, *messages: tuple[Any, ...]) -> None:
        line, far = socket.socketpair()
        number = far.fileno()
        self._processes.append(start_child(module, [str(number)], [number], 1, {}))
        self._lines.append(line)
        far.close()
        with suppress(ConnectionClosed):  # the next read reports it
            for message in messages:
                send_frame(line, message)

    def _read(self, number: int, wanted: str = "") -> None:
        """Waits for a message of a rank; raises its error if the message is not `wanted`, or the way it ended."""
        name = f"learner {number} of {len(self._lines) + 1}"
        try:
            reply, _ = receive_frame(self._lines[number - 1])
        except ConnectionClosed:
            process = self._processes[number - 1]
            raise LearnerLostError(f"{name} (process {process.pid}) {describe_end(process)}") from None
        if reply != wanted:
            kind, message, text = reply
            raise kind(f"{name}: {message}") from RemoteError(text)

    def lost(self, error: Exception) -> RookeryError:
        """Returns the error of the rank that failed first, or the way it ended."""
        loss: RookeryError = super().lost(error)
        if self._heartbeats is not None and self._heartbeats.problem:
            return loss
        for number, line in enumerate(self._lines, 1):
            if not select.select([line], [], [], LAST_WORDS)[0]:
                continue
            try:
                self._read(number)
            except RankLostError:
                continue  # a rank that only misses another has no cause to report
            except RookeryError as found:
                loss = found
                if found.__cause__ is not None:  # one that ended without a message may have missed this one
                    break
        return loss

    def break_waits(self) -> None:
        """Ends the other ranks at once, and all waits for them."""
        for process in self._processes:
            process.kill()
        super().break_waits()

    def close(self) -> None:
        """Ends the other ranks."""
        super().close()
        self._end()


def joined(line: socket.socket) -> tuple[Gathered, Any]:
    """Joins the other ranks in a process started by `LocalRanks`; returns its ranks, and the task."""
    (path, cwd), _ = receive_frame(line)
    sys.path[:] = path  # to find modules of the task
    (place, rank, size, task), _ = receive_frame(line)
    with suppress(OSError):  # of a folder that was removed
        os.chdir(cwd)
    send_frame(line, READY)
    there: Any = distributed
    groups = groups_of(there.FileStore(f"{place}/meeting", size), rank, size, TIMEOUT, LOOPBACK)
    ranks = Gathered(groups)
    ranks.watch_others()
    return ranks, task


def send_error(line: socket.socket, error: BaseException, text: str) -> None:
    """Sends rank 0 the error of this rank.

    Args:
        line: Connection to rank 0.
        error: The exception.
        text: Its traceback.
    """
    kind = type(error) if isinstance(error, RankLostError | RookeryError) else TrainingError
    with suppress(ConnectionClosed):
        send_frame(line, (kind, f"{error}" if kind is type(error) else f"{type(error).__name__}: {error}", text))


def _end_all(processes: list[subprocess.Popen[bytes]], lines: list[socket.socket], owner: int) -> None:
    if os.getpid() != owner:  # a fork of the driver
        return
    for line in lines:
        line.close()
    for process in processes:
        if exit_code_of(process, LEAVE) is None:
            process.kill()
            exit_code_of(process)
