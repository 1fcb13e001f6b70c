"""Preprocessing by the environment instead of the policy: for a filter of the script, and for lists within lists."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from gymnasium import Space
from gymnasium.spaces import Box, Dict, Tuple

from rookery.face import EntitySet
from rookery_rllib.model.preprocessors import get_preprocessor

MakeFilter = Callable[[tuple[int, ...]], Any]
"""Makes a filter of observations of a shape, as ``observation_filter``."""


class Preparation:
    """Preprocesses observations of a space, and filters them if the script has a filter.

    Attributes:
        space: Space of its results, with that of the environment as ``original_space``.
        filter: The script's filter; None without one.
    """

    def __init__(self, space: Space[Any], options: Mapping[str, Any], make_filter: MakeFilter | None) -> None:
        self._preprocessor = get_preprocessor(space)(space, options)
        shape = tuple(self._preprocessor.shape)
        self.filter = None if make_filter is None else make_filter(shape)
        found: Any = Box(-np.inf, np.inf, shape, np.float32)
        if isinstance(space, Dict | Tuple | EntitySet):
            found.original_space = space
        self.space: Any = found

    def __call__(self, observation: Any, update: bool) -> np.ndarray:
        """Returns an observation as a flat array, or as an image; `update`: whether the filter learns from it."""
        row = np.asarray(self._preprocessor.transform(observation))
        return np.asarray(row if self.filter is None else self.filter(row, update=update), np.float32)


def preparation_of(
    space: Space[Any], options: Mapping[str, Any], make_filter: MakeFilter | None = None
) -> Preparation | None:
    """Returns the preparation of observations that policies cannot preprocess themselves; None for all others."""
    if make_filter is None and not _holds_lists_in_lists(space):
        return None
    return Preparation(space, options, make_filter)


def _holds_lists_in_lists(space: Any, inside: bool = False) -> bool:
    """Returns whether a list is among the elements of another."""
    if isinstance(space, EntitySet):
        return inside or _holds_lists_in_lists(space.feature_space, True)
    parts = space.spaces.values() if isinstance(space, Dict) else space.spaces if isinstance(space, Tuple) else ()
    return any(_holds_lists_in_lists(part, inside) for part in parts)
