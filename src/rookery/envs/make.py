"""Makes a `VectorEnv` from what a user calls an environment: the one place that decides style and implementation.

`make_env` builds it, `env_name` names it, `random_rows` plays a throwaway one to see what its observations look like.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice
from types import ModuleType
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from rookery.core.errors import EnvError, UnknownEnvError, nearest
from rookery.core.secrets import NOT_STORED
from rookery.core.spaces import MASK, ActionSpec, Tree
from rookery.core.starting_folder import started_in, starting_folder
from rookery.core.tracebacks import described
from rookery.core.trust import CodeKind, a_kind, is_ours
from rookery.envs.base import SeedPlan, Step, VectorEnv
from rookery.envs.c.env import c_env_of, c_name, names_c
from rookery.envs.c.twins import in_c, instead_in_c, twin_of_id, why_not_in_c
from rookery.envs.classic import TWINS, is_gymnasiums
from rookery.envs.dict_env import DictLane, is_dict_style
from rookery.envs.external.env import SCHEME, ExternalEnv
from rookery.envs.gym_env import GymLane
from rookery.envs.lane import Lane
from rookery.envs.parameters import hook_of
from rookery.envs.pettingzoo_env import AECLane, ParallelLane, is_parallel_style
from rookery.envs.unity.program import file_of, find_player, looks_like_path, names_player, short_name
from rookery.envs.unity.recognized import MadeBaseEnv, is_base_env, makes_base_envs
from rookery.envs.vector.closing import close_env
from rookery.envs.vector.faults import STRICT, Tolerance
from rookery.envs.vector.foreign import ForeignEnv
from rookery.envs.vector.processes import processes_env
from rookery.envs.vector.serial import SerialEnv
from rookery.envs.vector.specs import WithSpecs, portable
from rookery.envs.vector.threads import threads_env

MODULE_NAME = r"\w+(\.\w+)+"
"""What an environment's name is like that is a module, ``pettingzoo.mpe.simple_v3``."""

FEW_STEPS = 5
"""Steps that show whether a copy can be played."""

IMPLEMENTATIONS = ("auto", "c", "batched", "serial", "processes", "threads")

HELPED = ("processes", "threads")
"""Implementations that have helpers."""

TENSORS = {
    "TensorCartPole": "rookery.tensor_envs.classic:TensorCartPole",
    "TensorPendulum": "rookery.tensor_envs.classic:TensorPendulum",
}
"""Those of `OURS` whose copies are tensors: to import them loads torch."""

OURS = {
    "MultiAgentArena": "rookery.tasks.arena:MultiAgentArena",
    "Atari": "rookery.envs.atari:Atari",
    "StatelessCartPole": "rookery.tasks.memory_tasks:StatelessCartPole",
    "RepeatAfterMe": "rookery.tasks.memory_tasks:RepeatAfterMe",
    "RepeatPrevious": "rookery.tasks.memory_tasks:RepeatPrevious",
    "Autoencode": "rookery.tasks.memory_tasks:Autoencode",
    "CountRecall": "rookery.tasks.memory_tasks:CountRecall",
    "CueCorridor": "rookery.tasks.memory_tasks:CueCorridor",
    "TwoCues": "rookery.tasks.memory_tasks:TwoCues",
    "Sorter": "rookery.tasks.sorter:Sorter",
    "DeepSea": "rookery.tasks.deep_sea:DeepSea",
    "KeyDoor": "rookery.tasks.key_door:KeyDoor",
    "WallCurriculum": "rookery.tasks.wall_curriculum:WallCurriculum",
    "TicTacToe": "rookery.tasks.board_games:TicTacToe",
    "ConnectFour": "rookery.tasks.board_games:ConnectFour",
    "LineSoccer": "rookery.tasks.line_soccer:LineSoccer",
    "CarryTogether": "rookery.tasks.carry_together:CarryTogether",
    "Sacrifice": "rookery.tasks.sacrifice:Sacrifice",
    "MatrixGame": "rookery.tasks.matrix_game:MatrixGame",
    "Basic": "rookery.tasks.basic:Basic",
    "BallPlate": "rookery.tasks.ball_plate:BallPlate",
    "GoalGrid": "rookery.tasks.goal_grid:GoalGrid",
    "PushBlock": "rookery.tasks.push_block:PushBlock",
    "FoodCollector": "rookery.tasks.food_collector:FoodCollector",
    "Match3": "rookery.tasks.match3:Match3",
    "OneDimension": "rookery.tasks.one_dimension:OneDimension",
    **TENSORS,
}
"""Import paths of the environments that come with Rookery, by short name."""

PROVIDERS = {
    "ALE/": ("ale_py", "ale-py"),
    "MiniGrid-": ("minigrid", "minigrid"),
    "BabyAI-": ("minigrid", "minigrid"),
    "MinAtar/": ("rookery.envs.minatar", "minatar"),
}
"""Module that registers the ids with a prefix, and the package that has it."""


ENVIRONMENT = CodeKind(
    "an environment (a class with reset and step, or a function that makes one)",
    lambda found: callable(getattr(found, "reset", None)) and callable(getattr(found, "step", None)),
    functions=True,
    makers=("parallel_env", "env", "raw_env"),
)
WRAPPER = CodeKind(
    "a wrapper (a class with reset or step, or a function that wraps)",
    lambda found: any(hasattr(found, name) for name in ("reset", "step", "__getattr__")),
    functions=True,
)


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
    """Makes many copies of an environment.

    Args:
        env: Name or maker of the environment: a Gymnasium id; a class or callable that makes a Gymnasium, PettingZoo or
            dict-style multi-agent environment; a PettingZoo module; a `VectorEnv` class; a class of Gymnasium's
            `VectorEnv`s or of `TensorEnv`s, or a callable with an argument `num_envs` that makes one; the import path
            of one of these, ``my.module:MyEnv``; a file in C, ``my_env.c``, or what was compiled from one; a task of
            EnvPool, ``envpool:Pong-v5``; a Unity player, by its path or as ``unity:PATH``, and the Unity Editor,
            ``unity:editor``; or ``external:9900``, clients at a port. An environment of ML-Agents' low-level API
            (`BaseEnv`) will do, too, or a class or callable that makes them.
        config: Keyword arguments of the environment's constructor (of `gymnasium.make` for an id).
        wrappers: Callables or their import paths, applied in order to each copy.
        num_lanes: Number of copies.
        implementation: Name of the back end: ``"serial"`` steps copies in a loop, ``"c"`` demands the environment's
            twin in C, ``"batched"`` that in Python, or the vector entry point it names, ``"auto"`` takes the first of
            these twins that there is, with the same numbers. ``"processes"`` and ``"threads"`` say what helpers are.
        helpers: Number of helpers that step shares of the copies beside the caller; None or 0 = no helpers.
        tolerance: Failures of copies (errors, hangs, deaths) that are tolerated.
        render: Whether `VectorEnv.render` is to give pictures, where the environment can.
        max_entities: Largest number of elements of a ``Sequence`` in an observation; None: an `EntitySet` says its own.
        parameters: Names of the parameters that episodes will be given: a twin that lacks one cannot be used. Whether
            the environment has them is for the caller to see in `parameters` of what is made.
        device: Where the tensors of a `TensorEnv` are to be, if `config` does not say it; None = where it likes.
        try_helpers: Whether each helper plays a throwaway copy for a few steps before it builds its copies.

    Raises:
        EnvError: If there is no such environment, it cannot be built, or its spaces cannot be used.
    """
    if implementation not in IMPLEMENTATIONS:
        hint = nearest(implementation, IMPLEMENTATIONS)
        raise EnvError(f"env implementation {implementation!r} is unknown{hint}; use {', '.join(IMPLEMENTATIONS)}")
    settings, name, found = asked_again(config or {}), env_name(env), found_maker(env)
    if _plays_many(found):
        if wrappers:
            raise EnvError(f"{name} plays many copies at once and cannot be wrapped; leave env.wrappers empty")
        if implementation in HELPED:
            why = f"env.implementation={implementation} has none to deal; leave it out"
            raise EnvError(f"{name} plays many copies at once: {why}")
        played = found if implementation == "batched" else instead_in_c(found) or found
        return _build_vector(played, num_lanes, _placed(played, settings, device), name, render, max_entities)
    if implementation in ("auto", "c", "batched"):
        twins = _twins(found, implementation, render)
        twin, reason = _usable(twins, implementation, wrappers, num_lanes, settings, parameters)
        if not reason:
            return _build_vector(twin, num_lanes, settings, name, render, max_entities)
        if implementation != "auto":
            what = f"env implementation {implementation!r} cannot be used"
            raise EnvError(f"{name}: {what}: {reason}; use 'serial' or 'auto'")
    factory = lane_maker(env, config, wrappers, render=render, max_entities=max_entities, parameters=parameters)
    num_helpers = 0 if implementation == "serial" else min(helpers or 0, num_lanes - 1)
    try:
        return _stepped(factory, num_lanes, name, implementation, num_helpers, tolerance, try_helpers)
    except MadeBaseEnv as made:
        return _build_base_env(found, settings, num_lanes, name, made.env)


def _stepped(
    factory: Callable[[], Any],
    num_lanes: int,
    name: str,
    implementation: str,
    num_helpers: int,
    tolerance: Tolerance,
    try_helpers: bool,
) -> VectorEnv:
    """Returns copies that are stepped one by one, in this process alone or with helpers."""
    if num_helpers < 1:
        return SerialEnv(factory, num_lanes, name, tolerance)
    helped = threads_env if implementation == "threads" else processes_env
    trial = functools.partial(played_copy, factory, name) if try_helpers else None
    return helped(factory, num_lanes, name, tolerance, num_helpers, trial)


def has_single_copies(
    env: Any,
    config: Mapping[str, Any] | None,
    wrappers: Sequence[Any],
    num_lanes: int,
    implementation: str,
    parameters: Collection[str] | None = None,
) -> bool:
    """Says whether `make_env` would make copies that are stepped one by one, so that helpers could share them.

    Raises:
        EnvError: If there is no such environment.
    """
    found = found_maker(env)
    if _plays_many(found) or implementation in ("c", "batched"):
        return False
    twins, settings = _twins(found, "auto"), dict(config or {})
    return implementation != "auto" or bool(_usable(twins, "auto", wrappers, num_lanes, settings, parameters)[1])


def twin_without(
    env: Any,
    config: Mapping[str, Any] | None,
    wrappers: Sequence[Any],
    num_lanes: int,
    parameters: Collection[str] | None,
) -> str:
    """Says that no twin is used because of parameters alone; an empty text if that is not so.

    Raises:
        EnvError: If there is no such environment.
    """
    found, settings = found_maker(env), dict(config or {})
    twins = [] if _plays_many(found) else _twins(found, "auto")
    if _usable(twins, "auto", wrappers, num_lanes, settings, None)[1]:
        return ""
    why = _usable(twins, "auto", wrappers, num_lanes, settings, parameters)[1]
    return f"{env_name(env)}: {why}, so copies are stepped one by one" if why else ""


def lane_maker(
    env: Any,
    config: Mapping[str, Any] | None,
    wrappers: Sequence[Any],
    *,
    render: bool = False,
    max_entities: int | None = None,
    parameters: Collection[str] | None = None,
) -> Callable[[], Any]:
    """Returns a function that makes one copy, wrapped, in the adapter for its style: a `GymLane` or another `Lane`.

    The arguments are those of `make_env`, but no class of many copies.

    Raises:
        EnvError: If there is no such environment or wrapper; from the calls, if it cannot be built.
    """
    settings, name, found = dict(config or {}), env_name(env), found_maker(env)
    if _plays_many(found):
        raise EnvError(f"{name} plays many copies at once: there is no single one")
    if isinstance(found, gymnasium.envs.registration.EnvSpec):
        found = portable(found)
    wraps = [(str(getattr(wrapper, "__name__", wrapper)), _find_wrapper(wrapper)) for wrapper in wrappers]
    folder = starting_folder()  # copies may be made anew at any time, and elsewhere on this machine

    def make(given: Mapping[str, Any] | None = None) -> Any:
        with started_in(folder):
            return _build(found, {**settings, **(given or {})}, wraps, name, render)

    def lane() -> Any:
        built = make()
        if is_base_env(built):
            raise MadeBaseEnv(name, built)
        adapted = _lane(built, name, max_entities)
        if parameters:
            adapted.hook = hook_of(adapted.env, found, settings, make)
        return adapted

    return WithSpecs(lane, env, settings, wrappers)


def is_vector(env: Any) -> bool:
    """Says whether `env` names or is something that makes objects that play many copies.

    Raises:
        EnvError: If there is no such environment.
    """
    return _plays_many(found_maker(env))


def env_name(env: Any) -> str:
    """Returns the name of an environment in messages and run ids: its id, or that of its class, function or module."""
    if isinstance(env, functools.partial):
        return env_name(env.func)
    if isinstance(env, ModuleType):
        return env.__name__.rpartition(".")[2]
    if isinstance(env, str) and env.startswith(SCHEME):
        return SCHEME.removesuffix(":")
    if isinstance(env, str):
        if names_c(env):
            return c_name(env)
        if is_player(env):
            return short_name(env)
        module, _, attribute = env.rpartition(":")
        if not module:
            return env.rpartition(".")[2] if re.fullmatch(MODULE_NAME, env) else env
        return module.rpartition(".")[2] if attribute in ("env", "parallel_env", "raw_env") else attribute
    name = str(getattr(env, "__name__", type(env).__name__))
    if name in ("env", "parallel_env", "raw_env"):
        return str(env.__module__).rpartition(".")[2]
    return "env" if name == "<lambda>" else name


def is_player(name: str) -> bool:
    """Says whether a name is that of a Unity player, or of the Editor; names of environments in Python come first."""
    return name not in OURS and name not in gymnasium.registry and not names_c(name) and names_player(name)


def code_of(name: str) -> str:
    """Returns the code that an environment's name stands for, ``module:Name``, a module or a program; empty for the
    name of one of Rookery's, for registered ids, for the Unity Editor, and for tasks of packages that Rookery itself
    imports.
    """
    if names_c(name):
        return os.path.abspath(name)
    if is_player(name):
        return file_of(name) or ""
    module, colon, attribute = name.partition(":")
    if name in OURS or name in gymnasium.registry or (colon and module == "envpool") or name.startswith(SCHEME):
        return ""
    if not colon:
        return name if re.fullmatch(MODULE_NAME, name) else ""
    if not is_ours(name):
        return name
    try:
        imported = importlib.import_module(module)  # which may register ids
    except ImportError:
        return name
    return "" if attribute in gymnasium.registry and not hasattr(imported, attribute) else name


def random_play(env: VectorEnv, seeds: SeedPlan, rng: np.random.Generator) -> Iterator[Step]:
    """Yields what an environment shows, step by step and without end, while random actions are played.

    Args:
        env: Throwaway environment.
        seeds: Seeds of its episodes.
        rng: Generator of the actions, which are drawn evenly among those allowed, or from the box.
    """
    shown = env.reset(seeds)
    while True:
        yield shown
        shown = env.step(random_answers(env, shown, rng))


def played_copy(factory: Callable[[], Any], name: str) -> SerialEnv:
    """Returns a throwaway copy after a few random steps.

    Args:
        factory: Builds one copy.
        name: What runs, in words a user knows.

    Raises:
        EnvError: If it cannot be built or played.
    """
    env = SerialEnv(factory, 1, name)
    try:
        for _ in islice(random_play(env, lambda lane, episode: episode, np.random.default_rng(0)), 1 + FEW_STEPS):
            pass
    except BaseException:
        env.close()
        raise
    return env


def random_rows(env: VectorEnv, seeds: SeedPlan, steps: int, rng: np.random.Generator) -> list[Tree]:
    """Returns the observations that are met while random actions are played, and closes the environment.

    Args:
        env: Throwaway environment.
        seeds: Seeds of its episodes.
        steps: Number of vector steps to play.
        rng: Generator of the actions, which are drawn evenly among those allowed, or from the box.

    Returns:
        For each kind of `env`, the observations of all rows that waited for an action, ``[N, ...]`` each.
    """
    seen: list[list[Tree]] = []
    play = random_play(env, seeds, rng)
    for shown in islice(play, steps):
        seen += [[] for _ in env.kinds[len(seen) :]]
        for rows, trees in zip(shown.rows, seen, strict=True):
            trees.append({path: array[rows.waiting] for path, array in rows.obs.items()})
    next(play)  # kinds that appear in what the last actions lead to are there, too
    seen += [[] for _ in env.kinds[len(seen) :]]
    close_env(env, env.name)
    whole = zip((kind.obs.allocate(0) for kind in env.kinds), seen, strict=True)
    return [{path: np.concatenate([tree[path] for tree in (none, *trees)]) for path in none} for none, trees in whole]


def random_answers(env: VectorEnv, shown: Step, rng: np.random.Generator) -> list[np.ndarray]:
    """Draws an allowed action for every row that waits, as `VectorEnv.step` takes them."""
    answers = []
    for kind, rows in zip(env.kinds, shown.rows, strict=True):
        mask = rows.obs[MASK][rows.waiting] if kind.obs.has_mask else None
        answers.append(kind.action.to_env(random_actions(kind.action, int(rows.waiting.sum()), mask, rng)))
    return answers


def random_actions(spec: ActionSpec, num: int, mask: np.ndarray | None, rng: np.random.Generator) -> np.ndarray:
    """Draws stored actions ``[num, *spec.shape]`` evenly: choices among those allowed, flags like coins.

    Bounded elements of a box are uniform in [-1, 1], others standard normal.

    Args:
        spec: Layout of the actions.
        num: Number of actions.
        mask: Whether each choice is allowed, ``[num, flags]`` bool, or None.
        rng: Generator of the actions.
    """
    if spec.kind == "composite":
        drawn = np.zeros((num, *spec.shape), spec.dtype)
        used = 0
        for part, mine in spec.parts:
            flags = sum(part.sizes)
            allowed = None if mask is None else mask[:, used : used + flags]
            drawn[:, mine] = random_actions(part, num, allowed, rng).reshape(num, -1)
            used += flags
        return drawn
    if isinstance(spec.space, spaces.Box):
        bounded = np.isfinite(spec.space.low).ravel() & np.isfinite(spec.space.high).ravel()
        size = (num, *spec.shape)
        return np.where(bounded, rng.uniform(-1.0, 1.0, size), rng.standard_normal(size)).astype(spec.dtype)
    if spec.num_flags:
        return rng.integers(0, 2, (num, *spec.shape), spec.dtype)
    scores = rng.random((num, sum(spec.sizes)))
    if mask is not None:
        scores = np.where(mask, scores, -1.0)
    ends = np.cumsum(spec.sizes)
    parts = np.split(scores, ends[:-1], axis=1)
    return np.stack([part.argmax(axis=1) for part in parts], axis=1).reshape(num, *spec.shape)


# -- finding what was named ------------------------------------------------------------------------


def asked_again(config: Mapping[str, Any]) -> dict[str, Any]:
    """Gives arguments of an environment without secrets that a run has had and not stored.

    Raises:
        EnvError: If nobody gives such a secret again.
    """
    lost = [key for key, value in config.items() if isinstance(value, str) and value == NOT_STORED]
    for key in lost:
        if key == "token" and (os.environ.get("ROOKERY_TOKEN") or config.get("token_file")):
            continue
        other = ", or set ROOKERY_TOKEN, or env.config.token_file=FILE" if key == "token" else ""
        raise EnvError(f"env.config.{key} is a secret, which a run does not store: env.config.{key}=... says it{other}")
    return {key: value for key, value in config.items() if key not in lost}


def run_arguments(env: Any) -> Collection[str]:
    """Returns the names of those arguments of an environment that say how its copies are run, and not what they are:
    what its class lists under ``run_arguments``. They may be others when a training goes on.
    """
    found = found_maker(env) if env is not None else None
    return getattr(getattr(found, "func", found), "run_arguments", ())  # func: of a class with some arguments given


def found_maker(env: Any) -> Any:
    """Returns the maker of an environment: a class, a callable, or a Gymnasium spec for an id.

    Raises:
        EnvError: If there is no such environment.
    """
    if isinstance(env, str):
        return _find_name(env)
    if isinstance(env, ModuleType):
        for maker in ("parallel_env", "env"):
            if callable(getattr(env, maker, None)):
                return getattr(env, maker)
        raise EnvError(f"module {env.__name__} has neither parallel_env nor env; pass a class or a function of it")
    if not callable(env) and not is_base_env(env):
        what = f"an instance of {type(env).__name__}, expected something that makes one copy a call"
        raise EnvError(f"env is {what}: a class, a function, a Gymnasium id or an import path 'my.module:MyEnv'")
    return env


def time_limit_of(name: str) -> int | None:
    """Gives the time limit, in env steps, that an environment has by its Gymnasium id, once it is made; or None."""
    spec = gymnasium.registry.get(name) or gymnasium.registry.get(name.rpartition(":")[2])
    return None if spec is None else spec.max_episode_steps


def _find_name(name: str) -> Any:
    if names_c(name):
        return c_env_of(name)
    if is_player(name):
        unity = _import("rookery.envs.unity.env", f"env {name!r}")
        return _player_class(unity.UnityEnv, file_of(name))
    name = OURS.get(name, name)
    if name.startswith(SCHEME):
        return _external(name)
    module, colon, attribute = name.partition(":")
    if module == "envpool" and colon:
        _import_provider(name, "envpool", "envpool")
        return functools.partial(_import("rookery.envs.vector.envpool", f"env {name!r}").EnvPool, attribute)
    if colon:
        imported = _import(module, f"env {name!r}", nearest(name, list(OURS.values())))  # which may register ids
        if attribute in gymnasium.registry and not hasattr(imported, attribute):
            return gymnasium.spec(attribute)
        return found_maker(_attribute(module, attribute, f"env {name!r}", ENVIRONMENT))
    if name not in gymnasium.registry:
        if re.fullmatch(MODULE_NAME, name):
            above, _, last = name.rpartition(".")
            what = f"env {name!r}"
            return found_maker(_import(name, what) if _is_module(name) else _attribute(above, last, what, ENVIRONMENT))
        for prefix, (provider, package) in PROVIDERS.items():
            if name.startswith(prefix):
                _import_provider(name, provider, package)
    if name in gymnasium.registry:
        return gymnasium.spec(name)
    hint = nearest(name, [*OURS, *gymnasium.registry])
    if not hint and looks_like_path(name):
        find_player(name)  # says which file is missing, or why it may not be run
    own = "an own environment is named 'my.module:MyEnv', and an id that a program registers 'my.module:MyEnv-v0'"
    raise UnknownEnvError(f"env {name!r} is not a Gymnasium id{hint}; {own}")


def _player_class(unity_env: Any, file_name: str | None) -> Any:
    """Returns a class of vector environments that play a file's Unity player."""

    class UnityPlayer(unity_env):  # type: ignore[misc]
        """Players of one file."""

        def __init__(self, num_lanes: int, **config: Any) -> None:
            super().__init__(num_lanes, file_name, **config)

    whole = inspect.signature(unity_env)
    UnityPlayer.__signature__ = whole.replace(  # for who looks up what env.config can have
        parameters=[one for one in whole.parameters.values() if one.name != "file_name"]
    )
    return UnityPlayer


def _external(name: str) -> Any:
    """What listens for clients at the port that a name gives."""
    port = name.removeprefix(SCHEME)
    if not port.isdecimal() or int(port) > 65535:
        raise EnvError(f"env {name!r}: {port!r} is no port; write external:9900, or external:0 for any that is free")
    return functools.partial(ExternalEnv, port=int(port))


def _is_module(name: str) -> bool:
    """Says whether a dotted name is that of a module, and not of something in one."""
    try:
        return importlib.util.find_spec(name) is not None
    except Exception:  # of a package above it: importing what is in there will say what is wrong
        return False


def _import(module: str, what: str, hint: str = "") -> ModuleType:
    """Returns a module; `hint` is said where there is none of that name."""
    try:
        return importlib.import_module(module)
    except Exception as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing and f"{module}.".startswith(f"{missing}."):
            raise EnvError(f"{what}: there is no module {missing!r}{hint or '; is it on the Python path?'}") from error
        raise EnvError(f"{what}: importing {module} raised {described(error)}") from error


def _import_provider(name: str, provider: str, package: str) -> None:
    try:
        module = importlib.import_module(provider)
    except ImportError as error:
        raise EnvError(f"env {name!r} needs the package {package}: pip install {package}") from error
    gymnasium.register_envs(module)


def _find_wrapper(wrapper: Any) -> Callable[[Any], Any]:
    found = wrapper
    if isinstance(wrapper, str):
        module, colon, attribute = wrapper.partition(":")
        if not colon:
            raise EnvError(f"env.wrappers: {wrapper!r} is not an import path; write 'my.module:MyWrapper'")
        found = _attribute(module, attribute, f"env.wrappers: {wrapper!r}", WRAPPER)
    if not callable(found):
        raise EnvError(f"env.wrappers: {wrapper!r} is {type(found).__name__}, expected a callable or an import path")
    made: Callable[[Any], Any] = found
    return made


def _attribute(module: str, name: str, what: str, kind: CodeKind) -> Any:
    """Returns what stands in a module under a name, if it may be called."""
    imported = _import(module, what)
    if not hasattr(imported, name):
        known = [known for known in (*vars(imported), *getattr(imported, "__all__", ())) if not known.startswith("_")]
        hint = f"; it is called {OURS[name]!r}" if OURS.get(name, "").startswith(module) else nearest(name, known)
        raise EnvError(f"{what}: module {module} has no {name!r}{hint}")
    found = getattr(imported, name)
    if callable(found) and not kind.accepts(found):
        raise EnvError(f"{what}: {module}:{name} is {a_kind(found)}, not {kind.told}")
    return found


# -- building --------------------------------------------------------------------------------------


def _plays_many(found: Any) -> bool:
    return _is_vector_class(found) or _is_foreign(found) or makes_base_envs(found)


def _placed(found: Any, settings: Mapping[str, Any], device: str | None) -> Mapping[str, Any]:
    """Returns the settings of vector environments, with a device for those whose copies are tensors."""
    asks = device is not None and _plays_tensors(getattr(found, "func", found)) and "device" in _parameters(found)
    return {"device": device, **settings} if asks else settings


def _plays_tensors(env: Any) -> bool:
    """Says whether a class or an object is that of a `TensorEnv`, without loading torch."""
    return bool(getattr(env, "plays_tensors", False))


def _is_vector_class(found: Any) -> bool:
    """Says whether `found` is a class of `VectorEnv`s, by its constructor's `num_lanes`, or one with arguments."""
    if isinstance(found, functools.partial):
        found = found.func
    return inspect.isclass(found) and hasattr(found, "step") and "num_lanes" in _parameters(found)


def _is_foreign(found: Any) -> bool:
    """Says whether `found` makes Gymnasium's kind of vector environment, or one of tensors, by its class or a
    function's `num_envs`.
    """
    if inspect.isclass(found):
        return issubclass(found, gymnasium.vector.VectorEnv) or _plays_tensors(found)
    return callable(found) and "num_envs" in _parameters(found)


def _parameters(maker: Any) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(maker).parameters
    except (TypeError, ValueError):  # some built-in callables have none
        return {}


def _twins(found: Any, implementation: str, render: bool = False) -> list[Any]:
    """Returns what plays many copies with the same numbers, and draws them where asked to, the fastest first; a
    parent's does not count, its rules may differ. For ``batched`` a vector entry point will do, too.
    """
    is_id = isinstance(found, gymnasium.envs.registration.EnvSpec) and is_gymnasiums(found)
    batched = TWINS.get(found.id) if is_id else vars(found).get("batched") if inspect.isclass(found) else None
    batched = batched if _is_vector_class(batched) else None
    if implementation == "batched":
        return [batched or _vector_entry(found)]
    compiled = in_c(batched) or (twin_of_id(found.id) if is_id else None)
    if compiled is not None and render and not compiled.draws:
        compiled = None
    return [twin for twin in (compiled, batched if implementation == "auto" else None) if twin is not None]


def _usable(
    twins: Sequence[Any],
    implementation: str,
    wrappers: Sequence[Any],
    num_lanes: int,
    settings: Mapping[str, Any],
    parameters: Collection[str] | None,
) -> tuple[Any, str]:
    """Returns the first twin that can be used, and an empty text; or why none can."""
    reason = why_not_in_c() if implementation == "c" else ""
    reason = reason or f"this environment has no twin in C{'' if implementation == 'c' else ' and no batched one'}"
    for twin in twins:
        reason = _why_no_twin(twin, wrappers, num_lanes, settings, parameters)
        if not reason:
            return twin, ""
    return None, reason


def _vector_entry(found: Any) -> Any:
    """Returns what plays many copies if that is asked for, though perhaps with other numbers, or None."""
    if not isinstance(found, gymnasium.envs.registration.EnvSpec):
        return vars(found).get("vector_entry_point") if inspect.isclass(found) else None
    if found.vector_entry_point == "ale_py.vector_env:AtariVectorEnv":
        return functools.partial(_import("rookery.envs.atari", found.id).BatchedAtari, **found.kwargs)
    if found.vector_entry_point is None:
        return None
    return functools.partial(gymnasium.make_vec, found, vectorization_mode="vector_entry_point")


def _why_no_twin(
    twin: Any, wrappers: Sequence[Any], num_lanes: int, settings: Mapping[str, Any], parameters: Collection[str] | None
) -> str:
    """Returns why the batched twin cannot be used; an empty text if it can."""
    if twin is None:
        return "this environment has no batched twin and no vector entry point"
    if wrappers:
        return "env.wrappers wrap single copies"
    try:
        inspect.signature(twin).bind(num_lanes, **settings)
    except TypeError as error:
        return f"its batched twin does not take env.config: {error}"
    missing = [name for name in parameters or () if name not in getattr(twin, "parameters", ())]
    return f"its batched twin has no parameter {missing[0]}" if missing else ""


def _build_vector(
    found: Any, num_lanes: int, settings: Mapping[str, Any], name: str, render: bool, max_entities: int | None
) -> VectorEnv:
    if makes_base_envs(found):
        return _build_base_env(found, settings, num_lanes, name)
    try:
        if not _is_foreign(found):
            built: VectorEnv = found(num_lanes, **settings)
            return built
        asked = {"render_mode": "rgb_array"} if render and "render_mode" in _parameters(found) else {}
        made = found(num_envs=num_lanes, **asked, **settings)
        if _plays_tensors(made):
            rows: VectorEnv = _import("rookery.tensor_envs.rows", f"env {name!r}").TensorRows(made, num_lanes, name)
            return rows
        return ForeignEnv(lambda: made, num_lanes, name, max_entities)
    except EnvError:
        raise
    except Exception as error:
        raise _build_error(found, settings, name, error) from error


def _build_base_env(found: Any, settings: Mapping[str, Any], num_lanes: int, name: str, first: Any = None) -> VectorEnv:
    """Shows environments of ML-Agents' low-level API, of which one may be there already."""
    unity = _import("rookery.envs.unity.base_env", f"env {name!r}")
    built: VectorEnv = unity.base_env(found, settings, num_lanes, name, first)
    return built


def _build(found: Any, settings: dict[str, Any], wraps: Sequence[tuple[str, Any]], name: str, render: bool) -> Any:
    """Makes one copy, wrapped."""
    is_id = isinstance(found, gymnasium.envs.registration.EnvSpec)
    # Gymnasium's own checker is left out of ids: the back end checks every step itself, and names the lane.
    make = functools.partial(gymnasium.make, found, disable_env_checker=True) if is_id else found
    asked = {"render_mode": "rgb_array"} if render and _takes_render_mode(found) else {}
    try:
        built = make(**{**asked, **settings})
    except EnvError:
        raise
    except Exception as error:
        raise _build_error(found, settings, name, error) from error
    for wrapper_name, wrapper in wraps:
        try:
            built = wrapper(built)
        except Exception as error:
            raise EnvError(f"{name}: wrapper {wrapper_name} raised {described(error)}") from error
    return built


def _takes_render_mode(found: Any) -> bool:
    """Says whether the constructor can be asked for pictures."""
    if isinstance(found, gymnasium.envs.registration.EnvSpec):
        if not isinstance(found.entry_point, str):
            return found.entry_point is not None and _takes_render_mode(found.entry_point)
        try:
            return _takes_render_mode(gymnasium.envs.registration.load_env_creator(found.entry_point))
        except ImportError:
            return False  # building it will say what is missing
    parameters = _parameters(found)
    if "render_mode" in parameters:
        return True
    # PettingZoo's makers are functions that pass keywords on; a class's **kwargs may mean anything
    return not inspect.isclass(found) and any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def _build_error(found: Any, settings: Mapping[str, Any], name: str, error: Exception) -> EnvError:
    if isinstance(error, gymnasium.error.DependencyNotInstalled | ImportError):
        return EnvError(f"{name}: a package it needs is missing: {error}")
    if isinstance(error, TypeError) and (unknown := re.search(r"unexpected keyword argument '(\w+)'", str(error))):
        known = [known for known in _parameters(found) if known not in ("self", "num_lanes", "num_envs")]
        allowed = f"; it takes {', '.join(known)}" if known else ""
        return EnvError(f"{name}: env.config has {unknown[1]!r}, unknown to it{nearest(unknown[1], known)}{allowed}")
    return EnvError(f"{name}: building it with env.config {dict(settings)} raised {described(error)}")


def _lane(env: Any, name: str, max_entities: int | None) -> Any:
    """Puts `env` into the adapter for its style."""
    lane: Callable[[Any], Lane]
    if callable(getattr(env, "agent_iter", None)) and callable(getattr(env, "last", None)):
        lane = AECLane
    elif is_parallel_style(env):
        lane = ParallelLane
    elif is_dict_style(env) or _resets_to_agents(env):
        lane = DictLane
    else:
        lane = GymLane
    missing = [method for method in ("reset", "step") if not callable(getattr(env, method, None))]
    if missing or isinstance(env, gymnasium.vector.VectorEnv):
        what = f"it has no {' and no '.join(missing)}" if missing else "it plays many copies itself"
        expected = "expected one Gymnasium, PettingZoo or dict-style environment"
        raise EnvError(f"{name} makes {type(env).__name__}, {expected}; {what}")
    adapted = lane(env)
    adapted.max_entities = max_entities
    return adapted


def _resets_to_agents(env: Any) -> bool:
    """Says whether an environment without names of agents, no Gymnasium one, resets to dicts by agent."""
    if isinstance(env, gymnasium.Env) or not callable(getattr(env, "reset", None)):
        return False
    space = getattr(env, "observation_space", None)
    if not isinstance(space, spaces.Space) or isinstance(space, spaces.Dict):
        return isinstance(space, spaces.Dict) and set(space) == set(getattr(env, "action_space", None) or ())
    try:
        result = env.reset(seed=0)
    except Exception:
        return False  # the back end's own first reset says what is wrong
    return isinstance(result, tuple) and len(result) == 2 and isinstance(result[0], Mapping)
