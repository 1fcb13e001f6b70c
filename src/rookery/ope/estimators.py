"""Off-policy estimates of a return from whole episodes, and their confidence intervals.

Importance sampling, ordinary, weighted and per decision: Precup, Sutton & Singh 2000 (eligibility traces for off-policy
policy evaluation). Doubly robust: Jiang & Li 2016 (arXiv:1511.03722, eq. 10). Intervals: the bias-corrected and
accelerated bootstrap over episodes (BCa; Efron 1987), as for off-policy estimates in Thomas, Theocharous &
Ghavamzadeh 2015 (high-confidence off-policy evaluation).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rookery.report import statistics

LARGEST_LOG = 600.0
"""Largest logarithm of a weight, so that sums of weights stay finite."""


@dataclass(frozen=True)
class EpisodeSteps:
    """Log-ratios and rewards of E episodes, ``[E, T]``, padded with zeros after the end of an episode.

    Attributes:
        log_ratio: Log-ratio of the action's probability under the policy to that under the behaviour; minus infinity if
            the policy never takes it.
        reward: Reward of each decision.
        length: ``[E]`` number of decisions of each episode.
    """

    log_ratio: np.ndarray
    reward: np.ndarray
    length: np.ndarray

    @property
    def valid(self) -> np.ndarray:
        """Mask of the entries that hold decisions, ``[E, T]``."""
        found: np.ndarray = np.arange(self.reward.shape[1]) < self.length[:, None]
        return found

    def weights(self, most: float | None) -> np.ndarray:
        """Returns the importance weight of each decision: the product of the ratios up to it, ``[E, T]``.

        Args:
            most: Largest weight; larger ones are clipped. None = no limit.
        """
        limit = LARGEST_LOG if most is None else min(math.log(most), LARGEST_LOG)
        found: np.ndarray = np.exp(np.minimum(np.cumsum(self.log_ratio, axis=1), limit))
        return found


@dataclass(frozen=True)
class Quotient:
    """An estimate as the quotient of two sums over episodes; a plain mean has ones in the denominator.

    Attributes:
        numerator: ``[E]`` term of each episode in the numerator.
        denominator: ``[E]`` term of each episode in the denominator.
    """

    numerator: np.ndarray
    denominator: np.ndarray

    @property
    def value(self) -> float | None:
        """The quotient; None if the denominator is 0."""
        total = float(self.denominator.sum())
        return float(self.numerator.sum()) / total if total > 0 else None


def discounts(length: int, gamma: float) -> np.ndarray:
    """Returns the discount of each of `length` decisions, ``[T]``."""
    return gamma ** np.arange(length, dtype=np.float64)


def mean_of(values: np.ndarray) -> Quotient:
    """Returns the mean of a value of each episode, ``[E]``, as a quotient."""
    return Quotient(values, np.ones(len(values)))


def returns_of(steps: EpisodeSteps, gamma: float) -> np.ndarray:
    """Returns the discounted return of each episode, ``[E]``."""
    found: np.ndarray = steps.reward @ discounts(steps.reward.shape[1], gamma)
    return found


def last_weights(steps: EpisodeSteps, most: float | None) -> np.ndarray:
    """Returns the weight of each whole episode, ``[E]``."""
    found: np.ndarray = steps.weights(most)[np.arange(len(steps.length)), steps.length - 1]
    return found


def importance_sampling(steps: EpisodeSteps, gamma: float, most: float | None) -> Quotient:
    """Weighs the return of each episode by its weight (IS)."""
    return mean_of(last_weights(steps, most) * returns_of(steps, gamma))


def weighted_sampling(steps: EpisodeSteps, gamma: float, most: float | None) -> Quotient:
    """Weighs the return of each episode, divided by the sum of the weights (WIS)."""
    weight = last_weights(steps, most)
    return Quotient(weight * returns_of(steps, gamma), weight)


def per_decision_sampling(steps: EpisodeSteps, gamma: float, most: float | None) -> Quotient:
    """Weighs each reward by the weight of the decisions up to it (PDIS)."""
    weighted = steps.weights(most) * steps.reward
    return mean_of(weighted @ discounts(weighted.shape[1], gamma))


def doubly_robust(steps: EpisodeSteps, value: np.ndarray, q: np.ndarray, gamma: float, most: float | None) -> Quotient:
    """Corrects a model's value of each first observation by the weighted errors of its values (DR, eq. 10).

    Args:
        steps: The episodes.
        value: ``[E, T]`` state value of each observation under the policy.
        q: ``[E, T]`` value of the recorded action.
        gamma: Discount.
        most: Largest weight.
    """
    value, q = np.where(steps.valid, value, 0.0), np.where(steps.valid, q, 0.0)
    after = np.concatenate((value[:, 1:], np.zeros((len(value), 1))), axis=1)
    error = np.where(steps.valid, steps.reward + gamma * after - q, 0.0)
    return mean_of(value[:, 0] + (steps.weights(most) * error) @ discounts(error.shape[1], gamma))


def effective_size(weight: np.ndarray) -> float:
    """Returns the effective sample size (Kish 1965) of episodes with weights ``[E]``."""
    largest = float(weight.max(initial=0.0))
    if largest == 0:
        return 0.0
    scaled = weight / largest
    return float(scaled.sum() ** 2 / np.square(scaled).sum())


# --- intervals --------------------------------------------------------------------------------------------------------


def bca_interval(quotient: Quotient, resamples: int, rng: np.random.Generator) -> tuple[float, float] | None:
    """Returns the 95 % interval of an estimate by the BCa bootstrap over episodes; None if there is no estimate.

    It is not that of a mean (`statistics.mean_interval`): quotients of sums are biased, and their weights are skewed.
    Bootstrap samples without weight are left out.
    """
    value = quotient.value
    if value is None:
        return None
    numerator, denominator = quotient.numerator, quotient.denominator
    rows = statistics.resampled_rows([len(numerator)], resamples, rng)
    sums = ((numerator[drawn].sum(1), denominator[drawn].sum(1)) for drawn in rows)
    samples = np.concatenate([above[below > 0] / below[below > 0] for above, below in sums])
    above, below = numerator.sum() - numerator, denominator.sum() - denominator
    return statistics.bca_interval(value, samples, above[below > 0] / below[below > 0])
