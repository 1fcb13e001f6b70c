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

import cloudpickle

from rookery.core.process.child_process import Gone, die_with, receive_frame, send_frame
from rookery.core.process.heartbeats import send_heartbeats
from rookery.tune.executors.trial_worker import TrialWorker


def serve(line: socket.socket, worker: TrialWorker) -> None:
    """Does what the driver says, until nobody is there any more.

    Args:
        line: Socket to the driver. It gives names of methods of `worker`, each with its argument.
        worker: Worker whose answers the driver gets; beginning a trial has none.
    """
    while True:
        (task, argument), _ = receive_frame(line)
        try:
            answer = getattr(worker, task)(argument)
        except KeyboardInterrupt:  # a second signal, from whoever also sent one to the driver
            if task != "step":
                raise
            answer = worker.stopped()
        if task != "begin":
            send_frame(line, answer)


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
    try:
        (sys.path[:], job), (heartbeats,) = receive_frame(line)  # where the driver finds modules, and what trials do
        send_heartbeats(socket.socket(fileno=heartbeats))
        worker = TrialWorker(lambda: cloudpickle.loads(job), send_prints)
        # while no trainer is there that has its own way with it
        signal.signal(signal.SIGTERM, lambda number, frame: worker.interrupt())
        serve(line, worker)
    except Gone:
        os._exit(0)


if __name__ == "__main__":
    main()
