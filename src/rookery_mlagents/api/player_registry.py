"""ML-Agents' registry of players to download, which is refused here with what to do."""

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
"""Message of the error that a request for a player raises."""


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
        """Refuses an entry."""
        raise UnityEnvironmentException(f"register: {WHY}")

    def register_from_yaml(self, path_to_yaml: str) -> NoReturn:
        """Refuses a list of players."""
        raise UnityEnvironmentException(f"register_from_yaml({path_to_yaml!r}): {WHY}")

    def clear(self) -> None: ...


default_registry = UnityEnvRegistry()
"""The registry that scripts import."""
