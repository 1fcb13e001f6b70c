"""Rows of results as plain data."""

from __future__ import annotations

import json

import pytest

from rookery.report.results import EvaluationResult, IterationResult, PolicyResult


def row_of(**changes):
    policy = PolicyResult(None, 0, 64, 64, 0, {"kl": float("nan"), "lr": 0.1})
    values = {
        "iteration": 1, "env_steps": 64, "episodes": 0, "return_mean": None, "return_min": None, "return_max": None,
        "length_mean": None, "running_length": 16.0, "agents": {}, "policies": {"main": policy}, "evaluation": None,
        "seconds": 0.12345, "steps_per_second": 518.44, "exact": True,
    }  # fmt: skip
    return IterationResult(**{**values, **changes}).row()


def test_a_row_is_flat_and_json_ready():
    row = row_of(agents={"a": 1.5})
    assert row["policies/main/lr"] == 0.1
    assert row["policies/main/valid_rows"] == 64
    assert row["agents/a/return_mean"] == 1.5
    assert row["return_mean"] is None
    assert row["policies/main/kl"] is None  # not a number in JSON
    assert (row["time/seconds"], row["time/steps_per_second"]) == (0.123, 518.4)
    assert json.loads(json.dumps(row, allow_nan=False)) == row


def test_what_depends_on_the_clock_stands_under_time_only():
    slow = row_of(seconds=9.0, steps_per_second=7.0)
    assert {key for key, value in slow.items() if value != row_of()[key]} == {"time/seconds", "time/steps_per_second"}


def test_a_row_holds_the_evaluation_of_its_iteration():
    seen = EvaluationResult(2.0, (1.0, 3.0), 1.0, 3.0, 10.0, 2, {"a": 2.0}, {"main": 2.0}, 64, True, (1.0, 3.0))
    row = row_of(evaluation=seen)
    kept = {key: value for key, value in row.items() if key.startswith("evaluation/")}
    assert kept == {
        "evaluation/return_mean": 2.0,
        "evaluation/return_low": 1.0,
        "evaluation/return_high": 3.0,
        "evaluation/episodes": 2,
        "evaluation/episodes_cut": 0,
        "evaluation/length_mean": 10.0,
    }
    assert not [key for key in row_of() if key.startswith("evaluation/")]


def test_a_policy_result_has_what_its_algorithm_reported_as_attributes():
    policy = PolicyResult(None, 0, 0, 0, 0, {"kl": 0.25})
    assert policy.kl == 0.25
    with pytest.raises(AttributeError, match="no metric 'kll'; there are kl; did you mean 'kl'"):
        policy.kll  # noqa: B018
