"""What scripts register by name: environments and trainables."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from rookery.compat.rllib.trainable import Trainable, wrap_function
from rookery.core.errors import ConfigError, nearest

_ENVIRONMENTS: dict[str, Callable[..., Any]] = {}
_TRAINABLES: dict[str, type[Trainable]] = {}


def register_env(name: str, env_creator: Callable[..., Any]) -> None:
    """Gives an environment a name.

    Args:
        name: What configurations call it.
        env_creator: Function of its configuration that makes one.
    """
    if not callable(env_creator):
        raise ConfigError(f"register_env({name!r}): takes a function of env_config, not {type(env_creator).__name__}")
    _ENVIRONMENTS[name] = env_creator


def registered_env(name: str) -> Callable[..., Any] | None:
    """Returns the function that makes an environment; None if nobody has registered the name."""
    return _ENVIRONMENTS.get(name)


def register_trainable(name: str, trainable: Any, warn: bool = True) -> None:
    """Gives a class or function a name that `run` knows.

    Args:
        name: The name.
        trainable: Class below `Trainable`, or function of a configuration.
        warn: Has no meaning here.
    """
    _TRAINABLES[name] = trainable_class(trainable)


def trainable_class(trainable: Any) -> type[Trainable]:
    """Returns the class for a class, function or registered name.

    Raises:
        ConfigError: If it is none of these.
    """
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
    """Says whether a name is known, of a script or of RLlib."""
    try:
        get_trainable_cls(trainable_name)
    except ConfigError:
        return False
    return True


def get_trainable_cls(trainable_name: str) -> type[Trainable]:
    """Returns the class of a name that a script has registered, or of an algorithm: ``PPO``.

    Raises:
        ConfigError: If nobody knows it; with the nearest name.
    """
    if trainable_name in _TRAINABLES:
        return _TRAINABLES[trainable_name]
    if hint := nearest(trainable_name, list(_TRAINABLES)):
        raise ConfigError(f"{trainable_name!r}: no trainable is registered under this name{hint}")
    trainers = import_module("rookery.compat.rllib.trainers")  # which import this module
    found: type[Trainable] = trainers.get_trainer_class(trainable_name)
    return found


validate_trainable = get_trainable_cls


ENV_CREATOR = "env_creator"
TRAINABLE_CLASS = "trainable_class"


class GlobalRegistry:
    """The registry as ``ray.tune.registry._global_registry``."""

    def get(self, category: str, key: str) -> Any:
        """Returns what is registered under a name.

        Raises:
            ValueError: If nothing is.
        """
        if not self.contains(category, key):
            raise ValueError(f"{category}: nothing is registered as {key!r}")
        return _ENVIRONMENTS[key] if category == ENV_CREATOR else _TRAINABLES[key]

    def contains(self, category: str, key: str) -> bool:
        """Says whether something is registered under a name."""
        return key in (_ENVIRONMENTS if category == ENV_CREATOR else _TRAINABLES)

    def register(self, category: str, key: str, value: Any) -> None:
        """Registers something under a name."""
        if category == ENV_CREATOR:
            register_env(key, value)
        else:
            register_trainable(key, value)


global_registry = GlobalRegistry()

CATALOG = "rookery.compat.rllib.catalog"
"""Module that keeps registered models, which nobody needs who only tries functions."""


def registered() -> dict[str, Mapping[str, Any]]:
    """Returns all names of scripts, those of models too, to be known in other processes."""
    catalog = sys.modules.get(CATALOG)
    models = {} if catalog is None else catalog.registered()
    return {"environments": dict(_ENVIRONMENTS), "trainables": dict(_TRAINABLES), **models}


def register_all(known: Mapping[str, Mapping[str, Any]]) -> None:
    """Takes the names that another process knows."""
    _ENVIRONMENTS.update(known.get("environments", {}))
    _TRAINABLES.update(known.get("trainables", {}))
    models = {kind: table for kind, table in known.items() if kind not in ("environments", "trainables")}
    if any(models.values()):
        import_module(CATALOG).register_all(models)
