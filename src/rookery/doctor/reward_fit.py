"""`reward_unexplained`: finds rewards that depend on something of an episode that the observation does not show.

Small regressions predict the rewards of random play from observation and action: a quadratic one, and the mean of the
nearest decisions. Each episode is predicted from others. The rest of the rewards is noise if it differs from step
to step, and something hidden if it stays the same within an episode and differs between episodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement

import numpy as np

from rookery.core.spaces.arrays import MASK
from rookery.doctor.decisions import AgentDecisions
from rookery.doctor.play_rules import MANY_EPISODES
from rookery.report.finding import Finding
from rookery.run.findings.catalog import finding

AGENTS = 6
"""Largest number of agents of a kind whose rewards are fitted."""

ROWS, FEWEST_ROWS = 3_000, 300
"""Most and fewest decisions of an agent."""

SHORTEST = 5
"""Fewest decisions of an episode on average."""

MOST_INPUTS, MOST_SQUARED = 64, 24
"""Most elements of observation and action together, and most of which products are inputs, too."""

MOST_CATEGORIES = 32
"""Largest number of values of a discrete element."""

FOLDS, NEAREST, RIDGE = 5, 5, 1e-3
"""Parts into which episodes are divided, neighbors whose mean is a prediction, and weight of the penalty."""

STILL = 1e-9
"""Standard deviation of an input, in units of its largest size, up to which it is constant."""

SPARSE = 0.5
"""Share of the steps with the most frequent reward, from which on rewards are sparse and are not judged."""

HIDDEN, CLEARLY_HIDDEN = 0.3, 0.45
"""Share of the variance of rewards that lies between episodes and is not explained: worth a note, and a warning."""


def reward_unexplained(seen: AgentDecisions, policy: str) -> list[Finding]:
    """Finds the agent of a kind with the largest share of its reward that differs between episodes and is unexplained.

    Args:
        seen: Decisions of random play.
        policy: Name of the policy of the agents; empty if unknown.
    """
    shares = []
    for column, agent in enumerate(seen.kind.agents[:AGENTS]):
        share = hidden_share(seen.of(np.flatnonzero(seen.agent == column)[:ROWS]))
        if share is not None:
            shares.append((share, agent))
    if not shares or max(shares)[0] < HIDDEN:
        return []
    share, agent = max(shares)
    whose = f" of {agent}" if len(seen.kind.agents) > 1 else ""
    return [
        finding(
            "reward-unexplained-by-obs",
            f"the reward{whose} depends on something that the observation does not show and that differs from episode "
            "to episode",
            f"{100 * share:.0f} % of the variance of rewards in random play lies between episodes, and neither "
            "observation nor action explains it",
            policy=policy,
            severity=None if share >= CLEARLY_HIDDEN else "note",
        )
    ]


def hidden_share(seen: AgentDecisions) -> float | None:
    """Returns the share of the variance of an agent's rewards that lies between episodes and is not explained; None if
    it is not judged: few episodes, sparse or constant rewards, large observations, an agent that acts seldom.

    Args:
        seen: Decisions of one agent.
    """
    reward = seen.reward.astype(np.float64)
    episodes, episode = np.unique(seen.episode, return_inverse=True)
    if len(reward) < max(FEWEST_ROWS, SHORTEST * len(episodes)) or len(episodes) < MANY_EPISODES:
        return None
    _, counts = np.unique(reward, return_counts=True)
    inputs = _inputs(seen)
    if counts.max() >= SPARSE * len(reward) or inputs is None or not np.isfinite(inputs).all():
        return None
    inputs = inputs[:, inputs.std(axis=0) > STILL * np.abs(inputs).max(axis=0, initial=0.0)]
    inputs = (inputs - inputs.mean(axis=0)) / inputs.std(axis=0)
    left: list[float] = []
    for predicted in (_by_squares(inputs, reward, episode), _by_neighbors(inputs, reward, episode)):
        left.append(_between(reward - predicted, episode) / float(reward.var()))
    return min(left)


def explained(inputs: np.ndarray, target: np.ndarray, episode: np.ndarray) -> float | None:
    """Returns the share of the variance of a target that regressions on inputs explain, each episode from others; None
    for too many inputs, or too few episodes.

    Args:
        inputs: ``[N, inputs]``.
        target: ``[N]``.
        episode: ``[N]`` number of the episode.
    """
    inputs, target, episode = inputs[:ROWS], target[:ROWS].astype(np.float64), episode[:ROWS]
    inputs = inputs[:, inputs.std(axis=0) > STILL * np.abs(inputs).max(axis=0, initial=0.0)]
    few = any(len(others) <= NEAREST for _, others in _folds(episode))
    if few or inputs.shape[1] > MOST_INPUTS:
        return None
    if not inputs.shape[1] or not target.var():
        return 0.0
    inputs = (inputs - inputs.mean(axis=0)) / inputs.std(axis=0)
    predictions = [_by_squares(inputs, target, episode), _by_neighbors(inputs, target, episode)]
    return max(1.0 - float(np.square(target - one).mean() / target.var()) for one in predictions)


def _inputs(seen: AgentDecisions) -> np.ndarray | None:
    """Returns observations and actions as numbers ``[N, inputs]``; None if there are too many, or other parts."""
    parts = [seen.action]
    sizes = [seen.kind.action.sizes if seen.kind.action.kind in ("discrete", "multi_discrete") else ()]
    if seen.kind.action.kind == "composite":
        return None
    for leaf in seen.kind.obs.own.leaves:
        if leaf.path == MASK:
            continue
        if leaf.kind not in ("box", "discrete", "multi_discrete") or leaf.path not in seen.obs:
            return None
        parts.append(seen.obs[leaf.path])
        sizes.append(leaf.sizes if leaf.kind != "box" else ())
    columns: list[np.ndarray] = []
    for part, categories in zip(parts, sizes, strict=True):
        flat = part.reshape(len(part), -1).astype(np.float64)
        if not categories:
            columns += [*flat.T]
            continue
        if max(categories) > MOST_CATEGORIES:
            return None
        for column, size in zip(flat.T, categories, strict=True):
            columns += [column == value for value in range(1, size)]
    return np.stack(columns, axis=1).astype(np.float64) if 0 < len(columns) <= MOST_INPUTS else None


def _folds(episode: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields which rows are predicted, and which they are predicted from: those of other episodes."""
    for fold in range(FOLDS):
        held_out = episode % FOLDS == fold
        yield np.flatnonzero(held_out), np.flatnonzero(~held_out)


def _by_squares(inputs: np.ndarray, reward: np.ndarray, episode: np.ndarray) -> np.ndarray:
    """Returns predictions ``[N]`` of a ridge regression on the inputs and their products."""
    count = inputs.shape[1]
    pairs = combinations_with_replacement(range(count), 2) if count <= MOST_SQUARED else ((n, n) for n in range(count))
    columns = [np.ones(len(inputs)), *inputs.T, *(inputs[:, one] * inputs[:, other] for one, other in pairs)]
    x = np.stack(columns, axis=1)
    predicted = np.zeros(len(reward))
    for rows, others in _folds(episode):
        known = x[others]
        penalty = RIDGE * len(known) * np.eye(known.shape[1])
        predicted[rows] = x[rows] @ np.linalg.solve(known.T @ known + penalty, known.T @ reward[others])
    return predicted


def _by_neighbors(inputs: np.ndarray, reward: np.ndarray, episode: np.ndarray) -> np.ndarray:
    """Returns predictions ``[N]``: the mean reward of the nearest decisions of other episodes."""
    squares = np.square(inputs).sum(axis=1)
    predicted = np.zeros(len(reward))
    for rows, others in _folds(episode):
        distance = squares[others] - 2.0 * inputs[rows] @ inputs[others].T
        nearest = np.argpartition(distance, NEAREST, axis=1)[:, :NEAREST]
        predicted[rows] = reward[others][nearest].mean(axis=1)
    return predicted


def _between(left: np.ndarray, episode: np.ndarray) -> float:
    """Returns the variance of residuals between episodes, without the part that chance within episodes explains."""
    counts = np.bincount(episode)
    means = np.bincount(episode, left) / counts
    within = np.square(left - means[episode]).sum() / max(len(left) - len(counts), 1)
    between = float((counts * np.square(means - left.mean())).sum() / len(left))
    return max(between - float(within) * len(counts) / len(left), 0.0)
