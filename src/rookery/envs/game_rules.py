"""Games that can be searched: rules as functions of arrays of states.

There are one or two players, and nothing is random. Of two players, one loses what the other wins.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from rookery.core.spaces.arrays import Tree


class Moved(NamedTuple):
    """Results of N actions.

    Attributes:
        state: ``[N, ...]`` the next states.
        reward: ``[N]`` rewards of the players that acted.
        over: ``[N]`` bool, whether the game is over: there is no further reward.
    """

    state: np.ndarray
    reward: np.ndarray
    over: np.ndarray


@dataclass(frozen=True)
class Symmetry:
    """A permutation under which a game looks alike to its players.

    Attributes:
        obs: Index arrays by leaf path: element i of the permuted leaf, flattened, is element ``index[i]`` of the leaf.
        action: ``[A]``, action j of the permuted state is action ``action[j]`` of the state.
    """

    obs: Mapping[str, np.ndarray]
    action: np.ndarray


class GameRules(Protocol):
    """Rules of a game, for N states at once; a state is a row of an array, which may contain objects."""

    @property
    def symmetries(self) -> tuple[Symmetry, ...]:
        """All symmetries, the identity included; empty if none are known."""
        ...

    def get_state(self, lanes: np.ndarray) -> np.ndarray:
        """Returns copies of the states ``[N, ...]`` of lanes ``[N]`` of the environment."""
        ...

    def set_state(self, lanes: np.ndarray, state: np.ndarray) -> None:
        """Puts lanes ``[N]`` of the environment into states ``[N, ...]``, within their current episodes."""
        ...

    def move(self, state: np.ndarray, action: np.ndarray) -> Moved:
        """Returns the results of allowed actions ``[N]`` in states ``[N, ...]`` that are not over."""
        ...

    def player(self, state: np.ndarray) -> np.ndarray:
        """Returns the number of the player to move, ``[N]``: 0 or 1."""
        ...

    def observe(self, state: np.ndarray) -> Tree:
        """Returns what the player to move observes, ``[N, ...]`` by leaf path, with the mask of allowed actions."""
        ...
