"""Plain Monte Carlo tree search as a player of the board games: UCT (Kocsis & Szepesvari 2006) with random playouts.

Players are functions as those in `players.py`, ``rookery.tasks.games.uct:connect_four``. They search from the
observation alone, with 500 simulations for a move and no knowledge beyond the rules.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from rookery.core.spaces.arrays import Tree
from rookery.tasks.games.board_games import BITS, COLUMNS, LINE_MASKS, ROWS

SIMULATIONS = 500
"""Simulations for a move."""

EXPLORATION = math.sqrt(2.0)
"""Weight of the bonus for rarely visited moves, where a win counts 1, a draw 0.5 and a loss 0."""

COLUMN_BITS = [((1 << ROWS) - 1) << column * (ROWS + 1) for column in range(COLUMNS)]
BOTTOM_BITS = [1 << column * (ROWS + 1) for column in range(COLUMNS)]
LINES = [int(line) for line in LINE_MASKS]


@dataclass(slots=True)
class _Node:
    """A state, with the results of the player that moved into it.

    Attributes:
        own: Stones of the player to move, as bits.
        other: Stones of the other player.
        untried: Moves without a child, by number and bit.
        result: Score of the player that moved into it, if the game is over; None before its end.
        visits: Simulations through it.
        score: Sum of the scores of the player that moved into it.
        children: Next states by number of the move.
    """

    own: int
    other: int
    untried: list[tuple[int, int]]
    result: float | None
    visits: int = 0
    score: float = 0.0
    children: dict[int, _Node] = field(default_factory=dict)


@dataclass(frozen=True)
class _Rules:
    """Rules of a game on boards of bits.

    Attributes:
        moves: Returns the allowed moves, by number and bit, given the stones of both.
        wins: Returns whether stones have a line.
    """

    moves: Callable[[int], list[tuple[int, int]]]
    wins: Callable[[int], bool]

    def node(self, own: int, other: int) -> _Node:
        """Returns the state after a move of the player with the stones `other`."""
        if self.wins(other):
            return _Node(own, other, [], 1.0)
        moves = self.moves(own | other)
        return _Node(own, other, moves, None if moves else 0.5)

    def playout(self, own: int, other: int, rng: random.Random) -> float:
        """Plays at random; returns the score of the player with the stones `other`, who has moved last."""
        turn = 0
        while moves := self.moves(own | other):
            own |= moves[int(rng.random() * len(moves))][1]
            if self.wins(own):
                return float(turn)
            own, other, turn = other, own, 1 - turn
        return 0.5

    def best(self, own: int, other: int, rng: random.Random) -> int:
        """Returns the most visited move of a search."""
        root = self.node(own, other)
        for _ in range(SIMULATIONS):
            self._simulate(root, rng)
        most = max(child.visits for child in root.children.values())
        return rng.choice([move for move, child in root.children.items() if child.visits == most])

    def _simulate(self, node: _Node, rng: random.Random) -> None:
        """Adds a state to the tree, and its score to all states above."""
        way = [node]
        while node.result is None and not node.untried:
            bonus = EXPLORATION * math.sqrt(math.log(node.visits))
            node = max(
                node.children.values(), key=lambda child: child.score / child.visits + bonus / math.sqrt(child.visits)
            )
            way.append(node)
        if node.result is None:
            move, bit = node.untried.pop(int(rng.random() * len(node.untried)))
            node.children[move] = node = self.node(node.other, node.own | bit)
            way.append(node)
        score = self.playout(node.own, node.other, rng) if node.result is None else node.result
        for passed in reversed(way):
            passed.visits += 1
            passed.score += score
            score = 1.0 - score


def _cells(taken: int) -> list[tuple[int, int]]:
    return [(cell, 1 << cell) for cell in range(9) if not taken >> cell & 1]


def _has_three(stones: int) -> bool:
    return any(stones & line == line for line in LINES)


def _columns(taken: int) -> list[tuple[int, int]]:
    found = []
    for column in range(COLUMNS):
        bit = taken + BOTTOM_BITS[column] & COLUMN_BITS[column] & ~taken
        if bit:
            found.append((column, bit))
    return found


def _has_four(stones: int) -> bool:
    for step in (1, ROWS, ROWS + 1, ROWS + 2):
        pairs = stones & stones >> step
        if pairs & pairs >> 2 * step:
            return True
    return False


TIC_TAC_TOE, CONNECT_FOUR = _Rules(_cells, _has_three), _Rules(_columns, _has_four)


def tic_tac_toe(obs: Tree, rng: np.random.Generator) -> np.ndarray:
    """Plays tic-tac-toe, ``[N]`` int64."""
    return _play(TIC_TAC_TOE, np.arange(9), obs, rng)


def connect_four(obs: Tree, rng: np.random.Generator) -> np.ndarray:
    """Plays connect four, ``[N]`` int64."""
    return _play(CONNECT_FOUR, BITS.ravel(), obs, rng)


def _play(rules: _Rules, bits: np.ndarray, obs: Tree, rng: np.random.Generator) -> np.ndarray:
    """Returns the moves of a search for each row; `bits` are those of the places of a board."""
    planes = obs["board"].reshape(-1, 2, len(bits)).astype(np.int64) << bits
    draws = random.Random(int(rng.integers(2**63)))
    return np.array([rules.best(int(own), int(other), draws) for own, other in planes.sum(axis=2)], dtype=np.int64)
