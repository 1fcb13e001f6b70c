"""Client of the installed Ray, for scripts that join a cluster with ``ray.init(address=...)``.

`ray_core` passes the script's calls on to it. Functions and classes of the script travel by value and see the names of
2021 where they arrive (`carry_names_along`); nodes need this library, Ray and Python in the same versions.
Ray is not imported before a script asks for a cluster.
"""

from __future__ import annotations

import inspect
import logging
import re
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

from rookery.face import AUTO, ConfigError, answers, install_line
from rookery.script.importer import carry_names_along
from rookery_rllib.base import ray_exceptions
from rookery_rllib.base.ray_exceptions import RayError, RayTaskError

BEGIN = install_line("ray")

ONCE = ("concurrency_groups", "max_calls")
"""Options that Ray accepts in ``ray.remote`` only, not in ``options``."""


class _Joined:
    """The module ``ray`` if this process has joined a cluster by `join`, and the address that was given."""

    ray: Any = None
    address = ""


def joined() -> Any:
    """Returns the installed module ``ray`` if this process has joined a cluster or is a worker of one, else None."""
    if _Joined.ray is None:
        ray = sys.modules.get("ray")
        if not isinstance(ray, ModuleType) or not getattr(ray, "is_initialized", bool)():
            return None
        if ray.get_runtime_context().worker.mode == ray.WORKER_MODE:
            _Joined.ray = ray
    return _Joined.ray


def address() -> str:
    """Returns the address of the cluster that this process belongs to; empty if it belongs to none."""
    ray = joined()
    if ray is None:
        return ""
    given = _Joined.address
    return given if given and given != AUTO else str(ray.get_runtime_context().gcs_address)


def join(what: str, address: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Joins a cluster.

    Args:
        what: The script's call, for error messages.
        address: ``auto``, ``HOST:PORT`` or ``ray://HOST:PORT``.
        options: Arguments of ``ray.init``; those that the installed version does not have are left out.

    Returns:
        The context that Ray returned.

    Raises:
        ConfigError: If Ray is not installed, or no cluster answers.
    """
    try:
        ray: Any = import_module("ray")
    except ImportError as error:
        raise ConfigError(
            f"{what}(address={address!r}): a cluster needs Ray, which is not installed ({error}): {BEGIN}; without an "
            "address everything stays in this process"
        ) from None
    carry_names_along(ray.cloudpickle)
    host = address.removeprefix("ray://")
    handler = signal.getsignal(signal.SIGTERM)
    known = set(inspect.signature(ray.init).parameters)
    given = {name: value for name, value in options.items() if name in known and value is not None}
    try:
        if not answers(host):
            raise ConnectionError(f"no cluster answers at {host}")
        context = ray.init(address, **{"logging_level": logging.ERROR, **given})
    except (ray.exceptions.RayError, OSError, RuntimeError, ValueError) as error:
        raise ConfigError(
            f"{what}(address={address!r}): no cluster was joined: {type(error).__name__}: {error}; begin one with "
            "ray start --head, or leave the address out to stay in this process"
        ) from error
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)  # Ray takes it, and would end trials without a checkpoint
    _Joined.ray, _Joined.address = ray, address
    return dict(getattr(context, "address_info", None) or {})


def leave() -> None:
    if _Joined.ray is not None:
        _Joined.ray.shutdown()
        _Joined.ray, _Joined.address = None, ""


@contextmanager
def errors_of_2021() -> Iterator[None]:
    """Converts Ray's errors inside the block to those of `ray_exceptions`, which scripts of 2021 catch."""
    ray = _Joined.ray
    try:
        yield
    except ray.exceptions.RayError as error:
        raise as_2021_error(error) from error


def as_2021_error(error: BaseException) -> BaseException:
    cause = getattr(error, "cause", None)
    if isinstance(cause, BaseException):
        named = re.search(r"ray::([\w.]+)", str(error))
        return RayTaskError(named[1] if named else "a task", cause).as_instanceof_cause()
    for kind in type(error).__mro__:
        own_class = getattr(ray_exceptions, kind.__name__, None)
        if isinstance(own_class, type) and issubclass(own_class, RayError):
            return own_class(str(error))
    return RayError(str(error))


def remote(thing: Any, options: Mapping[str, Any]) -> Any:
    ray = joined()
    once = {name: value for name, value in options.items() if name in ONCE}
    return ray.remote(**once)(thing) if once else ray.remote(thing)


def with_options(thing: Any, options: Mapping[str, Any]) -> Any:
    others = {name: value for name, value in options.items() if name not in ONCE}
    return thing.options(**others) if others else thing


def is_ref(thing: Any) -> bool:
    ray = joined()
    return ray is not None and isinstance(thing, ray.ObjectRef)


def is_actor(thing: Any) -> bool:
    ray = joined()
    if ray is None:
        return False
    by_client = getattr(sys.modules.get("ray.util.client.common"), "ClientActorHandle", ray.actor.ActorHandle)
    return isinstance(thing, ray.actor.ActorHandle | by_client)
