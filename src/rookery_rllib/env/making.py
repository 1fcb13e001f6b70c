"""Environments of a trainer of 2021: what its key ``env`` names, made in the form that Rookery takes."""

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
from rookery_rllib.env.envs import EnvContext, VectorEnv, vector_maker
from rookery_rllib.env.external_env import ExternalEnv, as_stepped
from rookery_rllib.env.observing import Observed, Rewrite
from rookery_rllib.gym import registry as gym_registry
from rookery_rllib.gym.old_envs import adapted, speaks_in_dicts
from rookery_rllib.gym.old_ids import CurrentId, current_id

Spaces = Mapping[str, tuple[Any, Any]]
"""Observation and action space by policy, None where the environment says it."""


def env_name(env: Any) -> str:
    return env if isinstance(env, str) else getattr(env, "__name__", str(env))


def creator_of(env: Any) -> Callable[[Any], Any]:
    """Returns what makes environments from their settings: of a registered name, a class, or an id of gym.

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
    """Returns which environment of Gymnasium an id of 2021 is, which Rookery makes itself; None of a script's own."""
    if not isinstance(env, str) or registered_env(env) is not None or env in gym_registry.registry.own:
        return None
    found = current_id(env)
    if found.line:
        say_once(f"gym id {env} is {found} today: {found.line}")
    return found if found.id in gymnasium.registry else None


Reference = Callable[[], Any]
"""Returns an object, or None once it is gone."""


def reference(thing: Any, gone: Callable[[], Any] | None = None) -> Reference:
    """Returns a reference that does not keep an object alive, unless the object cannot be referred to so."""
    try:
        return weakref.ref(thing, None if gone is None else lambda _: gone())
    except TypeError:
        return lambda: thing


class EnvMaker:
    """Makes the copies of a script's environment. Processes that step copies get the maker, and nothing else.

    Args:
        env: A class, a registered name, or an id of gym.
        config: The settings (``env_config``).
        num_workers: Workers that the configuration asks for, which environments are told.
        rewritten: Whether a function rewrites observations (``observation_fn``).

    Attributes:
        rewrite: That function, once there is a trainer.
        name: What the environment is called.
        spaces: Spaces that a configuration gives to policies.
        mapping: Agent to policy, where there are several.
        members: Gives the script's environment as members of teams act in it; None where there are no teams.
        worker_index: Number of the worker that environments are told; None = 1, or 0 where no workers are asked for.
        share: Which copies of the run are made here, where workers on a cluster play them.
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
        self.spaces: Spaces = {}
        self.mapping: Callable[[Any, Any], str] | None = None
        self._printed: frozenset[str] = frozenset()
        self._spare: list[Any] = []
        self._number = 0  # of objects that the script has made here
        self._first: list[Any] = []  # the first of them, which says what the environment is like
        self._later: list[Reference] = []
        self._own: dict[int, tuple[Reference, Reference]] = {}  # what Rookery was given, and the script's object for it

    def __getstate__(self) -> dict[str, Any]:
        """Gives what another process needs: no environment that was made here."""
        nothing: dict[str, Any] = {"_spare": [], "_number": 0, "_first": [], "_later": [], "_own": {}}
        return {**self.__dict__, **nothing, "_printed": printed_lines()}

    @property
    def made(self) -> list[Any]:
        """The script's own objects that were made in this process, as far as they are still in use."""
        self._later = [one for one in self._later if one() is not None]
        return [*self._first, *(found for one in self._later if (found := one()) is not None)]

    @property
    def only_here(self) -> str:
        """Why only this process can step the script's environment; empty if any can."""
        made = self.creator.args[0] if isinstance(self.creator, partial) else self.creator
        return why_process_bound(made)

    def __call__(self) -> Any:
        return self._spare.pop() if self._spare else self.make()

    def make(self, config: Mapping[str, Any] | None = None) -> Any:
        made = self.own(config)
        if isinstance(made, VectorEnv):
            if self.rewritten:
                raise ConfigError("rllib config: multiagent.observation_fn: a VectorEnv has no agents; leave it out")
            return made
        acted = made if self.members is None else self.members(made)
        given = as_stepped(acted) if isinstance(acted, ExternalEnv) else adapted(acted, self.spaces_of)
        if self.rewritten:
            given = Observed(given, self, self._number - 1)
        key, known = id(given), self._own
        known[key] = reference(given, lambda: known.pop(key, None)), reference(made)
        return given

    def played(self, env: Any) -> list[Any]:
        """Returns the script's objects that the copies of `rookery.Trainer.env` are, as far as they are here."""
        found = []
        for lane in getattr(env, "_lanes", ()):
            inner = getattr(lane, "env", None)
            while inner is not None:
                given, own = self._own.get(id(inner), (None, None))
                if own is not None and given is not None and given() is inner:
                    found.append(own())  # which the other holds
                    break
                inner = getattr(inner, "env", None)
        return found or self.made

    def own(self, config: Mapping[str, Any] | None = None) -> Any:
        """Returns a copy as the script makes it."""
        given = self.config if config is None else config
        made = self.creator(self.context(self._number, given))
        self._number += 1
        if self._first:
            self._later.append(reference(made))
        else:
            self._first = [made]
        return made

    def context(self, number: int, config: Mapping[str, Any] | None = None) -> EnvContext:
        """Returns the settings of a copy, with which worker it is said to be of."""
        worker = int(self.num_workers > 0) if self.worker_index is None else self.worker_index
        given = self.config if config is None else config
        return EnvContext(given, worker_index=worker, vector_index=number, num_workers=self.num_workers)

    def make_for_share(self, share: LaneShare) -> None:
        """Makes the copies of a worker on a cluster from now on, which are told its number."""
        self.share, self.worker_index = share, share.number + 1
        mark_warned(self._printed)

    def first(self) -> Any:
        """Returns the first copy, which the next call gives away."""
        self._spare = [self()]
        return self._spare[0]

    @property
    def is_multi_agent(self) -> bool:
        """Whether the script's environment speaks of its agents by name; makes one if there is none."""
        return speaks_in_dicts((self.made or [self.own()])[0])

    @property
    def copies(self) -> int | None:
        """Copies in one object of the script, None of an environment that is no `VectorEnv`."""
        return int(self.made[0].num_envs) if self.made and isinstance(self.made[0], VectorEnv) else None

    def spaces_of(self, agent: Any) -> tuple[Any, Any]:
        """Returns the spaces of an agent that its environment does not tell: those of its policy, or None."""
        if self.mapping is None:
            only = list(self.spaces.values())
            return only[0] if len(only) == 1 else self.spaces.get(str(agent), (None, None))
        if not any(space is not None for pair in self.spaces.values() for space in pair):
            return None, None  # the mapping need not be asked, which may draw
        return self.spaces.get(self.mapping(agent, None), (None, None))

    def another(self, config: Mapping[str, Any] | None = None) -> EnvMaker:
        """Returns a maker of the same environment, perhaps with settings that differ, which has made nothing yet."""
        other = EnvMaker.__new__(EnvMaker)
        other.__dict__.update(self.__getstate__(), config={**self.config, **(config or {})})
        return other

    def with_spaces_of(self, trainer: Any) -> EnvMaker:
        """Returns itself, with the spaces that another trainer's configuration gives to policies."""
        other = getattr(trainer, "env_maker", None)
        if other is not None:
            self.spaces, self.mapping = other.spaces, other.mapping
        return self

    def for_rookery(self) -> Any:
        """Returns what `rookery.Trainer` takes as its environment."""
        if self.copies is not None:
            return vector_maker(self)
        self.__name__ = self.name
        return self


def with_settings(config: RunConfig, maker: EnvMaker | None, env_config: Mapping[str, Any] | None) -> RunConfig:
    """Returns the settings of a run with an environment of another maker, or built with other settings."""
    if maker is not None:
        return replace(config, env=replace(config.env, name=maker.for_rookery()))
    return replace(config, env=replace(config.env, config={**config.env.config, **(env_config or {})}))
