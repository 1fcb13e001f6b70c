"""Folder that Ray sends to all machines (`cluster.working_directory`), and errors that name a machine on which a module
is missing.

Ray accepts a folder only when a process joins the cluster, and unpacks it on each machine before any code runs there.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray

from rookery.core.errors import ConfigError

SETTING = "cluster.working_directory"

_sent: dict[str, str] = {}
"""Folder sent with each job of this process, by Ray's name of the session and of the job."""


def runtime_env(folder: str | None) -> dict[str, Any] | None:
    """Returns the argument of `ray.init` that sends a folder; None without one.

    Raises:
        ConfigError: If there is no such folder.
    """
    if folder is None:
        return None
    if "://" in folder:  # an archive at an address, which Ray fetches
        return {"working_dir": folder}
    place = Path(folder).expanduser().absolute()
    if not place.is_dir():
        raise ConfigError(f"{SETTING} = {folder}: there is no folder {place}; give one, or leave the setting out")
    return {"working_dir": str(place)}


def note_sent(folder: str | None) -> None:
    """Notes which folder was sent, when this process has just joined a cluster."""
    _sent[_job()] = folder or ""


def refuse_other(folder: str | None) -> None:
    """Refuses a folder that was not sent when this process joined the cluster.

    Raises:
        ConfigError: With the setting to use instead.
    """
    on_node = ray.get_runtime_context().get_actor_id() is not None and is_sent_folder()
    if folder is None or on_node or _sent.get(_job()) == folder:
        return
    raise ConfigError(
        f"{SETTING} = {folder}: this process has joined Ray before, and a folder is sent only then: leave the setting "
        f"out, and write ray.init(runtime_env={{'working_dir': {folder!r}}}) where Ray is joined"
    )


def _job() -> str:
    context = ray.get_runtime_context()
    return f"{context.get_session_name()} {context.get_job_id()}"


def is_sent_folder() -> bool:
    """Returns whether this process on a node runs in a folder sent by Ray."""
    return "working_dir" in ray.get_runtime_context().runtime_env


@contextmanager
def naming_machine() -> Iterator[None]:
    """Adds the machine and the remedy to an error about a module that this machine lacks.

    Raises:
        ConfigError: Instead of an error whose cause is a missing module.
    """
    try:
        yield
    except Exception as error:
        name = _missing_module(
            error
        )  # no local variable may hold an error: it would keep the objects of its frames alive
        if name is None:
            raise
        raise ConfigError(
            f"machine {socket.gethostname()} has no module {name!r}: install it there, or send the folder that it lies "
            f"in: {SETTING}, or ray.init(runtime_env={{'working_dir': ...}}) in your script"
        ) from error


def _missing_module(error: BaseException | None) -> str | None:
    """Returns the module whose absence is the cause of an error; None if there is none."""
    while error is not None and not isinstance(error, ModuleNotFoundError):
        error = error.__cause__
    return None if error is None else error.name
