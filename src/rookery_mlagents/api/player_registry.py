"""Placeholder for ML-Agents' registry of downloadable players; any use raises an error with the alternative."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from rookery_mlagents.api.exceptions import UnityEnvironmentException

WHY = (
    "the registry downloads players that were built for ML-Agents; nothing is downloaded here. Build or download a "
    "player and open it by its path, UnityEnvironment(file_name=PATH), or take one of the environments that come with "
    "Rookery (rookery envs), some of which are ML-Agents' examples made anew: Basic, BallPlate for 3DBall, GoalGrid "
    "for GridWorld, PushBlock, Match3, FoodCollector"
)
"""Message of the error for requests of a player."""


class UnityEnvRegistry(Mapping[str, Any]):
    """Empty registry: a lookup raises an error with the reason."""

    def __getitem__(self, identifier: str) -> NoReturn:
        raise UnityEnvironmentException(f"default_registry[{identifier!r}]: {WHY}")

    def __contains__(self, identifier: object) -> bool:
        return False

    def __len__(self) -> int:
        return 0

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def register(self, new_entry: Any) -> NoReturn:
        """Raises an error: entries cannot be registered."""
        raise UnityEnvironmentException(f"register: {WHY}")

    def register_from_yaml(self, path_to_yaml: str) -> NoReturn:
        """Raises an error: lists of players are not supported."""
        raise UnityEnvironmentException(f"register_from_yaml({path_to_yaml!r}): {WHY}")

    def clear(self) -> None: ...


default_registry = UnityEnvRegistry()
"""The registry imported by scripts."""
