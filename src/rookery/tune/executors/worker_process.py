"""What a worker process runs: ``python -m rookery.tune.executors.worker_process LINE CORES DRIVER DEATH_SIGNAL``.

LINE is an inherited socket; CORES are those it may use, ``0,1``. It ends when its driver does, however that ends, and
ignores Ctrl-C, which only the driver answers; SIGTERM asks the trial to save and stop.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import socket
import sys
from types import FrameType

import cloudpickle

from rookery.core.child_process import Gone, die_with, receive_frame, send_frame
from rookery.tune.executor import Order
from rookery.tune.executors.trial_worker import LOG, TrialWorker
from rookery.tune.job import Job, Start


class WorkerProcess:
    """Does what the driver says, at the worker's side of the line.

    Args:
        line: Socket to the driver.
    """

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._pickled = b""
        self._trial_worker = TrialWorker(self._job)

    def _job(self) -> Job:
        job: Job = cloudpickle.loads(self._pickled)
        return job

    def run(self) -> None:
        """Does what it is told until nobody is there any more."""
        while True:
            (task, arguments), _ = receive_frame(self._line)
            getattr(self, task)(*arguments)

    def load(self, path: list[str], pickled: bytes) -> None:
        """Takes over where the driver finds modules, and the job."""
        sys.path[:] = path
        self._pickled = pickled

    def begin(self, start: Start) -> None:
        """Begins a trial; what it prints goes to its log."""
        send_prints(start.folder / LOG)
        self._trial_worker.begin(start)

    def step(self, order: Order) -> None:
        """Does an iteration."""
        try:
            event = self._trial_worker.step(order)
        except KeyboardInterrupt:  # a second signal, from whoever also sent one to the driver
            event = self._trial_worker.stopped()
        send_frame(self._line, event)

    def end(self, save: bool) -> None:
        """Ends the trial."""
        problem = self._trial_worker.end(save)
        send_prints(os.devnull)
        send_frame(self._line, problem)

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        """Handles SIGTERM, while no trainer is there that has its own way with it."""
        self._trial_worker.interrupt()


def send_prints(path: str | os.PathLike[str]) -> None:
    """Sends standard output and error of this process, and of those it starts from now on, to the end of a file."""
    sys.stdout.flush()
    sys.stderr.flush()
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)


def main() -> None:
    """Runs until the driver is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    line = socket.socket(fileno=int(sys.argv[1]))
    die_with(int(sys.argv[3]), line, sys.argv[4] == "1")
    if sys.argv[2]:  # before anything is loaded that starts threads
        os.sched_setaffinity(0, map(int, sys.argv[2].split(",")))
    faulthandler.enable()  # of a crash in compiled code, the log tells where
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    worker = WorkerProcess(line)
    signal.signal(signal.SIGTERM, worker.interrupt)
    try:
        worker.run()
    except Gone:
        os._exit(0)


if __name__ == "__main__":
    main()
