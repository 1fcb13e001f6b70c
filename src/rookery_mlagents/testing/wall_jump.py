"""Wall jump: the wall curriculum with walls that are drawn for each episode, as in ML-Agents' example WallJump.

One episode in five has no wall, one a small wall, and three a big one. Heights are those of ML-Agents' scene (a jump
clears 4, a jump from the block 8), and are environment parameters of the same names. The last number of the observation
is 1 with a big wall, by which a simulated player switches the behaviour of an agent as the scene does:
``--behavior '*=SmallWallJump' --set-model BigWallJump:6:0.5``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces

from rookery.face import OPTION, Parameter, WallCurriculum

SCALE = 2.0
"""Heights in ML-Agents' scene for one unit of height here."""

HEIGHTS = {"small_wall_height": 4.0, "big_wall_height": 8.0}
"""Environment parameters with their default values."""

KINDS = 5
"""Number of equally likely draws: no wall, a small one, and big ones."""

FARTHEST = 6
"""Largest distance in columns of the block from where it is needed."""


class WallJump(WallCurriculum):
    """Wall jump as a Gymnasium environment; see the module."""

    parameters: ClassVar[Mapping[str, Parameter]] = {
        name: Parameter(value, 0.0, HEIGHTS["big_wall_height"]) for name, value in HEIGHTS.items()
    }

    def __init__(self, max_steps: int = 100) -> None:
        super().__init__(max_steps)
        self.observation_space = spaces.Box(-1, 1, (7,))
        self._is_big = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Starts an episode with a drawn wall, whose height is that of the parameters."""
        draws = np.random.default_rng(seed)
        heights = {**HEIGHTS, **(options or {}).get(OPTION, {})}
        kind = int(draws.integers(KINDS))
        self._is_big = kind > 1
        name = "big_wall_height" if self._is_big else "small_wall_height"
        height = float(heights[name]) / SCALE if kind else 0.0
        drawn = {"wall_height": height, "block_distance": float(draws.integers(FARTHEST + 1))}
        return super().reset(seed=seed, options={OPTION: drawn})

    def _observe(self) -> np.ndarray:
        return np.append(super()._observe(), np.float32(self._is_big))
