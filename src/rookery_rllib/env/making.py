"""Environments of a trainer of 2021: makes what its key ``env`` names, in Rookery's form."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import gymnasium

from rookery.face import ConfigError, LaneShare, RunConfig, why_process_bound
from rookery_rllib.base.notices import mark_warned, printed_lines, say_once
from rookery_rllib.base.registrations import registered_env
from rookery_rllib.env.agent_mapping import FIRST_EPISODE
from rookery_rllib.env.envs import EnvContext, VectorEnv, vector_maker
from rookery_rllib.env.external_env import ExternalEnv, as_stepped
from rookery_rllib.env.observing import Observed, Preparation, PreparedEnv, Rewrite
from rookery_rllib.gym import registry as gym_registry
from rookery_rllib.gym.old_envs import adapted, speaks_in_dicts
from rookery_rllib.gym.old_ids import CurrentId, current_id

Spaces = Mapping[str, tuple[Any, Any]]
"""Observation and action space by policy, None = the environment's."""


FILTER_REFUSED = "rllib config: observation_filter: a filter of the script is for environments of one agent"


def env_name(env: Any) -> str:
    return env if isinstance(env, str) else getattr(env, "__name__", str(env))


def creator_of(env: Any) -> Callable[[Any], Any]:
    """Returns a function that makes environments from their settings, for a registered name, a class, or a gym id.

    Raises:
        ConfigError: If it is none of these.
        UnregisteredEnv: If nothing has the name (gymnasium.error.UnregisteredEnv).
    """
    if isinstance(env, str):
        registered = registered_env(env)
        if registered is not None:
            return registered
        return partial(_made_by_spec, gym_registry.registry.spec(env))
    if not callable(env):
        raise ConfigError(f"env = {env!r}: must be a class, a name given to register_env, or an id of gym")
    return partial(_made, env)


def _made_by_spec(spec: Any, context: Mapping[str, Any]) -> Any:
    return spec.make(**context)


def _made(cls: Any, context: Any) -> Any:
    return cls(context)


def current_id_of(env: Any) -> CurrentId | None:
    """Returns the Gymnasium environment of an id of 2021; None for a script's own environment."""
    if not isinstance(env, str) or registered_env(env) is not None or env in gym_registry.registry.own:
        return None
    found = current_id(env)
    if found.line:
        say_once(f"gym id {env} is {found} today: {found.line}")
    return found if found.id in gymnasium.registry else None


Reference = Callable[[], Any]
"""Returns an object, or None after it was deleted."""


def reference(thing: Any, gone: Callable[[], Any] | None = None) -> Reference:
    """Returns a weak reference, or a strong one if the object does not support weak ones."""
    try:
        return weakref.ref(thing, None if gone is None else lambda _: gone())
    except TypeError:
        return lambda: thing


class EnvMaker:
    """Creates instances of a script's environment. Environment processes receive only this object.

    Args:
        env: A class, a registered name, or an id of gym.
        config: The settings (``env_config``).
        num_workers: Number of workers in the configuration, which environments get.
        rewritten: Whether a function rewrites observations (``observation_fn``).

    Attributes:
        rewrite: That function, once there is a trainer.
        filtered: Whether a filter of the script changes observations.
        prepare: Returns how the environment preprocesses observations of a space; None = the policy does.
        preparation: How it does, after an environment was made.
        updates: Whether a filter learns from these environments, which are not those of an evaluation.
        name: Name of the environment.
        spaces: Spaces that a configuration gives to policies.
        mapping: Agent to policy, where there are several.
        members: Wraps the script's environment for members of teams; None without teams.
        worker_index: Worker index that environments get; None = 1, or 0 without workers.
        share: Environments of the run that are made here, if workers on a cluster step them.
    """

    def __init__(self, env: Any, config: Mapping[str, Any], num_workers: int = 0, rewritten: bool = False) -> None:
        self.creator = creator_of(env)
        self.name = env_name(env)
        self.config, self.num_workers = dict(config), num_workers
        self.worker_index: int | None = None
        self.share: LaneShare | None = None
        self.members: Callable[[Any], Any] | None = None
        self.rewritten = rewritten
        self.rewrite: Rewrite | None = None
        self.filtered, self.updates = False, True
        self.prepare: Callable[[Any], Preparation | None] | None = None
        self.preparation: Preparation | None = None
        self.spaces: Spaces = {}
        self.mapping: Callable[[Any, Any], str] | None = None
        self._printed: frozenset[str] = frozenset()
        self._spare: list[Any] = []
        self._number = 0  # objects that the script's code made here
        self._first: list[Any] = []  # the first of them, with the spaces
        self._later: list[Reference] = []
        self._own: dict[int, tuple[Reference, Reference]] = {}  # Rookery's environment and the script's inside it

    def __getstate__(self) -> dict[str, Any]:
        """Returns the state for another process, without environments that were made here."""
        nothing: dict[str, Any] = {"_spare": [], "_number": 0, "_first": [], "_later": [], "_own": {}}
        return {**self.__dict__, **nothing, "_printed": printed_lines()}

    @property
    def made(self) -> list[Any]:
        """The script's environments that were made in this process and are still in use."""
        self._later = [one for one in self._later if one() is not None]
        return [*self._first, *(found for one in self._later if (found := one()) is not None)]

    @property
    def only_here(self) -> str:
        """Reason why only this process can step the script's environment; empty if others can."""
        if self.filtered:
            return "a filter of the script sees all observations"
        made = self.creator.args[0] if isinstance(self.creator, partial) else self.creator
        return why_process_bound(made)

    def __call__(self) -> Any:
        return self._spare.pop() if self._spare else self.make()

    def make(self, config: Mapping[str, Any] | None = None) -> Any:
        made = self.own(config)
        if isinstance(made, VectorEnv):
            if self.rewritten:
                raise ConfigError("rllib config: multiagent.observation_fn: a VectorEnv has no agents; leave it out")
            if self.filtered:
                raise ConfigError(f"{FILTER_REFUSED}, and this is a VectorEnv")
            return made
        acted = made if self.members is None else self.members(made)
        given = as_stepped(acted) if isinstance(acted, ExternalEnv) else adapted(acted, self.spaces_of)
        if self.rewritten:
            given = Observed(given, self, self._number - 1)
        elif isinstance(given, gymnasium.Env):
            given = self._prepared(given)
        elif self.filtered:
            raise ConfigError(f"{FILTER_REFUSED}, and {self.name} has several")
        key, known = id(given), self._own
        known[key] = reference(given, lambda: known.pop(key, None)), reference(made)
        return given

    def _prepared(self, env: Any) -> Any:
        """Returns an environment that preprocesses its observations, if policies cannot."""
        if self.preparation is None and self.prepare is not None:
            self.preparation = self.prepare(env.observation_space)
        return env if self.preparation is None else PreparedEnv(env, self.preparation, self.updates)

    def played(self, env: Any) -> list[Any]:
        """Returns the script's objects inside `rookery.Trainer.env` that exist in this process."""
        found = []
        for lane in getattr(env, "_lanes", ()):
            inner = getattr(lane, "env", None)
            while inner is not None:
                given, own = self._own.get(id(inner), (None, None))
                if own is not None and given is not None and given() is inner:
                    found.append(own())  # the other holds it
                    break
                inner = getattr(inner, "env", None)
        return found or self.made

    def own(self, config: Mapping[str, Any] | None = None) -> Any:
        """Returns an environment as the script makes it."""
        given = self.config if config is None else config
        made = self.creator(self.context(self._number, given))
        self._number += 1
        if self._first:
            self._later.append(reference(made))
        else:
            self._first = [made]
        return made

    def context(self, number: int, config: Mapping[str, Any] | None = None) -> EnvContext:
        """Returns the settings of an environment, with its worker index."""
        worker = int(self.num_workers > 0) if self.worker_index is None else self.worker_index
        given = self.config if config is None else config
        return EnvContext(given, worker_index=worker, vector_index=number, num_workers=self.num_workers)

    def make_for_share(self, share: LaneShare) -> None:
        """Makes the environments of a cluster worker from now on, with its worker index."""
        self.share, self.worker_index = share, share.number + 1
        mark_warned(self._printed)

    def first(self) -> Any:
        """Returns the first environment, which the next call uses."""
        self._spare = [self()]
        return self._spare[0]

    @property
    def is_multi_agent(self) -> bool:
        """Whether the script's environment is multi-agent; makes one if there is none."""
        return speaks_in_dicts((self.made or [self.own()])[0])

    @property
    def copies(self) -> int | None:
        """Environments in one object of the script, None if it is not a `VectorEnv`."""
        return int(self.made[0].num_envs) if self.made and isinstance(self.made[0], VectorEnv) else None

    def spaces_of(self, agent: Any) -> tuple[Any, Any]:
        """Returns the spaces of an agent that its environment does not define: those of its policy, or None."""
        if self.mapping is None:
            only = list(self.spaces.values())
            return only[0] if len(only) == 1 else self.spaces.get(str(agent), (None, None))
        if not any(space is not None for pair in self.spaces.values() for space in pair):
            return None, None  # the mapping, which may draw, is not called
        return self.spaces.get(self.mapping(agent, FIRST_EPISODE), (None, None))

    def another(self, config: Mapping[str, Any] | None = None) -> EnvMaker:
        """Returns a new maker of the same environment for evaluations, optionally with other settings."""
        other = EnvMaker.__new__(EnvMaker)
        other.__dict__.update(self.__getstate__(), config={**self.config, **(config or {})}, updates=False)
        return other

    def with_spaces_of(self, trainer: Any) -> EnvMaker:
        """Returns itself, with the policy spaces of another trainer's configuration."""
        other = getattr(trainer, "env_maker", None)
        if other is not None:
            self.spaces, self.mapping = other.spaces, other.mapping
        return self

    def for_rookery(self) -> Any:
        """Returns the environment argument of `rookery.Trainer`."""
        if self.copies is not None:
            return vector_maker(self)
        self.__name__ = self.name
        return self


def with_settings(config: RunConfig, maker: EnvMaker | None, env_config: Mapping[str, Any] | None) -> RunConfig:
    """Returns the settings of a run with the environment of another maker, or with other settings."""
    if maker is not None:
        return replace(config, env=replace(config.env, name=maker.for_rookery()))
    return replace(config, env=replace(config.env, config={**config.env.config, **(env_config or {})}))
