"""PushBlock: push a block onto the goal along one side of a room. Based on ML-Agents' PushBlock, on a grid.

The room has `size` x `size` cells. The goal is the row of cells along one side, drawn at random. The block begins at
least two cells from every side, the agent in any cell that is neither the block's nor of the goal. The agent looks in
one of four directions and moves by a cell forward, back, to the left or to the right, or turns by a quarter; if it
moves into the block, that is pushed one further, unless a wall stops both. When the block is on the goal, that pays 5
and ends the episode. Each step costs 1 / `max_steps`; after so many an episode is truncated.

A block at the side opposite to the goal can never be pushed off that side, so it pays to think before
pushing. The shortest ways are counted by `distances`: the best return is 4.956 on average, over all beginnings in a
room of 9 x 9; random actions get -0.89. ML-Agents counts its task as solved at 4.5.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, get_args

import numpy as np
from gymnasium import spaces

from rookery.core.settings.reach import Count, FewFromZero
from rookery.envs.adapters.batched import check_least
from rookery.envs.adapters.batched_agents import BatchedAgents
from rookery.envs.adapters.gym_env import AGENT
from rookery.tasks.goal_grid import check_observation

STAY, FORWARD, BACK, TURN_RIGHT, TURN_LEFT, LEFT, RIGHT = range(7)

TURNS = np.array([0, 0, 0, 1, 3, 0, 0])
"""Quarter turns to the right for each action."""

WAY = np.array([(0, 0), (-1, 0), (1, 0), (0, 0), (0, 0), (0, -1), (0, 1)])
"""Change of (row, column) for each action of an agent that faces up."""

QUARTERS = np.array([[(1, 0), (0, 1)], [(0, -1), (1, 0)], [(-1, 0), (0, -1)], [(0, 1), (-1, 0)]])
"""Rotation of (row, column) into the view of an agent that faces up, right, down or left, ``[4, 2, 2]``: ``way @
matrix``.
"""

PRIZE = 5.0

EMPTY, BLOCK, GOAL, WALL = range(4)
"""Content of a cell."""

RAYS = 14
"""Number of rays, evenly spaced, the first one forward."""

SAMPLES = 2
"""Sample points of a ray per cell."""

Observation = Literal["rays", "grid"]


class PushBlock(BatchedAgents):
    """Vectorized PushBlock environments; one row per lane.

    Actions are 0 stay, 1 forward, 2 back, 3 turn to the right, 4 turn to the left, 5 left, 6 right. An observation has
    ``rays`` ``[70]``, or ``grid`` ``[2 * size - 1, 2 * size - 1, 3]``: flags of the block, the goal and walls in the
    cells around the agent, which looks up in the middle. A ray has 5 numbers: flags of the block, the goal or a wall
    that it meets first, a flag if it meets nothing, and how far it gets, in parts of `size` - 1. Rays leave gaps
    further away, so that a block may be missed by them.
    """

    render_fps = 8
    saved = (*BatchedAgents.saved, "_place", "_block", "_side", "_looks")

    def __init__(
        self, num_lanes: int, size: FewFromZero = 9, observation: Observation = "rays", max_steps: Count = 200
    ) -> None:
        """Creates the environments.

        Args:
            num_lanes: Number of rooms.
            size: Number of rows and of columns, at least 5.
            observation: Form of the observation: ``rays`` or ``grid``.
            max_steps: Number of steps after which an episode is truncated.

        Raises:
            ValueError: If a setting is out of range.
        """
        check_least("PushBlock", 5, size=size)
        check_least("PushBlock", 1, max_steps=max_steps)
        check_observation("PushBlock", observation, get_args(Observation))
        self.size, self.max_steps, self.observation = int(size), int(max_steps), observation
        view = 2 * self.size - 1
        space = spaces.Dict(
            {"grid": spaces.Box(0, 1, (view, view, 3), np.uint8)}
            if observation == "grid"
            else {"rays": spaces.Box(0.0, 1.0, (RAYS * 5,))}
        )
        super().__init__(num_lanes, space, len(WAY), f"PushBlock {size}x{size}, batched", (AGENT,))
        self._place, self._block = np.zeros((2, num_lanes, 2), dtype=np.int64)  # row and column
        self._side, self._looks = np.zeros((2, num_lanes), dtype=np.int64)  # quarters: up, right, down, left
        # a map has walls around it, wide enough for the whole view of an agent
        self._wide = self.size + 2 * (self.size - 1)
        self._maps = np.stack([_map(self.size, self._wide, side) for side in range(4)])
        self._offsets = self._view_offsets() if observation == "grid" else self._ray_offsets()
        self._flags = np.concatenate([np.zeros((1, 3), np.uint8), np.eye(3, dtype=np.uint8)])

    def _play(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        action, last = actions[:, 0], self.size - 1
        way = (WAY[action][:, None, :] @ QUARTERS[self._looks])[:, 0]
        self._looks[...] = (self._looks + TURNS[action]) % 4
        to = self._place + way
        pushes = (to == self._block).all(axis=1) & way.any(axis=1)
        pushed = self._block + way
        far = np.where(pushes[:, None], pushed, to)
        free = ((far >= 0) & (far <= last)).all(axis=1)
        np.copyto(self._place, to, where=free[:, None])
        np.copyto(self._block, pushed, where=(free & pushes)[:, None])
        over = self._on_goal(self._block)
        self._reward[:, 0] = PRIZE * over - 1.0 / self.max_steps
        return over, self._steps >= self.max_steps

    def _on_goal(self, places: np.ndarray) -> np.ndarray:
        """Returns a mask ``[lanes]`` of the positions ``[lanes, 2]`` that are on the goal."""
        row, column = places.T
        last = self.size - 1
        sides = np.stack([row == 0, column == last, row == last, column == 0])
        return np.asarray(sides[self._side, self._lanes])

    def _start(self, lanes: np.ndarray) -> None:
        for lane in lanes.tolist():
            rng = self._rng(lane)
            self._side[lane], self._looks[lane] = rng.integers(0, 4, 2)
            self._block[lane] = rng.integers(2, self.size - 2, 2)
            goal = (self._maps[self._side[lane]] == GOAL)[self.size - 1 :, self.size - 1 :]
            free = ~goal[: self.size, : self.size]
            free[tuple(self._block[lane])] = False
            self._place[lane] = divmod(int(rng.choice(np.flatnonzero(free))), self.size)

    def _observe(self) -> None:
        maps = self._maps[self._side]
        edge = self.size - 1
        maps[self._lanes, self._block[:, 0] + edge, self._block[:, 1] + edge] = BLOCK
        here = (self._place[:, 0] + edge) * self._wide + self._place[:, 1] + edge
        at = here[:, None] + self._offsets[self._looks]
        met = np.take_along_axis(maps.reshape(self.num_lanes, -1), at, axis=1)
        if self.observation == "grid":
            grid = self._rows.obs["grid"]
            grid.reshape(self.num_lanes, -1, 3)[...] = self._flags[met]
            return
        met = met.reshape(self.num_lanes, RAYS, -1)
        first = (met > EMPTY).argmax(axis=2)
        thing = np.take_along_axis(met, first[:, :, None], axis=2)[:, :, 0]
        rays = self._rows.obs["rays"].reshape(self.num_lanes, RAYS, 5)
        rays[:, :, :3] = self._flags[thing]
        rays[:, :, 3] = thing == EMPTY
        rays[:, :, 4] = np.where(thing == EMPTY, 1.0, (first + SAMPLES) / (met.shape[2] + SAMPLES - 1))

    def _view_offsets(self) -> np.ndarray:
        """Returns the map offset of each cell of the view from the agent's cell, ``[4, cells]`` by quarter turns."""
        edge = self.size - 1
        ways = np.stack(np.meshgrid(np.arange(-edge, edge + 1), np.arange(-edge, edge + 1), indexing="ij"), axis=2)
        row, column = np.moveaxis(ways.reshape(-1, 2) @ QUARTERS, 2, 0)
        return np.asarray(row * self._wide + column)

    def _ray_offsets(self) -> np.ndarray:
        """Returns the map offsets of the points of all rays from the agent, ``[4, rays * points]``."""
        angle = 2 * np.pi * np.arange(RAYS) / RAYS
        far = np.arange(SAMPLES, SAMPLES * (self.size - 1) + 1) / SAMPLES
        ways = far[None, :, None] * np.stack([-np.cos(angle), np.sin(angle)], axis=1)[:, None]
        near = np.sign(ways) * np.floor(np.abs(ways) + 0.5 + 1e-9)  # alike in all directions
        row, column = np.moveaxis(near.reshape(-1, 2).astype(np.int64) @ QUARTERS, 2, 0)
        return np.asarray(row * self._wide + column)

    def text(self, lane: int) -> str:
        """Returns the room of a lane as text: the goal ``=``, the block ``#``, the agent as an arrow."""
        cells = np.full((self.size, self.size), ".")
        cells[self._inner(self._maps[self._side[lane]]) == GOAL] = "="
        cells[tuple(self._block[lane])] = "#"
        cells[tuple(self._place[lane])] = "^>v<"[self._looks[lane]]
        return "\n".join(" ".join(row) for row in cells)

    def _inner(self, whole: np.ndarray) -> np.ndarray:
        edge = self.size - 1
        return whole[edge : edge + self.size, edge : edge + self.size]

    def render(self, lane: int) -> np.ndarray:
        """Returns an image ``[height, width, 3]`` uint8 of a lane."""
        from rookery.tasks import drawing

        goal = self._inner(self._maps[self._side[lane]]) == GOAL
        agent, block = self._place[lane].tolist(), self._block[lane].tolist()
        looks, steps = int(self._looks[lane]), self._timestep(lane)
        return drawing.draw_push_block(goal, block, agent, looks, steps, self.max_steps)


def _map(size: int, wide: int, side: int) -> np.ndarray:
    """Returns the map of a room with walls around it and the goal at a side (up, right, down, left), ``[wide,
    wide]``.
    """
    edge = size - 1
    cells = np.full((wide, wide), WALL)
    room = np.zeros((size, size), dtype=np.int64)
    room[0] = GOAL
    cells[edge : edge + size, edge : edge + size] = np.rot90(room, -side)
    return cells


@lru_cache(maxsize=4)
def distances(size: int) -> np.ndarray:
    """Returns the minimum number of steps until the block is on a goal along row 0, ``[cells, cells]``.

    Args:
        size: Number of rows and of columns of the room.

    Returns:
        By the number of the agent's cell and that of the block's, row by row; infinite where no way leads there.
    """
    num = size * size
    row, column = np.divmod(np.arange(num), size)
    fewest = np.full((num, num), np.inf)
    fewest[:, row == 0] = 0.0
    agent, block = np.divmod(np.arange(num * num), num)
    leads = []
    for down, right in WAY[[FORWARD, BACK, LEFT, RIGHT]]:
        to, far = (row[agent] + down, column[agent] + right), (row[block] + down, column[block] + right)
        pushes = (to[0] == row[block]) & (to[1] == column[block])
        last = [np.where(pushes, behind, before) for behind, before in zip(far, to, strict=True)]
        free = (last[0] >= 0) & (last[0] < size) & (last[1] >= 0) & (last[1] < size)
        new_agent = np.where(free, to[0] * size + to[1], agent)
        new_block = np.where(free & pushes, far[0] * size + far[1], block)
        leads.append(new_agent * num + new_block)
    flat = fewest.ravel()
    while True:
        closer = np.minimum(flat, 1.0 + np.min([flat[lead] for lead in leads], axis=0))
        if (closer == flat).all():
            return flat.reshape(num, num)
        flat = closer


def best_return(size: int, max_steps: int) -> float:
    """Returns the mean return of the shortest solution over all starts, in a room of `size` x `size`."""
    fewest = distances(size)
    inner = [row * size + column for row in range(2, size - 2) for column in range(2, size - 2)]
    means = [np.mean([fewest[agent, block] for agent in range(size, size * size) if agent != block]) for block in inner]
    return float(PRIZE - np.mean(means) / max_steps)
