"""Wrapper for MiniGrid environments that one-hot encodes their views, so that a network need not learn the meaning of
each code.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from rookery.core.errors import EnvError

CODES = (11, 6, 3)
"""Number of objects, colours and door states encoded by the values of a cell (``minigrid/core/constants.py``)."""

DIRECTIONS = 4


class OneHotView(gymnasium.ObservationWrapper[np.ndarray, Any, Any]):
    """Wrapper that one-hot encodes the view of a MiniGrid environment as a vector of flags ``[rows * columns * 20 +
    4]`` uint8.

    Each cell has 11 flags for its content, 6 for its colour and 3 for the state of a door; the last 4 are the direction
    in which the explorer looks. The mission is left out.
    """

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        """Wraps a MiniGrid environment; raises an EnvError if the observations of `env` are not those of MiniGrid."""
        super().__init__(env)
        space = env.observation_space
        parts = space.spaces if isinstance(space, spaces.Dict) else {}
        if "direction" not in parts or len(shape := parts.get("image", space).shape or ()) != 3 or shape[2] != 3:
            raise EnvError(f"OneHotView: observations are {space}, not those of a MiniGrid task: leave the wrapper out")
        self._offsets = np.concatenate(([0], np.cumsum(CODES)[:-1]))
        self._cells = np.arange(shape[0] * shape[1])[:, None] * sum(CODES)
        self._size = int(shape[0] * shape[1] * sum(CODES))
        self.observation_space = spaces.Box(0, 1, (self._size + DIRECTIONS,), np.uint8)

    def observation(self, observation: Any) -> np.ndarray:
        """Returns the flags of a view."""
        flags = np.zeros(self._size + DIRECTIONS, np.uint8)
        flags[self._cells + self._offsets + observation["image"].reshape(-1, len(CODES))] = 1
        flags[self._size + int(observation["direction"])] = 1
        return flags
