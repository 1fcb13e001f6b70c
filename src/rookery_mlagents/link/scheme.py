"""Unity players and the Unity Editor as environments, by name; and environments of ML-Agents' low-level API."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from rookery.face import EnvError, EnvScheme, VectorEnv, scheme_of
from rookery_mlagents.link.base_env_checks import is_base_env, makes_base_envs
from rookery_mlagents.link.player_program import file_of, find_player, looks_like_path, names_player, short_name


class Unity(EnvScheme):
    """Paths of Unity players, ``unity:PATH``, ``unity:editor``; makers of a `BaseEnv`, and existing ones."""

    is_real = True

    def matches(self, name: str) -> bool:
        """See `EnvScheme.matches`."""
        return names_player(name)

    def find(self, name: str) -> Any:
        """See `EnvScheme.find`."""
        from rookery_mlagents.link.unity_env import UnityEnv

        return _player_class(UnityEnv, file_of(name))

    def short_name(self, name: str) -> str:
        """See `EnvScheme.short_name`."""
        return short_name(name)

    def code_of(self, name: str) -> str:
        """See `EnvScheme.code_of`."""
        return file_of(name) or ""

    def file_in(self, name: str) -> str:
        """See `EnvScheme.file_in`."""
        return file_of(name) or ""

    def has_file(self, name: str) -> bool:
        """See `EnvScheme.has_file`."""
        try:
            return bool(find_player(file_of(name) or ""))
        except EnvError:
            return False

    def explain_missing(self, name: str) -> None:
        """See `EnvScheme.explain_missing`."""
        if looks_like_path(name):
            find_player(name)  # raises: which file is missing, or why it cannot be run

    def plays_many(self, maker: Any) -> bool:
        """See `EnvScheme.plays_many`."""
        return makes_base_envs(maker)

    def build(
        self,
        maker: Any,
        num_lanes: int,
        settings: Mapping[str, Any],
        name: str,
        *,
        render: bool = False,
        max_entities: int | None = None,
        first: Any = None,
    ) -> VectorEnv:
        """See `EnvScheme.build`."""
        from rookery_mlagents.link.base_env_copies import base_env

        return base_env(maker, settings, num_lanes, name, first)

    def takes_over(self, made: Any) -> bool:
        """See `EnvScheme.takes_over`."""
        return is_base_env(made)


UNITY = Unity()


def is_player(name: str) -> bool:
    """Returns whether a name refers to a Unity player or to the Editor; names of Python environments take
    precedence.
    """
    return scheme_of(name) is UNITY


def _player_class(unity_env: Any, file_name: str | None) -> Any:
    """Returns a class of vector environments for the Unity player in a file."""

    class UnityPlayer(unity_env):  # type: ignore[misc]
        """Players of one file."""

        def __init__(self, num_lanes: int, **config: Any) -> None:
            super().__init__(num_lanes, file_name, **config)

    whole = inspect.signature(unity_env)
    UnityPlayer.__signature__ = whole.replace(  # for look-ups of the keys of env.config
        parameters=[one for one in whole.parameters.values() if one.name != "file_name"]
    )
    return UnityPlayer
