"""The connection to a Ray cluster: the one at an address, the one that runs on this machine, or a new one here.

A new cluster serves only this process: on loopback, with a token of its own, without a dashboard. This module needs
Ray, and is imported only on demand.
"""

from __future__ import annotations

import atexit
import logging
import math
import os
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import ObjectStoreFullError, OutOfDiskError, OutOfMemoryError, RayError

from rookery.cluster import head, ray_log
from rookery.cluster.address import AUTO, CONNECT_SECONDS, LOCAL, STARTS, answers, named_by, problem_with, starts_here
from rookery.cluster.working_directory import is_sent_folder, note_sent, refuse_other, runtime_env
from rookery.core.errors import ConfigError, HeadLostError
from rookery.core.process.cpu import LIMIT, usable_cores


def _private(module: str) -> Any:
    """Returns a private module of Ray; None if this version does not have it, in which case its use is left out."""
    try:
        return import_module(module)
    except ImportError:
        return None


ray_worker, raylet = _private("ray._private.worker"), _private("ray._raylet")

RAYLET_SECONDS = 0.5
"""Seconds between two checks of a process whether its node is still part of the cluster."""

HEAD_SECONDS = 5.0
"""Seconds for the head to answer a question."""

END_SECONDS = 5.0
"""Timeout in seconds for processes of a cluster started here to end; afterwards, remaining files of its folder are
kept.
"""

OBJECT_STORE = 1 << 30
"""Largest object store of a cluster started here, in bytes: objects are read and dropped at once."""

_sessions: dict[int, Path] = {}
"""By process number, which a fork does not share: the folder of the cluster that the process has started."""


@dataclass(frozen=True)
class Resources:
    """Cores and GPUs of one process on a node."""

    cpus: float
    gpus: float

    def __str__(self) -> str:
        parts = [(self.cpus, "CPU"), *([(self.gpus, "GPU")] if self.gpus else [])]
        return " and ".join(f"{number:g} {name}{'' if number == 1 else 's'}" for number, name in parts)

    def times_in(self, node: Resources) -> int:
        """Returns how often these resources fit on a node."""
        parts = [(node.cpus, self.cpus), (node.gpus, self.gpus)]
        return min((math.floor(there / needed + 1e-9) for there, needed in parts if needed), default=0)

    def within_largest(self, nodes: list[Resources]) -> Resources:
        """Returns these resources if a node has them; else those of the nearest node."""
        if not nodes or any(self.times_in(node) for node in nodes):
            return self
        parts = [Resources(min(self.cpus, node.cpus), min(self.gpus, node.gpus)) for node in nodes if node.cpus]
        return max(parts, key=lambda part: (part.gpus, part.cpus), default=self)


def connect(
    address: str = AUTO, *, setting: str, instead: str, cores: float = 0.0, working_directory: str | None = None
) -> bool:
    """Joins a cluster, or starts one on this machine.

    Args:
        address: Its address, `AUTO` or `LOCAL`.
        setting: The user's setting for messages, as ``cluster.ray = 10.0.0.1:6379``.
        instead: The way without Ray, for messages.
        cores: Cores that a cluster started here declares, if the machine has fewer.
        working_directory: Folder that is sent to all machines; None = none.

    Returns:
        Whether anything was done: False if the process has joined a cluster before.

    Raises:
        ConfigError: If there is none at the address, or it refuses; if the folder does not exist, or it is too late to
            send it.
    """
    if ray.is_initialized():
        refuse_other(working_directory)
        head.watch(ray.get_runtime_context().gcs_address, ray.is_initialized)
        return False
    runtime = runtime_env(working_directory)
    given = named_by(address)
    source = f"environment variable RAY_ADDRESS = {given}" if address == AUTO else f"{setting}"
    if wrong := problem_with(given):
        raise ConfigError(f"{source}: {wrong}")
    if given and not answers(given):
        raise ConfigError(
            f"{source}: no Ray cluster answers at {given} within {CONNECT_SECONDS:g} seconds; start one with ray start "
            "--head, or take local to run on this machine alone"
        )
    handler = signal.getsignal(signal.SIGTERM)
    if hasattr(ray_worker, "print_to_stdstream"):  # else messages of nodes appear at the terminal
        _ray_prints.append(ray_worker.print_to_stdstream)
        ray_worker.print_to_stdstream = ray_log.log_message
    try:
        with ray_log.logged_errors():
            if starts_here(address):
                ray_log.log(STARTS)
                _begin(cores, runtime)
            else:
                _show_token(given)
                ray.init(
                    given or None, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR,
                    runtime_env=runtime,
                )  # fmt: skip
        note_sent(working_directory)
    except (RayError, OSError, RuntimeError, ValueError) as error:
        raise ConfigError(f"{setting}: {_why(error, given)}; {instead}") from error
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)  # ray.init takes it, and would end the run without a checkpoint
    head.watch(ray.get_runtime_context().gcs_address, ray.is_initialized)
    return True


_ray_prints: list[Any] = []
"""Ray's own function for messages of nodes, while these are written to the log of a run."""


def session() -> str:
    """Returns an id of this process's connection to a cluster; empty without one."""
    if not ray.is_initialized():
        return ""
    context = ray.get_runtime_context()
    return f"{context.gcs_address} {context.get_job_id()}"


def disconnect() -> None:
    """Leaves the cluster that `connect` has joined; ends and removes a cluster that it has started. If the head does
    not answer, the cluster is only left when this process ends, because Ray would wait for the head.
    """
    ray_log.log("")  # text kept before the run had a folder
    is_own = os.getpid() in _sessions
    if ray.is_initialized() and not is_own and not answers(ray.get_runtime_context().gcs_address, HEAD_SECONDS):
        return
    ray.shutdown()
    _remove_session()
    if _ray_prints:
        ray_worker.print_to_stdstream = _ray_prints.pop()


def node_is_gone() -> bool:
    """Returns whether Ray's process on this machine is gone. Ray then ends this process without a message as soon as it
    sends or gets a large object. False in a version of Ray whose socket is not found.
    """
    place = getattr(getattr(ray_worker, "_global_node", None), "raylet_socket_name", None)
    if place is None or sys.platform == "win32":  # Ray uses TCP there
        return False
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(HEAD_SECONDS)
        try:
            line.connect(place)
        except (ConnectionRefusedError, FileNotFoundError):
            return True
        except OSError:
            return False
    return False


def check_head() -> None:
    """Raises a HeadLostError if the head counts as lost: no process starts any more, and Ray does not report it."""
    if lost := head.lost_head():
        raise HeadLostError(lost)


def nodes() -> dict[str, Resources]:
    """Asks the head for the nodes: Ray's id of each, and its resources.

    Raises:
        HeadLostError: If it does not answer.
    """
    found = head.within(HEAD_SECONDS, ray.nodes)
    return {str(node["NodeID"]): resources_of(node["Resources"]) for node in found if node["Alive"]}


def free_of_all() -> str:
    """Describes the free and total resources of the cluster, for messages."""
    try:
        there, unused = head.within(HEAD_SECONDS, lambda: (ray.cluster_resources(), ray.available_resources()))
    except HeadLostError as error:
        return f"and {error}"
    if not there.get("CPU"):
        return "and no node of the Ray cluster is left"
    return f"and the Ray cluster has {resources_of(unused)} free of {resources_of(there)}"


def _show_token(address: str) -> None:
    """Checks once whether a cluster accepts this process's token: `ray.init` would try for 20 s, without the reason."""
    if hasattr(raylet, "GcsClient") and address.rpartition(":")[2].isdecimal() and "://" not in address:
        with suppress(RuntimeError):  # ray.init reports other errors
            raylet.GcsClient(address=address)


def _begin(cores: float, runtime: dict[str, Any] | None) -> None:
    """Starts a cluster of this machine only, for this process only."""
    begun = ray.init(
        LOCAL,
        num_cpus=max(math.ceil(cores), usable_cores()),
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
        object_store_memory=OBJECT_STORE,
        runtime_env=runtime,
        _node_ip_address="127.0.0.1",
        _system_config={"worker_niceness": 0},  # else workers would get only the cores that are left over
    )
    _sessions[os.getpid()] = Path(begun.address_info["session_dir"])
    atexit.register(_remove_session)  # if `disconnect` is not called; after this Ray itself ends


def _remove_session() -> None:
    """Removes the folder of a cluster that this process has started, and the link to it."""
    folder = _sessions.pop(os.getpid(), None)
    if folder is None:
        return
    ray.shutdown()
    until = time.monotonic() + END_SECONDS
    while folder.exists() and time.monotonic() < until:  # processes of Ray that are ending may write there
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(RAYLET_SECONDS / 10)
    latest = folder.with_name("session_latest")
    if latest.is_symlink() and latest.readlink() == folder:
        latest.unlink(missing_ok=True)


def _why(error: Exception, address: str) -> str:
    """Returns a one-line explanation of Ray's multi-line errors."""
    text = " ".join(str(error).split())
    if "ersion" in text and "ray" in text.lower() and "python" in text.lower():
        return f"the cluster has other versions than this process: {text}"
    if "oken" in text or "nauthenticated" in text:
        return (
            f"the cluster at {address or 'this machine'} wants another token: set RAY_AUTH_MODE and RAY_AUTH_TOKEN to "
            f"those it was started with ({text[:200]})"
        )
    return f"Ray does not start: {type(error).__name__}: {text}"


def resources_of(resources: Mapping[str, float]) -> Resources:
    """Reads the cores and GPUs of a node or a cluster."""
    return Resources(float(resources.get("CPU", 0.0)), float(resources.get("GPU", 0.0)))


NEVER_RAN = "The actor never ran"
"""First words of Ray's line about an actor whose process it has not started."""


def as_line(error: RayError) -> str:
    """Shortens a message of Ray to one line, without its table of ids."""
    lines = [line.strip() for line in str(error).splitlines() if not line.startswith("\t") or "node" in line]
    if never := [line for line in lines if line.startswith(NEVER_RAN)]:
        return never[0]  # text before Ray's own counting
    return " ".join(line for line in lines if line).partition(" Some common causes")[0]


FULL = {
    ObjectStoreFullError: "the object store of a machine is full: give ray start a larger --object-store-memory, or "
    "send less at a time (shorter fragments, fewer in flight)",
    OutOfDiskError: "the disk is full where Ray keeps what its object store has no room for: make room, or name "
    "another with ray start --object-spilling-directory",
    OutOfMemoryError: "a machine has run out of memory, and Ray has ended a process there",
}
"""Messages for Ray's errors that name a limit."""


def describe_ray_error(error: RayError) -> str:
    """Returns a one-line explanation of an error of Ray."""
    for kind, meaning in FULL.items():
        if isinstance(error, kind):
            return meaning
    return f"the Ray cluster is gone: {as_line(error)}"


def prepare_process(cores: int, cwd: str, path: list[str], environment: Mapping[str, str]) -> None:
    """Prepares a process on a node, before any user code is loaded there.

    Args:
        cores: Cores that it may use; threads and helpers are chosen accordingly.
        cwd: Working directory, if the node has it and the process is not in a folder that was sent there.
        path: Module search path of the caller; folders missing on this node are skipped.
        environment: Environment variables.
    """
    os.environ.update(environment)
    os.environ[LIMIT] = str(cores)
    if not is_sent_folder():
        with suppress(OSError):
            os.chdir(cwd)
    sys.path += [entry for entry in path if entry not in sys.path and os.path.exists(entry)]
    threading.Thread(target=end_with_raylet, args=[os.getppid()], daemon=True).start()


def end_with_raylet(raylet: int) -> None:
    """Ends this process when Ray's process on this node, its parent, is gone: its objects continue elsewhere by then.

    Ray does this too, but not reliably while code runs here.
    """
    while os.getppid() == raylet:
        time.sleep(RAYLET_SECONDS)
    os._exit(1)
