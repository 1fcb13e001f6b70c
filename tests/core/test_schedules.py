"""Schedules: values at hand-computed steps, horizons, mappings in and out, and refusals."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.core.errors import ConfigError
from rookery.core.schedules import Exponential, Linear, Piecewise, read_schedule, write_schedule

numbers = st.floats(1e-6, 1e6)


def test_linear_is_halfway_at_half_of_the_horizon():
    assert Linear(1.0, 0.0).at(25, 100) == 0.75
    assert Linear(1.0, 0.0).at(50, 100) == 0.5


def test_linear_is_flat_after_its_end_and_exact_there():
    schedule = Linear(0.3, 0.1)
    assert schedule.at(0, 100) == 0.3
    assert schedule.at(100, 100) == schedule.at(10**9, 100) == 0.1


def test_own_steps_beat_the_horizon():
    assert Linear(1.0, 0.0, steps=10).at(5, 1000) == 0.5
    assert Exponential(1.0, 0.01, steps=10).at(5, 1000) == pytest.approx(0.1)


def test_without_any_length_a_schedule_stays_at_its_start():
    assert Linear(0.5, 0.0).at(10**6, None) == 0.5
    assert Exponential(0.5, 0.1).at(10**6, None) == 0.5


def test_exponential_falls_by_equal_factors():
    schedule = Exponential(1.0, 1e-4)
    assert [schedule.at(s, 4) for s in range(5)] == pytest.approx([1.0, 1e-1, 1e-2, 1e-3, 1e-4])
    assert schedule.at(4, 4) == 1e-4


def test_piecewise_interpolates_between_points_and_is_flat_outside():
    schedule = Piecewise(((10, 1.0), (20, 3.0), (40, 0.0)))
    assert [schedule.at(s, None) for s in (0, 10, 15, 20, 30, 40, 99)] == [1.0, 1.0, 2.0, 3.0, 1.5, 0.0, 0.0]


@given(numbers, numbers, st.integers(0, 200))
def test_values_between_the_ends_stay_between_them(start, end, step):
    low, high = sorted((start, end))
    for schedule in (Linear(start, end), Exponential(start, end)):
        assert low * (1 - 1e-9) <= schedule.at(step, 100) <= high * (1 + 1e-9)


@given(numbers, numbers, st.none() | st.integers(1, 1000), st.sampled_from([Linear, Exponential]))
def test_a_written_schedule_reads_back_equal(start, end, steps, cls):
    schedule = cls(start, end, steps)
    assert read_schedule(write_schedule(schedule)) == schedule
    assert pickle.loads(pickle.dumps(schedule)) == schedule


def test_mappings_choose_the_class():
    assert read_schedule({"start": 1e-3, "end": 0}) == Linear(1e-3, 0.0)
    assert read_schedule({"start": 1e-3, "end": 1e-5, "shape": "exponential"}) == Exponential(1e-3, 1e-5)
    points = read_schedule({"points": [[0, 1e-3], [1e5, 0]]})
    assert points == Piecewise(((0, 1e-3), (1e5, 0)))
    assert read_schedule(write_schedule(points)) == points


def test_whole_floats_are_fine_as_steps():
    steps = read_schedule({"start": 1, "end": 0, "steps": 1e5}).steps
    assert steps == 100_000 and isinstance(steps, int)


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ({"start": 1}, "lacks end"),
        ({}, "lacks start and end"),
        ({"start": 1, "ende": 0}, "did you mean 'end'"),
        ({"start": 1, "end": 0, "shape": "expo"}, "must be one of: linear, exponential"),
        ({"start": 1, "end": 0, "shape": ["linear"]}, "must be one of"),
        ({"start": 1, "end": 0, "points": []}, "either points, or start and end"),
        ({"start": "1", "end": 0}, "start must be a finite number, not '1'"),
        ({"start": 1, "end": float("inf")}, "end must be a finite number"),
        ({"start": True, "end": 0}, "start must be a finite number"),
        ({"start": 10**400, "end": 0}, "start must be a finite number"),
        ({"start": 1, "end": 0, "steps": 0}, "steps must be a whole number of at least 1"),
        ({"start": 1, "end": 0, "steps": 2.5}, "steps must be a whole number of at least 1"),
        ({"start": 1, "end": 0, "shape": "exponential"}, "must be above 0"),
        ({"points": []}, "points must be a list"),
        ({"points": 3}, "points must be a list"),
        ({"points": [[0, 1], [2]]}, "points must be a list"),
        ({"points": [[5, 1], [5, 2]]}, "must ascend"),
        ({"points": [[-1, 1]]}, "must ascend from 0"),
        ({"points": [["a", 1]]}, "step must be a finite number"),
    ],
)
def test_a_wrong_mapping_is_refused_with_the_reason(written, reason):
    with pytest.raises(ConfigError, match=reason):
        read_schedule(written)
