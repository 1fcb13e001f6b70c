"""Key and door: two rooms; the only reward is for fetching the key, opening the door and reaching the goal.

The house is a square of `size` x `size` cells, with a wall down its middle column and a door at the wall's upper end.
The explorer starts in the upper left corner. The key lies in the lower left corner, and is taken by going there; with
the key the door can be walked through, without the key the door is a wall. The goal is the lower right corner: reaching
the goal pays 1 and terminates the episode; there is no other reward. Moves are 0 up, 1 right, 2 down, 3 left; a wall
stops them. An observation is ``[row, column, has the key]``. An episode is truncated after `max_steps`.

The return is 1 or 0; some exact values of the rules (`Rules.returns`):

==========  =============  ====================  ===================================
`size`      `max_steps`    steps at the least    return of a random policy
==========  =============  ====================  ===================================
7           100            24                    0.0025
9           100            32                    0.000037 (once in 27,000 episodes)
11          100            40                    0.0000003
==========  =============  ====================  ===================================
"""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from rookery.core.settings.reach import Count, FewFromZero
from rookery.envs.adapters.batched import check_least
from rookery.tasks.tabular import BatchedTabular, Rules, TabularTask

MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))
"""Change of (row, column) for up, right, down, left."""


def key_door_rules(size: int, max_steps: int) -> Rules:
    """Creates the rules; see `KeyDoor`. A state is the index of the cell, plus `size` * `size` with the key."""
    check_least("KeyDoor", 3, size=size)
    check_least("KeyDoor", 1, max_steps=max_steps)
    cells, last, middle = size * size, size - 1, size // 2
    state = np.arange(2 * cells)
    row, column = np.divmod(state % cells, size)
    has_key = state >= cells
    leads = np.empty((2 * cells, len(MOVES)), dtype=np.int64)
    for action, (down, right) in enumerate(MOVES):
        to_row, to_column = np.clip(row + down, 0, last), np.clip(column + right, 0, last)
        stopped = (to_column == middle) & ((to_row > 0) | ~has_key)
        there = np.where(stopped, state % cells, to_row * size + to_column)
        leads[:, action] = there + cells * (has_key | (there == last * size))
    ends = leads % cells == cells - 1
    obs = np.stack((row, column, has_key.astype(np.int64)), 1)
    return Rules(leads, ends.astype(np.float64), ends, obs, 0, int(max_steps))


class KeyDoor(TabularTask):
    """Key and door as a Gymnasium environment.

    Attributes:
        size: Number of rows and of columns.
    """

    def __init__(self, size: FewFromZero = 9, max_steps: Count = 100, render_mode: str | None = None) -> None:
        """Creates the environment.

        Args:
            size: Number of rows and of columns, at least 3.
            max_steps: Number of steps after which an episode is truncated, at least 1.
            render_mode: ``"rgb_array"`` or None.

        Raises:
            ValueError: If a setting is out of range.
        """
        super().__init__(key_door_rules(size, max_steps), spaces.MultiDiscrete([size, size, 2]), render_mode)
        self.size = int(size)

    def picture(self, state: int, visited: np.ndarray, total: float, steps: int) -> np.ndarray:
        """Returns an image of the rooms: the path so far, the explorer, key, door and goal."""
        from rookery.tasks import drawing

        cells = visited.reshape(2, self.size, self.size)
        has_key, cell = divmod(state, self.size**2)
        limit = self.rules.max_steps or 1
        return drawing.draw_key_door(cells, divmod(cell, self.size), bool(has_key), total, steps, limit)

    def letters(self, state: int) -> str:
        """Returns the rooms as text: explorer ``@``, walls ``#``, key ``k``, door ``+``, goal ``G``."""
        has_key, cell = divmod(state, self.size**2)
        cells = [
            ["#" if row and column == self.size // 2 else "." for column in range(self.size)]
            for row in range(self.size)
        ]
        cells[-1][-1] = "G"
        if not has_key:
            cells[0][self.size // 2], cells[-1][0] = "+", "k"
        cells[cell // self.size][cell % self.size] = "@"
        rows = [" ".join(row) for row in cells]
        return "\n".join([*rows, "the key is taken" if has_key else "the key is not taken"])


class BatchedKeyDoor(BatchedTabular):
    """Vectorized `KeyDoor`: a `VectorEnv` of one agent, one row per lane."""

    def __init__(self, num_lanes: int, size: FewFromZero = 9, max_steps: Count = 100) -> None:
        """Creates `num_lanes` environments; the other arguments are those of `KeyDoor`."""
        super().__init__(num_lanes, KeyDoor(size, max_steps))


KeyDoor.batched = BatchedKeyDoor  # here, because it needs the class above
