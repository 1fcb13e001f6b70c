"""Sacrifice: one of three agents must end its own episode so that the others can leave; it is rewarded after its end.

After the task DungeonEscape of ML-Agents. Three agents stand in a corridor that a door divides. At its left end is an
altar: an agent that steps on it is gone, pays `cost` of its own, and the door opens. Behind the door, at the right end,
is the exit. As soon as one agent gets there, the group gets half a point for each agent that still lives, and the
episode is over; it also ends when no agent is alive, or, truncated, after `max_steps`.

So the group gets 1 at best: exactly one walks to the altar, the others to the exit. An agent earns nothing itself after
its end: by its own rewards, and by those of its group while it is alive, the altar can only cost. Only an algorithm
that credits an ended agent with later group rewards can learn to step on it.
"""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from rookery.core.settings.reach import Count
from rookery.envs.adapters.batched import check_least
from rookery.envs.adapters.batched_agents import BatchedAgents

AGENTS = ("a", "b", "c")
LEFT, STAY, RIGHT = range(3)

CELLS, DOOR = 9, 5
"""Number of cells of the corridor, the altar first and the exit last; and the first cell behind the door."""

STARTS = (2, 3, 4)
"""Initial cells of the agents, one each, in random order."""


class Sacrifice(BatchedAgents):
    """Vectorized Sacrifice environments; one row per lane and agent.

    Actions are 0 left, 1 stay, 2 right. An observation ``[2 * CELLS + 1]`` has the agent's cell and the cells of other
    live agents, as flags, and whether the door is open.
    """

    render_fps = 6
    saved = (*BatchedAgents.saved, "_cell", "_open")

    def __init__(self, num_lanes: int, max_steps: Count = 30, cost: float = 0.1) -> None:
        """Creates the environments.

        Args:
            num_lanes: Number of corridors.
            max_steps: Number of steps after which an episode is truncated.
            cost: Cost of stepping on the altar, subtracted from the agent's own reward.

        Raises:
            ValueError: If a setting is out of range.
        """
        check_least("Sacrifice", 1, max_steps=max_steps)
        if not 0.0 <= cost < 1.0:
            raise ValueError(f"Sacrifice: cost is {cost!r}, it must be at least 0 and less than 1")
        space = spaces.MultiBinary(2 * CELLS + 1)
        super().__init__(num_lanes, space, 3, "Sacrifice, batched", AGENTS, {"team": AGENTS}, group_rewards=True)
        self.max_steps, self.cost = int(max_steps), float(cost)
        self._cell = np.zeros((num_lanes, 3), dtype=np.int64)
        self._open = np.zeros(num_lanes, dtype=bool)
        self._seen = self._rows.obs["obs"].reshape(num_lanes, 3, 2 * CELLS + 1)
        self._flags = np.eye(CELLS, dtype=np.uint8)

    def _play(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        farthest = np.where(self._open, CELLS - 1, DOOR - 1)[:, None]  # the door opens for the next step
        moved = np.minimum(np.maximum(self._cell + actions - STAY, 0), farthest)
        np.copyto(self._cell, moved, where=self._alive)
        np.logical_and(self._alive, self._cell == 0, out=self._ends)
        self._reward[self._ends] = -self.cost
        self._open |= self._ends.any(axis=1)
        living = self._alive & ~self._ends
        out = (living & (self._cell == CELLS - 1)).any(axis=1)
        alive = living.sum(axis=1)
        self._group_reward[...] = np.where(out, alive / 2, 0.0)[:, None]
        return out | (alive == 0), self._steps >= self.max_steps

    def _start(self, lanes: np.ndarray) -> None:
        self._open[lanes] = False
        for lane in lanes.tolist():
            self._cell[lane] = self._rng(lane).permutation(STARTS)

    def _observe(self) -> None:
        flags = self._flags[self._cell] * self._alive[:, :, None]
        total = flags.sum(axis=1, keepdims=True)
        self._seen[:, :, :CELLS] = flags
        self._seen[:, :, CELLS:-1] = total > flags
        self._seen[:, :, -1] = self._open[:, None]

    def text(self, lane: int) -> str:
        """Returns the corridor of a lane as text: the altar ``!``, the door ``|``, the exit ``>``."""
        cells = ["!", *["."] * (CELLS - 2), ">"]
        where: dict[int, str] = {}
        for agent, cell, alive in zip(AGENTS, self._cell[lane].tolist(), self._alive[lane].tolist(), strict=True):
            if alive:
                where[cell] = where.get(cell, "") + agent
        shown = [f"{where.get(cell, mark):<3}" for cell, mark in enumerate(cells)]
        shown.insert(DOOR, " " if self._open[lane] else "|")
        return " ".join(shown).rstrip()

    def render(self, lane: int) -> np.ndarray:
        """Returns an image ``[height, width, 3]`` uint8 of a lane."""
        from rookery.tasks import drawing

        where = [(int(cell), bool(alive)) for cell, alive in zip(self._cell[lane], self._alive[lane], strict=True)]
        is_open, steps = bool(self._open[lane]), self._timestep(lane)
        return drawing.draw_corridor(CELLS, DOOR, where, is_open, steps, self.max_steps)
