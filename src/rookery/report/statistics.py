"""Statistics of scores over episodes, seeds and tasks, and their intervals; seeded, so that equal scores give equal
results.

Interquartile mean, stratified bootstrap and probability of improvement: Agarwal et al. 2021 (arXiv:2108.13264), the
authors of rliable. Expanded percentiles: Hesterberg 2015 (arXiv:1411.5279). Bias-corrected and accelerated bootstrap
(BCa): Efron 1987 (Better bootstrap confidence intervals).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

TAIL = 0.025
"""Share of bootstrap samples below a 95 % interval, and above it."""

SURE = 1.96
"""Half width of a 95 % interval in standard errors, for estimates with a normal error."""

RESAMPLES = 2_000
"""Number of bootstrap samples."""

FEWEST = 4
"""Smallest number of values whose interval is bootstrapped; bootstrap samples of fewer hardly differ."""

MOST = 2_000
"""Largest number of values whose interval is bootstrapped; the mean of more has a normal error, and takes no time."""

PART = 1 << 22
"""Number of resampled values that are held in memory at once."""

NORMAL = NormalDist()

Statistic = Callable[[np.ndarray], np.ndarray]
"""Function of scores ``[..., N]`` that reduces the last axis."""


@dataclass(frozen=True)
class ScoreEstimate:
    """An estimate and its 95 % interval.

    Attributes:
        value: The estimate, ``[]``; of curves with P points ``[P]``.
        low: Lower end of the interval, of the same shape.
        high: Upper end of the interval, of the same shape.
    """

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray


# --- statistics of scores ---------------------------------------------------------------------------------------------


def mean(scores: np.ndarray) -> np.ndarray:
    """Returns the mean over the last axis."""
    return np.asarray(np.mean(scores, axis=-1))


def iqm(scores: np.ndarray) -> np.ndarray:
    """Returns the interquartile mean (IQM) over the last axis: the mean without the lowest and the highest quarter.

    As in rliable, a quarter is rounded down to whole scores: of five scores the lowest and the highest are left out.
    """
    ordered, count = np.sort(scores, axis=-1), np.shape(scores)[-1]
    return mean(ordered[..., count // 4 : count - count // 4])


STATISTICS: dict[str, Statistic] = {"mean": mean, "iqm": iqm}
"""Statistics by name."""


# --- intervals --------------------------------------------------------------------------------------------------------


def mean_interval(values: Sequence[float]) -> tuple[float, float]:
    """Returns the 95 % interval of the mean of independent values; of a single value, that value twice.

    From `FEWEST` values on, it is that of `aggregate_scores`, which assumes no distribution and stays within the range
    of the values. For two and three it is Student's t, which is exact for normal values of any number, whereas a
    bootstrap of three contains their mean in 3 of 4 cases only. It is Student's t above `MOST` too, where both agree.
    """
    count = len(values)
    if FEWEST <= count <= MOST:
        found = aggregate_scores([sorted(values)])  # the order of the values does not matter
        return float(found.low), float(found.high)
    center = math.fsum(values) / count
    if count < 2:
        return center, center
    deviation = math.sqrt(math.fsum((value - center) ** 2 for value in values) / (count - 1))
    half = student_t(count - 1) * deviation / math.sqrt(count)
    return center - half, center + half


def aggregate_scores(
    tasks: Sequence[ArrayLike], statistic: Statistic = mean, samples: int = RESAMPLES
) -> ScoreEstimate:
    """Returns a statistic of the runs of all tasks together, with its interval by the stratified bootstrap.

    Bootstrap samples draw runs within each task, a curve as a whole. Percentiles are expanded, because the spread of
    few runs is smaller than that of the distribution they are from.

    Args:
        tasks: Scores of the N > 0 runs of each task, ``[N]``, or their curves ``[N, P]``. N may differ between tasks.
        statistic: Statistic of runs.
        samples: Number of bootstrap samples.

    Raises:
        ValueError: If the curves have different numbers of points.
    """
    known = [np.asarray(task, np.float64) for task in tasks]
    pooled, sizes = np.concatenate(known), [len(task) for task in known]
    points = pooled.reshape(len(pooled), -1).T  # one at a time: the samples of all would be large
    rng = np.random.default_rng(0)
    drawn = np.concatenate([
        np.stack([statistic(point[rows]) for point in points], axis=-1)
        for rows in resampled_rows(sizes, samples, rng)
    ])  # fmt: skip
    ends = percentile_interval(drawn, expanded_tail(len(pooled), len(sizes)))
    return ScoreEstimate(statistic(pooled.T), *(end.reshape(pooled.shape[1:]) for end in ends))


def probability_of_improvement(
    first: Sequence[ArrayLike], second: Sequence[ArrayLike], samples: int = RESAMPLES
) -> ScoreEstimate:
    """Returns the probability that a run of one algorithm has a higher score than one of another, averaged over tasks;
    a tie counts half. 0.5 means no difference.

    Args:
        first: Scores ``[N]`` of the first algorithm's runs, in each task.
        second: Scores ``[M]`` of the second algorithm's runs, in the same tasks.
        samples: Number of bootstrap samples, which draw the runs of each algorithm within each task.

    Raises:
        ValueError: If the numbers of tasks differ.
    """
    rng = np.random.default_rng(0)
    values, chances, count = [], [], 0
    for ours, others in zip(first, second, strict=True):
        apart = np.sign(np.asarray(ours, np.float64)[:, None] - np.asarray(others, np.float64))
        wins = (apart + 1.0) / 2.0
        rows, columns = (np.concatenate([*resampled_rows([size], samples, rng)]) for size in wins.shape)
        values.append(wins.mean())
        chances.append(np.take_along_axis(wins[rows].mean(1), columns, axis=1).mean(1))
        count += sum(wins.shape)
    low, high = percentile_interval(np.mean(chances, axis=0), expanded_tail(count, 2 * len(values)))
    return ScoreEstimate(np.mean(values), low, high)


def resampled_rows(sizes: Sequence[int], resamples: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Yields the rows of bootstrap samples in parts ``[R, N]`` that fit into memory, `resamples` of them in all.

    Args:
        sizes: Number of rows of each stratum; they follow each other, and N is their sum.
        resamples: Number of bootstrap samples.
        rng: Random generator.
    """
    starts = np.cumsum([0, *sizes[:-1]])
    most = max(PART // sum(sizes), 1)
    for begin in range(0, resamples, most):
        number = min(most, resamples - begin)
        strata = zip(starts, sizes, strict=True)
        yield np.concatenate([start + rng.integers(0, size, (number, size)) for start, size in strata], axis=1)


def percentile_interval(drawn: np.ndarray, tail: float = TAIL) -> tuple[np.ndarray, np.ndarray]:
    """Returns the interval of bootstrap samples ``[R, ...]`` without a share of `tail` at each end."""
    low, high = np.quantile(drawn, [tail, 1.0 - tail], axis=0)
    return np.asarray(low), np.asarray(high)


def expanded_tail(count: int, strata: int = 1) -> float:
    """Returns the `tail` of `percentile_interval` that makes it as wide as Student's t interval for normal values.

    Args:
        count: Number of values.
        strata: Number of strata that they were drawn in.
    """
    freedom = count - strata
    return NORMAL.cdf(-math.sqrt(count / freedom) * student_t(freedom)) if freedom else TAIL


def bca_interval(value: float, drawn: np.ndarray, without: np.ndarray) -> tuple[float, float]:
    """Returns the 95 % interval by the bias-corrected and accelerated bootstrap.

    Args:
        value: The estimate.
        drawn: ``[R]`` its values in bootstrap samples.
        without: ``[N]`` its values without each of the observations (jackknife).
    """
    found = np.sort(drawn)
    if not len(found) or found[0] == found[-1]:
        return value, value
    below = (np.count_nonzero(found < value) + 0.5 * np.count_nonzero(found == value)) / len(found)
    bias = NORMAL.inv_cdf(min(max(below, 1 / (len(found) + 1)), len(found) / (len(found) + 1)))
    distance = without.mean() - without if len(without) else np.zeros(1)
    spread = float(np.square(distance).sum())
    acceleration = float((distance**3).sum()) / (6.0 * spread**1.5) if spread > 0 else 0.0

    def place(probability: float) -> float:
        shifted = bias + NORMAL.inv_cdf(probability)
        share = NORMAL.cdf(bias + shifted / max(1.0 - acceleration * shifted, 1e-6))
        return float(np.quantile(found, min(max(share, 0.0), 1.0)))

    return place(TAIL), place(1.0 - TAIL)


def student_t(freedom: int) -> float:
    """Returns the 97.5 % point of Student's t distribution, by Hill's expansion around the normal one.

    Args:
        freedom: Degrees of freedom, at least 1; the result is exact for 1 and 2.
    """
    if freedom == 1:
        return 12.706204736
    if freedom == 2:
        return 4.302652730
    z, n = 1.959963985, float(freedom)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / n ** (power + 1) for power, term in enumerate(terms))
