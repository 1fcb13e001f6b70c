"""Workers on Ray: processes on any machines with room, which hold objects and call their methods on request.

The type of the objects is not known here: the caller sends a function that makes one. This module needs Ray.
"""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import cloudpickle
import ray
from ray.exceptions import GetTimeoutError, ObjectLostError, RayActorError, RayError, RayTaskError

from rookery.cluster import head
from rookery.cluster.connection import (
    Resources,
    as_line,
    check_head,
    connect,
    describe_ray_error,
    disconnect,
    free_of_all,
    node_is_gone,
    nodes,
    prepare_process,
    session,
)
from rookery.cluster.ray_heartbeats import HeartbeatMonitor, LastHeartbeat, new_key, store_heartbeats
from rookery.cluster.ray_waits import ready_of, value_of
from rookery.cluster.same_code import ask_code, checked
from rookery.cluster.working_directory import naming_machine
from rookery.core.errors import ConfigError, RemoteError, WorkerLostError
from rookery.core.process.activity import RESET, STEP, Activity, noted_in
from rookery.core.process.heartbeats import HEARTBEAT_SECONDS
from rookery.core.process.interrupt import Interrupt
from rookery.core.process.signals import KILL
from rookery.core.settings.starting_folder import module_paths, starting_folder

LATE_SECONDS = 10.0
"""Seconds a process may take to start after others have started, before its objects move to those."""

START_SECONDS = 300.0
"""Timeout in seconds for the first process to start."""

MOST_THREADS = 512
"""Largest number of threads of a process in which calls wait to be run."""

LOOK_SECONDS = 10.0
"""Seconds between two checks whether the cluster has room for another process."""


STOP_SECONDS = 10.0
"""Time limit in seconds for a running step or reset to end once the run must stop."""

AT_ONCE_SECONDS = 0.5
"""Time limit in seconds for workers to free their environments if everything must end at once."""

HEADLESS_SECONDS = 5.0
"""Time limit in seconds for workers to answer once the run must stop because the head is lost; without a head, Ray does
not report lost workers.
"""

GRACE_SECONDS = 2.0
"""Seconds added to the time limits of a worker: heartbeats are at most this late, and its child processes have the same
limits.
"""


@dataclass(frozen=True)
class Patience:
    """Time limits of workers before they count as hung.

    Attributes:
        step: Seconds of a step of all environments: `sampling.step_timeout_seconds`.
        reset: Seconds of a reset, and of any other call: `sampling.reset_timeout_seconds`.
    """

    step: float = math.inf
    reset: float = math.inf


ENDLESS = Patience()

Place = tuple[int, int]
"""Number of an object, and its next call number: see `HostActor`."""

# --- on a node ----------------------------------------------------------------------------------------------------


class HostActor:
    """Process on a node that holds objects by number.

    Ray runs each call in a thread, so that different objects are called concurrently. Calls of one object have turns,
    numbers from 0, and each waits for the one before.

    Args:
        cores: Cores that it may use.
        cwd: Working directory, if the node has it.
        path: Module search path of the driver.
        environment: Environment variables.
        key: Key of its heartbeats.
    """

    def __init__(self, cores: int, cwd: str, path: list[str], environment: Mapping[str, str], key: str) -> None:
        prepare_process(cores, cwd, path, environment)
        self._kept: dict[int, Any] = {}
        self._failed: dict[int, Exception] = {}
        self._turns: dict[int, int] = {}
        """Next call number of each object."""
        self._next = threading.Condition()
        self._under_way: dict[int, Activity] = {}
        """Running call of each object."""
        self._hurried: dict[int, int] = {}
        """For each object, the call number before which calls must end early."""
        store_heartbeats(key, self._state, self._hurry)

    def _state(self) -> dict[int, tuple[str, float, int]]:
        """Returns the method, the seconds and the call number of each running call."""
        now, turns = time.monotonic(), self._turns
        under_way = list(self._under_way.items())
        return {one: (activity.what, now - activity.since, turns.get(one, 0)) for one, activity in under_way}

    def _hurry(self, before: Mapping[str, int]) -> None:
        """Makes calls of objects before the given call numbers end early."""
        self._hurried = {int(number): turn for number, turn in before.items()}
        for number in list(self._under_way):
            self._interrupt(number, self._turns.get(number, 0))

    def _interrupt(self, number: int, turn: int) -> None:
        """Sets or clears the interrupt of an object that has one, depending on its call number."""
        interrupt = getattr(self._kept.get(number), "interrupt", None)
        if isinstance(interrupt, Interrupt):
            interrupt.number = int(signal.SIGTERM) if turn < self._hurried.get(number, 0) else None

    def begin(self, place: Place, make: bytes) -> None:
        """Creates an object, replacing the one with the same number; an error of its constructor is raised by its first
        call.
        """
        with self._in_turn(place) as number:
            self._failed.pop(number, None)
            try:
                with naming_machine():
                    builder: Callable[[], Any] = cloudpickle.loads(make)
                    self._kept[number] = builder()
            except Exception as error:
                self._failed[number] = error

    def forget(self, place: Place) -> None:
        """Drops an object that has moved elsewhere."""
        with self._in_turn(place) as number:
            self._kept.pop(number, None)

    def call(self, place: Place, request: tuple[str, tuple[Any, ...]], *published: Any) -> Any:
        """Calls a method of an object; published arguments are passed last."""
        method, arguments = request
        with self._in_turn(place) as number:
            if number in self._failed:
                raise self._failed[number]
            self._interrupt(number, place[1])
            with naming_machine():
                return getattr(self._kept[number], method)(*arguments, *published)

    @contextmanager
    def _in_turn(self, place: Place) -> Iterator[int]:
        number, turn = place
        with self._next:
            self._next.wait_for(lambda: self._turns.get(number, 0) == turn)
        activity = self._under_way[number] = Activity()
        try:
            with noted_in(activity):
                yield number
        finally:
            del self._under_way[number]
            with self._next:
                self._turns[number] = turn + 1
                self._next.notify_all()


# --- at the driver ------------------------------------------------------------------------------------------------


def check_start() -> None:
    """Raises an error if the start of a process cannot succeed.

    Raises:
        HeadLostError: If the head counts as lost.
        WorkerLostError: If the run was asked to stop.
    """
    check_head()
    if Interrupt.is_requested():
        raise WorkerLostError("cluster: the run was asked to stop before another worker has begun")


@dataclass(eq=False)
class RayHost:
    """Driver-side handle of a process on a node.

    Attributes:
        actor: Ray's handle.
        started: Ray's reference for its first answer.
        key: Key of its heartbeats.
        name: Its place; empty before it has answered.
        node: Ray's id of its node.
        process: Number of the process there.
        numbers: Numbers of its objects.
        turns: Number of calls of each object so far.
        answered: For each object, the turns before which all calls are finished.
        is_lost: Whether it is gone.
        why: Reason why the driver ended it; empty if it did not.
    """

    actor: Any
    started: Any
    key: str
    name: str = ""
    node: str = ""
    process: int = 0
    numbers: set[int] = field(default_factory=set)
    turns: Counter[int] = field(default_factory=Counter)
    answered: Counter[int] = field(default_factory=Counter)
    is_lost: bool = False
    why: str = ""

    def ask(self, what: str, number: int, *arguments: Any) -> Any:
        """Calls a method of the process for an object, after all earlier calls; returns Ray's reference."""
        place = number, self.turns[number]
        self.turns[number] += 1
        return getattr(self.actor, what).remote(place, *arguments)


@dataclass(frozen=True, eq=False)
class RayCall:
    """A running call.

    Attributes:
        number: Number of the object.
        host: Process of the object.
        turn: Turn of the call there.
        ref: Ray's reference.
    """

    number: int
    host: RayHost
    turn: int
    ref: Any


class RayHosts:
    """Processes on the nodes of a Ray cluster, each with equally many objects; more per process if the cluster has no
    room for more processes. Objects of one process are called concurrently.

    Args:
        address: The cluster, see `connect`.
        count: Number of objects.
        each: Objects per process.
        calls: Largest number of calls of an object at once.
        cpus: Cores for each object.
        gpus: GPUs for each object.
        spread: Whether objects are spread evenly over machines, instead of filling few.
        environment: Environment variables of the processes.
        working_directory: Folder that is sent to all machines; None = none.
        note: Called with a line that a user should read once.
        cores: Cores that a cluster started here needs for the whole run.
        instead: The way without Ray, for messages.
        patience: Time limits of workers.

    Raises:
        ConfigError: If there is no such cluster, it refuses, or no machine has so many cores or GPUs.
    """

    def __init__(
        self,
        address: str,
        count: int,
        *,
        each: int,
        calls: int,
        cpus: float,
        gpus: float,
        spread: bool,
        environment: Mapping[str, str],
        working_directory: str | None,
        note: Callable[[str], None],
        cores: float,
        instead: str,
        patience: Patience = ENDLESS,
    ) -> None:
        self._patience, self._monitor = patience, HeartbeatMonitor()
        self._checked = time.monotonic()
        """Time of the last check for hanging workers."""
        self._stranded = ""
        """Reason why the cluster cannot be reached; empty while it can."""
        self._hurried_at: float | None = None
        """Time at which the run was requested to stop; None = no request."""
        self._objects = each
        self._each = Resources(cpus * each, gpus * each)
        self._connected_here = connect(
            address,
            setting=f"cluster.ray = {address}",
            instead=instead,
            cores=cores,
            working_directory=working_directory,
        )
        self._session = session()
        self._environment = dict(environment)
        self._options: dict[str, Any] = {"num_cpus": self._each.cpus, "num_gpus": self._each.gpus}
        if spread:
            self._options["scheduling_strategy"] = "SPREAD"
        self._note = note
        self._folder, self._paths = starting_folder(), module_paths(sys.path)
        self._count = -(-count // each)
        """Intended number of processes."""
        room = self._room()
        if room < self._count:
            self._note(
                f"cluster: there is room for {room * each} of {count} workers, with {self._each} for each process of "
                f"{each}: the others share these processes"
            )
        hosts = min(self._count, room)
        if hosts < count:
            self._options["max_concurrency"] = min(count * calls, MOST_THREADS)
        self._hosts = [self._start() for _ in range(hosts)]
        self._home: dict[int, RayHost] = {}
        self._looks_at = time.monotonic() + LOOK_SECONDS
        self._joining: list[RayHost] = []
        """Processes started because resources became free, which have not answered yet."""
        self._moves: dict[int, RayHost] = {}
        """Places of objects that are being re-created."""

    def _room(self, least: int = 1) -> int:
        """Returns the number of processes that fit on the cluster's machines, if they are otherwise empty.

        Args:
            least: Smallest number.

        Raises:
            ConfigError: If no machine has the resources of one of them.
        """
        there = list(nodes().values())
        room = sum(self._each.times_in(node) for node in there)
        if room < least:
            largest = max(there, key=lambda node: (node.gpus, node.cpus), default=Resources(0, 0))
            setting = "worker_gpus" if self._each.gpus > largest.gpus else "worker_cpus"
            size = self._each.gpus if setting == "worker_gpus" else self._each.cpus
            who = "a worker needs" if self._objects == 1 else f"a process of {self._objects} workers needs"
            raise ConfigError(
                f"cluster.{setting} = {size / self._objects:g}: {who} {self._each} on one machine, and the largest of "
                f"the {len(there)} of this Ray cluster has {largest}"
            )
        return room

    def _start(self) -> RayHost:
        cores = max(math.floor(self._each.cpus), 1)
        remote: Any = ray.remote(HostActor)
        key = new_key()
        actor = remote.options(**self._options).remote(cores, self._folder, self._paths, self._environment, key)
        return RayHost(actor, ask_code(actor), key)

    # --- places of objects --------------------------------------------------------------------------------------------

    def begin(self, share: int, make: bytes) -> None:
        """Creates an object on the host with the fewest objects, after replacing a host that is gone."""
        before, better = self._home.get(share), self._moves.pop(share, None)
        if before is not None and before.is_lost:
            before.numbers.discard(share)
            if before in self._hosts:
                self._hosts.remove(before)
                self._hosts.append(self._start())
        if better is not None and not better.is_lost:
            if before is not None and not before.is_lost:
                before.numbers.discard(share)
                before.ask("forget", share)
            self._home[share] = better
        elif before is None or before.is_lost:
            self._home[share] = self._emptiest()
        host = self._home[share]
        host.numbers.add(share)
        host.ask("begin", share, make)

    def _emptiest(self) -> RayHost:
        """Returns the host with the fewest objects among those that answer.

        Raises:
            WorkerLostError: If none does, or the run must stop.
        """
        for host in sorted(self._hosts, key=lambda one: len(one.numbers)):
            known = any(one.name for one in self._hosts)
            if self._has_begun(host, LATE_SECONDS if known else START_SECONDS):
                return host
        raise WorkerLostError(
            f"cluster: no worker could be begun: each needs {self._each} on one machine, {free_of_all()}"
        )

    def _has_begun(self, host: RayHost, seconds: float) -> bool:
        """Waits until a process answers; drops it if it does not."""
        if host.name:
            return True
        try:
            code = checked(value_of(host.started, seconds, check_start))
            host.node, host.process, host.name = code.node, code.process, f"{code.machine} (process {code.process})"
        except GetTimeoutError:
            ray.kill(host.actor)
            self._note(
                f"cluster: a worker's process did not begin within {seconds:g} seconds: it needs {self._each} on one "
                f"machine, {free_of_all()}"
            )
        except RayActorError as error:
            if error.actor_init_failed:
                raise ConfigError(
                    f"cluster: a machine cannot run workers: {as_line(error)}; every machine needs this library, and "
                    "the modules of the environment, in the same versions"
                ) from error
        if not host.name:
            host.is_lost = True
            self._hosts.remove(host)
        return bool(host.name)

    def vacancies(self) -> list[int]:
        """Starts processes if the cluster has room and some objects share a process; returns the objects that move
        there.
        """
        if time.monotonic() < self._looks_at:
            return []
        self._looks_at = time.monotonic() + LOOK_SECONDS
        for host in self._have_joined():
            self._note(f"cluster: 1 worker joined on {host.name}")
            for _ in range(max(len(self._home) // len(self._hosts), 1)):
                fullest = max(self._hosts, key=lambda one: len(one.numbers - self._moves.keys()))
                staying = fullest.numbers - self._moves.keys()
                if fullest is not host and len(staying) > 1:
                    self._moves[max(staying)] = host
        missing = self._count - len(self._hosts) - len(self._joining)
        if missing > 0:
            room = self._room(0) - len(self._hosts) - len(self._joining)
            self._joining += [self._start() for _ in range(min(missing, room))]
        return list(self._moves)

    def _have_joined(self) -> list[RayHost]:
        """Returns the processes that have answered by now, of those started because resources became free."""
        if not self._joining:
            return []
        over = set(ready_of([host.started for host in self._joining], 0.0))
        known = [host for host in self._joining if host.started in over]
        self._joining = [host for host in self._joining if host.started not in over]
        self._hosts += known
        try:
            return [host for host in known if self._has_begun(host, LATE_SECONDS)]
        except ConfigError as error:  # the run continues with its workers, without looking for more
            for host in {*known} & {host for host in self._hosts if not host.name}:
                ray.kill(host.actor)
                self._hosts.remove(host)
            self._count = len(self._hosts)
            self._note(f"{error}; no more workers join")
            return []

    def home(self, share: int) -> RayHost:
        """Returns the process that holds an object."""
        return self._home[share]

    # --- calls --------------------------------------------------------------------------------------------------------

    def publish(self, value: Any) -> Any:
        """Stores a value that each machine fetches once.

        Raises:
            WorkerLostError: If the object store of this machine is full, or the cluster is gone.
        """
        if self._is_stranded():
            return value
        try:
            return ray.put(value)
        except RayError as error:
            raise WorkerLostError(describe_ray_error(error)) from error

    def call(self, share: int, method: str, *arguments: Any) -> RayCall:
        """Calls a method of an object."""
        host = self._home[share]
        plain = [one for one in arguments if not isinstance(one, ray.ObjectRef)]  # one by one they would take Ray long
        turn = host.turns[share]
        return RayCall(share, host, turn, host.ask("call", share, (method, tuple(plain)), *arguments[len(plain) :]))

    def _is_stranded(self) -> bool:
        """Returns whether the cluster cannot be reached because this machine's node is gone. In that case requests a
        stop of the run; Ray is no longer used.
        """
        if not self._stranded and node_is_gone():
            self._stranded = "Ray's process on this machine is gone"
            Interrupt.fail(self._stranded)
            for host in self._hosts:
                host.is_lost, host.why = True, f"the worker on {host.name} is out of reach: {self._stranded}"
        return bool(self._stranded)

    def ready(self, tickets: Sequence[RayCall], seconds: float) -> list[RayCall]:
        """Waits for the first of some calls, and returns those that are finished by then."""
        by_ref = {ticket.ref: ticket for ticket in tickets}
        if not any(ticket.host.why for ticket in tickets):
            try:
                if time.monotonic() - self._checked > HEARTBEAT_SECONDS:  # others may answer all the time
                    self._check(tickets)
                return [by_ref[ref] for ref in ready_of(list(by_ref), seconds, check=lambda: self._check(tickets))]
            except WorkerLostError:
                pass  # `result` raises it
        return [ticket for ticket in tickets if ticket.host.why]

    def result(self, ticket: RayCall) -> Any:
        """Returns the result of a call."""
        if self._is_stranded() or (ticket.host.why and not ready_of([ticket.ref], 0.0)):
            raise WorkerLostError(ticket.host.why or self._stranded)
        try:
            value = value_of(ticket.ref, check=lambda: self._check([ticket]))
            ticket.host.answered[ticket.number] = max(ticket.host.answered[ticket.number], ticket.turn + 1)
            return value
        except RayTaskError as error:
            cause = error.cause
            if isinstance(cause, RayError):  # it could not put its answer into the object store
                raise WorkerLostError(f"the worker on {ticket.host.name}: {describe_ray_error(cause)}") from error
            raise cause from RemoteError(str(error))
        except (RayActorError, ObjectLostError) as error:
            ticket.host.is_lost = True
            why = ticket.host.why or f"the worker on {ticket.host.name} is gone: {as_line(error)}"
            raise WorkerLostError(why) from error
        except RayError as error:
            raise WorkerLostError(describe_ray_error(error)) from error

    # --- workers that hang --------------------------------------------------------------------------------------------

    def hurry(self, is_stopping: bool) -> None:
        """Begins or ends the period in which the run must stop; see `Hosts.hurry`."""
        if is_stopping == (self._hurried_at is not None):
            return
        self._hurried_at = time.monotonic() if is_stopping else None
        if is_stopping:
            self._monitor.order({host.key: {str(one): host.turns[one] for one in host.numbers} for host in self._hosts})

    def _check(self, tickets: Sequence[RayCall]) -> None:
        """Ends frozen processes, and those in which one of the given calls hangs.

        Raises:
            WorkerLostError: If there was one.
        """
        self._checked = time.monotonic()
        if self._is_stranded():
            raise WorkerLostError(self._stranded)
        hosts = {ticket.host.key: ticket.host for ticket in tickets if ticket.host.name and not ticket.host.is_lost}
        latest = self._monitor.latest(hosts)
        for key, host in hosts.items():
            why = self._headless(host)
            if why or (key in latest and (why := self._objection(host, latest[key]))):
                self._end(host, why)
        if why := next((host.why for host in hosts.values() if host.why), ""):
            raise WorkerLostError(why)

    def _headless(self, host: RayHost) -> str:
        """Returns the reason to give up a process after the head was lost, or an empty string."""
        lost, since = head.lost_head(), self._hurried_at
        if not lost or since is None or time.monotonic() - since < HEADLESS_SECONDS:
            return ""
        return f"the worker on {host.name} does not answer, and {lost}"

    def _objection(self, host: RayHost, last: LastHeartbeat) -> str:
        """Returns the reason why a process counts as hung, or an empty string."""
        activities = last.state or {}
        # answered calls are finished
        under_way = {one: activity for one, activity in activities.items() if activity[2] >= host.answered[int(one)]}
        for number, (what, age, _) in (under_way or {str(min(host.numbers, default=0)): ("", 0.0, 0)}).items():
            is_reset = what not in (STEP, "")
            setting, limit = ("reset", self._patience.reset) if is_reset else ("step", self._patience.step)
            passed, allowed = age + last.silence, f"sampling.{setting}_timeout_seconds = {limit:g} allows"
            if self._hurried_at is not None and what in (STEP, RESET, ""):
                since = time.monotonic() - self._hurried_at
                if min(passed, since) > STOP_SECONDS:
                    passed, limit, allowed = passed + GRACE_SECONDS, 0.0, "a run waits for that is asked to stop"
            if passed > limit + GRACE_SECONDS:
                name = f"worker {number} on {host.name} was ended:"
                if what == "" or last.silence > limit:
                    return f"{name} its process has sent no heartbeat for {passed:.0f} seconds, longer than {allowed}"
                return f"{name} {what} took {passed:.0f} seconds, longer than {allowed}"
        return ""

    def _end(self, host: RayHost, why: str) -> None:
        """Ends a hanging process."""
        host.is_lost, host.why = True, why
        ray.kill(host.actor)
        if host.node == str(ray.get_runtime_context().get_node_id()):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(host.process, KILL)  # Ray takes some seconds where a process is frozen
        self._monitor.forget(host.key)

    def close(self, at_once: bool = False) -> None:
        """Ends all processes, and disconnects from Ray if this object connected to it."""
        if session() != self._session or self._stranded:  # this process may have left that cluster and joined another
            return
        closing = [self.call(number, "close").ref for number, host in self._home.items() if not host.is_lost]
        ready_of(closing, AT_ONCE_SECONDS if at_once or head.lost_head() else LATE_SECONDS, at_least=len(closing))
        for host in self._hosts + self._joining:
            ray.kill(host.actor)
            self._monitor.forget(host.key)
        self._monitor.close()
        self._hosts.clear()
        self._joining.clear()
        self._home.clear()
        if self._connected_here:
            disconnect()
