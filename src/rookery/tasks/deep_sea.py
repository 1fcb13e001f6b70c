"""Deep sea (exploration): only one sequence of actions reaches the treasure, and each of its steps has a cost.

After `deep_sea` of Osband et al., "Behaviour Suite for Reinforcement Learning" (2020, arXiv:1908.03568). The sea is a
square of `size` x `size` cells. A diver starts in the upper left one; each step leads one row down, and one column to
the left or to the right. A step to the right costs 0.01 / size; from the last cell at the bottom right it pays 1. An
episode terminates after `size` steps. Which action leads to the right is drawn once for each cell, so that the same
action everywhere gains nothing. An observation is the number of the cell, counted row by row, which networks see as a
one-hot, as in the paper.

===================  ================================  =====================
policy               return                            treasures found
===================  ================================  =====================
always to the right  0.99, the best                    all
always to the left   0                                 none
random               2^-size - 0.005 (-0.005 at 15)    2^-size (1 in 32,768)
===================  ================================  =====================

Rewards lead away from the treasure, so random exploration needs about 2^size episodes to find it.
"""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from rookery.core.settings.reach import CountFromZero, FewFromZero
from rookery.envs.adapters.batched import check_least
from rookery.tasks.tabular import BatchedTabular, Rules, TabularTask

MOVE_COST = 0.01
"""Total cost of `size` steps to the right."""


def deep_sea_rules(size: int, randomize_actions: bool, mapping_seed: int) -> tuple[Rules, np.ndarray]:
    """Creates the rules of a deep sea; see `DeepSea`.

    Returns:
        The rules, and the action that leads to the right from each cell, ``[size * size]`` int64.
    """
    check_least("DeepSea", 2, size=size)
    check_least("DeepSea", 0, mapping_seed=mapping_seed)
    cell = np.arange(size * size)
    row, column = np.divmod(cell, size)
    right = np.ones(size * size, dtype=np.int64)
    if randomize_actions:
        right = np.random.default_rng(mapping_seed).integers(0, 2, size * size)
    below, last = (
        np.minimum(row + 1, size - 1) * size,
        size - 1,
    )  # no step leaves the bottom row, where the episode ends
    leads = np.empty((size * size, 2), dtype=np.int64)
    leads[cell, right] = below + np.minimum(column + 1, last)
    leads[cell, 1 - right] = below + np.maximum(column - 1, 0)
    leads[row == last] = cell[row == last, None]
    reward = np.zeros((size * size, 2))
    reward[cell, right] = np.where(cell == size * size - 1, 1.0, 0.0) - MOVE_COST / size
    ends = np.repeat((row == last)[:, None], 2, axis=1)
    return Rules(leads, reward, ends, cell, 0, None), right


class DeepSea(TabularTask):
    """Deep sea as a Gymnasium environment.

    Attributes:
        size: Number of rows and of columns.
        right: Action that leads to the right from each cell, ``[size * size]``.
    """

    def __init__(
        self,
        size: FewFromZero = 15,
        randomize_actions: bool = True,
        mapping_seed: CountFromZero = 0,
        render_mode: str | None = None,
    ) -> None:
        """Creates the environment.

        Args:
            size: Number of rows and of columns, at least 2.
            randomize_actions: Whether the action that leads to the right is drawn for each cell; else it is 1 in all.
            mapping_seed: Seed of that draw: seas of one seed are the same, for any seeds of their episodes.
            render_mode: ``"rgb_array"`` or None.

        Raises:
            ValueError: If a setting is out of range.
        """
        rules, self.right = deep_sea_rules(size, randomize_actions, mapping_seed)
        super().__init__(rules, spaces.Discrete(size * size), render_mode)
        self.size = int(size)

    def picture(self, state: int, visited: np.ndarray, total: float, steps: int) -> np.ndarray:
        """Returns an image of the sea: the path so far, the diver and the treasure."""
        from rookery.tasks import drawing

        cells = visited.reshape(self.size, self.size)
        return drawing.draw_deep_sea(cells, divmod(state, self.size), total, steps)

    def letters(self, state: int) -> str:
        """Returns the sea as text: the diver ``@``, the treasure ``$``; empty cells cannot be reached."""
        cells = [["." if column <= row else " " for column in range(self.size)] for row in range(self.size)]
        cells[-1][-1] = "$"
        cells[state // self.size][state % self.size] = "@"
        return "\n".join(" ".join(row).rstrip() for row in cells)


class BatchedDeepSea(BatchedTabular):
    """Vectorized `DeepSea`: a `VectorEnv` of one agent, one row per lane."""

    def __init__(
        self, num_lanes: int, size: FewFromZero = 15, randomize_actions: bool = True, mapping_seed: CountFromZero = 0
    ) -> None:
        """Creates `num_lanes` environments; the other arguments are those of `DeepSea`."""
        super().__init__(num_lanes, DeepSea(size, randomize_actions, mapping_seed))


DeepSea.batched = BatchedDeepSea  # here, because it needs the class above
