"""Main module of a worker process: ``python -m rookery.tune.executors.worker_process LINE CORES DRIVER DEATH_SIGNAL``.

LINE is an inherited socket; CORES are the cores it may use, ``0,1``. The process ends with its driver, even if the
driver is killed, and ignores Ctrl-C, which only the driver handles; SIGTERM makes the trial save and stop.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import socket
import sys

import cloudpickle

from rookery.core.process.child_process import ConnectionClosed, die_with, receive_frame, send_frame
from rookery.core.process.heartbeats import send_heartbeats
from rookery.tune.executors.trial_worker import TrialWorker


def serve(line: socket.socket, worker: TrialWorker) -> None:
    """Carries out requests of the driver, until the driver is gone.

    Args:
        line: Socket to the driver, which sends names of methods of `worker`, each with its argument.
        worker: Worker whose return values are sent to the driver, except those of `begin`.
    """
    while True:
        (task, argument), _ = receive_frame(line)
        try:
            answer = getattr(worker, task)(argument)
        except KeyboardInterrupt:  # a second signal, for example to the whole process group
            if task != "step":
                raise
            answer = worker.stopped()
        if task != "begin":
            send_frame(line, answer)


def redirect_process_output(path: str | os.PathLike[str]) -> None:
    """Redirects standard output and error of this process and its later children to the end of a file."""
    sys.stdout.flush()
    sys.stderr.flush()
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)


def main() -> None:
    """Serves the driver until it is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    line = socket.socket(fileno=int(sys.argv[1]))
    die_with(int(sys.argv[3]), line, sys.argv[4] == "1")
    if sys.argv[2]:  # before loading modules that start threads
        os.sched_setaffinity(0, map(int, sys.argv[2].split(",")))
    faulthandler.enable()  # writes the place of a crash in compiled code to the log
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    try:
        (sys.path[:], job), (heartbeats,) = receive_frame(line)  # module paths of the driver, and the job
        send_heartbeats(socket.socket(fileno=heartbeats))
        worker = TrialWorker(lambda: cloudpickle.loads(job), redirect_process_output)
        # until a trainer installs its own handler
        signal.signal(signal.SIGTERM, lambda number, frame: worker.interrupt())
        serve(line, worker)
    except ConnectionClosed:
        os._exit(0)


if __name__ == "__main__":
    main()
