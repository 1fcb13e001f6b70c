"""The functions of ``ray`` itself, in this process: tasks and actors run immediately, in the order of the calls.

Values that are put, passed to a task or actor, or returned by one are copied, as between processes of Ray; objects that
cannot be copied (an environment with a window, a compiled object) are shared. An exception is stored, and raised by
`get`. After ``init(address=...)`` the same functions forward all calls to the installed Ray
(`ray_client`), and so they do in the workers of a cluster.
"""

from __future__ import annotations

import asyncio
import contextvars
import copy
import copyreg
import functools
import inspect
import itertools
import os
import platform
import secrets
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import cloudpickle

from rookery.face import bind_to_process, usable_cores, visible_gpus
from rookery_rllib.base import ray_client
from rookery_rllib.base.machine import node_ip, use_machine
from rookery_rllib.base.notices import say
from rookery_rllib.base.ray_client import joined
from rookery_rllib.base.ray_exceptions import RayActorError, RayTaskError

__version__ = "1.4.0+rookery"

LOCAL_MODE = 2
SCRIPT_MODE = 0
WORKER_MODE = 1

HERE = ("local", "auto:local")
"""Addresses that mean this machine."""

_numbers = itertools.count(1)


class _Ray:
    """State of this module.

    Attributes:
        initialized: Whether `init` was called.
        has_printed: Whether the line about this process was printed.
        named: Actors by namespace and name.
        machine: Resources that `init` was given.
        namespace: Namespace of the names of actors.
        info: Context that Ray returned for a cluster that was joined.
    """

    initialized = False
    has_printed = False
    named: dict[tuple[str, str], ActorHandle] = {}
    machine: dict[str, Any] = {}
    namespace = ""
    info: dict[str, Any] = {}


class ClientContext(dict[str, Any]):
    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __enter__(self) -> ClientContext:
        return self

    def __exit__(self, *raised: object) -> None:
        shutdown()

    def disconnect(self) -> None:
        shutdown()


def init(
    address: str | None = None,
    *,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    resources: Mapping[str, float] | None = None,
    local_mode: bool = False,
    ignore_reinit_error: bool = False,
    namespace: str | None = None,
    **others: Any,
) -> ClientContext:
    """Starts Ray in this process, or joins the cluster that `address`, or ``RAY_ADDRESS``, names.

    Arguments about processes that do not exist here have no effect. Raises a RuntimeError at a second call, and a
    ConfigError if an address is given and Ray is not installed or no cluster is there.
    """
    if is_initialized():
        if ignore_reinit_error:
            return _context()
        raise RuntimeError(
            "ray.init was called before; call ray.shutdown() first, or ray.init(ignore_reinit_error=True)"
        )
    address = address or (os.environ.get("RAY_ADDRESS") if address is None else None)
    if address and address not in HERE:
        options = {"num_cpus": num_cpus, "num_gpus": num_gpus, "resources": resources, "namespace": namespace}
        _Ray.info = ray_client.join("ray.init", address, {**options, **others})
        say(f"ray: tasks, actors and trials run on the Ray cluster at {address}")
    elif not _Ray.has_printed:
        _Ray.has_printed = True
        say(f"ray: tasks and actors run in this process, in their order; trials share {usable_cores()} cores")
    _Ray.initialized, _Ray.namespace = True, namespace or ""
    _Ray.machine = {"CPU": num_cpus, "GPU": num_gpus, **(resources or {})}
    use_machine(local_mode, num_cpus, local_actor_names)
    return _context()


def _context() -> ClientContext:
    """Returns the context that Ray would return; entries about processes that do not exist are None."""
    ip = node_ip()
    elsewhere = (
        "redis_address", "object_store_address", "raylet_socket_name", "webui_url", "session_dir",
        "metrics_export_port",
    )  # fmt: skip
    here = {"node_ip_address": ip, "raylet_ip_address": ip, "node_id": _NODE}
    return ClientContext({**dict.fromkeys(elsewhere), **here, **_Ray.info})


_NODE = secrets.token_hex(28)


def shutdown(_exiting_interpreter: bool = False) -> None:
    for actor in list(_Ray.named.values()):
        kill(actor)
    _Ray.named.clear()
    _Ray.initialized, _Ray.machine, _Ray.namespace, _Ray.info = False, {}, "", {}
    ray_client.leave()
    use_machine(False, None, local_actor_names)


def is_initialized() -> bool:
    return _Ray.initialized or joined() is not None


# --- objects ----------------------------------------------------------------------------------------------------------


class _IncludesRayObjects(type):
    """Metaclass that makes `isinstance` accept Ray's own objects."""

    is_ray_object: Callable[[Any], bool]

    def __instancecheck__(cls, thing: Any) -> bool:
        return super().__instancecheck__(thing) or cls.is_ray_object(thing)


class ObjectRef(metaclass=_IncludesRayObjects):
    is_ray_object = staticmethod(ray_client.is_ref)

    def __init__(self, value: Any = None, error: BaseException | None = None) -> None:
        self._value, self._error = value, error
        self._hex = f"{next(_numbers):056x}"

    def hex(self) -> str:
        return self._hex

    def binary(self) -> bytes:
        return bytes.fromhex(self._hex)

    def is_nil(self) -> bool:
        return False

    def future(self) -> Any:
        made: Future[Any] = Future()
        if self._error is not None:
            made.set_exception(self._error)
        else:
            made.set_result(self._value)
        return made

    def __await__(self) -> Any:
        return _value_of(self)
        yield

    def __deepcopy__(self, memo: Any) -> ObjectRef:
        return self

    def __repr__(self) -> str:
        return f"ObjectRef({self._hex})"


ObjectID = ObjectRef


def copied(value: Any) -> Any:
    """Returns a copy of a value; the value itself if it cannot be copied."""
    try:
        return copy.deepcopy(value)
    except Exception:  # copying failed for any reason: within one process the object can be shared
        return value


def put(value: Any) -> ObjectRef:
    if isinstance(value, ObjectRef):
        raise TypeError("ray.put: takes a value, not what ray.put or a task has returned")
    if (ray := joined()) is not None:
        return ray.put(value)  # type: ignore[no-any-return]
    return ObjectRef(copied(value))


def _value_of(ref: ObjectRef) -> Any:
    if ref._error is not None:
        raise ref._error
    return ref._value


def get(object_refs: Any, *, timeout: float | None = None) -> Any:
    if isinstance(object_refs, ObjectRef):
        return _values_of([object_refs], timeout)[0]
    if not isinstance(object_refs, list | tuple) or not all(isinstance(ref, ObjectRef) for ref in object_refs):
        raise ValueError("ray.get: takes what ray.put or a .remote() call has returned, or a list of such")
    return _values_of(object_refs, timeout)


def _values_of(refs: Sequence[ObjectRef], timeout: float | None) -> list[Any]:
    """Returns the values of references, some of which may be Ray's."""
    away = [ref for ref in refs if type(ref) is not ObjectRef]
    if not away:
        return [_value_of(ref) for ref in refs]
    with ray_client.errors_of_2021():
        found = iter(joined().get(away, timeout=timeout))
    return [_value_of(ref) if type(ref) is ObjectRef else next(found) for ref in refs]


def wait(
    object_refs: Sequence[ObjectRef], *, num_returns: int = 1, timeout: float | None = None, fetch_local: bool = True
) -> tuple[list[ObjectRef], list[ObjectRef]]:
    """Returns the first `num_returns` references, and the others; all of them are ready."""
    refs = list(object_refs)
    if not all(isinstance(ref, ObjectRef) for ref in refs):
        raise TypeError("ray.wait: takes a list of what .remote() calls have returned")
    if len(set(refs)) < len(refs):
        raise ValueError("ray.wait: names a reference twice")
    if not 0 < num_returns <= len(refs):
        raise ValueError(f"ray.wait: num_returns = {num_returns}: must be from 1 to the {len(refs)} references")
    here = [ref for ref in refs if type(ref) is ObjectRef]
    if len(here) < num_returns:
        away = [ref for ref in refs if type(ref) is not ObjectRef]
        missing = num_returns - len(here)
        ready, rest = joined().wait(away, num_returns=missing, timeout=timeout, fetch_local=fetch_local)
        return here + ready, rest
    refs = here + [ref for ref in refs if type(ref) is not ObjectRef]
    return refs[:num_returns], refs[num_returns:]


def cancel(object_ref: ObjectRef, *, force: bool = False, recursive: bool = True) -> None:
    """Cancels a task of a cluster; in this process a task has finished before its reference exists."""
    if type(object_ref) is not ObjectRef:
        joined().cancel(object_ref, force=force, recursive=recursive)


# --- calls ------------------------------------------------------------------------------------------------------------


def _finished(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Runs a coroutine and returns its result. If an event loop runs in this thread already, as in a notebook, it runs
    in another thread.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(contextvars.copy_context().run, asyncio.run, coroutine).result()


def _called(name: str, function: Callable[..., Any], args: Any, kwargs: Any, num_returns: int | None) -> Any:
    """Calls a function with copies of the arguments; returns a reference for each result."""
    count = 1 if num_returns is None else num_returns
    try:
        given = [_value_of(part) if isinstance(part, ObjectRef) else copied(part) for part in args]
        named = {key: _value_of(part) if isinstance(part, ObjectRef) else copied(part) for key, part in kwargs.items()}
        result = function(*given, **named)
        if inspect.iscoroutine(result):
            result = _finished(result)
    except (KeyboardInterrupt, SystemExit, _ActorExit):
        raise
    except RayTaskError as error:  # raised by a task whose result was an argument
        refs = [ObjectRef(error=error) for _ in range(count)]
    except BaseException as error:
        raised = error if isinstance(error, RayActorError) else RayTaskError(name, error).as_instanceof_cause()
        refs = [ObjectRef(error=raised) for _ in range(count)]
    else:
        if count == 1:
            return ObjectRef(copied(result))
        if count and (not isinstance(result, list | tuple) or len(result) != count):
            wrong = ValueError(f"{name}: returned {type(result).__name__}: must return {count} values (num_returns)")
            refs = [ObjectRef(error=RayTaskError(name, wrong).as_instanceof_cause()) for _ in range(count)]
        else:
            refs = [ObjectRef(copied(part)) for part in result][:count] if count else []
    return None if not refs else refs[0] if count == 1 else refs


class RemoteFunction:
    """A function whose ``.remote(...)`` calls it; in this process only the option ``num_returns`` has an effect."""

    def __init__(self, function: Callable[..., Any], options: Mapping[str, Any]) -> None:
        self._function, self._options = function, dict(options)
        self._ray_objects: list[Any] = []
        functools.update_wrapper(self, function)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_ray_objects": []}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"{self.__name__} is a remote function: call {self.__name__}.remote(...)")  # type: ignore[attr-defined]

    def remote(self, *args: Any, **kwargs: Any) -> Any:
        if joined() is not None:
            kind = _remote_of(self._ray_objects, self._function, self._options)
            return _sent(ray_client.with_options(kind, self._options), args, kwargs)
        name = getattr(self._function, "__name__", "function")
        return _called(name, self._function, args, kwargs, self._options.get("num_returns"))

    def options(self, **options: Any) -> RemoteFunction:
        made = RemoteFunction(self._function, {**self._options, **options})
        made._ray_objects = self._ray_objects
        return made


def _remote_of(kept: list[Any], thing: Any, options: Mapping[str, Any]) -> Any:
    """Returns Ray's own remote function or actor class, which is made once."""
    if not kept:
        kept.append(ray_client.remote(thing, options))
    return kept[0]


def _sent(remote: Any, args: Any, kwargs: Any) -> Any:
    """Calls Ray's own remote function, class or method, with the values of references of this process."""
    given = [_value_of(part) if type(part) is ObjectRef else part for part in args]
    return remote.remote(*given, **{key: _value_of(part) if type(part) is ObjectRef else part
                                    for key, part in kwargs.items()})  # fmt: skip


class ActorClass:
    """A class whose ``.remote(...)`` makes an actor; the options ``name`` and ``namespace`` have an effect."""

    def __init__(self, kind: type, options: Mapping[str, Any]) -> None:
        self.__ray_actor_class__ = kind
        self._options = dict(options)
        self._ray_objects: list[Any] = []
        self.__name__, self.__doc__, self.__module__ = kind.__name__, kind.__doc__, kind.__module__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"{self.__name__} is an actor class: call {self.__name__}.remote(...)")

    def __mro_entries__(self, bases: Any) -> tuple[type, ...]:
        raise TypeError(f"{self.__name__}: derive from the class without @ray.remote, and decorate the derived one")

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_ray_objects": []}

    def remote(self, *args: Any, **kwargs: Any) -> Any:
        if joined() is not None:
            kind = _remote_of(self._ray_objects, self.__ray_actor_class__, self._options)
            return _sent(ray_client.with_options(kind, self._options), args, kwargs)
        space = self._options.get("namespace") or _Ray.namespace
        name = self._options.get("name")
        if name is not None and (space, name) in _Ray.named:
            raise ValueError(f"an actor named {name!r} exists already; ray.get_actor({name!r}) returns it")
        handle = ActorHandle(self.__ray_actor_class__, args, kwargs)
        if name is not None:
            _Ray.named[space, name] = handle
            bind_to_process(why_local_envs)
        return handle

    def options(self, **options: Any) -> ActorClass:
        made = ActorClass(self.__ray_actor_class__, {**self._options, **options})
        made._ray_objects = self._ray_objects
        return made


class ActorHandle(metaclass=_IncludesRayObjects):
    """An object whose methods are called with ``.remote(...)``; `shown` is its class where `kind` is a function."""

    is_ray_object = staticmethod(ray_client.is_actor)

    def __init__(self, kind: type, args: Any, kwargs: Any, shown: type | None = None) -> None:
        self._kind = shown or kind
        self._gone = ""
        self._actor_id = secrets.token_hex(12)
        made = _called(f"{kind.__name__}.__init__", _Holder(kind), args, kwargs, None)
        self._object: Any = None
        if made._error is not None:
            self._gone = f"its constructor has failed: {made._error}"
        else:
            self._object = made._value.held

    def __getattr__(self, name: str) -> ActorMethod:
        if name == "__ray_terminate__":
            return ActorMethod(self, name, None)
        if name.startswith("__") or not hasattr(self._kind, name):
            raise AttributeError(f"{self._kind.__name__} has no method {name!r}")
        return ActorMethod(self, name, getattr(getattr(self._kind, name), "__ray_num_returns__", None))

    def _call(self, name: str, args: Any, kwargs: Any, num_returns: int | None) -> Any:
        where = f"{self._kind.__name__}.{name}"
        if name == "__ray_terminate__":
            kill(self)
            return ObjectRef(None)
        if self._gone:
            error = RayActorError(f"{self._kind.__name__}: the actor has ended: {self._gone}")
            return _called(where, functools.partial(_raise, error), (), {}, num_returns)
        try:
            return _called(where, getattr(self._object, name), args, kwargs, num_returns)
        except _ActorExit:
            self._gone = "it has ended itself"
            return ObjectRef(None)

    def __deepcopy__(self, memo: Any) -> ActorHandle:
        return self

    def __reduce__(self) -> Any:
        raise TypeError(
            f"the actor {self._kind.__name__} lives in the script's process, which other processes cannot call"
        )

    def __repr__(self) -> str:
        return f"Actor({self._kind.__name__}, {self._actor_id})"


def wrap_as_actor(held: Any) -> ActorHandle:
    """Returns an actor in this process that wraps an existing object."""
    return ActorHandle(lambda: held, (), {}, type(held))  # type: ignore[arg-type]


class _Holder:
    """Wraps an object that is not copied when it is returned."""

    def __init__(self, kind: type) -> None:
        self.kind = kind
        self.held: Any = None

    def __call__(self, *args: Any, **kwargs: Any) -> _Holder:
        self.held = self.kind(*args, **kwargs)
        return self

    def __deepcopy__(self, memo: Any) -> _Holder:
        return self


def _raise(error: BaseException) -> None:
    raise error


class ActorMethod:
    def __init__(self, handle: ActorHandle, name: str, num_returns: int | None) -> None:
        self._handle, self._name, self._num_returns = handle, name, num_returns

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"{self._name} is a method of an actor: call .{self._name}.remote(...)")

    def remote(self, *args: Any, **kwargs: Any) -> Any:
        return self._handle._call(self._name, args, kwargs, self._num_returns)

    def options(self, num_returns: int | None = None, **options: Any) -> ActorMethod:
        return ActorMethod(self._handle, self._name, num_returns)


def remote(*args: Any, **options: Any) -> Any:
    if len(args) == 1 and not options and (callable(args[0]) or isinstance(args[0], type)):
        return _made_remote(args[0], {})
    if args or not options:
        raise TypeError("ray.remote: use it as @ray.remote or @ray.remote(num_cpus=1)")
    return lambda thing: _made_remote(thing, options)


def _made_remote(thing: Any, options: Mapping[str, Any]) -> Any:
    if isinstance(thing, type):
        return ActorClass(thing, options)
    if isinstance(thing, RemoteFunction | ActorClass) or not callable(thing):
        raise TypeError(f"ray.remote: takes a function or a class, not {type(thing).__name__}")
    return RemoteFunction(thing, options)


def method(*, num_returns: int = 1, **options: Any) -> Callable[[Any], Any]:
    def decorated(function: Any) -> Any:
        function.__ray_num_returns__ = num_returns
        return function

    return decorated


class _ActorExit(BaseException): ...


def exit_actor() -> None:
    if (ray := joined()) is not None:
        ray.actor.exit_actor()
    raise _ActorExit


def kill(actor: Any, *, no_restart: bool = True) -> None:
    if not isinstance(actor, ActorHandle):
        raise ValueError("ray.kill: takes an actor, not a reference or anything else")
    if type(actor) is not ActorHandle:
        joined().kill(actor, no_restart=no_restart)
        return
    actor._gone, actor._object = "it was killed", None
    for key in [key for key, known in _Ray.named.items() if known is actor]:
        del _Ray.named[key]


def get_actor(name: str, namespace: str | None = None) -> Any:
    if (ray := joined()) is not None:
        return ray.get_actor(name, namespace)
    space = namespace or _Ray.namespace
    if (space, name) not in _Ray.named:
        raise ValueError(f"there is no actor named {name!r}; make one with .options(name={name!r}).remote()")
    return _Ray.named[space, name]


def local_actor_names() -> list[str]:
    """Returns the names of the named actors in this process."""
    return [name for _, name in _Ray.named]


def why_local_envs() -> str:
    """Returns the reason to step environments in this process: they may call a named actor here."""
    names = local_actor_names()
    return f"the actor {names[0]!r} lives in this process, and environments may call it" if names else ""


# --- the machine ------------------------------------------------------------------------------------------------------


def cluster_resources() -> dict[str, float]:
    if (ray := joined()) is not None:
        return ray.cluster_resources()  # type: ignore[no-any-return]
    found = {"CPU": float(usable_cores()), "GPU": float(len(visible_gpus())), f"node:{node_ip()}": 1.0}
    given = {name: float(amount) for name, amount in _Ray.machine.items() if amount is not None}
    return {name: amount for name, amount in {**found, **given}.items() if amount}


def available_resources() -> dict[str, float]:
    """Returns the free resources: all of them, because no other process runs."""
    if (ray := joined()) is not None:
        return ray.available_resources()  # type: ignore[no-any-return]
    return cluster_resources()


def nodes() -> list[dict[str, Any]]:
    """Returns a list with this machine."""
    if (ray := joined()) is not None:
        return ray.nodes()  # type: ignore[no-any-return]
    return [
        {"NodeID": _NODE, "Alive": True, "alive": True, "NodeManagerAddress": node_ip(),
         "NodeManagerHostname": platform.node(), "Resources": cluster_resources()}
    ]  # fmt: skip


def get_gpu_ids() -> list[Any]:
    if (ray := joined()) is not None:
        return ray.get_gpu_ids()  # type: ignore[no-any-return]
    return [int(name) if name.isdigit() else name for name in visible_gpus()]


def get_resource_ids() -> dict[str, Any]:
    return {name: [(number, 1.0) for number in range(int(amount))] for name, amount in cluster_resources().items()}


def timeline(filename: str | None = None) -> list[Any]:
    """Returns no events: ``rookery timers`` shows where the time of a run went."""
    if (ray := joined()) is not None:
        return ray.timeline(filename)  # type: ignore[no-any-return]
    return []


def show_in_dashboard(message: str, key: str = "", dtype: str = "text") -> None:
    """Does nothing: there is no dashboard."""


class RuntimeContext:
    namespace = property(lambda self: _Ray.namespace)
    node_id = property(lambda self: _NODE)
    job_id = "01000000"
    task_id = None
    actor_id = None

    def get(self) -> dict[str, Any]:
        return {"job_id": self.job_id, "node_id": _NODE, "namespace": _Ray.namespace}


def get_runtime_context() -> Any:
    if (ray := joined()) is not None:
        return ray.get_runtime_context()
    return RuntimeContext()


class ClientBuilder:
    def __init__(self, address: str | None = None) -> None:
        self._address = None if address in (None, *HERE) else f"ray://{str(address).removeprefix('ray://')}"
        self._env: dict[str, Any] = {}
        self._namespace: str | None = None

    def namespace(self, namespace: str) -> ClientBuilder:
        self._namespace = namespace
        return self

    def env(self, env: Mapping[str, Any]) -> ClientBuilder:
        """Sets the packages of workers, which has an effect on a cluster only."""
        self._env = dict(env)
        return self

    def connect(self) -> ClientContext:
        return init(self._address, namespace=self._namespace, runtime_env=self._env or None)


def client(address: str | None = None) -> ClientBuilder:
    return ClientBuilder(address)


def connect(conn_str: str, *args: Any, **kwargs: Any) -> ClientContext:
    return client(conn_str).connect()


def disconnect() -> None:
    shutdown()


# --- ray.util ---------------------------------------------------------------------------------------------------------


class ActorPool:
    def __init__(self, actors: Iterable[ActorHandle]) -> None:
        self._idle = list(actors)
        self._results: list[tuple[ActorHandle, ObjectRef]] = []
        self._waiting: list[tuple[Callable[[ActorHandle, Any], ObjectRef], Any]] = []

    def map(self, fn: Callable[[ActorHandle, Any], ObjectRef], values: Iterable[Any]) -> Iterable[Any]:
        for value in values:
            self.submit(fn, value)
        while self.has_next():
            yield self.get_next()

    def map_unordered(self, fn: Callable[[Any, Any], ObjectRef], values: Iterable[Any]) -> Iterable[Any]:
        for value in values:
            self.submit(fn, value)
        while self.has_next():
            yield self.get_next_unordered()

    def submit(self, fn: Callable[[ActorHandle, Any], ObjectRef], value: Any) -> None:
        if not self._idle:
            self._waiting.append((fn, value))
            return
        actor = self._idle.pop()
        self._results.append((actor, fn(actor, value)))

    def has_next(self) -> bool:
        return bool(self._results)

    def get_next(self, timeout: float | None = None) -> Any:
        if not self._results:
            raise StopIteration("there are no more results")
        return self._taken(0, timeout)

    def get_next_unordered(self, timeout: float | None = None) -> Any:
        if not self._results:
            raise StopIteration("there are no more results")
        refs = [ref for _, ref in self._results]
        ready, _ = wait(refs, timeout=timeout)
        return self._taken(refs.index(ready[0]) if ready else 0, timeout)

    def _taken(self, place: int, timeout: float | None) -> Any:
        actor, ref = self._results.pop(place)
        try:
            return get(ref, timeout=timeout)
        finally:
            self.push(actor)

    def has_free(self) -> bool:
        return bool(self._idle) and not self._waiting

    def pop_idle(self) -> ActorHandle | None:
        return self._idle.pop() if self.has_free() else None

    def push(self, actor: ActorHandle) -> None:
        self._idle.append(actor)
        if self._waiting:
            self.submit(*self._waiting.pop(0))


def get_node_ip_address(address: str = "") -> str:
    return node_ip()


def inspect_serializability(base_obj: Any, name: str | None = None, **options: Any) -> tuple[bool, set[Any]]:
    try:
        cloudpickle.dumps(base_obj)
    except Exception as error:  # pickling may raise anything
        say(f"{name or base_obj!r} cannot be sent to another process: {type(error).__name__}: {error}")
        return False, {base_obj} if getattr(type(base_obj), "__hash__", None) else set()
    return True, set()


def register_serializer(cls: type, *, serializer: Any, deserializer: Any) -> None:
    copyreg.pickle(cls, lambda value: (deserializer, (serializer(value),)))


def deregister_serializer(cls: type) -> None:
    copyreg.dispatch_table.pop(cls, None)
