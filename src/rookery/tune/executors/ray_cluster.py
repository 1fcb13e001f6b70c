"""Executor that runs trials on Ray: each worker is an actor with a `TrialWorker` on a node with free resources.

Ray chooses the node by the cores and GPUs of a trial. A worker that is lost with its node makes a `Failed` event; the
trial resumes from its last checkpoint on another node, so the experiment's folder must be on a disk that all nodes
share. This module needs Ray, and is imported only with ``tune.place = ray``.
"""

from __future__ import annotations

import math
import sys
import time
from collections import deque
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import cloudpickle
import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayError

from rookery.cluster.connection import Resources, as_line, connect, disconnect, free_of_all, nodes, prepare_process
from rookery.cluster.ray_heartbeats import HeartbeatMonitor, new_key, store_heartbeats
from rookery.cluster.ray_waits import ready_of, value_of
from rookery.cluster.same_code import ask_code, checked
from rookery.cluster.shared_disk import DiskProbe
from rookery.cluster.working_directory import naming_machine
from rookery.core.errors import ConfigError, HeadLostError
from rookery.core.process import heartbeats
from rookery.core.settings.starting_folder import module_paths, starting_folder
from rookery.tune.executor import Event, Executor, Failed, Order, Stepped, Stopped, pickled_job
from rookery.tune.executors.trial_worker import TrialWorker
from rookery.tune.executors.worker_process import redirect_process_output
from rookery.tune.job import Job, Start, Work

LATE_SECONDS = 10.0
"""After this time without a worker, a note names the missing resources, and the trial takes the next free worker."""

AHEAD_SECONDS = 0.1
"""For this time after an order, a worker runs iterations that would follow in any case without a new order, as an order
takes about a millisecond on Ray.
"""

REFRESH_SECONDS = 1.0
"""Time between two queries of the nodes of the cluster."""

END_SECONDS = 300.0
"""Time for a trial to save and free its resources, before its worker is killed."""

CONTROL = "control"
"""Concurrency group of a worker's calls that run while its trial is busy."""


# --- on a node ----------------------------------------------------------------------------------------------------


class TrialActor(TrialWorker):
    """Ray actor that runs one trial after the other in a process on a node.

    Args:
        job: Job of the trials, pickled.
        cores: Cores that a trial may use; the numbers of threads and processes depend on it.
        cwd: Folder of relative paths in the trial's settings, if the node has it.
        path: Module paths of the runner; folders missing on this node are ignored.
        key: Key of its heartbeats.
    """

    def __init__(self, job: bytes, cores: int, cwd: str, path: list[str], key: str) -> None:
        prepare_process(cores, cwd, path, {})
        store_heartbeats(key)
        super().__init__(lambda: cloudpickle.loads(job), redirect_process_output)

    def work_of(self, start: Start) -> Work:
        """Returns the work of a trial; errors of modules missing on this machine name the machine."""
        with naming_machine():
            return super().work_of(start)

    def steps(self, order: Order) -> list[Event]:
        """Runs an iteration, then for `AHEAD_SECONDS` those that would be ordered next in any case."""
        iterate, until = self.step, time.monotonic() + AHEAD_SECONDS
        events = [iterate(order)]
        while order.ahead and isinstance(last := events[-1], Stepped) and not last.reason and time.monotonic() < until:
            order = replace(order, known=max(order.known, int(last.row["iteration"])))
            events.append(iterate(order))
        return events


# --- at the runner ------------------------------------------------------------------------------------------------


@dataclass
class RayWorker:
    """The runner's side of a worker.

    Attributes:
        actor: Ray's handle of the actor.
        key: Key of its heartbeats.
        probe: File with which it checks that it sees the experiment's disk.
        code: Ray reference to the code version that it runs.
        node: Ray's id of its node; empty before it has one, and after its process or node is gone.
        start: The trial on this worker, or None.
        ahead: Events of iterations that are not ordered yet.
        why: Why the runner killed it, to follow its name in a message; empty if it did not.
    """

    actor: Any
    key: str
    probe: DiskProbe
    code: Any
    node: str = ""
    start: Start | None = None
    ahead: deque[Event] = field(default_factory=deque)
    why: str = ""


@dataclass
class Waiting:
    """A trial that waits for a worker.

    Attributes:
        start: Arguments of the trial.
        since: Time when it began to wait.
        order: The open order.
        is_late: Whether it has waited for too long and a note was shown.
    """

    start: Start
    since: float
    order: Order | None = None
    is_late: bool = False


class RayExecutor(Executor):
    """Runs trials on workers on the nodes of a Ray cluster. Workers are created on demand and reused.

    Args:
        job: Job of the trials.
        cpus: Cores for each trial.
        gpus: GPUs for each trial.
        max_concurrent: Maximum number of workers; None = as many as resources allow.

    Raises:
        ConfigError: If there is no cluster at ``RAY_ADDRESS``, or the job cannot be sent to other processes.
    """

    def __init__(self, job: Job, cpus: float, gpus: float, max_concurrent: int | None) -> None:
        self._job = pickled_job(job, "ray")
        self._folder, self._paths = starting_folder(), module_paths(sys.path)
        self.notes = []
        self._requested, self._max_workers = Resources(cpus, gpus), max_concurrent or sys.maxsize
        self._workers: list[RayWorker] = []
        self._waiting: dict[str, Waiting] = {}
        self._open: dict[Any, RayWorker] = {}  # in the order of the calls, so that no answer waits for long
        self._ready: deque[Event] = deque()
        self._is_stopping, self._monitor = False, HeartbeatMonitor()
        instead, sent = "place=processes needs no Ray", job.working_directory
        self._connected_here = connect(setting="tune.place = ray", instead=instead, working_directory=sent)
        self._resources, self._capacity, self._refreshed = self._requested, 0, -math.inf
        self._refresh_nodes()

    # --- workers ---------------------------------------------------------------------------------------------------

    @property
    def free(self) -> int:
        """Number of further trials that can begin now; at least one while none runs, which waits for its worker."""
        if any(waiting.is_late for waiting in self._waiting.values()):
            return 0
        no_trial = not self._waiting and all(worker.start is None for worker in self._workers)
        return max(len(self._idle()) + max(self._capacity - len(self._workers), 0), int(no_trial))

    def _refresh_nodes(self) -> None:
        """Queries the nodes periodically, removes idle workers on lost nodes, and adds notes about waiting trials."""
        if time.monotonic() - self._refreshed < REFRESH_SECONDS:
            return
        self._refreshed = time.monotonic()
        self._kill_frozen()
        try:
            alive = nodes()
        except HeadLostError:  # stops the experiment if it lasts
            return
        for worker in self._idle():
            if worker.node not in alive:
                self._remove(worker)
        resources = self._requested.within_largest(list(alive.values()))
        if resources != self._resources:
            note = f"tune: no node of the Ray cluster has {self._requested} for a trial: trials get {resources}"
            self.notes.append(note if resources != self._requested else f"tune: from now on trials get {resources}")
        self._resources = resources
        self._capacity = min(sum(resources.times_in(node) for node in alive.values()), self._max_workers)
        for trial, waiting in self._waiting.items():
            if not waiting.is_late and self._refreshed - waiting.since > LATE_SECONDS:
                waiting.is_late = True
                self.notes.append(
                    f"{trial} waits for a worker: it needs {resources} on one node, {free_of_all()} in all; it begins "
                    "when they are free, and the others continue"
                )

    def _kill_frozen(self) -> None:
        """Kills workers that have begun, and have sent no heartbeat for too long; then their calls fail."""
        latest = self._monitor.latest(worker.key for worker in self._workers)
        for worker in self._workers:
            last = latest.get(worker.key)
            if last is not None and last.count and last.silence >= heartbeats.SILENT_SECONDS and not worker.why:
                worker.why = heartbeats.describe_frozen()
                ray.kill(worker.actor)

    def _idle(self) -> list[RayWorker]:
        return [worker for worker in self._workers if worker.node and worker.start is None]

    def _make(self, folder: Path) -> None:
        """Creates a worker on Ray, and requests its code version and whether it can access a folder."""
        resources, probe = self._resources, DiskProbe(folder)
        remote: Any = ray.remote(concurrency_groups={CONTROL: 1})(TrialActor)
        cores, key = max(math.floor(resources.cpus), 1), new_key()
        actor = remote.options(num_cpus=resources.cpus, num_gpus=resources.gpus).remote(
            self._job, cores, self._folder, self._paths, key
        )
        self._workers.append(RayWorker(actor, key, probe, ask_code(actor)))
        self._open[probe.ask(actor)] = self._workers[-1]

    def _remove(self, worker: RayWorker) -> None:
        """Ends a worker, busy or not."""
        ray.kill(worker.actor)
        self._monitor.forget(worker.key)
        worker.probe.remove()
        self._workers.remove(worker)
        self._open = {answer: other for answer, other in self._open.items() if other is not worker}

    def _fill(self) -> None:
        """Assigns idle workers to the trials that have waited longest, and creates workers if there are too few."""
        for worker, trial in zip(self._idle(), list(self._waiting), strict=False):
            waiting = self._waiting.pop(trial)
            worker.start = waiting.start
            worker.actor.begin.remote(waiting.start)
            if waiting.order is not None:
                self._open[worker.actor.steps.remote(waiting.order)] = worker
        coming = sum(not worker.node and worker.start is None for worker in self._workers)
        for waiting in list(self._waiting.values())[coming:]:
            self._make(waiting.start.folder.parent)

    # --- trials ---------------------------------------------------------------------------------------------------

    def _worker_of(self, trial: str) -> RayWorker:
        return next(worker for worker in self._workers if worker.start is not None and worker.start.trial == trial)

    def begin(self, start: Start) -> None:
        """Assigns a trial to a free worker, or makes it wait for a new one."""
        self._waiting[start.trial] = Waiting(replace(start, folder=start.folder.resolve()), time.monotonic())
        self._fill()

    def order(self, trial: str, order: Order) -> None:
        """Orders an iteration; a trial that waits for a worker runs it when it has one."""
        if trial in self._waiting:
            self._waiting[trial].order = order
        else:
            worker = self._worker_of(trial)
            if worker.ahead:
                self._ready.append(worker.ahead.popleft())
            else:
                self._open[worker.actor.steps.remote(order)] = worker

    def end(self, trial: str, save: bool) -> None:
        """Frees the worker of a trial, and removes a lost one."""
        if self._waiting.pop(trial, None):
            return
        worker, problem = self._worker_of(trial), ""
        if worker.node:
            try:
                problem = value_of(worker.actor.end.remote(save), END_SECONDS)
            except GetTimeoutError:
                problem = f"the trial did not end within {END_SECONDS:g} seconds, and its process was killed"
                worker.node = ""
            except RayError as error:
                problem = f"the trial was lost while it ended, after its last checkpoint: {as_line(error)}"
                worker.node = ""
        worker.start = None
        worker.ahead.clear()
        if not worker.node:
            self._remove(worker)
        if problem:
            self.notes.append(f"{trial}: {problem}")
        self._fill()

    def wait(self, seconds: float) -> Event | None:
        """Returns the next answer to an order.

        Raises:
            ConfigError: If a node does not see the experiment's folder, or cannot run this library at all.
        """
        deadline = time.monotonic() + seconds
        while True:
            self._refresh_nodes()
            if self._ready:
                return self._ready.popleft()
            for trial, waiting in self._waiting.items():
                if self._is_stopping and waiting.order is not None:
                    waiting.order = None
                    return Stopped(trial)
            left = max(deadline - time.monotonic(), 0.0)
            if not self._open:
                time.sleep(left)
                return None
            found = ready_of(list(self._open), left)
            if not found:
                return None
            event = self._take(self._open.pop(found[0]), found[0])
            if event is not None:
                return event

    def _take(self, worker: RayWorker, ref: Any) -> Event | None:
        """Handles an answer: returns an event, or None after a worker has named its node."""
        try:
            # The code version comes first: other versions may answer anything.
            code = checked(value_of(worker.code)) if worker.start is None else None
            answer = value_of(ref)
        except RayError as error:
            if isinstance(error, RayActorError) and error.actor_init_failed:
                raise ConfigError(
                    f"tune.place = ray: a node cannot run trials: {as_line(error)}; every node needs this library, "
                    "and the modules that the trials use, in the same versions"
                ) from error
            return self._lost(worker, error)
        if code is None:
            worker.ahead.extend(answer)
            return worker.ahead.popleft()
        worker.node = code.node
        worker.probe.remove()
        if not answer:
            raise ConfigError(
                f"tune.place = ray: machine {code.machine} does not see {worker.probe.folder}: the folder of an "
                "experiment must be on a disk that all nodes of the cluster share, under the same path"
            )
        self._fill()
        return None

    def _lost(self, worker: RayWorker, error: RayError) -> Failed | None:
        """Removes a worker that is gone, perhaps with its node; returns the event of its trial, if any."""
        worker.node, self._refreshed = "", -math.inf
        self._refresh_nodes()
        if worker.start is None:
            self._remove(worker)
            if not self._waiting:
                return None
            trial = next(iter(self._waiting))  # the trial that would have got it
            self._waiting[trial].order = None
        else:
            trial = worker.start.trial
        how = worker.why or f"is gone: {as_line(error)}"
        return Failed(trial, f"its worker on Ray {how}", str(error), lost=True)

    def interrupt(self) -> None:
        """Makes running trials save and stop; those that wait for a worker stop at once."""
        self._is_stopping = True
        for worker in self._workers:
            if worker.start is not None and worker.node:
                worker.actor.interrupt.options(concurrency_group=CONTROL).remote()

    def close(self) -> None:
        """Ends all workers, and the connection to Ray if it was made here, with a cluster started here."""
        for worker in list(self._workers):
            self._remove(worker)
        self._monitor.close()
        if self._connected_here:
            disconnect()
