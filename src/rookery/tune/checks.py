"""What `tune.run` refuses before it looks any further: arguments and settings of which no experiment can be made."""

from __future__ import annotations

import inspect
import math
import os
import types
from collections.abc import Mapping
from typing import Any

from rookery.core.errors import ConfigError, nearest
from rookery.core.settings import Settings, fields_of, is_undecided, object_name, show
from rookery.training.settings import SHORTHANDS, RunConfig
from rookery.tune.jobs.trainable import can_save
from rookery.tune.names import SCHEDULERS, SEARCHES, called_here
from rookery.tune.scheduler import Scheduler, SchedulerConfig
from rookery.tune.schedulers.population import PopulationConfig
from rookery.tune.search import SearchConfig
from rookery.tune.settings import SECTION, TuneConfig
from rookery.tune.space import Computed, Domain, Drawn


def check_arguments(folder: Any, preset: Any, stop: Any) -> None:
    """Refuses arguments of a wrong type.

    Raises:
        ConfigError: With a line for each.
    """
    wrong = []
    if not (folder is None or isinstance(folder, str | os.PathLike)) or folder == "":
        wrong.append(f"code: folder = {show(folder)}: must be a path, such as 'runs/lr', or None for a new one")
    if not isinstance(preset, str):
        wrong.append(f"code: preset = {show(preset)}: must be 'none', 'auto' or the name of one; it cannot be tuned")
    if not (stop is None or callable(stop) or isinstance(stop, Mapping)):
        wrong.append(
            f'code: stop = {show(stop)}: must be criteria, such as {{"iterations": 100}}, or a function of a result'
        )
    if wrong:
        raise ConfigError(*wrong)


def check_criteria_values(stop: Any) -> None:
    """Refuses criteria that can never be met.

    Raises:
        ConfigError: With a line for each.
    """
    wrong = [
        f"stop.{name} = {show(value)}: must be a finite number"
        for name, value in (stop.items() if isinstance(stop, Mapping) else ())
        if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value) or math.isinf(value)
    ]
    if wrong:
        raise ConfigError(*wrong)


def check_section(source: str, section: Mapping[str, Any]) -> None:
    """Refuses domains among the settings of an experiment, and a scheduler as a search or the other way round.

    Raises:
        ConfigError: With a line for each.
    """
    wrong = [
        f"{source}: {SECTION}.{name} = {show(value)}: steers the experiment and cannot be tried itself; give it a value"
        for name, value in section.items()
        if name not in ("search", "scheduler") and is_undecided(value)
    ]
    for name, known, others in (("search", SEARCHES, SCHEDULERS), ("scheduler", SCHEDULERS, SEARCHES)):
        given = section.get(name)
        chosen = given.get("name") if isinstance(given, Mapping) else given
        if isinstance(chosen, str) and chosen in others:
            other = "scheduler" if name == "search" else "search"
            wrong.append(
                f"{source}: {SECTION}.{name} = {chosen}: is a {other}; write {SECTION}.{other} = {chosen}; the one of "
                f"{SECTION}.{name} is one of {', '.join(known)}"
            )
    if wrong:
        raise ConfigError(*wrong)


def check_objects(objects: Mapping[str, Any]) -> None:
    """Refuses objects that are no scheduler; `make_search` looks at searches.

    Raises:
        ConfigError: If it is none.
    """
    for name, thing in objects.items():
        if isinstance(thing, type) and issubclass(thing, Settings):
            raise ConfigError(f"code: {name} = {thing.__name__}: is a class; write {thing.__name__}(...)")
        if name == "scheduler" and not isinstance(thing, Scheduler):
            raise ConfigError(
                f"code: scheduler = {show(thing)}: is none: give one of {', '.join(SCHEDULERS)}, its settings, or an "
                "object of a class that derives from rookery.tune.Scheduler"
            )


def check_settings(cfg: TuneConfig) -> None:
    """Refuses settings of an experiment that do not fit together.

    Raises:
        ConfigError: With a line for each.
    """
    metrics = (cfg.metric,) if isinstance(cfg.metric, str) else cfg.metric
    modes = 1 if isinstance(cfg.mode, str) else len(cfg.mode)
    wrong = []
    if not metrics or not all(metrics):
        wrong.append(f"tune.metric = {show(cfg.metric)}: must name a column that trials report, such as return_mean")
    elif len(set(metrics)) < len(metrics):
        wrong.append(f"tune.metric = {show(cfg.metric)}: names a column twice; leave one out")
    elif modes not in (1, len(metrics)):
        wrong.append(f"tune.mode = {show(cfg.mode)}: must be one, or one for each of the {len(metrics)} metrics")
    for name, kind, known in (("search", SearchConfig, SEARCHES), ("scheduler", SchedulerConfig, SCHEDULERS)):
        if not isinstance(getattr(cfg, name), kind):
            wrong.append(f"tune.{name} = {type(getattr(cfg, name)).__name__}: is none; there are {', '.join(known)}")
    if wrong:
        raise ConfigError(*wrong)


def check_variety(cfg: TuneConfig, space: Mapping[str, Domain]) -> None:
    """Refuses samples that would all be the same to the last bit.

    Raises:
        ConfigError: With how to try several seeds.
    """
    varies = any(isinstance(domain, Drawn | Computed) for domain in space.values()) or len(cfg.points) > 1
    if cfg.num_samples > 1 and not varies and not isinstance(cfg.scheduler, PopulationConfig):
        raise ConfigError(
            f"tune.num_samples = {cfg.num_samples}: nothing is drawn at random, so all samples would be the same to "
            f"the last bit; repeats = {cfg.num_samples} tries so many seeds"
        )


def check_columns(cfg: TuneConfig, columns: tuple[str, ...], groups: tuple[str, ...]) -> None:
    """Refuses metrics that no trial will report, where all that trials can report is known.

    Args:
        cfg: Names metrics.
        columns: Those without a group; none = nobody knows.
        groups: What names of others begin with, up to a dot or slash.

    Raises:
        ConfigError: With a line for each.
    """
    named = {f"tune.metric = {name}": name for name in ([cfg.metric] if isinstance(cfg.metric, str) else cfg.metric)}
    named[f"tune.scheduler.time = {cfg.scheduler.time}"] = cfg.scheduler.time
    wrong = [
        f"{what}: the trials report no such number{called_here(name, columns)}; there are {', '.join(columns)}, and "
        f"what begins with {', '.join(f'{group}/' for group in groups)}"
        for what, name in named.items()
        if columns and name not in columns and name.replace(".", "/").partition("/")[0] not in groups
    ]
    if wrong:
        raise ConfigError(*wrong)


def refuse_unknown(keywords: Mapping[str, Any]) -> None:
    """Refuses keywords that neither an experiment nor a trainer has.

    Raises:
        ConfigError: With a line for each; names the nearest.
    """
    of_trainers = [*SHORTHANDS, *fields_of(RunConfig), "memory"]
    known = [*fields_of(TuneConfig), *of_trainers]
    wrong = [
        f"code: {name} = {show(value)}: neither tune.run nor Trainer has such an argument{called_here(name, known)}"
        for name, value in keywords.items()
        if name not in of_trainers
    ]
    if wrong:
        raise ConfigError(*wrong)


def refuse_trainable(env: Any) -> None:
    """Refuses a class or function of a configuration in the place of an environment.

    Raises:
        ConfigError: With how to write it.
    """
    if isinstance(env, type):
        wrong = hasattr(env, "step") and not hasattr(env, "reset")
    elif isinstance(env, types.FunctionType):
        given = inspect.signature(env).parameters.values()
        wrong = [p.name for p in given if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD] == ["config"]
    else:
        wrong = False
    if wrong:
        raise ConfigError(
            f"code: env = {show(env)}: is no environment; what is to be tried instead of a training is given by name: "
            f"tune.run(trainable={env.__name__}, config={{...}}, metric=...)"
        )


def only_for_trainings(**given: Any) -> None:
    """Refuses arguments that a class or function as trial has no use for.

    Raises:
        ConfigError: With a line for each.
    """
    known = [*fields_of(TuneConfig), "config", "stop", "folder"]
    wrong = [
        f"code: {name} = {show(value)}: is for trainings, and trainable= is given{nearest(name, known)}; what a "
        "trainable needs goes into config"
        for name, value in given.items()
        if value is not None and value != ()
    ]
    if wrong:
        raise ConfigError(*wrong)


def refuse_endless(trainable: Any, stop: Any, cfg: TuneConfig, objects: Mapping[str, Any]) -> None:
    """Refuses a class of which no trial would ever end; a function returns, and trainings see to it themselves.

    Raises:
        ConfigError: If neither criteria nor a scheduler nor the clock ends trials.
    """
    ours = "scheduler" not in objects and object_name(type(cfg.scheduler)) in SCHEDULERS.values()
    if isinstance(trainable, type) and not stop and not cfg.seconds and ours and not hasattr(cfg.scheduler, "max_time"):
        raise ConfigError('stop: nothing ends a trial of this class; say when, as in stop={"iteration": 100}')


def refuse_unsaved(trainable: Any, cfg: TuneConfig) -> None:
    """Refuses populations of a class that cannot be saved: there is nothing that one trial could take over.

    Raises:
        ConfigError: If it cannot.
    """
    if isinstance(trainable, type) and isinstance(cfg.scheduler, PopulationConfig) and not can_save(trainable):
        raise ConfigError(
            f"trainable = {trainable.__name__}: cannot be saved, and trials of {type(cfg.scheduler).__name__} go on "
            "from each other's checkpoints; write save_checkpoint and load_checkpoint, or take another scheduler"
        )
