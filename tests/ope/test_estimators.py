"""Estimates from weights and values, against numbers worked out by hand; and the intervals of the bootstrap."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rookery.ope.estimators import (
    EpisodeSteps,
    Quotient,
    bca_interval,
    doubly_robust,
    effective_size,
    importance_sampling,
    last_weights,
    mean_of,
    per_decision_sampling,
    returns_of,
    weighted_sampling,
)

HALF = 0.5
LOG2 = math.log(2.0)

STEPS = EpisodeSteps(
    log_ratio=np.array([[LOG2, -LOG2, LOG2], [LOG2, LOG2, 0.0]]),
    reward=np.array([[1.0, 2.0, 4.0], [3.0, 1.0, 0.0]]),
    length=np.array([3, 2]),
)
"""Ratios 2, 1/2, 2 and 2, 2, so that products are 2, 1, 2 and 2, 4."""


def test_returns_are_discounted():
    np.testing.assert_allclose(returns_of(STEPS, HALF), [1 + 1 + 1, 3 + 0.5])


def test_importance_sampling_weighs_whole_episodes():
    np.testing.assert_allclose(last_weights(STEPS, None), [2.0, 4.0])
    assert importance_sampling(STEPS, HALF, None).value == pytest.approx((2 * 3 + 4 * 3.5) / 2)
    assert weighted_sampling(STEPS, HALF, None).value == pytest.approx((2 * 3 + 4 * 3.5) / 6)


def test_per_decision_sampling_weighs_each_reward_by_what_came_before_it():
    first = 2 * 1 + 0.5 * 1 * 2 + 0.25 * 2 * 4
    second = 2 * 3 + 0.5 * 4 * 1
    assert per_decision_sampling(STEPS, HALF, None).value == pytest.approx((first + second) / 2)


def test_doubly_robust_is_the_recursion_of_the_paper():
    value = np.array([[1.0, 2.0, 3.0], [2.0, 1.0, 9.0]])  # the 9 lies behind an end, and counts nothing
    q = np.array([[0.5, 1.5, 2.5], [1.0, 3.0, 9.0]])
    # V_DR(t) = V(t) + ratio (r + gamma V_DR(t + 1) - Q(t)), from the end
    third = 3.0 + 2.0 * (4.0 - 2.5)
    second = 2.0 + 0.5 * (2.0 + 0.5 * third - 1.5)
    first = 1.0 + 2.0 * (1.0 + 0.5 * second - 0.5)
    other = 2.0 + 2.0 * (3.0 + 0.5 * (1.0 + 2.0 * (1.0 - 3.0)) - 1.0)
    assert doubly_robust(STEPS, value, q, HALF, None).value == pytest.approx((first + other) / 2)


def test_with_values_of_nothing_it_is_per_decision_sampling():
    nothing = np.zeros((2, 3))
    assert doubly_robust(STEPS, nothing, nothing, HALF, None).value == pytest.approx(
        per_decision_sampling(STEPS, HALF, None).value
    )


def test_weights_are_cut_off():
    np.testing.assert_allclose(STEPS.weights(1.5)[0], [1.5, 1.0, 1.5])
    assert importance_sampling(STEPS, HALF, 1.5).value == pytest.approx(1.5 * (3 + 3.5) / 2)


def test_what_a_policy_never_does_has_no_weight():
    never = EpisodeSteps(np.full((2, 1), -np.inf), np.ones((2, 1)), np.ones(2, int))
    assert importance_sampling(never, 1.0, None).value == 0.0
    weighted = weighted_sampling(never, 1.0, None)
    assert weighted.value is None and bca_interval(weighted, 10, np.random.default_rng(0)) is None
    assert effective_size(last_weights(never, None)) == 0.0


def test_huge_weights_stay_finite():
    huge = EpisodeSteps(np.full((2, 900), 5.0), np.ones((2, 900)), np.full(2, 900))
    assert math.isfinite(importance_sampling(huge, 1.0, None).value)
    assert effective_size(last_weights(huge, None)) == pytest.approx(2.0)


def test_the_effective_size_is_that_of_equal_weights():
    assert effective_size(np.ones(7)) == pytest.approx(7.0)
    assert effective_size(np.array([1.0, 0.0, 0.0])) == pytest.approx(1.0)
    assert effective_size(np.array([2.0, 4.0])) == pytest.approx(36 / 20)


# --- intervals --------------------------------------------------------------------------------------------------------


def test_the_interval_of_a_mean_is_that_of_students_t_where_numbers_are_normal():
    values = np.random.default_rng(1).normal(5.0, 2.0, 400)
    low, high = bca_interval(mean_of(values), 4000, np.random.default_rng(2))
    half = 1.96 * values.std() / math.sqrt(len(values))
    assert low == pytest.approx(values.mean() - half, abs=0.03)
    assert high == pytest.approx(values.mean() + half, abs=0.03)


def test_the_interval_of_skewed_numbers_reaches_farther_to_their_long_side():
    values = np.random.default_rng(1).exponential(1.0, 60)
    quotient = mean_of(values)
    low, high = bca_interval(quotient, 4000, np.random.default_rng(2))
    assert high - quotient.value > 1.1 * (quotient.value - low)


def test_intervals_hold_the_truth_about_as_often_as_they_say():
    rng, held = np.random.default_rng(5), 0
    for _ in range(200):
        low, high = bca_interval(mean_of(rng.exponential(1.0, 80)), 500, rng)
        held += low <= 1.0 <= high
    assert 180 <= held <= 199


def test_intervals_repeat_and_those_of_equal_numbers_are_a_point():
    quotient = Quotient(np.arange(9.0), np.arange(9.0) + 1)
    one, other = (bca_interval(quotient, 200, np.random.default_rng(3)) for _ in range(2))
    assert one == other
    assert bca_interval(mean_of(np.full(5, 2.0)), 50, np.random.default_rng(3)) == (2.0, 2.0)
