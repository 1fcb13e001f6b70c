"""`gym.make` and `gym.register` of 2021: environments by name, with the API of 2021."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from importlib import import_module
from typing import Any

import gymnasium
from gymnasium import error

from rookery.face import nearest
from rookery_rllib.base import imports
from rookery_rllib.base.notices import say_once
from rookery_rllib.gym.core import Env, FromToday, TimeLimit
from rookery_rllib.gym.old_ids import GONE_IDS, OLD_IDS, current_id


class EnvSpec:
    """Specification of a named environment."""

    def __init__(
        self,
        id: str,
        entry_point: Any = None,
        reward_threshold: float | None = None,
        nondeterministic: bool = False,
        max_episode_steps: int | None = None,
        order_enforce: bool = True,
        kwargs: Mapping[str, Any] | None = None,
        tags: Mapping[str, Any] | None = None,
        max_episode_seconds: float | None = None,
    ) -> None:
        self.id = id
        self.entry_point = entry_point
        self.reward_threshold = reward_threshold
        self.nondeterministic = nondeterministic
        self.max_episode_steps = max_episode_steps
        self.order_enforce = order_enforce
        self._kwargs = dict(kwargs or {})

    @property
    def kwargs(self) -> dict[str, Any]:
        return self._kwargs

    def make(self, **kwargs: Any) -> Any:
        """Makes an environment; keyword arguments override those of the spec."""
        if self.entry_point is None:
            raise error.Error(f"{self.id} has no entry_point, so it cannot be made")
        env = load(self.entry_point)(**{**self._kwargs, **kwargs})
        if isinstance(env, gymnasium.Env) and not isinstance(env, Env):
            env = FromToday(env)
        _put_spec(env, self)
        if self.max_episode_steps is not None:
            return TimeLimit(env, self.max_episode_steps)
        return env

    def __repr__(self) -> str:
        return f"EnvSpec({self.id})"


def _put_spec(env: Any, spec: EnvSpec) -> None:
    inner = getattr(env, "unwrapped", env)
    if isinstance(env, FromToday):
        env.__dict__["spec"] = spec
    elif not isinstance(inner, gymnasium.Env) or isinstance(inner, Env):
        inner.spec = spec


def load(name: Any) -> Any:
    """Returns a class or function, by its import path ``my.module:MyEnv`` if it is a text."""
    if not isinstance(name, str):
        return name
    home, _, attribute = name.partition(":")
    found = imports.module(home) if imports.is_known(home) else import_module(home)
    for part in attribute.split("."):
        found = getattr(found, part)
    return found


class EnvRegistry:
    """Registry of environments: those of a script, and all of Gymnasium."""

    def __init__(self) -> None:
        self.own: dict[str, EnvSpec] = {}

    def register(self, id: str, **kwargs: Any) -> None:
        """Registers an environment, replacing an old registration. Arguments are those of `EnvSpec`."""
        self.own[id] = EnvSpec(id, **kwargs)

    def make(self, path: str | EnvSpec, **kwargs: Any) -> Any:
        return self.spec(path).make(**kwargs) if isinstance(path, str) else path.make(**kwargs)

    def spec(self, path: str) -> EnvSpec:
        """Returns the specification of an environment.

        Raises:
            UnregisteredEnv: If no environment has that name (gymnasium.error.UnregisteredEnv).
        """
        if path in self.own:
            return self.own[path]
        if ":" in path:
            home, _, name = path.partition(":")
            import_module(home)  # importing it registers it
            return self.spec(name)
        if path in GONE_IDS:
            raise error.UnregisteredEnv(f"{path} is not supported: {GONE_IDS[path]}")
        found = current_id(path)
        registered = gymnasium.registry.get(found.id)
        if registered is None:
            hint = nearest(path, [*self.own, *OLD_IDS, *gymnasium.registry])
            raise error.UnregisteredEnv(f"there is no environment {path!r}{hint}")
        if found.line:
            say_once(f"gym id {path} is {found} today: {found.line}")
        limit_steps = found.max_episode_steps or registered.max_episode_steps
        maker = partial(_make_todays, found.id)
        return EnvSpec(
            path, maker, registered.reward_threshold, registered.nondeterministic, limit_steps, kwargs=found.kwargs
        )

    def all(self) -> Iterable[EnvSpec]:
        return [*self.own.values(), *(EnvSpec(name) for name in gymnasium.registry if name not in self.own)]

    @property
    def env_specs(self) -> dict[str, EnvSpec]:
        return {spec.id: spec for spec in self.all()}

    def __contains__(self, name: str) -> bool:
        return name in self.own or current_id(name).id in gymnasium.registry


def _make_todays(name: str, **kwargs: Any) -> FromToday:
    return FromToday(gymnasium.make(name, max_episode_steps=-1, disable_env_checker=True, **kwargs))


registry = EnvRegistry()


def make(id: str, **kwargs: Any) -> Any:
    """Creates an environment by its id, with the old API; an id of 2021 is replaced by the present one, with a note.

    Raises:
        UnregisteredEnv: If no environment has that name (gymnasium.error.UnregisteredEnv).
    """
    return registry.make(id, **kwargs)


def register(id: str, **kwargs: Any) -> None:
    """Registers an environment for `make`. Arguments are those of `EnvSpec`."""
    registry.register(id, **kwargs)


def spec(id: str) -> EnvSpec:
    return registry.spec(id)
