"""Local processes, each a place for one trial at a time, that share the cores and GPUs without asking for one twice.

A worker process is a fresh interpreter that runs `child.py`. It is started when its place is first needed, and does one
trial after the other there. Its place has its own cores, to which the process and all it starts are tied, so that
everything inside sees only those: what is measured, what follows a rule, and libraries with threads of their own.
"""

from __future__ import annotations

import math
import os
import select
import signal
import socket
import subprocess
import sys
import weakref
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import cloudpickle

from rookery.core.child_process import Gone, describe_end, receive_frame, send_frame, start_child
from rookery.core.errors import ConfigError
from rookery.core.processor import LIMIT, usable_cores
from rookery.tune.executor import Event, Executor, Failed, Order
from rookery.tune.executors.trial_worker import LOG
from rookery.tune.job import Job, Start

LAST_LINES = 20
"""What is shown of the log of a trial whose process was lost."""

GPUS = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True)
class Share:
    """What one place has.

    Attributes:
        cores: Numbers of its cores; those at the ends may be shared with a neighbour.
        gpus: Its GPUs, as ``CUDA_VISIBLE_DEVICES`` names them; None = whatever this process sees.
    """

    cores: tuple[int, ...]
    gpus: tuple[str, ...] | None


class ProcessExecutor(Executor):
    """Places in processes on this machine.

    Args:
        job: What a trial does; sent to each process once, by cloudpickle.
        cpus: Cores a trial, which may be a fraction.
        gpus: GPUs a trial, likewise; 0 = GPUs are not dealt out.
        max_concurrent: Places, at most; None = as many as cores and GPUs allow.

    Raises:
        ConfigError: If the job cannot be sent to another process.
    """

    def __init__(self, job: Job, cpus: float, gpus: float, max_concurrent: int | None) -> None:
        try:
            pickled = cloudpickle.dumps(job)
        except Exception as error:  # whatever an object does when it is pickled
            raise ConfigError(
                f"tune.workers = processes: the trials cannot be sent to other processes, because pickling them raised "
                f"{type(error).__name__}: {error}; make what cannot be pickled inside the trial, or use "
                "tune.workers=here"
            ) from error
        shares, self.notes = deal(_cores(), cpus, visible_gpus(), gpus, max_concurrent)
        self._places = [_Place(share, pickled) for share in shares]
        self._events: deque[Event] = deque()

    @property
    def free(self) -> int:
        """Places without a trial."""
        return sum(place.start is None for place in self._places)

    def begin(self, start: Start) -> None:
        """Begins a trial in a process that waits, or in a new one."""
        idle = [place for place in self._places if place.start is None]
        place = next((place for place in idle if place.is_alive), idle[0])
        place.begin(start)

    def order(self, trial: str, order: Order) -> None:
        """Orders an iteration."""
        place = self._place(trial)
        place.busy = place.send("step", order)
        if not place.busy:
            self._events.append(place.lost())

    def wait(self, seconds: float) -> Event | None:
        """The next event. Of those that are there at the same time, all come before any later one."""
        if not self._events:
            at_work = {place.line.fileno(): place for place in self._places if place.busy}
            poll = select.poll()
            for descriptor in at_work:
                poll.register(descriptor, select.POLLIN)
            self._events.extend(at_work[descriptor].answer() for descriptor, _ in poll.poll(1000 * seconds))
        return self._events.popleft() if self._events else None

    def end(self, trial: str, save: bool) -> None:
        """Ends a trial; its process stays for the next one."""
        place = self._place(trial)
        problem = place.end(save)
        if problem:
            self.notes.append(f"{trial}: {problem}")

    def interrupt(self) -> None:
        """Sends SIGTERM to processes at work."""
        for place in self._places:
            if place.busy:
                place.signal(signal.SIGTERM)

    def close(self) -> None:
        """Ends all processes, at once."""
        for place in self._places:
            place.close()

    def _place(self, trial: str) -> _Place:
        return next(place for place in self._places if place.start is not None and place.start.trial == trial)


class _Place:
    """One process at a time, and the trial that is there."""

    line: socket.socket
    process: subprocess.Popen[bytes]

    def __init__(self, share: Share, pickled: bytes) -> None:
        self.start: Start | None = None
        self.busy = False  # it owes the answer to an order
        self._share = share
        self._pickled = pickled
        self._end: weakref.finalize[..., _Place] | None = None

    @property
    def is_alive(self) -> bool:
        """Whether there is a process that waits for a trial."""
        return self._end is not None and self._end.alive and self.process.poll() is None

    def begin(self, start: Start) -> None:
        """Puts a trial here."""
        if not self.is_alive:
            self._start_process()
        self.start = start
        self.send("begin", start)  # if it cannot be sent, the first order will say so

    def _start_process(self) -> None:
        self.close()
        self.line, far = socket.socketpair()
        cores = ",".join(map(str, self._share.cores)) if hasattr(os, "sched_setaffinity") else ""
        gpus = {} if self._share.gpus is None else {GPUS: ",".join(self._share.gpus)}
        number, threads = far.fileno(), len(self._share.cores)
        variables = {LIMIT: str(threads), **gpus}  # where there is no affinity, the limit alone says it
        self.process = start_child(
            "rookery.tune.executors.worker_process", [str(number), cores], [number], threads, variables
        )
        far.close()
        self._end = weakref.finalize(self, _end_process, self.process, self.line, os.getpid())
        self.send("load", sys.path, self._pickled)

    def send(self, task: str, *arguments: object) -> bool:
        """Tells the process something; says whether there is one to hear it."""
        try:
            send_frame(self.line, (task, arguments))
        except (Gone, OSError):
            return False
        return True

    def answer(self) -> Event:
        """What the process says of its order, or of its end."""
        self.busy = False
        try:
            event: Event = receive_frame(self.line)[0]
        except Gone:
            return self.lost()
        return event

    def lost(self) -> Failed:
        """What is known of a process that is gone; nothing of it is left afterwards."""
        assert self.start is not None
        how = describe_end(self.process)
        self.close()
        problem = f"the process {self.process.pid} of trial {self.start.trial} {how}"
        log = self.start.folder / LOG
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
        shown = "\n".join(lines[-LAST_LINES:])
        return Failed(self.start.trial, problem, f"{problem}\nthe end of {log}:\n{shown}" if shown else "", lost=True)

    def end(self, save: bool) -> str:
        """Takes the trial away; gives what went wrong in one line."""
        self.start = None
        if not self.is_alive or not self.send("end", save):
            return ""
        try:
            problem: str = receive_frame(self.line)[0]
        except Gone:
            problem = f"its process {describe_end(self.process)} while it was ended"
            self.close()
        return problem

    def signal(self, number: int) -> None:
        """Sends the process a signal."""
        with suppress(ProcessLookupError):
            self.process.send_signal(number)

    def close(self) -> None:
        """Ends the process and what it has started, if it is still there."""
        self.busy = False
        if self._end is not None:
            self._end()


def _end_process(process: subprocess.Popen[bytes], line: socket.socket, owner: int) -> None:
    if os.getpid() != owner:  # a fork of the driver, which is not the one to end it
        return
    line.close()
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def deal(
    cores: list[int], cpus: float, gpus: list[str], gpus_each: float, most: int | None
) -> tuple[list[Share], list[str]]:
    """Shares of cores and GPUs for as many trials as there is room for, at least one; and what a user should know.

    Shares lie side by side: with 1.5 cores each, the first trial has core 0 and half of 1, the second the rest of 1
    and 2.

    Args:
        cores: Numbers of the cores there are.
        cpus: Cores a trial.
        gpus: Names of the GPUs there are.
        gpus_each: GPUs a trial; 0 = they are not dealt out.
        most: Trials, at most; None = as many as possible.
    """
    notes = []
    room = _room(len(cores), cpus)
    if not room:
        notes.append(f"tune.cpus = {cpus:g}: there are {len(cores)} cores here: one trial at a time has them all")
    if gpus_each and not gpus:
        notes.append(f"tune.gpus = {gpus_each:g}: there are none here: trials run without")
    elif gpus_each and gpus_each > len(gpus):
        notes.append(f"tune.gpus = {gpus_each:g}: there are {len(gpus)} here: one trial at a time has them all")
    if gpus_each and gpus:
        room = min(room, _room(len(gpus), gpus_each))
    places = max(min(room, most or room), 1)
    if not notes and most and most > places:
        notes.append(f"tune.max_concurrent = {most}: there is room for {places} at a time, by tune.cpus and tune.gpus")
    dealt = bool(gpus_each and gpus)
    return [
        Share(
            tuple(cores[core] for core in _part(place, cpus, len(cores))),
            tuple(gpus[gpu] for gpu in _part(place, gpus_each, len(gpus))) if dealt else None,
        )
        for place in range(places)
    ], notes


def _room(there: int, each: float) -> int:
    return int(there / each + 1e-9)


def _part(place: int, each: float, there: int) -> range:
    """The numbers that the interval of a place touches; all of them if one place needs more than there are."""
    return range(int(place * each + 1e-9), min(math.ceil((place + 1) * each - 1e-9), there))


def _cores() -> list[int]:
    """The cores that this process may use."""
    there = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
    return there[: usable_cores()]


def visible_gpus() -> list[str]:
    """The GPUs that this process may use, found without loading a library that would occupy them."""
    named = os.environ.get(GPUS)
    if named is not None:
        return [name.strip() for name in named.split(",") if name.strip() not in ("", "-1")]
    return [str(number) for number, _ in enumerate(Path("/proc/driver/nvidia/gpus").glob("*"))]
