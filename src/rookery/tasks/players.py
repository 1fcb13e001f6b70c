"""Scripted players of the bundled games: functions ``player(obs, rng) -> actions`` that answer for N agents at once.

``obs`` is a tree of observations ``[N, ...]`` by leaf path, ``rng`` a NumPy generator, and the actions ``[N, ...]`` are
as the environment takes them. Players have no memory. Their import paths name them: ``rookery.tasks.players:one``.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from rookery.core.spaces import MASK, Tree
from rookery.tasks import board_games, carry_together, line_soccer, sacrifice


def tic_tac_toe_perfect(obs: Tree, rng: np.random.Generator) -> np.ndarray:
    """Draws one of the moves of tic-tac-toe that no other is better than, ``[N]`` int64; never loses."""
    planes = obs["board"].reshape(-1, 2, 9).astype(np.int64) << np.arange(9)
    own, other = planes.sum(axis=2).T
    return _draw(_best_moves()[own, other], rng)


def connect_four_one_ply(obs: Tree, rng: np.random.Generator) -> np.ndarray:
    """Draws a move of connect four, ``[N]`` int64, that wins if one does, else stops a line if one must, else any."""
    planes = obs["board"].reshape(-1, 2, board_games.BITS.size).astype(np.int64) << board_games.BITS.ravel()
    own, other = planes.sum(axis=2).T
    allowed, moves = obs[MASK].astype(bool), np.arange(board_games.COLUMNS)
    stones = board_games.dropped(moves, (own | other)[:, None])
    wins = allowed & board_games.has_four(own[:, None] | stones)
    saves = allowed & board_games.has_four(other[:, None] | stones)
    good = np.where(wins.any(axis=1)[:, None], wins, np.where(saves.any(axis=1)[:, None], saves, allowed))
    return _draw(good, rng)


def line_soccer_script(obs: Tree, rng: np.random.Generator) -> np.ndarray:
    """Plays a team of line soccer, ``[N, 2]`` float32: one runs behind the ball and kicks it towards the goal, the
    others stay between the ball and their own goal. A little of each direction is drawn.
    """
    seen = obs["obs"].astype(np.float64)
    own, to_ball = seen[:, line_soccer.PLACE], 2 * seen[:, line_soccer.BALL]
    ball = own + to_ball
    ways = 2 * seen[:, line_soccer.OTHERS :].reshape(len(seen), -1, 2)
    mates = ways[:, : ways.shape[1] // 2]
    there = (mates != 0.0).any(axis=2)  # of the smaller of two teams some are missing
    theirs = np.where(there, np.linalg.norm(to_ball[:, None] - mates, axis=2), np.inf).min(axis=1, initial=np.inf)
    nearest = np.linalg.norm(to_ball, axis=1) <= theirs

    to_goal = np.array([line_soccer.HALF[0], 0.0]) - ball
    aim = to_goal / np.maximum(np.linalg.norm(to_goal, axis=1, keepdims=True), 1e-6)
    behind = ball - aim * line_soccer.REACH * 1.5
    is_behind = (to_ball * aim).sum(axis=1) > 0.8 * np.linalg.norm(to_ball, axis=1)
    around = behind + np.stack([np.zeros(len(seen)), np.where(to_ball[:, 1] > 0, -1.0, 1.0) * 0.12], axis=1)
    fetch = np.where((to_ball[:, 0] < 0)[:, None], around, behind)  # not through the ball, into the own goal
    attack = np.where(is_behind[:, None], ball, fetch)
    guard = ball * (0.5, 0.3) - (line_soccer.HALF[0] * 0.5, 0.0)
    way = np.where(nearest[:, None], attack, guard) - own
    way /= np.maximum(np.linalg.norm(way, axis=1, keepdims=True), line_soccer.SPEED)
    return np.clip(way + rng.normal(0.0, 0.1, way.shape), -1.0, 1.0).astype(np.float32)


def sacrifice_script(obs: Tree, rng: np.random.Generator) -> np.ndarray:
    """Plays Sacrifice as well as it can be, ``[N]`` int64: the leftmost goes to the altar, the others to the exit."""
    flags = obs["obs"]
    cells = np.arange(sacrifice.CELLS)
    own = (flags[:, : sacrifice.CELLS] * cells).sum(axis=1)
    mates = np.where(flags[:, sacrifice.CELLS : -1] > 0, cells, sacrifice.CELLS).min(axis=1)
    goes = (own < mates) & (flags[:, -1] == 0)
    return np.where(goes, sacrifice.LEFT, sacrifice.RIGHT)


def carry_together_script(obs: Tree, rng: np.random.Generator) -> np.ndarray:
    """Plays CarryTogether, ``[N]`` int64: all fetch the heaviest load that is left, one after the other."""
    seen = obs["obs"]
    loads = seen[:, carry_together.LOADS :].reshape(len(seen), -1, 4)
    heaviest = loads.shape[1] - 1 - np.argmax(loads[:, ::-1, 0] > 0, axis=1)
    mine = loads[np.arange(len(seen)), heaviest]
    vertical = np.where(mine[:, 2] > 0, carry_together.DOWN, carry_together.UP)
    horizontal = np.where(mine[:, 3] > 0, carry_together.RIGHT, carry_together.LEFT)
    walk = np.where(mine[:, 2] != 0, vertical, horizontal)
    return np.where((mine[:, 2] == 0) & (mine[:, 3] == 0), carry_together.LIFT, walk)


def matrix_game_best(obs: Tree, rng: np.random.Generator) -> np.ndarray:
    """Plays the two-step game for 8, ``[N]`` int64: the second action, always."""
    return np.ones(len(obs["own"]), dtype=np.int64)


def _draw(good: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draws evenly one of the good moves ``[N, moves]`` of each row, ``[N]`` int64."""
    return np.asarray(np.where(good, rng.random(good.shape), -1.0).argmax(axis=1))


@lru_cache(maxsize=1)
def _best_moves() -> np.ndarray:
    """Computes by minimax which moves of tic-tac-toe are best, ``[512, 512, 9]`` bool, by own and other stones."""
    best = np.zeros((512, 512, 9), dtype=bool)
    values: dict[tuple[int, int], int] = {}

    def value(own: int, other: int) -> int:
        """Returns what whoever is on turn gets: 1, 0 or -1."""
        if (own, other) not in values:
            if board_games.WINNING[other]:
                values[own, other] = -1
            else:
                free = [move for move in range(9) if not (own | other) >> move & 1]
                worth = [-value(other, own | 1 << move) for move in free]
                values[own, other] = max(worth, default=0)
                best[own, other, [m for m, w in zip(free, worth, strict=True) if w == values[own, other]]] = True
        return values[own, other]

    value(0, 0)
    for move in range(9):  # where the other began, too
        value(0, 1 << move)
    return best
