"""Creates a `VectorEnv` from any description of an environment; the only place that chooses style and implementation.

`make_env` builds it, `env_name` names it; `envs/schemes.py` has the kinds of environments.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from types import ModuleType
from typing import Any

import gymnasium

from rookery.core.errors import EnvError, nearest
from rookery.core.process.tracebacks import described
from rookery.core.settings.secrets import NOT_STORED
from rookery.core.settings.starting_folder import started_in, starting_folder
from rookery.envs.adapters.import_paths import find_wrapper
from rookery.envs.adapters.styles import lane_of
from rookery.envs.base import VectorEnv
from rookery.envs.native.variants import prefer_native
from rookery.envs.parameters import hook_of
from rookery.envs.random_play import played_copy
from rookery.envs.schemes import EnvScheme, NotSingleEnv, scheme_of, scheme_of_maker, scheme_of_product
from rookery.envs.variant_choice import usable_variant, variants_of
from rookery.envs.vector.faults import STRICT, Tolerance
from rookery.envs.vector.makers import (
    FOREIGN,
    VECTOR_CLASS,
    build_errors,
    is_foreign,
    parameters_of_maker,
    plays_tensors,
)
from rookery.envs.vector.processes import processes_env
from rookery.envs.vector.serial import SerialEnv
from rookery.envs.vector.specs import WithSpecs, portable
from rookery.envs.vector.threads import threads_env

IMPLEMENTATIONS = ("auto", "c", "batched", "serial", "processes", "threads")

HELPED = ("processes", "threads")
"""Implementations with helpers."""


def make_env(
    env: Any,
    config: Mapping[str, Any] | None,
    wrappers: Sequence[Any],
    num_lanes: int,
    implementation: str,
    *,
    helpers: int | None = None,
    tolerance: Tolerance = STRICT,
    render: bool = False,
    max_entities: int | None = None,
    parameters: Collection[str] | None = None,
    device: str | None = None,
    try_helpers: bool = False,
) -> VectorEnv:
    """Creates many instances of an environment.

    Args:
        env: Name or maker of the environment: a Gymnasium id; a class or callable that makes a Gymnasium, PettingZoo or
            dict-style multi-agent environment; a PettingZoo module; a `VectorEnv` class; a class of Gymnasium's
            `VectorEnv`s or of `TensorEnv`s, or a callable with an argument `num_envs` that makes one; the import path
            of one of these, ``my.module:MyEnv``; a file in C, ``my_env.c``, or what was compiled from one; a task of
            EnvPool, ``envpool:Pong-v5``; a Unity player, by its path or as ``unity:PATH``, and the Unity Editor,
            ``unity:editor``; or ``external:9900``, clients at a port. An environment of ML-Agents' low-level API
            (`BaseEnv`), or a class or callable that makes them, is accepted, too.
        config: Keyword arguments of the environment's constructor (of `gymnasium.make` for an id).
        wrappers: Callables or their import paths, applied in order to each environment.
        num_lanes: Number of environments.
        implementation: Name of the back end: ``"serial"`` steps environments in a loop, ``"c"`` demands the
            environment's variant in C, ``"batched"`` the one in Python, or its vector entry point, ``"auto"`` takes the
            first available variant with the same numbers. ``"processes"`` and ``"threads"`` are the types of helpers.
        helpers: Number of helpers that step shares of the environments beside the caller; None or 0 = no helpers.
        tolerance: Environment failures (errors, hangs, deaths) that are tolerated.
        render: Whether `VectorEnv.render` must return images, where the environment can.
        max_entities: Largest number of elements of a ``Sequence`` in an observation; None: as an `EntitySet` defines.
        parameters: Names of the parameters that episodes will be given: a variant that lacks one cannot be used. The
            caller checks in `parameters` of the result whether the environment has them.
        device: Device for the tensors of a `TensorEnv`, if `config` does not set it; None = its default.
        try_helpers: Whether each helper plays a throwaway environment for a few steps before it builds its own.

    Raises:
        EnvError: If there is no such environment, it cannot be built, or its spaces cannot be used.
    """
    if implementation not in IMPLEMENTATIONS:
        hint = nearest(implementation, IMPLEMENTATIONS)
        raise EnvError(f"env implementation {implementation!r} is unknown{hint}; use {', '.join(IMPLEMENTATIONS)}")
    settings, name, found = without_unstored(config or {}), env_name(env), find_maker(env)
    if (kind := scheme_of_maker(found)) is not None:
        if wrappers:
            raise EnvError(f"{name} plays many environments at once and cannot be wrapped; leave env.wrappers empty")
        if implementation in HELPED:
            why = f"env.implementation={implementation} has no single ones to assign; leave it out"
            raise EnvError(f"{name} plays many environments at once: {why}")
        played = found if implementation == "batched" else prefer_native(found) or found
        kind, settings = kind if played is found else _kind_of(played), _placed(played, settings, device)
        return kind.build(played, num_lanes, settings, name, render=render, max_entities=max_entities)
    if implementation in ("auto", "c", "batched"):
        variants = variants_of(found, implementation, render)
        variant, reason = usable_variant(variants, implementation, wrappers, num_lanes, settings, parameters)
        if not reason:
            return _kind_of(variant).build(variant, num_lanes, settings, name, render=render, max_entities=max_entities)
        if implementation != "auto":
            what = f"env implementation {implementation!r} cannot be used"
            raise EnvError(f"{name}: {what}: {reason}; use 'serial' or 'auto'")
    factory = lane_maker(env, config, wrappers, render=render, max_entities=max_entities, parameters=parameters)
    num_helpers = 0 if implementation == "serial" else min(helpers or 0, num_lanes - 1)
    try:
        return _stepped(factory, num_lanes, name, implementation, num_helpers, tolerance, try_helpers)
    except NotSingleEnv as made:
        return made.scheme.build(found, num_lanes, settings, name, first=made.made)


def _stepped(
    factory: Callable[[], Any],
    num_lanes: int,
    name: str,
    implementation: str,
    num_helpers: int,
    tolerance: Tolerance,
    try_helpers: bool,
) -> VectorEnv:
    """Returns environments that are stepped one by one, in this process alone or with helpers."""
    if num_helpers < 1:
        return SerialEnv(factory, num_lanes, name, tolerance)
    helped = threads_env if implementation == "threads" else processes_env
    trial = functools.partial(played_copy, factory, name) if try_helpers else None
    return helped(factory, num_lanes, name, tolerance, num_helpers, trial)


def has_single_envs(
    env: Any,
    config: Mapping[str, Any] | None,
    wrappers: Sequence[Any],
    num_lanes: int,
    implementation: str,
    parameters: Collection[str] | None = None,
) -> bool:
    """Returns whether `make_env` would create environments that are stepped one by one, so that helpers could share
    them.

    Raises:
        EnvError: If there is no such environment.
    """
    found = find_maker(env)
    if scheme_of_maker(found) or implementation in ("c", "batched"):
        return False
    variants, settings = variants_of(found, "auto"), dict(config or {})
    return implementation != "auto" or bool(
        usable_variant(variants, "auto", wrappers, num_lanes, settings, parameters)[1]
    )


def why_no_variant(
    env: Any,
    config: Mapping[str, Any] | None,
    wrappers: Sequence[Any],
    num_lanes: int,
    parameters: Collection[str] | None,
) -> str:
    """Returns a note if parameters are the only reason that no variant is used; an empty string otherwise.

    Raises:
        EnvError: If there is no such environment.
    """
    found, settings = find_maker(env), dict(config or {})
    variants = [] if scheme_of_maker(found) else variants_of(found, "auto")
    if usable_variant(variants, "auto", wrappers, num_lanes, settings, None)[1]:
        return ""
    why = usable_variant(variants, "auto", wrappers, num_lanes, settings, parameters)[1]
    return f"{env_name(env)}: {why}, so environments are stepped one by one" if why else ""


def lane_maker(
    env: Any,
    config: Mapping[str, Any] | None,
    wrappers: Sequence[Any],
    *,
    render: bool = False,
    max_entities: int | None = None,
    parameters: Collection[str] | None = None,
) -> Callable[[], Any]:
    """Returns a function that creates one environment, wrapped, in the adapter for its style: a `GymLane` or another
    `Lane`.

    The arguments are those of `make_env`, except that vectorized classes are refused.

    Raises:
        EnvError: If there is no such environment or wrapper; from the calls, if it cannot be built.
    """
    settings, name, found = dict(config or {}), env_name(env), find_maker(env)
    if scheme_of_maker(found):
        raise EnvError(f"{name} plays many environments at once: there is no single one")
    if isinstance(found, gymnasium.envs.registration.EnvSpec):
        found = portable(found)
    wraps = [(str(getattr(wrapper, "__name__", wrapper)), find_wrapper(wrapper)) for wrapper in wrappers]
    folder = starting_folder()  # environments may be rebuilt at any time, and elsewhere on this machine

    def make(given: Mapping[str, Any] | None = None) -> Any:
        with started_in(folder):
            return _build(found, {**settings, **(given or {})}, wraps, name, render)

    def lane() -> Any:
        built = make()
        if (other := scheme_of_product(found, built)) is not None:
            raise NotSingleEnv(name, built, other)
        adapted = lane_of(built, name, max_entities)
        if parameters:
            adapted.hook = hook_of(adapted.env, found, settings, make)
        return adapted

    return WithSpecs(lane, env, settings, wrappers)


def is_vector(env: Any) -> bool:
    """Returns whether `env` names or is a maker of vectorized environments.

    Raises:
        EnvError: If there is no such environment.
    """
    return scheme_of_maker(find_maker(env)) is not None


def env_name(env: Any) -> str:
    """Returns the name of an environment in messages and run ids: its id, or that of its class, function or module."""
    if isinstance(env, functools.partial):
        return env_name(env.func)
    if isinstance(env, ModuleType):
        return env.__name__.rpartition(".")[2]
    if isinstance(env, str):
        return scheme_of(env).short_name(env)
    name = str(getattr(env, "__name__", type(env).__name__))
    if name in ("env", "parallel_env", "raw_env"):
        return str(env.__module__).rpartition(".")[2]
    return "env" if name == "<lambda>" else name


# -- finding the maker -----------------------------------------------------------------------------


def without_unstored(config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments of an environment without secrets that a run had and did not store.

    Raises:
        EnvError: If such a secret is not given again.
    """
    lost = [key for key, value in config.items() if isinstance(value, str) and value == NOT_STORED]
    for key in lost:
        if key == "token" and (os.environ.get("ROOKERY_TOKEN") or config.get("token_file")):
            continue
        other = ", or set ROOKERY_TOKEN, or env.config.token_file=FILE" if key == "token" else ""
        raise EnvError(
            f"env.config.{key} is a secret, which a run does not store: set it with env.config.{key}=...{other}"
        )
    return {key: value for key, value in config.items() if key not in lost}


def run_arguments(env: Any) -> Collection[str]:
    """Returns the names of the arguments of an environment that only define how its instances are run: the names that
    its class lists under ``run_arguments``. They may change when a training resumes.
    """
    found = find_maker(env) if env is not None else None
    return getattr(getattr(found, "func", found), "run_arguments", ())  # func: for a class in `functools.partial`


def find_maker(env: Any) -> Any:
    """Returns the maker of an environment: a class, a callable, or a Gymnasium spec for an id.

    Raises:
        EnvError: If there is no such environment.
    """
    if isinstance(env, str):
        found = scheme_of(env).find(env)
        return found if isinstance(found, gymnasium.envs.registration.EnvSpec) else find_maker(found)
    if isinstance(env, ModuleType):
        for maker in ("parallel_env", "env"):
            if callable(getattr(env, maker, None)):
                return getattr(env, maker)
        raise EnvError(f"module {env.__name__} has neither parallel_env nor env; pass a class or a function of it")
    if not callable(env) and scheme_of_maker(env) is None:
        what = f"an instance of {type(env).__name__}, expected something that makes environments"
        spec = getattr(env, "spec", None)
        near = ""
        if isinstance(env, gymnasium.Env):
            wrapped = "" if env is env.unwrapped else ", and its wrappers as wrappers=[...]"
            near = f"; write the class {type(env.unwrapped).__name__} itself{wrapped}"
        elif isinstance(env, list | tuple):
            near = "; num_envs is the number of environments"
        if isinstance(spec, gymnasium.envs.registration.EnvSpec):
            near = f"; did you mean {spec.id!r}?"
        raise EnvError(f"env is {what}: a class, a function, a Gymnasium id or an import path 'my.module:MyEnv'{near}")
    return env


# -- building --------------------------------------------------------------------------------------


def _kind_of(variant: Any) -> EnvScheme:
    return FOREIGN if is_foreign(variant) else VECTOR_CLASS


def _placed(found: Any, settings: dict[str, Any], device: str | None) -> dict[str, Any]:
    """Returns the settings of vector environments, with a device for those whose copies are tensors."""
    asks = (
        device is not None and plays_tensors(getattr(found, "func", found)) and "device" in parameters_of_maker(found)
    )
    return {"device": device, **settings} if asks else settings


def _build(found: Any, settings: dict[str, Any], wraps: Sequence[tuple[str, Any]], name: str, render: bool) -> Any:
    """Makes one environment, wrapped."""
    is_id = isinstance(found, gymnasium.envs.registration.EnvSpec)
    # Gymnasium's own checker is left out of ids: the back end checks every step itself, and names the lane.
    make = functools.partial(gymnasium.make, found, disable_env_checker=True) if is_id else found
    render_options = {"render_mode": "rgb_array"} if render and _takes_render_mode(found) else {}
    with build_errors(found, settings, name):
        built = make(**{**render_options, **settings})
    for wrapper_name, wrapper in wraps:
        try:
            built = wrapper(built)
        except Exception as error:
            raise EnvError(f"{name}: wrapper {wrapper_name} raised {described(error)}") from error
    return built


def _takes_render_mode(found: Any) -> bool:
    """Returns whether the constructor takes a render mode."""
    if isinstance(found, gymnasium.envs.registration.EnvSpec):
        if not isinstance(found.entry_point, str):
            return found.entry_point is not None and _takes_render_mode(found.entry_point)
        try:
            return _takes_render_mode(gymnasium.envs.registration.load_env_creator(found.entry_point))
        except ImportError:
            return False  # the build reports the missing part
    parameters = parameters_of_maker(found)
    if "render_mode" in parameters:
        return True
    # PettingZoo's makers are functions that pass keywords on; a class's **kwargs may mean anything
    return not inspect.isclass(found) and any(p.kind is p.VAR_KEYWORD for p in parameters.values())
