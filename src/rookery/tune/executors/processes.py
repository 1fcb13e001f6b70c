"""Executor that runs trials in local processes, with the cores and GPUs divided among them.

A worker process is a fresh interpreter that runs `worker_process.py`. It starts when it is first needed, and runs one
trial after the other. It and its children are pinned to its own cores, so that measurements, rules and libraries with
their own threads see only those.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import weakref
from collections import deque
from contextlib import suppress

from rookery.cluster.allotments import GPUS, Allotment, deal, visible_gpus
from rookery.core.process.child_process import ConnectionClosed, receive_frame, send_frame, start_child
from rookery.core.process.cpu import LIMIT, usable_cores
from rookery.core.process.heartbeats import ChildHeartbeats
from rookery.core.process.signals import KILL
from rookery.core.process.waits import exit_code_of
from rookery.core.settings.starting_folder import module_paths, started_in, starting_folder
from rookery.tune.executor import Event, Executor, Failed, Order, pickled_job
from rookery.tune.executors.trial_worker import LOG
from rookery.tune.job import Job, Start

LAST_LINES = 20
"""Number of log lines shown for a trial whose process was lost."""


class ProcessExecutor(Executor):
    """Runs trials in processes on this machine.

    Args:
        job: Job of the trials; sent to each process once, by cloudpickle.
        cpus: Cores for each trial, possibly a fraction.
        gpus: GPUs for each trial, likewise; 0 = GPUs are not assigned.
        max_concurrent: Maximum number of processes; None = as many as cores and GPUs allow.

    Raises:
        ConfigError: If the job cannot be sent to another process.
    """

    def __init__(self, job: Job, cpus: float, gpus: float, max_concurrent: int | None) -> None:
        pickled = pickled_job(job, "processes")
        there = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
        allotments, self.notes = deal(list(there)[: usable_cores()], cpus, visible_gpus(), gpus, max_concurrent)
        self._workers = [_Worker(allotment, pickled, starting_folder()) for allotment in allotments]
        self._events: deque[Event] = deque()

    @property
    def free(self) -> int:
        """Number of workers without a trial."""
        return sum(worker.start is None for worker in self._workers)

    def begin(self, start: Start) -> None:
        """Begins a trial in an idle process, or in a new one."""
        idle = [worker for worker in self._workers if worker.start is None]
        next((worker for worker in idle if worker.is_alive), idle[0]).begin(start)

    def order(self, trial: str, order: Order) -> None:
        """Orders an iteration."""
        worker = self._worker_of(trial)
        worker.busy = worker.send("step", order)
        if not worker.busy:
            self._events.append(worker.lost())

    def wait(self, seconds: float) -> Event | None:
        """Returns the next event; events that are available at the same time come before any later one."""
        if not self._events:
            at_work = {worker.line.fileno(): worker for worker in self._workers if worker.busy}
            poll = select.poll()
            for descriptor in at_work:
                poll.register(descriptor, select.POLLIN)
            self._events.extend(at_work[descriptor].answer() for descriptor, _ in poll.poll(1000 * seconds))
            self._events.extend(one.lost() for one in at_work.values() if one.busy and one.heartbeats.is_frozen())
        return self._events.popleft() if self._events else None

    def end(self, trial: str, save: bool) -> None:
        """Ends a trial; its process is reused for the next one."""
        if problem := self._worker_of(trial).end(save):
            self.notes.append(f"{trial}: {problem}")

    def interrupt(self) -> None:
        """Sends SIGTERM to busy processes."""
        for worker in self._workers:
            if worker.busy:
                with suppress(ProcessLookupError):
                    worker.process.send_signal(signal.SIGTERM)

    def close(self) -> None:
        """Ends all processes, at once."""
        for worker in self._workers:
            worker.close()

    def _worker_of(self, trial: str) -> _Worker:
        return next(worker for worker in self._workers if worker.start is not None and worker.start.trial == trial)


class _Worker:
    """A worker process and its trial; a lost process is replaced."""

    line: socket.socket
    process: subprocess.Popen[bytes]
    heartbeats: ChildHeartbeats

    def __init__(self, allotment: Allotment, pickled: bytes, folder: str) -> None:
        self.start: Start | None = None
        self.busy = False  # True while an order is open
        self._allotment = allotment
        self._pickled = pickled
        self._folder = folder
        self._end: weakref.finalize[..., _Worker] | None = None

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self._end is not None and self._end.alive and self.process.poll() is None

    def begin(self, start: Start) -> None:
        """Begins a trial; starts a process if there is none."""
        if not self.is_alive:
            self._start_process()
        self.start = start
        self.send("begin", start)  # if sending fails, the first order reports it

    def _start_process(self) -> None:
        self.close()
        self.line, far = socket.socketpair()
        own = self._allotment
        cores = ",".join(map(str, own.cores)) if hasattr(os, "sched_setaffinity") else ""
        gpus = {} if own.gpus is None else {GPUS: ",".join(own.gpus)}
        number, threads = far.fileno(), len(own.cores)
        variables = {LIMIT: str(threads), **gpus}  # the only limit on systems without affinity
        module = "rookery.tune.executors.worker_process"
        with started_in(self._folder, enter=False):
            self.process = start_child(module, [str(number), cores], [number], threads, variables)
            paths = module_paths(sys.path)
        far.close()
        self._end = weakref.finalize(self, _end_process, self.process, self.line, os.getpid())
        self.heartbeats = ChildHeartbeats(self.process.pid)
        with self.heartbeats.far as far:
            self.send(paths, self._pickled, files=(far.fileno(),))

    def send(self, *message: object, files: tuple[int, ...] = ()) -> bool:
        """Sends a message to the process; returns whether the process exists."""
        try:
            send_frame(self.line, message, files)
        except (ConnectionClosed, OSError):
            return False
        return True

    def answer(self) -> Event:
        """Returns the event of the order, or of the end of the process."""
        self.busy = False
        try:
            event: Event = receive_frame(self.line)[0]
        except ConnectionClosed:
            return self.lost()
        return event

    def lost(self) -> Failed:
        """Returns the event of a process that is gone, and cleans up after it."""
        assert self.start is not None
        how = self.heartbeats.describe_end(self.process)
        problem = f"the process {self.process.pid} of trial {self.start.trial} {how}"
        self.close()
        log = self.start.folder / LOG
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
        shown = "\n".join(lines[-LAST_LINES:])
        return Failed(self.start.trial, problem, f"{problem}\nthe end of {log}:\n{shown}" if shown else "", lost=True)

    def end(self, save: bool) -> str:
        """Ends the trial; returns the error in one line, or an empty string."""
        self.start = None
        if not self.is_alive or not self.send("end", save):
            return ""
        try:
            problem: str = self.heartbeats.receive(self.line)
        except ConnectionClosed:
            problem = f"its process {self.heartbeats.describe_end(self.process)} while it was ended"
            self.close()
        return problem

    def close(self) -> None:
        """Ends the process and its children, if it still runs."""
        self.busy = False
        if self._end is not None:
            self._end()


def _end_process(process: subprocess.Popen[bytes], line: socket.socket, owner: int) -> None:
    if os.getpid() != owner:  # a fork of the driver must not end it
        return
    line.close()
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, KILL)
    exit_code_of(process)
