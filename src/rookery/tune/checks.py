"""Checks of the arguments of `tune.run`."""

from __future__ import annotations

import inspect
import os
import types
from collections.abc import Mapping, Sequence
from typing import Any

from rookery.core.errors import ConfigError, refuse
from rookery.core.settings.fields import Settings, object_name, show
from rookery.tune.jobs.rows import BEGINNINGS, is_grouped, not_reported
from rookery.tune.jobs.trainable import can_save
from rookery.tune.names import SCHEDULERS, hint_for
from rookery.tune.scheduler import Scheduler
from rookery.tune.schedulers.population import PopulationConfig
from rookery.tune.settings import TuneConfig
from rookery.tune.space import Computed, Domain, Drawn


def check_arguments(folder: Any, env: Any, preset: Any, stop: Any, objects: Mapping[str, Any]) -> None:
    """Refuses arguments of a wrong type; `Suggestions` checks searches given as objects."""
    wrong = []
    if not (folder is None or isinstance(folder, str | os.PathLike)) or folder == "":
        wrong.append(f"code: folder = {show(folder)}: must be a path, such as 'runs/lr', or None for a new one")
    given = inspect.signature(env).parameters.values() if isinstance(env, types.FunctionType) else ()
    needed = [each.name for each in given if each.default is each.empty and each.kind is each.POSITIONAL_OR_KEYWORD]
    if needed == ["config"] or (isinstance(env, type) and hasattr(env, "step") and not hasattr(env, "reset")):
        wrong.append(
            f"code: env = {show(env)}: this is not an environment; pass a class or function to tune as a keyword: "
            f"tune.run(trainable={env.__name__}, config={{...}}, metric=...)"
        )
    if not isinstance(preset, str):
        wrong.append(f"code: preset = {show(preset)}: must be 'none', 'auto' or the name of a preset; it cannot be "
                     "tuned")  # fmt: skip
    if not (stop is None or callable(stop) or isinstance(stop, Mapping)):
        wrong.append(
            f'code: stop = {show(stop)}: must be criteria, such as {{"iterations": 100}}, or a function of a result'
        )
    for name, thing in objects.items():
        if isinstance(thing, type) and issubclass(thing, Settings):
            wrong.append(f"code: {name} = {thing.__name__}: this is a class; write {thing.__name__}(...)")
        elif name == "scheduler" and not isinstance(thing, Scheduler):
            wrong.append(
                f"code: scheduler = {show(thing)}: this is not a scheduler: give one of {', '.join(SCHEDULERS)}, its "
                "settings, or an object of a class that derives from rookery.tune.Scheduler"
            )
    refuse(wrong)


def check_keywords(given: Mapping[str, Any], known: Sequence[str], problem: str) -> None:
    """Refuses unknown arguments, and names the nearest known one.

    Args:
        given: Values by name.
        known: Names of arguments.
        problem: Message for unknown arguments.
    """
    refuse(
        f"code: {name} = {show(value)}: {problem}{hint_for(name, known)}"
        for name, value in given.items()
        if name not in known
    )


def check_variety(cfg: TuneConfig, space: Mapping[str, Domain]) -> None:
    """Refuses several samples if nothing differs between them."""
    varies = any(isinstance(domain, Drawn | Computed) for domain in space.values()) or len(cfg.points) > 1
    if cfg.num_samples > 1 and not varies and not isinstance(cfg.scheduler, PopulationConfig):
        raise ConfigError(
            f"tune.num_samples = {cfg.num_samples}: nothing is drawn at random, so all samples would be identical; "
            f"repeats = {cfg.num_samples} tries that many seeds"
        )


def check_columns(cfg: TuneConfig, columns: Sequence[str]) -> None:
    """Refuses metrics that no trial will report, if the columns that trials can report are known."""
    named = {f"tune.metric = {name}": name for name in ([cfg.metric] if isinstance(cfg.metric, str) else cfg.metric)}
    named[f"tune.scheduler.time = {cfg.scheduler.time}"] = cfg.scheduler.time
    refuse(
        f"{not_reported(what, name, columns)}, and {BEGINNINGS}"
        for what, name in named.items()
        if columns and name not in columns and not is_grouped(name)
    )


def check_trainable(trainable: Any, stop: Any, cfg: TuneConfig, objects: Mapping[str, Any]) -> None:
    """Refuses classes whose trials would never end, and populations of a class that cannot be saved: a trial could not
    take over the checkpoint of another one.
    """
    if not isinstance(trainable, type):
        return  # a function returns
    is_own_scheduler = "scheduler" not in objects and object_name(type(cfg.scheduler)) in SCHEDULERS.values()
    if not stop and not cfg.seconds and is_own_scheduler and not hasattr(cfg.scheduler, "max_time"):
        raise ConfigError('stop: nothing ends a trial of this class; give a criterion, as in stop={"iteration": 100}')
    if isinstance(cfg.scheduler, PopulationConfig) and not can_save(trainable):
        raise ConfigError(
            f"trainable = {trainable.__name__}: this class cannot be saved, and trials of "
            f"{type(cfg.scheduler).__name__} resume from each other's checkpoints; write save_checkpoint and "
            "load_checkpoint, or use another scheduler"
        )
