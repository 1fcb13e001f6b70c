"""Trials on Ray: each worker is an actor on whichever node has room for it, and holds a `TrialWorker`.

Ray decides on which node a worker is, by the cores and GPUs that a trial is said to need. A worker that is lost with
its node makes a `Failed` event; the trial goes on from its last checkpoint elsewhere, so the experiment's folder has
to be on a disk that all nodes share. This module needs Ray, and is imported only where ``tune.place = ray``.
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

from rookery.cluster.connection import Resources, connect, disconnect, free_of_all, in_a_line, nodes, settle_in
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
from rookery.tune.executors.worker_process import send_prints
from rookery.tune.job import Job, Start, Work

LATE_SECONDS = 10.0
"""After so long without a worker, a trial's user is told what is missing, and it takes the next worker that is free."""

AHEAD_SECONDS = 0.1
"""While so little time has passed since an order, iterations that follow in any case are done without asking: an order
takes Ray about a millisecond.
"""

LOOK_SECONDS = 1.0
"""Between two looks at which nodes there are."""

END_SECONDS = 300.0
"""What a trial gets to save and free what it has, before its worker is ended."""

CONTROL = "control"
"""The thread of a worker that can be reached while a trial is at work."""


# --- on a node ----------------------------------------------------------------------------------------------------


class TrialActor(TrialWorker):
    """What runs in a process on a node, for one trial after the other.

    Args:
        job: What a trial does, pickled.
        cores: Cores that a trial may use; threads and helpers are chosen by it.
        cwd: Where relative paths in the trial's settings begin, if the node has it.
        path: Where the runner finds modules; what is not there on this node is passed over.
        key: Of its heartbeats.
    """

    def __init__(self, job: bytes, cores: int, cwd: str, path: list[str], key: str) -> None:
        settle_in(cores, cwd, path, {})
        store_heartbeats(key)
        super().__init__(lambda: cloudpickle.loads(job), send_prints)

    def work_of(self, start: Start) -> Work:
        """Makes the work of a trial; of a module that only the runner has, the error names this machine."""
        with naming_machine():
            return super().work_of(start)

    def steps(self, order: Order) -> list[Event]:
        """Does an iteration, and then for a moment those that would be ordered next in any case."""
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
        key: Of its heartbeats.
        probe: Of which it says whether it sees it.
        code: Ray's ticket of the code that it runs.
        node: Ray's id of its node; empty before it has one, and when its process or node is gone.
        start: The trial that is here, or None.
        ahead: What it has reported already of iterations that are not ordered yet.
        why: Why it was killed from here, behind its name; empty if it was not.
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
        start: What the trial begins with.
        since: When it began to wait.
        order: The order that is open.
        is_late: Whether it has waited for too long, which its user knows by now.
    """

    start: Start
    since: float
    order: Order | None = None
    is_late: bool = False


class RayExecutor(Executor):
    """Places on the nodes of a Ray cluster, as many as have room. They are made when they are needed, and stay.

    Args:
        job: What a trial does.
        cpus: Cores a trial.
        gpus: GPUs a trial.
        max_concurrent: Places, at most; None = as many as there is room for.

    Raises:
        ConfigError: If there is no cluster at ``RAY_ADDRESS``, or the job cannot be sent to other processes.
    """

    def __init__(self, job: Job, cpus: float, gpus: float, max_concurrent: int | None) -> None:
        self._job = pickled_job(job, "ray")
        self._folder, self._paths = starting_folder(), module_paths(sys.path)
        self.notes = []
        self._asked, self._most = Resources(cpus, gpus), max_concurrent or sys.maxsize
        self._workers: list[RayWorker] = []
        self._waiting: dict[str, Waiting] = {}
        self._open: dict[Any, RayWorker] = {}  # in the order of asking, so that nobody's answer waits for long
        self._ready: deque[Event] = deque()
        self._is_stopping, self._monitor = False, HeartbeatMonitor()
        instead, sent = "place=processes needs no Ray", job.working_directory
        self._connected_here = connect(said="tune.place = ray", instead=instead, working_directory=sent)
        self._resources, self._room, self._looked = self._asked, 0, -math.inf
        self._look()

    # --- workers ---------------------------------------------------------------------------------------------------

    @property
    def free(self) -> int:
        """How many more trials can begin now; one at least while there is none, which then waits for its worker."""
        if any(waiting.is_late for waiting in self._waiting.values()):
            return 0
        nobody = not self._waiting and all(worker.start is None for worker in self._workers)
        return max(len(self._idle()) + max(self._room - len(self._workers), 0), int(nobody))

    def _look(self) -> None:
        """Sees now and then which nodes there are, forgets idle workers on those that are gone, and tells who waits."""
        if time.monotonic() - self._looked < LOOK_SECONDS:
            return
        self._looked = time.monotonic()
        self._kill_frozen()
        try:
            alive = nodes()
        except HeadLostError:  # which stops the experiment if it lasts
            return
        for worker in self._idle():
            if worker.node not in alive:
                self._remove(worker)
        resources = self._asked.within_largest(list(alive.values()))
        if resources != self._resources:
            note = f"tune: {self._asked} a trial, and no node of the Ray cluster has that: trials get {resources}"
            self.notes.append(note if resources != self._asked else f"tune: from here on trials get {resources}")
        self._resources = resources
        self._room = min(sum(resources.times_in(node) for node in alive.values()), self._most)
        for trial, waiting in self._waiting.items():
            if not waiting.is_late and self._looked - waiting.since > LATE_SECONDS:
                waiting.is_late = True
                self.notes.append(
                    f"{trial} waits for a worker: it needs {resources} on one node, {free_of_all()} in all; it begins "
                    "when there is room, and the others go on"
                )

    def _kill_frozen(self) -> None:
        """Kills workers that have begun, and have sent no heartbeat for too long; their calls fail then."""
        latest = self._monitor.latest(worker.key for worker in self._workers)
        for worker in self._workers:
            last = latest.get(worker.key)
            if last is not None and last.count and last.silence >= heartbeats.SILENT_SECONDS and not worker.why:
                worker.why = heartbeats.describe_frozen()
                ray.kill(worker.actor)

    def _idle(self) -> list[RayWorker]:
        return [worker for worker in self._workers if worker.node and worker.start is None]

    def _make(self, folder: Path) -> None:
        """Asks Ray for a worker, and the worker for the code that it runs and whether it sees a folder."""
        resources, probe = self._resources, DiskProbe(folder)
        remote: Any = ray.remote(concurrency_groups={CONTROL: 1})(TrialActor)
        cores, key = max(math.floor(resources.cpus), 1), new_key()
        actor = remote.options(num_cpus=resources.cpus, num_gpus=resources.gpus).remote(
            self._job, cores, self._folder, self._paths, key
        )
        self._workers.append(RayWorker(actor, key, probe, ask_code(actor)))
        self._open[probe.ask(actor)] = self._workers[-1]

    def _remove(self, worker: RayWorker) -> None:
        """Ends a worker, whatever it does."""
        ray.kill(worker.actor)
        self._monitor.forget(worker.key)
        worker.probe.remove()
        self._workers.remove(worker)
        self._open = {answer: other for answer, other in self._open.items() if other is not worker}

    def _fill(self) -> None:
        """Gives idle workers to the trials that have waited longest, and asks for workers if there are too few."""
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
        """Puts a trial on a free worker, or lets it wait for a new one."""
        self._waiting[start.trial] = Waiting(replace(start, folder=start.folder.resolve()), time.monotonic())
        self._fill()

    def order(self, trial: str, order: Order) -> None:
        """Orders an iteration; a trial that waits for a worker does it when it has one."""
        if trial in self._waiting:
            self._waiting[trial].order = order
        else:
            worker = self._worker_of(trial)
            if worker.ahead:
                self._ready.append(worker.ahead.popleft())
            else:
                self._open[worker.actor.steps.remote(order)] = worker

    def end(self, trial: str, save: bool) -> None:
        """Frees the worker of a trial; one that is lost is given up."""
        if self._waiting.pop(trial, None):
            return
        worker, problem = self._worker_of(trial), ""
        if worker.node:
            try:
                problem = value_of(worker.actor.end.remote(save), END_SECONDS)
            except GetTimeoutError:
                problem = f"did not end within {END_SECONDS:g} seconds, and its process was ended"
                worker.node = ""
            except RayError as error:
                problem = f"was lost while it ended, after its last checkpoint: {in_a_line(error)}"
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
            self._look()
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
        """What an answer says: an event, or on which node a worker stands."""
        try:
            code = checked(value_of(worker.code)) if worker.start is None else None  # first: others may answer anything
            answer = value_of(ref)
        except RayError as error:
            if isinstance(error, RayActorError) and error.actor_init_failed:
                raise ConfigError(
                    f"tune.place = ray: a node cannot run trials: {in_a_line(error)}; every node needs this library, "
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
                "experiment has to be on a disk that all nodes of the cluster share, under the same path"
            )
        self._fill()
        return None

    def _lost(self, worker: RayWorker, error: RayError) -> Failed | None:
        """Notes that a worker is gone, and perhaps its node, where no more is to begin; tells its trial, if any."""
        worker.node, self._looked = "", -math.inf
        self._look()
        if worker.start is None:
            self._remove(worker)
            if not self._waiting:
                return None
            trial = next(iter(self._waiting))  # the one that was to have it
            self._waiting[trial].order = None
        else:
            trial = worker.start.trial
        how = worker.why or f"is gone: {in_a_line(error)}"
        return Failed(trial, f"its worker on Ray {how}", str(error), lost=True)

    def interrupt(self) -> None:
        """Asks trials at work to save and stop; those that wait for a worker stop at once."""
        self._is_stopping = True
        for worker in self._workers:
            if worker.start is not None and worker.node:
                worker.actor.interrupt.options(concurrency_group=CONTROL).remote()

    def close(self) -> None:
        """Ends all workers, and the connection to Ray if it was made here; with it a cluster that was begun here."""
        for worker in list(self._workers):
            self._remove(worker)
        self._monitor.close()
        if self._connected_here:
            disconnect()
