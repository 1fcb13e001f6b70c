"""Trainables by the names of scripts and algorithms, and the registry of `ray.tune.registry`."""

from __future__ import annotations

from typing import Any

from rookery.face import ConfigError, nearest
from rookery_rllib.base import release
from rookery_rllib.base.imports import find
from rookery_rllib.base.registrations import ENVIRONMENTS, register_env, table
from rookery_rllib.trainer.trial.trainable import Trainable, wrap_function

_TRAINABLES: dict[str, type[Trainable]] = table("trainables")

ITERATIONS = 3
"""Before `validate_save_restore` saves."""


def register_trainable(name: str, trainable: Any, warn: bool = True) -> None:
    """Registers a class or function under a name for `run`; `warn` has no meaning here."""
    _TRAINABLES[name] = trainable_class(trainable)


def trainable_class(trainable: Any) -> type[Trainable]:
    """Returns the class for a class, function or registered name; raises a ConfigError if it is none of these."""
    if isinstance(trainable, str):
        return get_trainable_cls(trainable)
    if isinstance(trainable, type):
        if not issubclass(trainable, Trainable):
            raise ConfigError(f"{trainable.__name__}: must derive from tune.Trainable, or be a function of config")
        return trainable
    if callable(trainable):
        return wrap_function(trainable)
    raise ConfigError(f"run: takes a name, a Trainable class or a function, not {type(trainable).__name__}")


def has_trainable(trainable_name: str) -> bool:
    try:
        get_trainable_cls(trainable_name)
    except ConfigError:
        return False
    return True


def get_trainable_cls(trainable_name: str) -> type[Trainable]:
    """Returns the class of a name that a script has registered, or of an algorithm: ``PPO``.

    Raises:
        ConfigError: If the name is unknown; with the nearest one.
    """
    if trainable_name in _TRAINABLES:
        return _TRAINABLES[trainable_name]
    if hint := nearest(trainable_name, list(_TRAINABLES)):
        raise ConfigError(f"{trainable_name!r}: no trainable is registered under this name{hint}")
    place = "algorithms.registry.get_algorithm_class" if release.is_2_x() else "agents.registry.get_trainer_class"
    found: type[Trainable] = find(f"ray.rllib.{place}")(trainable_name)
    return found


validate_trainable = get_trainable_cls


def validate_save_restore(
    trainable_cls: Any, config: dict[str, Any] | None = None, num_gpus: float = 0, use_object_store: bool = False
) -> bool:
    """Trains, saves, restores in another object; returns whether it continues alike. `num_gpus` has no meaning here.

    Raises:
        ConfigError: If the other object counts otherwise.
    """
    made = trainable_class(trainable_cls)
    first, second = made(dict(config or {})), made(dict(config or {}))
    try:
        for _ in range(ITERATIONS):
            first.train()
        if use_object_store:
            second.restore_from_object(first.save_to_object())
        else:
            second.restore(first.save())
        result = second.train()
        if result["training_iteration"] != ITERATIONS + 1:
            raise ConfigError(
                f"{made.__name__}: after a restore at iteration {ITERATIONS} the next one is "
                f"{result['training_iteration']}"
            )
    finally:
        first.stop()
        second.stop()
    return True


ENV_CREATOR = "env_creator"
TRAINABLE_CLASS = "trainable_class"


class GlobalRegistry:
    """The registry as ``ray.tune.registry._global_registry``."""

    def get(self, category: str, key: str) -> Any:
        """Returns the object registered under a name; raises a ValueError without one."""
        if not self.contains(category, key):
            raise ValueError(f"{category}: nothing is registered as {key!r}")
        return ENVIRONMENTS[key] if category == ENV_CREATOR else _TRAINABLES[key]

    def contains(self, category: str, key: str) -> bool:
        return key in (ENVIRONMENTS if category == ENV_CREATOR else _TRAINABLES)

    def register(self, category: str, key: str, value: Any) -> None:
        if category == ENV_CREATOR:
            register_env(key, value)
        else:
            register_trainable(key, value)


global_registry = GlobalRegistry()
