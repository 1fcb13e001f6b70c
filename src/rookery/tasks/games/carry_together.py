"""Carrying together: a load of weight 1, 2 or 3 moves only if that many agents lift it; all agents share the reward of
a delivery.

After the task PushBlockCollab of ML-Agents. Three agents and three loads are on a grid whose leftmost column is home.
An agent walks, or lifts the load in its cell. If in one step as many agents lift a load as it weighs, it
comes one column nearer to home, and those who lifted it with it. For its whole way the group gets its weight / 6, for
each column an equal part of that: 1 in all, when nothing is left, which ends the episode. After `max_steps` it is cut
off.

Agents do not see each other, only how many stand in the same cell. So an agent cannot tell from its observation whether
the group reward came from its own action or from the others'.
"""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from rookery.core.settings.reach import Count
from rookery.envs.adapters.batched import check_least
from rookery.envs.adapters.batched_agents import BatchedAgents

AGENTS = ("a", "b", "c")
UP, RIGHT, DOWN, LEFT, LIFT = range(5)
MOVES = np.array([(-1, 0), (0, 1), (1, 0), (0, -1), (0, 0)])
"""Change of (row, column) for each action."""

WEIGHTS = np.array([1, 2, 3])
"""Weight of each load: the number of agents needed to lift it."""

ROWS, COLUMNS = 4, 5

OWN, HERE, LOADS = slice(0, ROWS + COLUMNS), slice(ROWS + COLUMNS, ROWS + COLUMNS + 2), ROWS + COLUMNS + 2
"""Entries of an observation: the agent's own row and column as flags; whether one and whether two other agents are in
the same cell; and, from here on, four for each load: whether it is not delivered yet, whether it is in the agent's
cell, and row and column distance.
"""


class CarryTogether(BatchedAgents):
    """Vectorized CarryTogether environments; one row per lane and agent.

    Actions are 0 up, 1 right, 2 down, 3 left, 4 lift. `OWN`, `HERE` and `LOADS` describe the entries of an observation
    ``[23]``.
    """

    render_fps = 6
    saved = (*BatchedAgents.saved, "_place", "_load", "_there", "_far")

    def __init__(self, num_lanes: int, max_steps: Count = 50) -> None:
        """Creates the environments.

        Args:
            num_lanes: Number of grids.
            max_steps: Number of steps after which an episode is truncated.

        Raises:
            ValueError: If a setting is out of range.
        """
        check_least("CarryTogether", 1, max_steps=max_steps)
        self._size = LOADS + 4 * len(WEIGHTS)
        space = spaces.Box(-1.0, 1.0, (self._size,))
        super().__init__(num_lanes, space, 5, "CarryTogether, batched", AGENTS, {"team": AGENTS}, group_rewards=True)
        self.max_steps = int(max_steps)
        self._place = np.zeros((num_lanes, 3, 2), dtype=np.int64)  # row and column of each agent
        self._load = np.zeros((num_lanes, 3, 2), dtype=np.int64)  # and of each load
        self._there = np.zeros((num_lanes, 3), dtype=bool)
        self._far = np.ones((num_lanes, 3), dtype=np.int64)  # columns that each load began away from home
        self._seen = self._rows.obs["obs"].reshape(num_lanes, 3, self._size)
        self._row_flags, self._column_flags = np.eye(ROWS, dtype=np.float32), np.eye(COLUMNS, dtype=np.float32)

    def _play(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        at = self._at()
        lifts = at & (actions == LIFT)[:, :, None]  # [lanes, agents, loads]
        moves = self._there & (lifts.sum(axis=1) >= WEIGHTS)
        carried = (lifts & moves[:, None]).any(axis=2)
        self._place += MOVES[actions]
        self._place[:, :, 1] -= carried
        np.clip(self._place, 0, (ROWS - 1, COLUMNS - 1), out=self._place)
        self._load[:, :, 1] -= moves
        delivered = moves & (self._load[:, :, 1] == 0)
        self._there &= ~delivered
        self._group_reward[...] = ((moves * WEIGHTS / self._far).sum(axis=1) / WEIGHTS.sum())[:, None]
        return np.logical_not(self._there.any(axis=1)), self._steps >= self.max_steps

    def _at(self) -> np.ndarray:
        """Returns which agents are at which loads, ``[lanes, agents, loads]`` bool; at most one load each."""
        same = (self._place[:, :, None] == self._load[:, None]).all(axis=3)
        same &= self._there[:, None]
        heavier = same[:, :, ::-1].cumsum(axis=2)[:, :, ::-1] - same > 0  # of two in one cell the heavier is lifted
        return np.asarray(same & ~heavier)

    def _start(self, lanes: np.ndarray) -> None:
        self._there[lanes] = True
        for lane in lanes.tolist():
            rng = self._rng(lane)
            self._place[lane] = np.stack([rng.integers(0, ROWS, 3), rng.integers(0, COLUMNS, 3)], axis=1)
            self._load[lane] = np.stack([rng.permutation(ROWS)[:3], rng.integers(2, COLUMNS, 3)], axis=1)
            self._far[lane] = self._load[lane, :, 1]

    def _observe(self) -> None:
        seen, place = self._seen, self._place
        seen[:, :, :ROWS] = self._row_flags[place[:, :, 0]]
        seen[:, :, ROWS : ROWS + COLUMNS] = self._column_flags[place[:, :, 1]]
        mates = (place[:, :, None] == place[:, None]).all(axis=3).sum(axis=2) - 1
        seen[:, :, HERE] = mates[:, :, None] == (1, 2)
        loads = seen[:, :, LOADS:].reshape(*place.shape[:2], 3, 4)
        loads[..., 0] = self._there[:, None]
        loads[..., 1] = self._at()
        way = (self._load[:, None] - place[:, :, None]) / np.array([ROWS - 1, COLUMNS - 1])
        loads[..., 2:] = np.where(self._there[:, None, :, None], way, 0.0)
        seen[:, :, LOADS:] = loads.reshape(*place.shape[:2], -1)

    def text(self, lane: int) -> str:
        """Returns the grid of a lane as text: agents, weights of loads, and ``|`` beside home."""
        cells = [["."] * COLUMNS for _ in range(ROWS)]
        for weight, (row, column), there in zip(WEIGHTS, self._load[lane], self._there[lane], strict=True):
            if there:
                cells[row][column] = str(weight)
        for agent, (row, column) in zip(AGENTS, self._place[lane], strict=True):
            cells[row][column] = cells[row][column].replace(".", "") + agent
        return "\n".join("|" + " ".join(f"{cell:<4}" for cell in row) for row in cells)

    def render(self, lane: int) -> np.ndarray:
        """Returns an image ``[height, width, 3]`` uint8 of a lane."""
        from rookery.tasks import drawing

        loads = [
            (int(row), int(column), int(weight))
            for weight, (row, column), there in zip(WEIGHTS, self._load[lane], self._there[lane], strict=True)
            if there
        ]
        agents = [(int(row), int(column)) for row, column in self._place[lane]]
        delivered = int((WEIGHTS * ~self._there[lane]).sum())
        steps = self._timestep(lane)
        return drawing.draw_loads((ROWS, COLUMNS), agents, loads, delivered, steps, self.max_steps)
