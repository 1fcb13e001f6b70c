"""Parameters of environments: how an environment declares them, how an instance receives values, and the values per
episode.

An environment declares its parameters in an attribute, by name:

    parameters = {"mass": 1.0, "gravity": (9.81, 1.0, 25.0)}     # a default, or a default with its bounds

and gets values in ``reset(seed=..., options={"parameters": {"mass": 0.7}})``; what is missing there has its default. An
environment whose `reset` takes no options has a method ``set_parameters(values)`` instead, called before each `reset`
that has values. This works for Gymnasium, PettingZoo and dict-style environments. Environments that declare nothing but
are in `KNOWN` get their attributes set; for all others the numeric arguments of the constructor are parameters, and the
environment is rebuilt when a value changes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from gymnasium.envs.registration import load_env_creator

from rookery.core.errors import EnvError, nearest
from rookery.envs.base import SeedPlan
from rookery.envs.samplers import ConstantSampler, Sampler, Value, is_number
from rookery.envs.vector.closing import close_env

OPTION = "parameters"
"""Key of the options of `reset`, and name of the attribute in which an environment declares its parameters."""


@dataclass(frozen=True)
class Parameter:
    """A parameter as its environment declares it.

    Attributes:
        default: Value if none is given.
        low: Smallest value, or None.
        high: Largest value, or None.
    """

    default: Any
    low: float | None = None
    high: float | None = None

    def objection(self, value: Any) -> str:
        """Returns the objection to a value, or an empty string."""
        if not is_number(value) or (self.low is None and self.high is None):
            return ""
        too_low = self.low is not None and value < self.low
        too_high = self.high is not None and value > self.high
        return f"{value:g} is not {self.range()}" if too_low or too_high else ""

    def range(self) -> str:
        """Describes the allowed range."""
        if self.low is None:
            return f"at most {self.high:g}"
        return f"at least {self.low:g}" if self.high is None else f"from {self.low:g} to {self.high:g}"

    def clipped(self, value: float) -> float:
        """Returns the allowed value that is nearest to a number."""
        value = value if self.low is None else max(value, self.low)
        return value if self.high is None else min(value, self.high)


def _pole_masses(env: Any) -> None:
    """Updates the values that Gymnasium's cart-pole derives from masses and length in its constructor."""
    env.total_mass = env.masspole + env.masscart
    env.polemass_length = env.masspole * env.length


KNOWN: dict[str, dict[str, str]] = {
    "PendulumEnv": {"gravity": "g", "mass": "m", "length": "l"},
    "CartPoleEnv": {name: name for name in ("gravity", "masscart", "masspole", "length", "force_mag")},
    "MountainCarEnv": {"force": "force", "gravity": "gravity"},
    "Continuous_MountainCarEnv": {"power": "power"},
    "AcrobotEnv": {
        name.lower(): name for name in ("LINK_LENGTH_1", "LINK_LENGTH_2", "LINK_MASS_1", "LINK_MASS_2", "LINK_MOI")
    },
}
"""Gymnasium's environments that read attributes in every step: the attribute of each parameter, by class."""

DERIVED: dict[str, Callable[[Any], None]] = {"CartPoleEnv": _pole_masses}
"""Functions to call after attributes of these classes were set."""


@dataclass
class ParameterHook:
    """Sets the parameters of one environment.

    Attributes:
        declared: The parameters that the environment has, by name.
        build: Builds the environment with other arguments of its constructor; None if it cannot be rebuilt.
        attributes: Attribute of the unwrapped environment for each parameter of `KNOWN`.
        arguments: Names of the parameters that are arguments of the constructor.
        setter: Whether the environment has `set_parameters`, because its `reset` takes no options.
        built: Arguments that the environment was last built with.
    """

    declared: Mapping[str, Parameter] = field(default_factory=dict)
    build: Callable[[Mapping[str, Any]], Any] | None = None
    attributes: dict[str, str] = field(default_factory=dict)
    arguments: frozenset[str] = frozenset()
    setter: bool = False
    built: dict[str, Any] = field(default_factory=dict)

    def give(self, env: Any, values: Mapping[str, Value]) -> tuple[Any, dict[str, Any]]:
        """Prepares an environment for an episode with given parameters.

        Args:
            env: The environment.
            values: Values by name.

        Returns:
            The environment, or another one that replaces it; and the arguments of its `reset` besides the seed.
        """
        arguments = {name: value for name, value in values.items() if name in self.arguments}
        if self.build is not None and any(self.built[name] != value for name, value in arguments.items()):
            close_env(env, type(env).__name__)
            env = self.build({**self.built, **arguments})
            self.built |= arguments
        inner = getattr(env, "unwrapped", env)
        attributes = {name: value for name, value in values.items() if name in self.attributes}
        for name, value in attributes.items():
            setattr(inner, self.attributes[name], value)
        if attributes and (derive := DERIVED.get(type(inner).__name__)):
            derive(inner)
        rest = {name: value for name, value in values.items() if name not in arguments | attributes}
        if not rest:
            return env, {}
        if self.setter:
            declaring(env).set_parameters(rest)
            return env, {}
        return env, {"options": {OPTION: rest}}


def hook_of(
    env: Any, maker: Any, settings: Mapping[str, Any], build: Callable[[Mapping[str, Any]], Any] | None
) -> ParameterHook:
    """Returns the hook that gives parameters to an environment.

    Args:
        env: The environment, wrapped.
        maker: Its maker: a class, a function, or a Gymnasium spec.
        settings: Arguments that it was made with.
        build: Builds another one, wrapped too, with arguments that override `settings`.

    Raises:
        EnvError: If the environment declares parameters and has no way to receive them, or declares them in another
            form.
    """
    owner = declaring(env)
    if owner is not None:
        declared = read_declared(getattr(owner, OPTION), type(owner).__name__)
        setter = not _takes_options(owner)
        if setter and not callable(getattr(owner, "set_parameters", None)):
            raise EnvError(
                f"{type(owner).__name__}: it declares parameters, but its reset() takes no options and it has no "
                "set_parameters(values); write reset(self, *, seed=None, options=None)"
            )
        return ParameterHook(declared, setter=setter)
    inner = getattr(env, "unwrapped", env)
    known = {}
    if type(inner).__module__.startswith("gymnasium."):
        known = {name: at for name, at in KNOWN.get(type(inner).__name__, {}).items() if hasattr(inner, at)}
    declared = {name: Parameter(getattr(inner, attribute)) for name, attribute in known.items()}
    arguments = {} if build is None else _numbers_of(maker, settings)
    arguments = {name: value for name, value in arguments.items() if name not in (*known, *known.values())}
    declared |= {name: Parameter(value) for name, value in arguments.items()}
    return ParameterHook(declared, build, known, frozenset(arguments), built=dict(arguments))


def declaring(env: Any) -> Any:
    """Returns the wrapper or environment, from the outside in, that declares parameters; None if none does."""
    while env is not None:
        found = inspect.getattr_static(env, OPTION, None)
        if isinstance(found, Mapping | property) and isinstance(getattr(env, OPTION), Mapping):
            return env
        env = getattr(env, "env", None)
    return None


class OpenParameters(Mapping[str, Parameter]):
    """Parameters of an environment that does not declare them: every name exists, and none is listed.

    each: Declaration of every one of them.
        drawn_by_env: Sampler classes that the environment draws from by itself.
        drawn_by_env: Samplers that the environment draws from by itself.
    """

    def __init__(self, each: Parameter, drawn_by_env: tuple[type[Sampler], ...] = ()) -> None:
        self._each, self.drawn_by_env = each, drawn_by_env

    def __getitem__(self, name: str) -> Parameter:
        """Returns the parameter of a name."""
        return self._each

    def __contains__(self, name: object) -> bool:
        """Returns whether a key is a text: every name is a parameter."""
        return isinstance(name, str)

    def __iter__(self) -> Iterator[str]:
        """Yields nothing: parameters are not listed."""
        return iter(())

    def __len__(self) -> int:
        """Returns 0: parameters are not listed."""
        return 0


def read_declared(declared: Mapping[str, Any], name: str) -> Mapping[str, Parameter]:
    """Reads the declared parameters of an environment: for each name a default, ``(default, low, high)`` or a
    `Parameter`.

    Raises:
        EnvError: If it is of another form, or a default is outside its bounds; the message names it.
    """
    if isinstance(declared, OpenParameters):
        return declared
    found = {}
    for key, value in declared.items():
        one = value
        if not isinstance(value, Parameter):
            one = Parameter(*value) if isinstance(value, tuple | list) and len(value) == 3 else Parameter(value)
        is_bounded = all(bound is None or is_number(bound) for bound in (one.low, one.high))
        if not isinstance(key, str) or isinstance(one.default, tuple | list | Mapping) or not is_bounded:
            form = "a name with a default, or with (default, low, high)"
            raise EnvError(f"{name}: parameters has {key!r}: {value!r}, expected {form}")
        if wrong := one.objection(one.default):
            raise EnvError(f"{name}: parameters: the default of {key!r}, {wrong}")
        found[key] = one
    return found


def _takes_options(env: Any) -> bool:
    parameters = inspect.signature(env.reset).parameters
    return "options" in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def _numbers_of(maker: Any, settings: Mapping[str, Any]) -> dict[str, float]:
    """Returns the numeric arguments of a constructor, with their values."""
    entry, given = maker, dict(settings)
    if hasattr(maker, "entry_point"):  # a Gymnasium spec
        given = {**maker.kwargs, **given}
        entry = maker.entry_point
        if isinstance(entry, str):
            try:
                entry = load_env_creator(entry)
            except Exception:  # the build has reported the missing part
                return {}
    try:
        signature = inspect.signature(entry).parameters
    except (TypeError, ValueError):
        return {}
    values = {name: given.get(name, parameter.default) for name, parameter in signature.items()}
    return {name: value for name, value in values.items() if is_number(value)}


# -- parameters of an episode ----------------------------------------------------------------------


@dataclass(frozen=True)
class Draws:
    """The distributions of all parameters that a run draws.

    Attributes:
        samplers: By name.
        lessons: For each parameter with lessons (also in `samplers`), a sampler for each lesson.
        declared: Parameters that the environment declares.
        drawn_by_env: Samplers that the environment draws from by itself, as games do; they give no values per episode.
    """

    samplers: Mapping[str, Sampler]
    lessons: Mapping[str, Sequence[Sampler]] = field(default_factory=dict)
    declared: Mapping[str, Parameter] = field(default_factory=dict)
    drawn_by_env: tuple[type[Sampler], ...] = ()

    def of(self, lessons: Mapping[str, int]) -> dict[str, Sampler]:
        """Returns the sampler of each parameter in some lessons, by their numbers from 0."""
        return {
            name: self.lessons[name][lessons[name]] if name in lessons else sampler
            for name, sampler in self.samplers.items()
        }

    def values(
        self, lessons: Mapping[str, int], rng: Callable[[str, int | None], np.random.Generator]
    ) -> dict[str, Value]:
        """Draws the parameters of an episode.

        Args:
            lessons: Number of the lesson of each parameter that has lessons, from 0.
            rng: Returns the generator of a parameter, so that parameters are independent; the second argument is the
                seed of its sampler.

        Raises:
            EnvError: If a user's function returns a value that the environment does not allow.
        """
        drawn = {}
        for name, sampler in self.of(lessons).items():
            if isinstance(sampler, self.drawn_by_env):
                continue
            value = sampler.value if isinstance(sampler, ConstantSampler) else sampler.draw(rng(name, sampler.seed))
            declared = self.declared.get(name)
            if declared is not None and (wrong := declared.objection(value)):
                if not sampler.clips:
                    raise EnvError(f"env.parameters.{name}: {type(sampler).__name__} gave a value: {wrong}")
                value = declared.clipped(value)
            drawn[name] = value
        return drawn

    def seed_of(self, name: str, lesson: int, seed: int, lane: int) -> int:
        """Returns the seed of a sampler from which the environment of a lane draws by itself.

        It is the sampler's own one plus the lane. Samplers without one count from the run's seed, in the order of the
        parameters and their lessons, and each lane continues the count.

        Args:
            name: The parameter.
            lesson: Number of its lesson, 0 if it has none.
            seed: Seed of the run.
            lane: Number of the lane in the run.
        """
        courses = {each: self.lessons.get(each, (one,)) for each, one in self.samplers.items()}
        if (own := courses[name][lesson].seed) is not None:
            return own + lane
        counted = [(each, k) for each, course in courses.items() for k, one in enumerate(course) if one.seed is None]
        return seed + counted.index((name, lesson)) + lane * len(counted)

    def last(self) -> dict[str, int]:
        """Returns the number of the last lesson of each parameter that has lessons."""
        return {name: len(samplers) - 1 for name, samplers in self.lessons.items()}


class EpisodePlan:
    """Seed and parameters of every episode, as functions of its lane and its number in that lane.

    Calling a plan returns the seed, so that it is a `SeedPlan`. Lessons change between two steps: running episodes keep
    the lessons that they began with, so a plan stores from which episode of each lane a lesson holds.

    Args:
        seeds: Seed of each episode.
        draws: The distributions of the parameters.
        rng: Returns the generator of a parameter in an episode: ``rng(lane, episode, name, seed)``, with the seed of
            its sampler.
        lessons: Lessons that the first episodes have.
        run_seed: Seed of the run, for samplers that an environment draws from by itself.
        lane_in_run: Returns the number of a lane in the whole run.
    """

    def __init__(
        self,
        seeds: SeedPlan,
        draws: Draws,
        rng: Callable[[int, int, str, int | None], np.random.Generator],
        lessons: Mapping[str, int],
        run_seed: int = 0,
        lane_in_run: Callable[[int], int] = int,
    ) -> None:
        self._seeds, self._draws, self._rng = seeds, draws, rng
        self._run_seed, self._lane_in_run = run_seed, lane_in_run
        self._changes: list[tuple[list[int], dict[str, int]]] = [([], dict(lessons))]

    def __call__(self, lane: int, episode: int) -> int:
        """Returns the seed of an episode."""
        return self._seeds(lane, episode)

    def lessons(self, lane: int, episode: int) -> dict[str, int]:
        """Returns the lessons of an episode: for each parameter that has some, a number from 0."""
        for first, lessons in reversed(self._changes):
            if not first or episode >= first[lane]:
                return lessons
        return self._changes[0][1]

    def parameters(self, lane: int, episode: int) -> dict[str, Value]:
        """Returns the parameters of an episode."""
        return self._draws.values(self.lessons(lane, episode), lambda name, seed: self._rng(lane, episode, name, seed))

    def samplers(self, lane: int, episode: int) -> dict[str, Sampler]:
        """Returns the samplers that an environment draws from by itself in an episode, by parameter."""
        found = self._draws.of(self.lessons(lane, episode))
        return {name: sampler for name, sampler in found.items() if isinstance(sampler, self._draws.drawn_by_env)}

    def sampler_seed(self, lane: int, episode: int, name: str) -> int:
        """Returns the seed of one of `samplers`; see `Draws.seed_of`."""
        lesson = self.lessons(lane, episode).get(name, 0)
        return self._draws.seed_of(name, lesson, self._run_seed, self._lane_in_run(lane))

    def change(self, lessons: Mapping[str, int], episode: np.ndarray | None) -> None:
        """Sets other lessons for all later episodes.

        Args:
            lessons: Number of the lesson of each parameter.
            episode: ``[lanes]`` episode that each lane is in; None if none has begun.
        """
        if episode is None:
            self._changes = [([], dict(lessons))]
            return
        running = episode.tolist()
        needed = 0  # running episodes keep their lessons
        for number, (first, _) in enumerate(self._changes):
            if not first or all(begins <= now for begins, now in zip(first, running, strict=True)):
                needed = number
        self._changes = [*self._changes[needed:], ([now + 1 for now in running], dict(lessons))]

    def state_dict(self) -> dict[str, Any]:
        """Returns the lessons with the episodes from which they hold."""
        return {"changes": [{"first": list(first), "lessons": dict(lessons)} for first, lessons in self._changes]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Loads a state from `state_dict`."""
        self._changes = [(list(one["first"]), dict(one["lessons"])) for one in state["changes"]]


def parameters_of(plan: SeedPlan | None, lane: int, episode: int) -> dict[str, Value]:
    """Returns the parameters that a plan has for an episode; none for a plan that has only seeds."""
    return plan.parameters(lane, episode) if isinstance(plan, EpisodePlan | NotifyingPlan) else {}


def lessons_of(plan: SeedPlan | None, lane: int, episode: int) -> dict[str, int]:
    """Returns the lessons that a plan has for an episode; none for a plan without lessons."""
    return dict(plan.lessons(lane, episode)) if isinstance(plan, EpisodePlan) else {}


_FIRST: ContextVar[Callable[[Mapping[str, Parameter]], SeedPlan] | None] = ContextVar("first_plan", default=None)


@contextmanager
def first_plan_by(made: Callable[[Mapping[str, Parameter]], SeedPlan] | None) -> Iterator[None]:
    """Gives its parameters to an environment whose first episode begins when it is created.

    Args:
        made: Returns the plan of the run from the parameters that an environment declares; None = there is none yet.
    """
    token = _FIRST.set(made)
    try:
        yield
    finally:
        _FIRST.reset(token)


def first_plan(declared: Mapping[str, Parameter]) -> SeedPlan | None:
    """Returns the plan of the run that creates an environment, or None outside a run."""
    made = _FIRST.get()
    return None if made is None else made(declared)


class NotifyingPlan:
    """A plan that calls a function whenever a seed is requested.

    Args:
        plan: The plan.
        note: The function.
    """

    def __init__(self, plan: SeedPlan, note: Callable[[], None]) -> None:
        self._plan, self._note = plan, note

    def __call__(self, lane: int, episode: int) -> int:
        """Returns the seed of an episode."""
        self._note()
        return self._plan(lane, episode)

    def parameters(self, lane: int, episode: int) -> dict[str, Value]:
        """Returns the parameters of an episode."""
        return parameters_of(self._plan, lane, episode)


def unknown_parameter(name: str, has: Sequence[str], env: str) -> str:
    """Returns the message that an environment has no such parameter, with its parameters and the nearest name."""
    if not has:
        return (
            f"{env} has no parameters: it declares none, and its constructor takes no numbers; see "
            "docs/how-to/randomize.md"
        )
    return f"{env} has no such parameter{nearest(name, list(has))}; it has {', '.join(has)}"
