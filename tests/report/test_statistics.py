"""Statistics of scores: their numbers by hand, by all bootstrap samples, and by how often intervals hold."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from rookery.report.statistics import (
    aggregate_scores,
    bca_interval,
    expanded_tail,
    iqm,
    mean,
    mean_interval,
    percentile_interval,
    probability_of_improvement,
    resampled_rows,
    student_t,
)


@pytest.mark.parametrize(
    ("freedom", "expected"),
    [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (9, 2.262), (19, 2.093), (49, 2.010), (99, 1.984), (999, 1.962)],
)
def test_student_t_agrees_with_the_tables(freedom, expected):
    assert student_t(freedom) == pytest.approx(expected, abs=0.005)


def test_the_interval_of_1_2_3_is_2_plus_or_minus_4_303_over_the_root_of_3():
    low, high = mean_interval((1.0, 2.0, 3.0))
    half = 4.302652730 / math.sqrt(3)
    assert (low, high) == (pytest.approx(2 - half), pytest.approx(2 + half))
    assert mean_interval((7.0,)) == (7.0, 7.0)
    assert mean_interval((7.0, 7.0, 7.0)) == (7.0, 7.0)
    assert mean_interval((7.0,) * 9) == (7.0, 7.0)


def test_the_interquartile_mean_leaves_out_a_quarter_at_each_end():
    assert iqm(np.array([8.0, 1.0, 7.0, 2.0, 6.0, 3.0, 5.0, 400.0])) == pytest.approx((3 + 5 + 6 + 7) / 4)
    assert iqm(np.array([9.0, 1.0, 2.0, 3.0, -7.0])) == 2.0  # of five, one at each end
    assert iqm(np.array([1.0, 2.0, 6.0])) == 3.0
    assert iqm(np.array([[4.0, 1.0, 2.0, 90.0], [0.0, 0.0, 5.0, 5.0]])).tolist() == [3.0, 2.5]


@pytest.mark.parametrize("statistic", [mean, iqm])
def test_a_bootstrapped_interval_is_that_of_all_bootstrap_samples(statistic):
    values = np.array([0.3, 1.1, 2.0, 4.5, 9.7])
    every = statistic(values[np.array(list(itertools.product(range(5), repeat=5)))])  # 3,125 samples
    ends = percentile_interval(every, expanded_tail(5))
    found = aggregate_scores([values], statistic, samples=200_000)
    assert found.value == pytest.approx(statistic(values))
    assert (float(found.low), float(found.high)) == (pytest.approx(ends[0], abs=0.05), pytest.approx(ends[1], abs=0.05))


def test_runs_are_drawn_within_their_task():
    easy, hard = [100.0, 101.0, 102.0], [0.0, 1.0, 2.0]
    every = [
        np.mean([*(easy[at] for at in first), *(hard[at] for at in second)])
        for first, second in itertools.product(itertools.product(range(3), repeat=3), repeat=2)
    ]
    ends = percentile_interval(np.array(every), expanded_tail(6, 2))
    found = aggregate_scores([easy, hard], samples=100_000)
    assert found.value == 51.0
    assert (float(found.low), float(found.high)) == (pytest.approx(ends[0], abs=0.05), pytest.approx(ends[1], abs=0.05))
    apart = aggregate_scores([[*easy, *hard]])
    assert apart.high - apart.low > 50 * (found.high - found.low), "without strata the tasks' own difference enters"


def test_points_of_curves_have_the_intervals_of_numbers():
    curves = np.random.default_rng(0).normal(size=(6, 3))
    found = aggregate_scores([curves])
    for point in range(3):
        alone = aggregate_scores([curves[:, point]])
        assert (found.low[point], found.high[point]) == (alone.low, alone.high)
        assert found.value[point] == pytest.approx(alone.value)


def test_tails_make_a_bootstrapped_interval_as_wide_as_students():
    values = np.random.default_rng(3).normal(10.0, 2.0, 12)
    low, high = mean_interval(values.tolist())
    half = student_t(11) * values.std(ddof=1) / math.sqrt(12)
    assert (high - low) / 2 == pytest.approx(half, rel=0.06)
    assert expanded_tail(10**6) == pytest.approx(0.025, rel=1e-3)
    assert expanded_tail(2, 2) == 0.025


def test_intervals_repeat_whatever_the_order_and_stay_within_the_values():
    values = np.random.default_rng(0).choice([0.0, 500.0], 20, p=[0.1, 0.9]).tolist()
    assert mean_interval(values) == mean_interval(values[::-1]) == mean_interval(values)
    low, high = mean_interval(values)
    assert 0.0 <= low < float(np.mean(values)) < high <= 500.0


def test_intervals_of_very_many_values_are_students(monkeypatch):
    values = np.random.default_rng(4).exponential(size=2_000).tolist()
    bootstrapped = mean_interval(values)
    monkeypatch.setattr("rookery.report.statistics.MOST", 1_999)
    assert mean_interval(values) == pytest.approx(bootstrapped, abs=0.003)
    assert mean_interval(values) != bootstrapped


def test_intervals_of_ten_episodes_hold_about_as_often_as_they_say():
    rng = np.random.default_rng(1)
    held = 0
    for values in rng.normal(size=(400, 10)).tolist():
        low, high = mean_interval(values)
        held += low <= 0.0 <= high
    assert 0.91 <= held / 400 <= 0.975


def test_the_probability_of_improvement_counts_pairs():
    found = probability_of_improvement([[1.0, 2.0, 3.0]], [[2.0, 2.0, 4.0]])
    assert found.value == pytest.approx(3 / 9)  # 2 ties with two: 1; 3 beats two: 2
    assert found.low < found.value < found.high
    two = probability_of_improvement([[1.0, 2.0, 3.0], [5.0]], [[2.0, 2.0, 4.0], [4.0, 3.0]])
    assert two.value == pytest.approx((3 / 9 + 1) / 2)
    assert probability_of_improvement([[1.0, 2.0]], [[1.0, 2.0]]).value == 0.5
    better = probability_of_improvement([[9.0, 8.0, 7.0, 6.0]], [[1.0, 2.0, 3.0, 4.0]])
    assert (better.value, better.low, better.high) == (1.0, 1.0, 1.0)
    with pytest.raises(ValueError, match="zip"):
        probability_of_improvement([[1.0]], [[1.0], [2.0]])


def test_its_interval_is_that_of_all_pairs_of_bootstrap_samples():
    first, second = np.array([1.0, 3.0, 5.0]), np.array([2.0, 4.0, 4.5])
    wins = first[:, None] > second
    draws = np.array(list(itertools.product(range(3), repeat=3)))
    every = np.array([[wins[np.ix_(ours, others)].mean() for others in draws] for ours in draws])
    ends = percentile_interval(every.ravel(), expanded_tail(6, 2))
    found = probability_of_improvement([first], [second], samples=100_000)
    assert (float(found.low), float(found.high)) == (pytest.approx(ends[0], abs=0.03), pytest.approx(ends[1], abs=0.03))


def test_resampled_rows_stay_in_their_strata_and_come_in_parts():
    parts = [*resampled_rows([3, 2], 3_000_000, np.random.default_rng(0))]
    assert len(parts) > 1
    assert sum(map(len, parts)) == 3_000_000
    rows = parts[-1]
    assert set(np.unique(rows[:, :3])) == {0, 1, 2}
    assert set(np.unique(rows[:, 3:])) == {3, 4}


def test_bca_without_bias_and_skew_is_the_percentile_interval():
    drawn = np.linspace(-1.0, 1.0, 2001)
    low, high = bca_interval(0.0, drawn, np.array([-1.0, 0.0, 1.0]))
    assert (low, high) == (pytest.approx(-0.95), pytest.approx(0.95))
    assert bca_interval(2.0, np.full(5, 2.0), np.full(5, 2.0)) == (2.0, 2.0)
