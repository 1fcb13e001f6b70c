"""Environment parameters of a run: reads their samplers from the settings, and draws values for each episode.

`env.parameters` has a value or a sampler for a parameter, `curriculum` has lessons for one. `draws_of` reads both,
`check_parameters` compares them with the declarations of the environment, `training_plan` and `evaluation_plan` return
the seed and the parameters of an episode.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rookery.core.config import Resolved
from rookery.core.errors import ConfigError, nearest, refuse
from rookery.core.seeding import Role, Streams
from rookery.core.settings.fields import Settings, show
from rookery.core.settings.layers import import_object
from rookery.core.settings.trust import CodeKind
from rookery.envs.base import SeedPlan, VectorBase, VectorEnv
from rookery.envs.make import env_name
from rookery.envs.parameters import Draws, EpisodePlan, Parameter, read_declared, unknown_parameter
from rookery.envs.placeholder_env import PlaceholderEnv
from rookery.envs.samplers import SAMPLERS, ConstantSampler, FunctionSampler, Sampler
from rookery.run.settings import RunConfig

KEY = "sampler"
"""Key that names a sampler."""

SAMPLER = CodeKind("a sampler (a function rng -> value)", lambda found: callable(found), functions=True, is_own=False)


def parameter_names(config: RunConfig) -> tuple[str, ...]:
    """Returns the names of the parameters in the settings."""
    return tuple(dict.fromkeys([*config.env.parameters, *config.curriculum]))


def draws_of(resolved: Resolved[RunConfig]) -> Draws:
    """Reads the samplers and lessons of a run.

    Raises:
        ConfigError: With a line for each invalid one.
    """
    config, problems = resolved.config, []
    samplers: dict[str, Sampler] = {}
    lessons: dict[str, Sequence[Sampler]] = {}
    for name, value in config.env.parameters.items():
        path = f"env.parameters.{name}"
        if name in config.curriculum:
            source = source_of(resolved, path)
            problems.append(f"{source}: {path} = {show(value)}: curriculum.{name} has lessons for it: leave one out")
            continue
        try:
            samplers[name] = sampler_of(value)
        except ConfigError as error:
            problems += [f"{source_of(resolved, path)}: {path} = {show(value)}: {line}" for line in error.problems]
    for name, course in config.curriculum.items():
        found = []
        for number, value in enumerate(course.values()):
            try:
                found.append(sampler_of(value))
            except ConfigError as error:
                path = f"curriculum.{name}, lesson {number + 1}"
                source = source_of(resolved, f"curriculum.{name}")
                problems += [f"{source}: {path}: {show(value)}: {line}" for line in error.problems]
        lessons[name] = tuple(found)
        if found:
            samplers[name] = found[0]
    refuse(problems)
    return Draws(samplers, lessons)


def sampler_of(value: Any) -> Sampler:
    """Returns the sampler of a value, or of a mapping whose key ``sampler`` names it.

    Raises:
        ConfigError: If there is no such sampler, or its settings are wrong; lists the allowed ones.
    """
    if not isinstance(value, Mapping):
        return ConstantSampler(value)
    if KEY not in value:
        (first, *others) = list(value) or [""]
        hint = "; search spaces of tune belong to a setting, as in env.parameters.mass.low: {uniform: [0.1, 1]}"
        known = ", ".join(SAMPLERS)
        raise ConfigError(
            f"the key sampler is missing, as in {{sampler: uniform, low: 0.5, high: 2}}; samplers are {known}"
            f"{hint if first in SAMPLERS and not others else ''}"
        )
    name = value[KEY]
    settings = {key: part for key, part in value.items() if key != KEY}
    if callable(name) or (isinstance(name, str) and ":" in name):
        function = name if callable(name) else import_object(name)
        if not SAMPLER.accepts(function):
            raise ConfigError(f"sampler {show(name)} is not {SAMPLER.label}")
        return FunctionSampler(function, settings)
    if name not in SAMPLERS:
        hint = nearest(str(name), list(SAMPLERS))
        known = ", ".join(SAMPLERS)
        raise ConfigError(f"sampler {name!r} is unknown{hint}; use {known}, or a function 'my.module:function'")
    cls: type[Settings] = SAMPLERS[name]
    try:
        made: Any = cls(**settings)
    except ConfigError as error:
        lines = [line.removeprefix("code: ").replace(f"{cls.__name__}.", "", 1) for line in error.problems]
        raise ConfigError(*(line.replace(f"{cls.__name__}: ", "", 1) for line in lines)) from None
    sampler: Sampler = made
    return sampler


def check_parameters(resolved: Resolved[RunConfig], env: VectorEnv) -> Draws:
    """Compares samplers of parameters with the parameters of an environment.

    Args:
        resolved: Settings of the run.
        env: Its vectorized environments, made with `parameter_names`.

    Returns:
        The samplers, with the bounds of the environment.

    Raises:
        ConfigError: If the environment has no such parameter, or a value is outside of its bounds.
    """
    draws = draws_of(resolved)
    if isinstance(env, PlaceholderEnv) or not draws.samplers:
        return draws
    name = env_name(resolved.config.env.name)
    declared: Mapping[str, Parameter] = {}
    if isinstance(env, VectorBase):
        declared = read_declared(env.parameters, name)
    problems = []
    for parameter, sampler in draws.samplers.items():
        section = "curriculum" if parameter in draws.lessons else "env.parameters"
        path = f"{section}.{parameter}"
        source = source_of(resolved, path)
        if parameter not in declared:
            problems.append(f"{source}: {path}: {unknown_parameter(parameter, list(declared), name)}")
            continue
        for number, one in enumerate(draws.lessons.get(parameter, (sampler,))):
            wrong = next((text for at in one.known() if (text := declared[parameter].objection(at))), "")
            if wrong:
                lesson = f", lesson {number + 1}" if section == "curriculum" else ""
                problems.append(f"{source}: {path}{lesson}: {wrong}")
    refuse(problems)
    return Draws(draws.samplers, draws.lessons, declared, getattr(declared, "drawn_by_env", ()))


def source_of(resolved: Resolved[RunConfig], path: str) -> str:
    """Returns the last source of the values in a section."""
    inside = (given for known, given in resolved.history.items() if known == path or known.startswith(f"{path}."))
    return next((given[-1][0] for given in inside), "code")


def training_plan(
    draws: Draws, streams: Streams, place: Callable[[int, int], tuple[int, int]] | None = None
) -> SeedPlan:
    """Returns the seeds and parameters of training episodes.

    Args:
        draws: Samplers of the parameters.
        streams: Streams of the run.
        place: Returns the lane and the number of an episode in the whole run; None = those in this process.
    """
    whole = streams.episodes(Role.ENV)
    seeds: SeedPlan = whole if place is None else lambda lane, episode: whole(*place(lane, episode))
    if not draws.samplers:
        return seeds

    def rng(lane: int, episode: int, name: str, seed: int | None) -> np.random.Generator:
        lane, episode = (lane, episode) if place is None else place(lane, episode)
        return (streams if seed is None else Streams(seed)).generator(Role.PARAMETERS, lane, episode, name)

    lane_in_run = int if place is None else lambda lane: place(lane, 0)[0]
    return EpisodePlan(seeds, draws, rng, dict.fromkeys(draws.lessons, 0), streams.seed, lane_in_run)


def plan_before(resolved: Resolved[RunConfig]) -> Callable[[Mapping[str, Parameter]], SeedPlan] | None:
    """Returns the maker of the `training_plan` for environments that begin when they are created; None if its values
    depend on a seed that the run has not drawn yet.

    Args:
        resolved: Settings of the run.

    Raises:
        ConfigError: As `draws_of`.
    """
    draws, seed = draws_of(resolved), resolved.config.seed
    values = [one for name, first in draws.samplers.items() for one in draws.lessons.get(name, (first,))]
    if not draws.samplers or (seed is None and not all(isinstance(one, ConstantSampler) for one in values)):
        return None

    def made(declared: Mapping[str, Parameter]) -> SeedPlan:
        drawn = replace(draws, declared=declared, drawn_by_env=getattr(declared, "drawn_by_env", ()))
        return training_plan(drawn, Streams(seed or 0))

    return made


def evaluation_plan(
    draws: Draws | None, streams: Streams, dealt: Callable[[int, int], tuple[int, int]], lanes: int, lessons: Any
) -> SeedPlan:
    """Returns the seeds and parameters of evaluation episodes, which are numbered over all lanes.

    Args:
        draws: Samplers of the parameters; None = no parameters.
        streams: Streams of the evaluation.
        dealt: Returns the lane and the number of an episode in the whole evaluation.
        lanes: Number of lanes to which episodes are assigned in turn.
        lessons: Lesson of each parameter that has lessons, from 0.
    """
    by_number = streams.episodes(Role.ENV, stride=lanes)
    if draws is None or not draws.samplers:
        return lambda lane, episode: by_number(*dealt(lane, episode))

    def rng(lane: int, episode: int, name: str, seed: int | None) -> np.random.Generator:
        lane, episode = dealt(lane, episode)
        drawn = streams if seed is None else Streams(seed)
        return drawn.generator(Role.PARAMETERS, episode * lanes + lane, name)

    return EpisodePlan(lambda lane, episode: by_number(*dealt(lane, episode)), draws, rng, lessons, streams.seed)
