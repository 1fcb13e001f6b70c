"""Hazard grid (a limit on costs): a goal is reached fast across hazards, or without a cost around them.

A walker starts in a cell of the left column, drawn uniformly, and moves up, right, down or left; walls stop it. The
goal is the lower right cell and pays 1; every step costs 0.05 of reward. Each step into or within a hazard has
``info["cost"]`` 1, any other 0. An episode is truncated after 60 steps. S = starts, # = hazards, G = goal::

    S . . . . . . .
    S # # # # # # .
    S # # # # # # .
    S # # # # # # .
    S # # # # # # .
    S # # # # # # G

From row r, the way across has 12 - r steps and a cost of 6, the way around 12 + r steps and none. So an episode across
returns 0.4 + 0.05 r and one around 0.4 - 0.05 r, and a limit on the mean cost is used best from the lowest rows.

=========================  ======  ====
policy                     return  cost
=========================  ======  ====
across from every row      0.525   5 (row 0 loses nothing by walking around)
best at a mean cost of 2   0.425   2 (across from rows 4 and 5)
around from every row      0.275   0
=========================  ======  ====
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from gymnasium import spaces

from rookery.tasks.tabular import Rules, TabularTask

ROWS, COLUMNS, MAX_STEPS = 6, 8, 60
STEP_REWARD = -0.05


def hazard_rules() -> tuple[Rules, np.ndarray]:
    """Creates the rules, with row 0 as the start; and the cost of each action in each state, ``[S, A]``."""
    row, column = np.divmod(np.arange(ROWS * COLUMNS), COLUMNS)
    moves = ((-1, 0), (0, 1), (1, 0), (0, -1))
    leads = [
        np.clip(row + down, 0, ROWS - 1) * COLUMNS + np.clip(column + right, 0, COLUMNS - 1) for down, right in moves
    ]
    after = np.stack(leads, axis=1)
    hazard = (row > 0) & (column > 0) & (column < COLUMNS - 1)
    ends = after == ROWS * COLUMNS - 1
    return (
        Rules(after, STEP_REWARD + ends, ends, np.stack((row, column), axis=1), 0, MAX_STEPS),
        hazard[after].astype(np.float64),
    )


class HazardGrid(TabularTask):
    """Hazard grid as a Gymnasium environment.

    Attributes:
        cost: Cost of each action in each state, ``[S, A]``.
    """

    def __init__(self, render_mode: str | None = None) -> None:
        """Creates the environment.

        Args:
            render_mode: ``"rgb_array"`` or None.

        Raises:
            ValueError: If the render mode is another.
        """
        rules, self.cost = hazard_rules()
        super().__init__(rules, spaces.MultiDiscrete([ROWS, COLUMNS]), render_mode)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts an episode in a row of the left column."""
        super().reset(seed=seed)
        self._visited[self._state] = False
        self._state = int(self.np_random.integers(ROWS)) * COLUMNS
        self._visited[self._state] = True
        return self.rules.obs[self._state].copy(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Takes an action; see `TabularTask.step`. The info has its ``cost``."""
        before = self._state
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, reward, terminated, truncated, {**info, "cost": float(self.cost[before, int(action)])}

    def means(self, policy: np.ndarray) -> tuple[float, float]:
        """Returns the exact mean return and cost of an episode of a policy.

        Args:
            policy: Probability of each action in each state, ``[S, A]``.
        """
        starts = [replace(self.rules, start=row * COLUMNS) for row in range(ROWS)]
        reward = np.mean([rules.returns(policy, MAX_STEPS) for rules in starts])
        cost = np.mean([replace(rules, reward=self.cost).returns(policy, MAX_STEPS) for rules in starts])
        return float(reward), float(cost)

    def picture(self, state: int, visited: np.ndarray, total: float, steps: int) -> np.ndarray:
        """Returns an image of the grid: hazards, the path so far, the walker and the goal."""
        from rookery.tasks import drawing

        hazard = np.zeros(ROWS * COLUMNS, dtype=bool)
        hazard[self.rules.next[self.cost > 0]] = True
        shape, at = (ROWS, COLUMNS), divmod(state, COLUMNS)
        return drawing.draw_hazards(hazard.reshape(shape), visited.reshape(shape), at, total, steps, MAX_STEPS)

    def letters(self, state: int) -> str:
        """Returns the grid as text: walker ``@``, hazards ``#``, goal ``G``."""
        cells = [["#" if row and 0 < column < COLUMNS - 1 else "." for column in range(COLUMNS)] for row in range(ROWS)]
        cells[-1][-1] = "G"
        cells[state // COLUMNS][state % COLUMNS] = "@"
        return "\n".join(" ".join(row) for row in cells)
