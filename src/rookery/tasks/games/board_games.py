"""Board games of two players who take turns, vectorized: tic-tac-toe and connect four.

The player whose turn it is sees the board from its own side, in two planes of 0 and 1: its own stones, then those of
the other. The mask has the moves that the rules allow; others raise an error. The winner gets 1, the loser -1, after a
draw both 0, with the last move, which ends the game for both.

Boards are kept as two numbers, one for each player, with a bit for each place. So a step of many boards is a few
operations on integers, and a win is found by a table look-up or four shifts.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from gymnasium import spaces

from rookery.core.settings.reach import FewFromZero
from rookery.core.spaces.arrays import MASK, Tree
from rookery.envs.adapters.batched import check_least
from rookery.envs.adapters.batched_agents import BatchedAgents
from rookery.envs.game_rules import Moved, Symmetry

LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))
"""The three cells of each line of tic-tac-toe, numbered row by row."""

LINE_MASKS = np.array([sum(1 << place for place in line) for line in LINES])
"""Each line of `LINES` as a bit mask."""

WINNING = ((np.arange(512)[:, None] & LINE_MASKS) == LINE_MASKS).any(axis=1)
"""Whether a set of stones, as bits, has a line of tic-tac-toe, ``[512]``."""

ROWS, COLUMNS = 6, 7
"""Size of the board of connect four."""

DIRECTIONS = (1, ROWS, ROWS + 1, ROWS + 2)
"""Bit offsets of the next cell of a line: up, down to the right, to the right, up to the right."""

BITS = np.arange(COLUMNS) * (ROWS + 1) + np.arange(ROWS)[::-1, None]
"""Bit of each cell of connect four, ``[6, 7]``, the top row first; each column has one spare bit, so that no line
continues in the next column.
"""


class BoardGame(BatchedAgents):
    """Game of two players who take turns on a board; a subclass defines moves and wins.

    Observations are ``board`` ``[2 * places]``, own stones and those of the other, row by row from the upper left, and
    ``action_mask``. Row ``lane * 2 + player``; the first agent begins.

    Attributes:
        shape: Rows and columns of the board.
        random_opening: Number of plies that are drawn at random before a game begins.
    """

    render_fps = 2
    saved = (*BatchedAgents.saved, "_stones", "_plies")

    def __init__(
        self, num_lanes: int, name: str, agents: tuple[str, str], bits: np.ndarray, num_actions: int, opening: int
    ) -> None:
        """Creates the environments.

        Args:
            num_lanes: Number of boards.
            name: Name of the game in messages.
            agents: The two players; the first begins.
            bits: Number of the bit of each place, ``[rows, columns]``.
            num_actions: Number of moves that there are on an empty board.
            opening: Number of plies to draw at random; so few that no player can have won.
        """
        self.shape, self.random_opening = bits.shape, opening
        places = bits.size
        space = spaces.Dict({"board": spaces.MultiBinary(2 * places), MASK: spaces.MultiBinary(num_actions)})
        super().__init__(num_lanes, space, num_actions, f"{name}, batched", agents)
        self._bits = bits.ravel()
        self._stones = np.zeros((num_lanes, 2), dtype=np.int64)
        self._plies = np.zeros(num_lanes, dtype=np.int64)
        self._board = self._rows.obs["board"].reshape(num_lanes, 2, 2, places)
        self._mask = self._rows.obs[MASK].reshape(num_lanes, 2, num_actions)

    @abstractmethod
    def bit_of(self, moves: np.ndarray, taken: np.ndarray) -> np.ndarray:
        """Returns the stone that each move places, as a bit ``[...]``.

        Args:
            moves: Moves ``[...]`` that the rules allow.
            taken: Stones of both players, as bits, ``[...]``.
        """

    @abstractmethod
    def wins(self, stones: np.ndarray) -> np.ndarray:
        """Returns whether stones ``[...]``, as bits, have a line, ``[...]`` bool."""

    @abstractmethod
    def allowed(self, taken: np.ndarray) -> np.ndarray:
        """Returns a mask of the moves allowed by the rules, ``[..., moves]`` bool, given the placed stones
        ``[...]``.
        """

    @property
    def symmetries(self) -> tuple[Symmetry, ...]:
        """The symmetries of the board."""
        return ()

    def rules(self) -> BoardGame:
        """Returns the game itself."""
        return self

    def get_state(self, lanes: np.ndarray) -> np.ndarray:
        """Returns states ``[N, 3]`` of lanes: the stones of both players, as bits, and the number of plies."""
        return np.concatenate((self._stones[lanes], self._plies[lanes, None]), axis=1)

    def set_state(self, lanes: np.ndarray, state: np.ndarray) -> None:
        """Puts lanes into states ``[N, 3]``; see `GameRules.set_state`."""
        self._stones[lanes], self._plies[lanes] = state[:, :2], state[:, 2]
        self._show()

    def move(self, state: np.ndarray, action: np.ndarray) -> Moved:
        """Returns the results of moves ``[N]``; see `GameRules.move`."""
        rows, mover, after = np.arange(len(state)), state[:, 2] & 1, state.copy()
        after[rows, mover] |= self.bit_of(action, state[:, 0] | state[:, 1])
        after[:, 2] += 1
        won = self.wins(after[rows, mover])
        return Moved(after, won.astype(np.float64), won | (after[:, 2] == len(self._bits)))

    def player(self, state: np.ndarray) -> np.ndarray:
        """Returns the player to move, ``[N]``."""
        return np.asarray(state[:, 2] & 1)

    def observe(self, state: np.ndarray) -> Tree:
        """Returns the board from the side of the player to move, and the mask; see `GameRules.observe`."""
        rows, mover = np.arange(len(state)), state[:, 2] & 1
        seen = np.stack((state[rows, mover], state[rows, 1 - mover]), axis=1)
        board, mask = (self._rows.obs[path].dtype for path in ("board", MASK))
        return {
            "board": ((seen[:, :, None] >> self._bits) & 1).reshape(len(state), -1).astype(board),
            MASK: self.allowed(state[:, 0] | state[:, 1]).astype(mask),
        }

    def _symmetry(self, places: np.ndarray, action: np.ndarray) -> Symmetry:
        """Returns the symmetry that shows the stone of place ``places[i]`` on place i."""
        return Symmetry({"board": np.concatenate((places, places + len(places))), MASK: action}, action)

    def _play(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        lanes, mover = self._lanes, self._plies & 1
        state, reward, over = self.move(self.get_state(lanes), actions[lanes, mover])
        self._stones[...], self._plies[...] = state[:, :2], state[:, 2]
        self._reward[lanes, mover], self._reward[lanes, 1 - mover] = reward, -reward
        return over, np.zeros_like(over)

    def _start(self, lanes: np.ndarray) -> None:
        self._stones[lanes], self._plies[lanes] = 0, self.random_opening
        if not self.random_opening:
            return
        for lane in lanes.tolist():
            rng = self._rng(lane)
            for ply in range(self.random_opening):
                taken = self._stones[lane, 0] | self._stones[lane, 1]
                move = rng.choice(np.flatnonzero(self.allowed(taken)))
                self._stones[lane, ply & 1] |= self.bit_of(move, taken)

    def _on_turn(self) -> np.ndarray:
        return np.asarray(np.arange(2) == (self._plies & 1)[:, None])

    def _observe(self) -> None:
        planes = (self._stones[:, :, None] >> self._bits) & 1
        self._board[:, 0] = planes
        self._board[:, 1] = planes[:, ::-1]
        self._mask[...] = self.allowed(self._stones[:, 0] | self._stones[:, 1])[:, None]

    def board(self, lane: int) -> np.ndarray:
        """Returns the board of a lane, ``[rows, columns]``: -1 for an empty cell, else the number of the player."""
        planes = ((self._stones[lane, :, None] >> self._bits) & 1).reshape(2, *self.shape)
        return np.where(planes[0] > 0, 0, np.where(planes[1] > 0, 1, -1))

    def _line(self, lane: int) -> np.ndarray:
        """Returns a mask of the cells of a lane's board in a full line, ``[rows, columns]`` bool."""
        found = np.zeros(len(self._bits), dtype=bool)
        each = np.left_shift(np.int64(1), self._bits)
        for stones in self._stones[lane]:
            if self.wins(stones):  # a stone is of the line if there is none without it
                found |= (stones & each > 0) & ~self.wins(stones & ~each)
        return found.reshape(self.shape)

    def text(self, lane: int) -> str:
        """Returns the board of a lane as text, with the numbers of the moves, and the player to move."""
        agents = self.kinds[0].agents
        letters = {-1: ".", 0: agents[0][0], 1: agents[1][0]}
        rows = [" ".join(self._letter(lane, place, letters) for place in row) for row in self._places()]
        foot = [" ".join(str(column) for column in range(self.shape[1]))] if self._by_column() else []
        turn = [] if self._is_over(lane) else [f"{agents[int(self._plies[lane]) & 1]} is on turn"]
        return "\n".join([*rows, *foot, *turn])

    def _is_over(self, lane: int) -> bool:
        """Returns whether a player has a line, or the board of a lane is full."""
        return bool(int(self._plies[lane]) == len(self._bits) or self._line(lane).any())

    def _places(self) -> list[list[int]]:
        rows, columns = self.shape
        return [list(range(row * columns, (row + 1) * columns)) for row in range(rows)]

    def _letter(self, lane: int, place: int, letters: dict[int, str]) -> str:
        stone = int(self.board(lane).ravel()[place])
        return letters[stone] if stone >= 0 or self._by_column() else str(place)

    def _by_column(self) -> bool:
        """Returns whether a move selects a column instead of a cell."""
        return bool(self.kinds[0].action.sizes[0] == self.shape[1])

    def render(self, lane: int) -> np.ndarray:
        """Returns an image ``[height, width, 3]`` uint8 of a lane."""
        from rookery.tasks import drawing

        agents, plies = self.kinds[0].agents, int(self._plies[lane])
        turn = None if self._is_over(lane) else plies & 1
        return drawing.draw_stones(self.board(lane), self._line(lane), agents, turn, self._by_column(), plies)


class TicTacToe(BoardGame):
    """Tic-tac-toe: nine cells, x moves first, three in a line win. A move is the index of a cell."""

    def __init__(self, num_lanes: int, random_opening: FewFromZero = 0) -> None:
        """Creates the environments.

        Args:
            num_lanes: Number of boards.
            random_opening: Number of plies, 0 to 4, that are drawn at random before a game begins; with an odd number,
                o moves first.

        Raises:
            ValueError: If `random_opening` is no integer from 0 to 4.
        """
        _check_opening("TicTacToe", random_opening, 4)
        super().__init__(num_lanes, "TicTacToe", ("x", "o"), np.arange(9).reshape(3, 3), 9, int(random_opening))

    @property
    def symmetries(self) -> tuple[Symmetry, ...]:
        """The eight rotations and reflections of the square."""
        cells = np.arange(9).reshape(3, 3)
        turned = [np.rot90(side, turns).ravel() for side in (cells, cells.T) for turns in range(4)]
        return tuple(self._symmetry(places, places) for places in turned)

    def bit_of(self, moves: np.ndarray, taken: np.ndarray) -> np.ndarray:
        """Returns the stone that each move places, as a bit."""
        return np.asarray(np.left_shift(np.int64(1), moves))

    def wins(self, stones: np.ndarray) -> np.ndarray:
        """Returns whether stones have a line of three."""
        return np.asarray(WINNING[stones])

    def allowed(self, taken: np.ndarray) -> np.ndarray:
        """Returns a mask of the free cells, ``[..., 9]`` bool."""
        return np.asarray((np.asarray(taken)[..., None] >> np.arange(9)) & 1 == 0)


class ConnectFour(BoardGame):
    """Connect four: stones fall into seven columns of six cells, red moves first, four in a line win.

    A move is the number of a column. The board that is observed has its uppermost row first.
    """

    def __init__(self, num_lanes: int, random_opening: FewFromZero = 0) -> None:
        """Creates the environments.

        Args:
            num_lanes: Number of boards.
            random_opening: Number of plies, 0 to 6, that are drawn at random before a game begins; with an odd number,
                yellow moves first.

        Raises:
            ValueError: If `random_opening` is no integer from 0 to 6.
        """
        _check_opening("ConnectFour", random_opening, 6)
        super().__init__(num_lanes, "ConnectFour", ("red", "yellow"), BITS, COLUMNS, int(random_opening))

    @property
    def symmetries(self) -> tuple[Symmetry, ...]:
        """The board, and its mirror image."""
        cells, columns = np.arange(ROWS * COLUMNS).reshape(ROWS, COLUMNS), np.arange(COLUMNS)
        mirrored = self._symmetry(cells[:, ::-1].ravel(), columns[::-1])
        return self._symmetry(cells.ravel(), columns), mirrored

    def bit_of(self, moves: np.ndarray, taken: np.ndarray) -> np.ndarray:
        """Returns the stone that falls into each column, as a bit."""
        return dropped(moves, taken)

    def wins(self, stones: np.ndarray) -> np.ndarray:
        """Returns whether stones have a line of four."""
        return has_four(stones)

    def allowed(self, taken: np.ndarray) -> np.ndarray:
        """Returns a mask of the columns that are not full, ``[..., 7]`` bool."""
        top = np.arange(COLUMNS) * (ROWS + 1) + ROWS - 1
        return np.asarray((np.asarray(taken)[..., None] >> top) & 1 == 0)


def dropped(moves: np.ndarray, taken: np.ndarray) -> np.ndarray:
    """Returns the stones, as bits, that fall into columns ``[...]`` that are not full, onto the stones `taken`."""
    lowest = np.left_shift(np.int64(1), moves * (ROWS + 1))
    return np.asarray((taken + lowest) & ~taken & (lowest * ((1 << ROWS + 1) - 1)))  # bits carried out of full columns


def has_four(stones: np.ndarray) -> np.ndarray:
    """Returns whether stones of connect four ``[...]``, as bits, have four in a line, ``[...]`` bool."""
    won = np.zeros(np.shape(stones), dtype=bool)
    for step in DIRECTIONS:
        pairs = stones & (stones >> step)
        won |= (pairs & (pairs >> 2 * step)) != 0
    return won


def _check_opening(owner: str, opening: int, most: int) -> None:
    """Raises a ValueError unless an opening has from 0 to `most` plies."""
    check_least(owner, 0, random_opening=opening)
    if opening > most:
        raise ValueError(
            f"{owner}: random_opening is {opening}, it must be from 0 to {most}: no player may have won yet"
        )
