"""Match3: swap two neighbouring cells to form lines of three or more of the same kind. ML-Agents' Match3, by the same
rules.

A board has up to `rows` x `columns` cells of `types` kinds, of which 2 in 10 are special in a first way and 1 in 10 in
a second one. A move swaps two neighbours of different kinds, and is allowed if one of them then lies in a line of three
or more of its kind. All cells of such lines are cleared together: a plain one pays 0.01, a special one 0.02, or 0.03 if
it is special in the second way. What lies above falls down, new cells fall in from above, and lines that result are
cleared too, until there are none. If no move is allowed then, the board is drawn anew, which pays nothing. After
`max_moves` moves an episode is truncated.

Row 0 is the lowest. Moves are numbered as in ML-Agents: first swaps with the cell on the right, row by row, then swaps
with the cell above, row by row. With `min_rows` and `min_columns` each episode has a board of a size of its own, in the
lower left corner of the largest one; the rest is empty.

Returns of 500 moves (`benchmarks/results/worlds.md`): allowed moves by chance 34.2, the highest-scoring move 37.3.
ML-Agents states 34.2 and 37.0 for these two, and 38.5 and 39.5 for policies learned from vectors and images.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from gymnasium import spaces

from rookery.core.settings.reach import Count, FewFromZero
from rookery.core.spaces.arrays import MASK
from rookery.envs.adapters.batched import check_least
from rookery.envs.adapters.batched_agents import BatchedAgents
from rookery.envs.adapters.gym_env import AGENT
from rookery.envs.base import Step
from rookery.tasks.goal_grid import check_observation
from rookery.tasks.random_numbers import below, hashed, lane_key

EMPTY, OUTSIDE = -1, -2
"""Kind of a cleared cell, and of a cell outside the board."""

SPECIALS = 2
"""Number of special types of a cell."""

POINTS = np.array([1, 2, 3])
"""Points of a plain cell, of the first special type, and of the second."""

CHANCES = np.array([2, 1, 1, 0, 0, 0, 0, 0, 0, 0])
"""Special types among ten cells, for drawing."""

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""Letters of the kinds of cells."""

REWARD = 0.01
"""Reward per point."""

FIRST = 3
"""Index of the first random number of the cells; the size of the board is drawn from earlier ones."""

Observation = Literal["vector", "visual"]


class Match3(BatchedAgents):
    """Vectorized Match3 environments; one row per lane.

    Actions are moves, numbered as the module says; the mask has those that are allowed. An observation has the mask,
    ``cells``, for each cell a flag for each kind, and ``special``, for each cell a flag for plain and for each way to
    be special: ``[rows * columns * flags]``, or as images ``[rows, columns, flags]``.

    Attributes:
        rows: Number of rows of the largest board.
        columns: Number of columns of the largest board.
    """

    render_fps = 3
    saved = (*BatchedAgents.saved, "_cells", "_special", "_key", "_drawn_boards")

    def __init__(
        self,
        num_lanes: int,
        rows: FewFromZero = 9,
        columns: FewFromZero = 8,
        types: FewFromZero = 6,
        observation: Observation = "vector",
        max_moves: Count = 500,
        min_rows: FewFromZero = 0,
        min_columns: FewFromZero = 0,
    ) -> None:
        """Creates the environments.

        Args:
            num_lanes: Number of boards.
            rows: Number of rows, at least 4.
            columns: Number of columns, at least 4.
            types: Number of kinds of cells, from 4 to 26.
            observation: Form of the observed board: ``vector`` or ``visual``.
            max_moves: Number of moves after which an episode is truncated.
            min_rows: Smallest number of rows that an episode may have, at least 4; 0: always `rows`.
            min_columns: Smallest number of columns that an episode may have, at least 4; 0: always `columns`.

        Raises:
            ValueError: If a setting is out of range.
        """
        check_least("Match3", 4, rows=rows, columns=columns, types=types)
        check_least("Match3", 1, max_moves=max_moves)
        if types > len(LETTERS):
            raise ValueError(f"Match3: types is {types}, it must be from 4 to {len(LETTERS)}")
        for name, least, most in (("min_rows", min_rows, rows), ("min_columns", min_columns, columns)):
            check_least("Match3", 0, **{name: least})
            if least and not 4 <= least <= most:
                raise ValueError(f"Match3: {name} is {least}, it must be from 4 to {most}, or 0")
        check_observation("Match3", observation, get_args(Observation))
        if observation == "visual" and types >= min(rows, columns):
            raise ValueError(
                f"Match3: {types} types on {rows} x {columns} cells: an image's channels must be fewer than its rows "
                "and columns; take fewer types, a larger board, or observation='vector'"
            )
        self.rows, self.columns, self.types, self.max_moves = int(rows), int(columns), int(types), int(max_moves)
        self._least = (int(min_rows) or self.rows, int(min_columns) or self.columns)
        self.observation, shape = observation, (self.rows, self.columns)
        flags = {"cells": self.types, "special": 1 + SPECIALS}
        parts: dict[str, spaces.Space[np.ndarray]] = {
            name: spaces.MultiBinary(rows * columns * num)
            if observation == "vector"
            else spaces.Box(0, 1, (*shape, num), np.uint8)
            for name, num in flags.items()
        }
        moves = num_moves(self.rows, self.columns)
        space = spaces.Dict({**parts, MASK: spaces.MultiBinary(moves)})
        super().__init__(num_lanes, space, moves, f"Match3 {rows}x{columns}, batched", (AGENT,))
        self._cells = np.full((num_lanes, *shape), OUTSIDE, dtype=np.int8)
        self._special = np.zeros((num_lanes, *shape), dtype=np.int8)
        self._key = np.zeros(num_lanes, dtype=np.uint64)
        self._drawn_boards = np.zeros(num_lanes, dtype=np.int64)  # how often cells of a lane were drawn
        self._mask = np.zeros((num_lanes, moves), dtype=bool)
        self._swaps = swaps(self.rows, self.columns)
        # a cell outside the board, -1 and -2, has no flag at all
        self._flags = {
            name: np.concatenate([np.eye(num, dtype=np.uint8), np.zeros((2, num), np.uint8)])
            for name, num in flags.items()
        }

    def _play(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        move = actions[:, 0]  # which the mask allowed
        for board in (self._cells, self._special):
            flat = board.reshape(self.num_lanes, -1)
            one, other = self._swaps[move].T
            kept = flat[self._lanes, one]
            flat[self._lanes, one] = flat[self._lanes, other]
            flat[self._lanes, other] = kept
        self._reward[:, 0] = REWARD * self._settle(self._lanes)
        self._make_playable(self._lanes)
        return np.zeros(self.num_lanes, dtype=bool), self._steps >= self.max_moves

    def _start(self, lanes: np.ndarray) -> None:
        for lane in lanes.tolist():
            self._key[lane] = lane_key(self._seed(lane))
        bits = hashed(self._key[lanes, None], np.arange(2))
        row, column = (
            least + below(bits[:, k], most - least + 1)
            for k, (least, most) in enumerate(zip(self._least, (self.rows, self.columns), strict=True))
        )
        rows, columns = np.indices((self.rows, self.columns))
        inside = (rows < row[:, None, None]) & (columns < column[:, None, None])
        self._cells[lanes] = np.where(inside, EMPTY, OUTSIDE)
        self._special[lanes] = 0
        self._drawn_boards[lanes] = 0
        self._fill(lanes)
        self._settle(lanes)
        self._make_playable(lanes)

    def _settle(self, lanes: np.ndarray) -> np.ndarray:
        """Clears lines, drops cells and refills the board until no line is left; returns the points of `lanes`."""
        points = np.zeros(len(lanes), dtype=np.int64)
        busy = np.arange(len(lanes))
        while len(busy):
            matched = in_lines(self._cells[lanes[busy]])
            some = matched.any(axis=(1, 2))
            busy, matched = busy[some], matched[some]
            if not len(busy):
                break
            mine = lanes[busy]
            cells, special = self._cells[mine], self._special[mine]
            points[busy] += (POINTS[special] * matched).sum(axis=(1, 2))
            cells[matched], special[matched] = EMPTY, 0
            self._cells[mine], self._special[mine] = fallen(cells, special)
            self._fill(mine)
        return points

    def _fill(self, lanes: np.ndarray) -> None:
        """Draws the empty cells of some lanes."""
        cells, special = self._cells[lanes], self._special[lanes]
        lane, row, column = np.nonzero(cells == EMPTY)
        number = self._drawn_boards[lanes[lane]] * (self.rows * self.columns) + row * self.columns + column
        bits = hashed(self._key[lanes[lane]], FIRST + number)
        cells[lane, row, column] = below(bits, self.types)
        special[lane, row, column] = CHANCES[below(bits << np.uint64(32), len(CHANCES))]
        self._cells[lanes], self._special[lanes] = cells, special
        self._drawn_boards[lanes] += 1

    def _make_playable(self, lanes: np.ndarray) -> None:
        """Finds the allowed moves; redraws boards without any."""
        while len(lanes):
            self._mask[lanes] = allowed(self._cells[lanes])
            lanes = lanes[~self._mask[lanes].any(axis=1)]
            cells = self._cells[lanes]
            self._cells[lanes] = np.where(cells == OUTSIDE, OUTSIDE, EMPTY)
            self._fill(lanes)
            self._settle(lanes)

    def _show_start(self) -> Step:
        self._mask[...] = allowed(self._cells)
        return super()._show_start()

    def _observe(self) -> None:
        obs, shape = self._rows.obs, (self.num_lanes, self.rows, self.columns, -1)
        special = np.where(self._cells < 0, -1, self._special)
        obs["cells"].reshape(shape)[...] = self._flags["cells"][self._cells]
        obs["special"].reshape(shape)[...] = self._flags["special"][special]
        obs[MASK][...] = self._mask

    def text(self, lane: int) -> str:
        """Returns the board of a lane as text, the top row first: kinds as letters, with a mark for special cells."""

        def letters_of(kind: int, way: int) -> str:
            """Returns the two characters of a cell."""
            return "  " if kind < 0 else LETTERS[kind] + " '*"[way]

        both = zip(self._cells[lane, ::-1].tolist(), self._special[lane, ::-1].tolist(), strict=True)
        rows = [" ".join(map(letters_of, kinds, ways)) for kinds, ways in both]
        return "\n".join(row.rstrip() for row in rows)

    def render(self, lane: int) -> np.ndarray:
        """Returns an image ``[height, width, 3]`` uint8 of a lane."""
        from rookery.tasks import drawing

        cells, special = self._cells[lane, ::-1], self._special[lane, ::-1]
        return drawing.draw_match3(cells, special, self._timestep(lane), self.max_moves)


def num_moves(rows: int, columns: int) -> int:
    """Returns the number of pairs of neighbouring cells on a board."""
    return rows * (columns - 1) + (rows - 1) * columns


def swaps(rows: int, columns: int) -> np.ndarray:
    """Returns the indices, row by row, of the two cells that each move swaps, ``[moves, 2]``."""
    cell = np.arange(rows * columns).reshape(rows, columns)
    right = np.stack([cell[:, :-1].ravel(), cell[:, 1:].ravel()], axis=1)
    above = np.stack([cell[:-1].ravel(), cell[1:].ravel()], axis=1)
    return np.concatenate([right, above])


def in_lines(cells: np.ndarray) -> np.ndarray:
    """Returns a mask of the cells in a line of three or more of the same kind, ``[N, rows, columns]`` bool.

    Args:
        cells: Kinds ``[N, rows, columns]``, negative where no cell is.
    """
    found = np.zeros(cells.shape, dtype=bool)
    for kinds, marks in ((cells, found), (cells.swapaxes(1, 2), found.swapaxes(1, 2))):
        same = (kinds[:, 1:] == kinds[:, :-1]) & (kinds[:, 1:] >= 0)
        three = same[:, 1:] & same[:, :-1]
        for first in range(3):
            marks[:, first : first + three.shape[1]] |= three
    return found


def fallen(cells: np.ndarray, special: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns boards ``[N, rows, columns]`` after cells have fallen, so that all empty cells are on top."""
    order = np.argsort(-np.minimum(cells, 0), axis=1, kind="stable")  # cells, empty, not on the board
    return np.take_along_axis(cells, order, axis=1), np.take_along_axis(special, order, axis=1)


def allowed(cells: np.ndarray) -> np.ndarray:
    """Returns a mask of the allowed moves, ``[N, moves]`` bool, on boards ``[N, rows, columns]`` without lines."""
    return np.asarray(move_points(cells, np.zeros(cells.shape, dtype=np.int8)) > 0)


def move_points(cells: np.ndarray, special: np.ndarray) -> np.ndarray:
    """Returns the points that each move clears immediately, before cells fall, ``[N, moves]``; 0 if it is not allowed.

    Args:
        cells: Kinds ``[N, rows, columns]`` of boards without lines, negative where no cell is.
        special: In which way each cell is special, of the same shape.
    """
    right = _right_points(cells, POINTS[special])
    above = _right_points(cells.swapaxes(1, 2), POINTS[special].swapaxes(1, 2)).swapaxes(1, 2)
    return np.concatenate([right.reshape(len(cells), -1), above.reshape(len(cells), -1)], axis=1)


def _right_points(cells: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Returns the points of swaps with the next cell of the last axis, ``[N, rows, columns - 1]``."""
    rows, columns = cells.shape[1:]
    kinds = np.pad(cells, ((0, 0), (2, 2), (2, 2)), constant_values=OUTSIDE)
    worth = np.pad(points, ((0, 0), (2, 2), (2, 2)))

    def at(array: np.ndarray, down: int, right: int) -> np.ndarray:
        """Returns the values of an array at an offset from the left one of the two cells."""
        return array[:, 2 + down : 2 + down + rows, 2 + right : 2 + right + columns - 1]

    def run(kind: np.ndarray, down: int, right: int, step: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
        """Returns the number of cells of a kind that follow in a direction, at most two, and their points."""
        near, far = (down + step[0], right + step[1]), (down + 2 * step[0], right + 2 * step[1])
        one = at(kinds, *near) == kind
        two = one & (at(kinds, *far) == kind)
        return one.astype(np.int8) + two, one * at(worth, *near) + two * at(worth, *far)

    total = np.zeros((len(cells), rows, columns - 1), dtype=np.int64)
    left, right = at(kinds, 0, 0), at(kinds, 0, 1)
    for kind, own, to, ahead in ((left, at(worth, 0, 0), 1, (0, 1)), (right, at(worth, 0, 1), 0, (0, -1))):
        straight, straight_points = run(kind, 0, to, ahead)
        up, up_points = run(kind, 0, to, (1, 0))
        down, down_points = run(kind, 0, to, (-1, 0))
        in_row, in_column = straight >= 2, up + down >= 2
        total += (in_row | in_column) * own
        total += in_row * straight_points + in_column * (up_points + down_points)
    return np.asarray(total * ((left != right) & (left >= 0) & (right >= 0)))
