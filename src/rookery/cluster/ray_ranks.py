"""Ranks as Ray actors, on any machines with free resources: rank 0 starts the other ranks and reports lost ones. This
module needs Ray.
"""

from __future__ import annotations

import importlib
import os
import signal
import socket
import sys
import weakref
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import cloudpickle
import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayError, RayTaskError
from torch import distributed

from rookery.cluster.connection import (
    Resources,
    as_line,
    connect,
    describe_ray_error,
    disconnect,
    free_of_all,
    nodes,
    prepare_process,
    session,
)
from rookery.cluster.ranks import LOOPBACK, TIMEOUT, Gathered, RankLostError, groups_of
from rookery.cluster.ray_waits import ready_of, value_of
from rookery.cluster.same_code import ask_code, checked
from rookery.cluster.working_directory import naming_machine
from rookery.core.errors import ConfigError, LearnerLostError, RemoteError, RookeryError, TrainingError
from rookery.core.process.signals import OF_TERMINAL
from rookery.core.settings.starting_folder import module_paths, starting_folder

LAST_WORDS = 20.0
"""Seconds for Ray to report that a rank or its node is gone; it detects the end of a machine after about 15."""

OTHERS_SECONDS = 1.0
"""Time limit in seconds for the other ranks to end after the first one has ended."""

START_SECONDS = 120.0
"""Timeout in seconds for the start of all ranks."""


class RankActor:
    """A process on a node that runs a rank.

    Args:
        cores: Cores that it may use.
        cwd: Working directory, if the node has it.
        path: Module search path of rank 0.
        environment: Environment variables.
    """

    def __init__(self, cores: int, cwd: str, path: list[str], environment: Mapping[str, str]) -> None:
        prepare_process(cores, cwd, path, environment)
        for number in OF_TERMINAL:
            with suppress(ValueError):  # where this is not the main thread
                signal.signal(number, signal.SIG_IGN)  # rank 0 acts on them, for all

    def serve(self, module: str, meeting: tuple[str, int], rank: int, size: int, task: bytes) -> None:
        """Learns until rank 0 is gone.

        Args:
            module: Module with the function ``serve(ranks, task)`` to run.
            meeting: Address and port at which ranks meet.
            rank: Number of this rank.
            size: Number of ranks.
            task: Second argument of the function, pickled.
        """
        ranks = met(meeting, rank, size, None)
        ranks.watch_others()
        with naming_machine():
            importlib.import_module(module).serve(ranks, cloudpickle.loads(task))


def met(meeting: tuple[str, int], rank: int, size: int, store: Any) -> Gathered:
    """Joins the other ranks, by gloo.

    Args:
        meeting: Address and port of rank 0's store.
        rank: Number of this rank.
        size: Number of ranks.
        store: That store, if it is in this process; None = elsewhere.
    """
    there: Any = distributed
    host = meeting[0]
    place = there.TCPStore(*meeting, size, False) if store is None else store
    own = LOOPBACK if host == LOOPBACK else ray.util.get_node_ip_address()
    groups = groups_of(place, rank, size, TIMEOUT, own)
    return Gathered(groups)


class RayRanks(Gathered):
    """Rank 0 of several ranks; the others are Ray actors on the nodes of a cluster and end together with rank 0.

    Args:
        module: Module with the function that each of the others runs, see `RankActor.serve`.
        task: Task of each of them; it can be pickled.
        size: Number of ranks.
        address: The cluster, see `connect`.
        cpus: Cores of each of the others.
        gpus: GPUs of each of the others.
        spread: Whether ranks are spread evenly over machines, instead of filling few.
        environment: Environment variables of their processes.
        working_directory: Folder that is sent to all machines; None = none.

    Raises:
        ConfigError: If there is no such cluster, it refuses, or it has no room for all.
        TrainingError: If one of them does not start; with the reason.
    """

    def __init__(
        self,
        module: str,
        task: Any,
        size: int,
        *,
        address: str,
        cpus: float,
        gpus: float,
        spread: bool,
        environment: Mapping[str, str],
        working_directory: str | None,
    ) -> None:
        each, others = Resources(cpus, gpus), size - 1
        instead = "cluster.ray=auto learns on this machine"
        self._connected_here = connect(
            address, setting=f"cluster.ray = {address}", instead=instead, cores=cpus * others,
            working_directory=working_directory,
        )  # fmt: skip
        there = list(nodes().values())
        room = sum(each.times_in(node) for node in there)
        if room < others:
            raise ConfigError(
                f"cluster.learners = {size}: the Ray cluster has room for {room} of the {others} others with {each} "
                f"each (cluster.worker_cpus, cluster.worker_gpus) on its {len(there)} machines; write "
                f"cluster.learners={room + 1}, or let each have less"
            )
        options: dict[str, Any] = {"num_cpus": cpus, "num_gpus": gpus}
        if spread:
            options["scheduling_strategy"] = "SPREAD"
        remote: Any = ray.remote(RankActor)
        made = (max(int(cpus), 1), starting_folder(), module_paths(sys.path), dict(environment))
        self._actors = [remote.options(**options).remote(*made) for _ in range(others)]
        self._end = weakref.finalize(self, _end_all, self._actors, self._connected_here, os.getpid(), session())
        self._serving: list[Any] = []
        self._names: list[str] = []
        try:
            self._begin(module, cloudpickle.dumps(task), size)
        except BaseException:
            self._end()
            raise
        self.description = f"{size} learners: this process, {', '.join(self._names)}"

    def _begin(self, module: str, task: bytes, size: int) -> None:
        """Waits until all ranks have started, and joins them."""
        try:
            answers = value_of([ask_code(actor) for actor in self._actors], START_SECONDS)
        except GetTimeoutError as error:
            raise TrainingError(
                f"cluster.learners = {size}: not all learners began within {START_SECONDS:g} seconds, {free_of_all()}"
            ) from error
        except RayActorError as error:
            raise ConfigError(
                f"cluster: a machine cannot run learners: {as_line(error)}; every machine needs this library, and "
                "the modules of the environment, in the same versions"
            ) from error
        except RayError as error:
            raise TrainingError(f"cluster: {describe_ray_error(error)}") from error
        for code in map(checked, answers):
            self._names.append(f"{code.machine} (process {code.process})")
        alone = len(nodes()) == 1
        host = LOOPBACK if alone else ray.util.get_node_ip_address()
        there: Any = distributed
        door = socket.create_server((host, 0))  # the store's own would be open on all addresses of this machine
        meeting = host, int(door.getsockname()[1])
        store = there.TCPStore(*meeting, size, True, wait_for_workers=False, master_listen_fd=door.detach())
        self._serving = [
            actor.serve.remote(module, meeting, rank, size, task) for rank, actor in enumerate(self._actors, 1)
        ]
        try:
            ranks = met(meeting, 0, size, store)
        except RuntimeError as error:
            self.rank, self.size = 0, size
            loss = self.lost(error)
            raise loss from loss.__cause__
        vars(self).update(vars(ranks))
        self._store = store  # must exist as long as this object
        self.watch_others()

    def lost(self, error: Exception) -> RookeryError:
        """Returns the error of the rank that failed first, or that it is gone."""
        loss: RookeryError = super().lost(error)
        if self._heartbeats is not None and self._heartbeats.problem:
            return loss
        ready_of(self._serving, LAST_WORDS)
        over = ready_of(self._serving, OTHERS_SECONDS, at_least=len(self._serving))
        for rank, ticket in enumerate(self._serving, 1):
            if ticket not in over:
                continue
            name = f"learner {rank} of {self.size} on {self._names[rank - 1]}"
            try:
                value_of(ticket)
            except RayTaskError as found:
                cause = found.cause
                if isinstance(cause, RankLostError):
                    continue  # a rank that only misses another has no cause to report
                kind = type(cause) if isinstance(cause, RookeryError) else TrainingError
                text = f"{cause}" if kind is type(cause) else f"{type(cause).__name__}: {cause}"
                loss = kind(f"{name}: {text}")
                loss.__cause__ = RemoteError(str(found))
                break
            except RayActorError as found:
                loss = LearnerLostError(f"{name} is gone: {as_line(found)}")
            except RayError as found:
                loss = LearnerLostError(f"{name}: {describe_ray_error(found)}")
        return loss

    def break_waits(self) -> None:
        """Ends the other ranks at once, and all waits for them."""
        for actor in self._actors:
            ray.kill(actor)
        super().break_waits()

    def close(self) -> None:
        """Ends the other ranks, and disconnects from Ray if this object connected to it."""
        super().close()
        self._end()


def _end_all(actors: list[Any], connected_here: bool, owner: int, joined: str) -> None:
    if os.getpid() != owner or session() != joined:  # this process may have left that cluster and joined another
        return
    for actor in actors:
        ray.kill(actor)
    actors.clear()
    if connected_here:
        disconnect()
