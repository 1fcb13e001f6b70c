"""Elo ratings of players, from games between two of them.

`Ratings.played` moves ratings after every game as in Elo (*The Rating of Chessplayers*, 1978, 1.6): the winner takes
``k * (score - expected)`` points from the loser. `Ratings.fit` finds the ratings under which all games so far were most
likely (Bradley and Terry 1952, *Rank analysis of incomplete block designs*, eq. 1, where a draw is half a win and half
a loss), and their standard errors. Both use the same scale: where a player's mean score is the one that its rating
predicts, Elo's change is 0 on average.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import combinations

import numpy as np

from rookery.core.errors import RookeryError, nearest
from rookery.core.state import Stateful

SCALE = 400.0 / math.log(10.0)
"""Elo points of one unit of log strength: 400 points are odds of ten to one."""

PRIOR_POINTS = 1000.0
"""Standard deviation, in Elo points, of the prior of a player before its first game."""

MOST_STEPS = 100
"""Maximum number of Newton steps of a fit; it takes about ten."""

CLOSE_ENOUGH = 1e-10
"""Largest change of a log strength at which a fit ends."""


EVEN = 1e-9
"""Absolute and relative difference of returns below which a game is a draw."""


def expected_score(rating: float, other: float) -> float:
    """Returns the expected score in [0, 1] of a player against another, by their ratings."""
    return 1.0 / (1.0 + math.exp(min((other - rating) / SCALE, 700.0)))


class Ratings(Stateful):
    """Ratings of players and the games behind them.

    Args:
        initial: Mean rating of `fit` if no player is fixed.
        k: Most points that a game changes; a win against an equal player changes half of them; larger than 0.
    """

    saved = ("_rating", "_fixed", "_won", "_drawn")
    fixed = ("initial", "k")

    def __init__(self, initial: float, k: float) -> None:
        self.initial = initial
        self.k = k
        self._rating: dict[str, float] = {}
        self._fixed: list[str] = []
        self._won: dict[str, dict[str, int]] = {}  # wins of a player against another
        self._drawn: dict[str, dict[str, int]] = {}  # draws, under the name that is first in the alphabet

    # --- players and games --------------------------------------------------------------------------------------------

    def add(self, name: str, rating: float, fixed: bool = False) -> None:
        """Adds a player.

        Args:
            name: Its name.
            rating: Its rating before its first game.
            fixed: Whether its rating never changes: an anchor.

        Raises:
            RookeryError: If there is a player of that name.
        """
        if name in self._rating:
            raise RookeryError(f"ratings: player {name!r} exists already; add each player once")
        self._rating[name] = float(rating)
        if fixed:
            self._fixed.append(name)

    def restart(self, name: str) -> None:
        """Resets the rating of a player to that of a new one."""
        self._rating[name] = self.initial

    def played(self, a: str, b: str, score: float) -> None:
        """Adds a game between two players, and moves the ratings of those that are not fixed.

        One player gains what the other loses. A game of a player against itself is not counted.

        Args:
            a: One player.
            b: The other player.
            score: Score of `a`: 1 won, 0.5 drawn, 0 lost.

        Raises:
            RookeryError: If there is no such player, or the score is another number.
        """
        self._check(a, b)
        if score not in (0.0, 0.5, 1.0):
            raise RookeryError(
                f"ratings: score {score!r} of {a!r} against {b!r}: a game is won (1), drawn (0.5) or lost (0)"
            )
        if a == b:
            return
        if score == 0.5:
            first, second = min(a, b), max(a, b)
            _count(self._drawn, first, second)
        else:
            _count(self._won, *((a, b) if score == 1.0 else (b, a)))
        change = self.k * (score - expected_score(self._rating[a], self._rating[b]))
        self._move({a: change, b: -change})

    def met(self, returns: Mapping[str, float]) -> None:
        """Adds a game of any number of players, as one game of each pair.

        All points are computed from the ratings before the game, at most ``k / (players - 1)`` per pair.

        Args:
            returns: Return of each player; the larger one of two wins.

        Raises:
            RookeryError: If there is no such player.
        """
        self._check(*returns)
        before = dict(self._rating)
        share = self.k / max(1, len(returns) - 1)
        change = dict.fromkeys(returns, 0.0)
        for a, b in combinations(returns, 2):
            score = score_of(returns[a], returns[b])
            if score == 0.5:
                _count(self._drawn, min(a, b), max(a, b))
            else:
                _count(self._won, *((a, b) if score == 1.0 else (b, a)))
            points = share * (score - expected_score(before[a], before[b]))
            change[a] += points
            change[b] -= points
        self._move(change)

    def _move(self, change: Mapping[str, float]) -> None:
        for name, points in change.items():
            if name not in self._fixed:
                self._rating[name] += points

    def _check(self, *names: str) -> None:
        for name in names:
            if name not in self._rating:
                known = list(self._rating)
                raise RookeryError(f"ratings: no player {name!r}; there are {', '.join(known)}{nearest(name, known)}")

    # --- ratings and counts -------------------------------------------------------------------------------------------

    @property
    def names(self) -> tuple[str, ...]:
        """All players, in the order in which they were added."""
        return tuple(self._rating)

    @property
    def anchors(self) -> tuple[str, ...]:
        """The players with a fixed rating."""
        return tuple(self._fixed)

    def of(self, name: str) -> float:
        """Returns the current rating of a player.

        Raises:
            RookeryError: If there is no such player.
        """
        self._check(name)
        return self._rating[name]

    def standing(self) -> dict[str, float]:
        """Returns the current rating of every player."""
        return dict(self._rating)

    def draws(self, a: str, b: str) -> int:
        """Returns the number of drawn games of two players."""
        self._check(a, b)
        return self._drawn.get(min(a, b), {}).get(max(a, b), 0)

    def games(self, a: str, b: str) -> int:
        """Returns the number of games of two players against each other."""
        return self._wins(a, b) + self._wins(b, a) + self.draws(a, b)

    def wins(self, a: str, b: str) -> float:
        """Returns the summed score of `a` against `b`: a draw counts half."""
        return self._wins(a, b) + 0.5 * self.draws(a, b)

    def win_rate(self, a: str, b: str) -> float | None:
        """Returns the mean score in [0, 1] of `a` against `b`; None without games."""
        games = self.games(a, b)
        return self.wins(a, b) / games if games else None

    def _wins(self, a: str, b: str) -> int:
        return self._won.get(a, {}).get(b, 0)

    @property
    def all_drawn(self) -> bool:
        """Whether there were games and all were drawn, so that ratings mean nothing."""
        return bool(self._drawn) and not self._won

    # --- most likely ratings ------------------------------------------------------------------------------------------

    def fit(self) -> dict[str, tuple[float, float]]:
        """Returns the rating of each player under which all games were most likely, and its standard error, in points.

        The expected score against a player that is rated `d` lower is ``1 / (1 + 10 ** (-d / 400))``. Fixed players
        keep their ratings, and have the error 0. Without any, the mean of all is `initial`, and errors are those of
        the distance to that mean. A normal prior of 1000 points around the mean of the fixed players (or of all) keeps
        ratings finite for players that have won or lost all their games. Errors come from the curvature of the
        likelihood and the variance of scores around their expectation (smaller where games are drawn): a rating is
        within 1.96 errors in 95 % of repetitions.
        """
        names = list(self._rating)
        if not names:
            return {}
        centre = float(np.mean([self._rating[name] for name in self._fixed])) if self._fixed else self.initial
        start = np.array([self._rating[name] if name in self._fixed else centre for name in names])
        free = np.array([name not in self._fixed for name in names])
        strength, spread = most_likely(*self._table(names), (start - centre) / SCALE, free)
        points = strength * SCALE + centre
        if not self._fixed:
            points = points - points.mean() + self.initial
        return {name: (float(points[i]), float(spread[i] * SCALE)) for i, name in enumerate(names)}

    def _table(self, names: list[str]) -> tuple[np.ndarray, np.ndarray]:
        """Returns the pairs with games ``[P, 2]``, by the numbers of the players, and their games ``[P, 3]``: won, lost
        and drawn by the first.
        """
        pairs, outcomes = [], []
        for (i, a), (j, b) in combinations(enumerate(names), 2):
            if self.games(a, b):
                pairs.append((i, j))
                outcomes.append((self._wins(a, b), self._wins(b, a), self.draws(a, b)))
        return np.array(pairs, dtype=np.int64).reshape(-1, 2), np.array(outcomes, dtype=np.float64).reshape(-1, 3)


def score_of(own: float, other: float) -> float:
    """Returns the score of the return `own` against the return `other`: 1, 0.5 or 0."""
    even = math.isclose(own, other, rel_tol=EVEN, abs_tol=EVEN)  # sums of equal rewards may differ by rounding
    return 0.5 if even else float(own > other)


def _count(table: dict[str, dict[str, int]], a: str, b: str) -> None:
    row = table.setdefault(a, {})
    row[b] = row.get(b, 0) + 1


def most_likely(
    pairs: np.ndarray, outcomes: np.ndarray, start: np.ndarray, free: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Returns log strengths ``[N]`` under which games were most likely, by Newton's method, and their standard errors.

    Args:
        pairs: ``[P, 2]`` numbers of the players.
        outcomes: ``[P, 3]`` games that the first player won, lost and drew.
        start: ``[N]`` log strengths: fixed values, and the mean of the prior for other players.
        free: ``[N]`` bool, players that are not fixed. If all are free, errors are those of the distance to the mean.
    """
    num, rows, moving = len(start), np.arange(len(pairs)), np.flatnonzero(free)
    sign = np.zeros((len(pairs), num))
    sign[rows, pairs[:, 0]], sign[rows, pairs[:, 1]] = 1.0, -1.0
    seen = sign[:, moving]
    games, points = outcomes.sum(axis=1), outcomes[:, 0] + 0.5 * outcomes[:, 2]
    prior = (SCALE / PRIOR_POINTS) ** 2

    def expected(at: np.ndarray) -> tuple[np.ndarray, float]:
        """Returns the expected scores ``[P]`` of the first of each pair, and the log likelihood with the prior."""
        apart = sign @ at
        likely = -(points * np.logaddexp(0.0, -apart)).sum() - ((games - points) * np.logaddexp(0.0, apart)).sum()
        return 1.0 / (1.0 + np.exp(-apart)), float(likely - 0.5 * prior * ((at - start)[moving] ** 2).sum())

    def curvature(share: np.ndarray) -> np.ndarray:
        """Returns the second derivatives ``[K, K]`` of the negative log likelihood, without the prior."""
        bent: np.ndarray = (seen * (games * share * (1.0 - share))[:, None]).T @ seen
        return bent

    at = start.copy()
    own = prior * np.eye(len(moving))
    for _ in range(MOST_STEPS):
        share, likely = expected(at)
        slope = seen.T @ (points - games * share) - prior * (at - start)[moving]
        step = np.linalg.solve(curvature(share) + own, slope)
        size = 1.0
        while size > CLOSE_ENOUGH:
            ahead = at.copy()
            ahead[moving] += size * step
            if expected(ahead)[1] >= likely:
                break
            size /= 2
        at[moving] += size * step
        if np.abs(size * step).max(initial=0.0) < CLOSE_ENOUGH:
            break
    share, spread = expected(at)[0], np.zeros(num)
    if len(moving):
        covariance = np.linalg.inv(curvature(share) / _dispersion(outcomes, share) + own)
        if free.all():
            from_mean = np.eye(num) - 1.0 / num
            covariance = from_mean @ covariance @ from_mean.T
        spread[moving] = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    return at, spread


def _dispersion(outcomes: np.ndarray, share: np.ndarray) -> float:
    """Returns the variance of scores around their expectation, relative to that of games without draws.

    Adding 1 to both keeps it above 0 if all games were drawn, since later games may have other results.
    """
    scores = np.array([1.0, 0.0, 0.5])
    varied = (outcomes * (scores - share[:, None]) ** 2).sum()
    would = (outcomes.sum(axis=1) * share * (1.0 - share)).sum()
    return float((varied + 1.0) / (would + 1.0))
