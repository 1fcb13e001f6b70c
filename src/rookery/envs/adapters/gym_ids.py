"""Gymnasium's ids: the registered ones, and those that a package registers when it is imported."""

from __future__ import annotations

import importlib
from typing import Any

import gymnasium

from rookery.core.errors import EnvError, UnknownEnvError, nearest
from rookery.envs.adapters.bundled import OURS
from rookery.envs.catalog import other_suite_hint
from rookery.envs.schemes import NAMED, EnvScheme, scheme

PROVIDERS = {
    "ALE/": ("ale_py", "ale-py"),
    "MiniGrid-": ("minigrid", "minigrid"),
    "BabyAI-": ("minigrid", "minigrid"),
    "MinAtar/": ("rookery.envs.adapters.minatar", "minatar"),
}
"""Module that registers the ids with a prefix, and the package that contains it."""


class Registered(EnvScheme):
    """Ids that are already registered."""

    def matches(self, name: str) -> bool:
        """See `EnvScheme.matches`."""
        return name in gymnasium.registry

    def find(self, name: str) -> Any:
        """See `EnvScheme.find`."""
        return gymnasium.spec(name)


class Provided(EnvScheme):
    """Any other name: an id of a package that must be imported first, or an unknown name."""

    def matches(self, name: str) -> bool:
        """See `EnvScheme.matches`."""
        return True

    def find(self, name: str) -> Any:
        """See `EnvScheme.find`."""
        for prefix, (provider, package) in PROVIDERS.items():
            if name.startswith(prefix):
                import_provider(name, provider, package)
        if name in gymnasium.registry:
            return gymnasium.spec(name)
        hint = other_suite_hint(name) or nearest(name, [*OURS, *gymnasium.registry])
        if not hint:
            for kind in NAMED:
                scheme(kind).explain_missing(name)
        own = "an own environment is named 'my.module:MyEnv', and an id that a program registers 'my.module:MyEnv-v0'"
        raise UnknownEnvError(f"env {name!r} is not a Gymnasium id{hint}; {own}")


REGISTERED, PROVIDED = Registered(), Provided()


def newest_ids() -> list[str]:
    """Returns the registered ids, only the newest version of each environment."""
    newest: dict[tuple[str | None, str], gymnasium.envs.registration.EnvSpec] = {}
    for spec in gymnasium.registry.values():
        key = spec.namespace, spec.name
        if key not in newest or (spec.version or 0) >= (newest[key].version or 0):
            newest[key] = spec
    return [spec.id for spec in newest.values()]


def time_limit_of(name: str) -> int | None:
    """Returns the time limit, in env steps, of an environment's Gymnasium id, or None."""
    spec = gymnasium.registry.get(name) or gymnasium.registry.get(name.rpartition(":")[2])
    return None if spec is None else spec.max_episode_steps


def import_provider(name: str, provider: str, package: str) -> None:
    """Imports the module that registers ids of Gymnasium.

    Raises:
        EnvError: If its package is not installed.
    """
    try:
        module = importlib.import_module(provider)
    except ImportError as error:
        raise EnvError(f"env {name!r} needs the package {package}: pip install {package}") from error
    gymnasium.register_envs(module)
