"""Off-policy estimates of a return, each from numbers of whole episodes; and their intervals.

Importance sampling, ordinary, weighted and per decision: Precup, Sutton & Singh 2000 (eligibility traces for off-policy
policy evaluation). Doubly robust: Jiang & Li 2016 (arXiv:1511.03722, eq. 10). Intervals: the bias-corrected and
accelerated bootstrap over episodes (BCa; Efron 1987), as for off-policy estimates in Thomas, Theocharous &
Ghavamzadeh 2015 (high-confidence off-policy evaluation).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

LARGEST_LOG = 600.0
"""Logarithm that no weight exceeds, so that sums of weights stay finite."""

PART = 1 << 22
"""Numbers of resamples that are held at once."""

NORMAL = NormalDist()


@dataclass(frozen=True)
class EpisodeSteps:
    """What is known of the decisions of E episodes, ``[E, T]``; behind the end of an episode stand zeros.

    Attributes:
        log_ratio: Log of how much likelier each action is under the policy than it was when it was done; minus infinity
            where the policy never does it.
        reward: What each decision earned.
        length: ``[E]`` decisions of each episode.
    """

    log_ratio: np.ndarray
    reward: np.ndarray
    length: np.ndarray

    @property
    def valid(self) -> np.ndarray:
        """Which places hold decisions, ``[E, T]``."""
        found: np.ndarray = np.arange(self.reward.shape[1]) < self.length[:, None]
        return found

    def weights(self, most: float | None) -> np.ndarray:
        """Gives the importance weight of each decision: the product of the ratios up to it, ``[E, T]``.

        Args:
            most: Largest weight; larger ones are cut off. None = any.
        """
        limit = LARGEST_LOG if most is None else min(math.log(most), LARGEST_LOG)
        found: np.ndarray = np.exp(np.minimum(np.cumsum(self.log_ratio, axis=1), limit))
        return found


@dataclass(frozen=True)
class Quotient:
    """An estimate as the quotient of two sums over episodes; a plain mean has ones below.

    Attributes:
        above: ``[E]`` what each episode adds to the sum above.
        below: ``[E]`` what it adds to the one below.
    """

    above: np.ndarray
    below: np.ndarray

    @property
    def value(self) -> float | None:
        """The quotient; None where the sum below is 0."""
        total = float(self.below.sum())
        return float(self.above.sum()) / total if total > 0 else None


def discounts(length: int, gamma: float) -> np.ndarray:
    """Gives the discount of each of so many decisions, ``[T]``."""
    return gamma ** np.arange(length, dtype=np.float64)


def mean_of(values: np.ndarray) -> Quotient:
    """Gives the mean of a number of each episode, ``[E]``."""
    return Quotient(values, np.ones(len(values)))


def returns_of(steps: EpisodeSteps, gamma: float) -> np.ndarray:
    """Gives what each episode earned, discounted, ``[E]``."""
    found: np.ndarray = steps.reward @ discounts(steps.reward.shape[1], gamma)
    return found


def last_weights(steps: EpisodeSteps, most: float | None) -> np.ndarray:
    """Gives the weight of each whole episode, ``[E]``."""
    found: np.ndarray = steps.weights(most)[np.arange(len(steps.length)), steps.length - 1]
    return found


def importance_sampling(steps: EpisodeSteps, gamma: float, most: float | None) -> Quotient:
    """Weighs the return of each episode by its weight (IS)."""
    return mean_of(last_weights(steps, most) * returns_of(steps, gamma))


def weighted_sampling(steps: EpisodeSteps, gamma: float, most: float | None) -> Quotient:
    """Does the same, divided by the sum of the weights and not by the number of episodes (WIS)."""
    weight = last_weights(steps, most)
    return Quotient(weight * returns_of(steps, gamma), weight)


def per_decision_sampling(steps: EpisodeSteps, gamma: float, most: float | None) -> Quotient:
    """Weighs each reward by the weight of the decisions up to it (PDIS)."""
    weighted = steps.weights(most) * steps.reward
    return mean_of(weighted @ discounts(weighted.shape[1], gamma))


def doubly_robust(steps: EpisodeSteps, value: np.ndarray, q: np.ndarray, gamma: float, most: float | None) -> Quotient:
    """Corrects a model's value of each first observation by what its values were wrong by, weighted (DR, eq. 10).

    Args:
        steps: The episodes.
        value: ``[E, T]`` value of each observation under the policy.
        q: ``[E, T]`` value of what was done there.
        gamma: Discount.
        most: Largest weight.
    """
    value, q = np.where(steps.valid, value, 0.0), np.where(steps.valid, q, 0.0)
    after = np.concatenate((value[:, 1:], np.zeros((len(value), 1))), axis=1)
    error = np.where(steps.valid, steps.reward + gamma * after - q, 0.0)
    return mean_of(value[:, 0] + (steps.weights(most) * error) @ discounts(error.shape[1], gamma))


def effective_size(weight: np.ndarray) -> float:
    """Gives how many episodes of equal weight say as much as these (Kish 1965), from their weights ``[E]``."""
    largest = float(weight.max(initial=0.0))
    if largest == 0:
        return 0.0
    scaled = weight / largest
    return float(scaled.sum() ** 2 / np.square(scaled).sum())


# --- intervals --------------------------------------------------------------------------------------------------------


def resampled(quotient: Quotient, resamples: int, rng: np.random.Generator) -> np.ndarray:
    """Gives the estimate of each of so many drawings of as many episodes with replacement; those of no weight are left
    out.
    """
    return np.concatenate([*_parts(quotient, resamples, rng)])


def _parts(quotient: Quotient, resamples: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    number = len(quotient.above)
    size = max(PART // number, 1)
    for start in range(0, resamples, size):
        drawn = rng.integers(0, number, (min(size, resamples - start), number))
        above, below = quotient.above[drawn].sum(1), quotient.below[drawn].sum(1)
        yield above[below > 0] / below[below > 0]


def bca_interval(quotient: Quotient, resamples: int, rng: np.random.Generator) -> tuple[float, float] | None:
    """Gives the 95 % interval of an estimate by the BCa bootstrap over episodes; None where there is no estimate."""
    value = quotient.value
    if value is None:
        return None
    found = np.sort(resampled(quotient, resamples, rng))
    if not len(found) or found[0] == found[-1]:
        return value, value
    below = (np.count_nonzero(found < value) + 0.5 * np.count_nonzero(found == value)) / len(found)
    bias = NORMAL.inv_cdf(min(max(below, 1 / (len(found) + 1)), len(found) / (len(found) + 1)))
    acceleration = _acceleration(quotient)

    def place(probability: float) -> float:
        shifted = bias + NORMAL.inv_cdf(probability)
        share = NORMAL.cdf(bias + shifted / max(1.0 - acceleration * shifted, 1e-6))
        return float(np.quantile(found, min(max(share, 0.0), 1.0)))

    return place(0.025), place(0.975)


def _acceleration(quotient: Quotient) -> float:
    """Skewness of the estimate by leaving out one episode after the other, as BCa takes it."""
    above, below = quotient.above.sum() - quotient.above, quotient.below.sum() - quotient.below
    without = above[below > 0] / below[below > 0]
    distance = without.mean() - without if len(without) else np.zeros(1)
    spread = float(np.square(distance).sum())
    return float((distance**3).sum()) / (6.0 * spread**1.5) if spread > 0 else 0.0
