"""Stop criteria: budgets, metrics by any name of a result, and functions."""

from __future__ import annotations

import json

import pytest

from rookery import ConfigError, PPOConfig, Trainer
from rookery.report.results import IterationResult, PolicyResult
from rookery.run.stopping import Stop, stop_rule


def result(**changes):
    """The fifth iteration of a run of one policy."""
    policy = PolicyResult(10.0, 40, 5000, 1000, 0, {"kl": 0.01, "updates": 5, "explained_variance": None})
    values = {
        "iteration": 5, "env_steps": 5000, "episodes": 40, "return_mean": 12.345, "return_min": 1.0, "return_max": 20.0,
        "length_mean": 125.0, "running_length": 30.0, "agents": {"agent": 12.345}, "policies": {"main": policy},
        "evaluation": None, "seconds": 2.5, "steps_per_second": 2000.0, "exact": True,
    }  # fmt: skip
    return IterationResult(**{**values, **changes})


@pytest.mark.parametrize(
    ("criteria", "reason"),
    [
        ({"env_steps": 5000}, "env_steps 5,000 reached 5,000"),
        ({"env_steps": 5001}, ""),
        ({"iterations": 5}, "iterations 5 reached 5"),
        ({"episodes": 41}, ""),
        ({"seconds": 2.5}, "seconds 2.5 reached 2.5"),
        ({"minutes": 0.04}, "minutes 0.04 reached 0.04"),
        ({"minutes": 0.05}, ""),
        ({"return_mean": 12}, "return_mean 12.35 reached 12"),
        ({"return_mean": -200.0}, "return_mean 12.35 reached -200"),
        ({"policies.main.kl": 0.01}, "policies.main.kl 0.01 reached 0.01"),
        ({"policies/main/updates": 5}, "policies/main/updates 5 reached 5"),
        ({"agents.agent.return_mean": 13}, ""),
        ({"iterations": 9, "return_max": 20}, "return_max 20 reached 20"),
        ({"policies.main.explained_variance": -1}, ""),  # known, and without a value this time
    ],
)
def test_a_criterion_is_reached_at_its_threshold_and_says_so(criteria, reason):
    assert Stop(criteria).reason(result()) == reason


def test_a_metric_without_a_value_reaches_nothing():
    assert Stop({"return_mean": -1e9}).reason(result(return_mean=None)) == ""


def test_a_function_is_asked_when_no_criterion_is_reached():
    assert Stop({}, lambda seen: seen.iteration == 5).reason(result()) == "the stop function said so"
    assert Stop({"iterations": 6}, lambda seen: False).reason(result()) == ""


def test_an_unknown_metric_is_refused_with_the_nearest_and_without_what_cannot_be_reached():
    with pytest.raises(ConfigError) as caught:
        Stop({"return_men": 1}).reason(result())
    assert str(caught.value).startswith(
        "stop.return_men: this run has no such metric; known are agents/agent/return_mean, "
    )
    assert str(caught.value).endswith("; did you mean 'return_mean'?")
    assert "exact" not in str(caught.value)


def test_metrics_that_come_later_are_waited_for():
    # no episode has ended and no policy has learned: agents and metrics are still unknown
    young = result(episodes=0, return_mean=None, agents={}, policies={"main": PolicyResult(None, 0, 0, 0, 0)})
    for name in ("agents.late.return_mean", "policies.main.kl", "policies.late.kl", "evaluation.return_mean"):
        assert Stop({name: 1}).reason(young) == ""
    with pytest.raises(ConfigError, match="no such metric"):
        Stop({"retrun_mean": 1}).reason(young)


def test_metrics_that_never_came_are_refused_when_the_windows_are_full():
    old = result(episodes=100)
    for name in ("agents.agnet.return_mean", "policies.mian.kl"):
        with pytest.raises(ConfigError, match="no such metric"):
            Stop({name: 1}).reason(old)


def test_a_metric_that_a_policy_does_not_have_is_refused_after_its_first_update():
    with pytest.raises(ConfigError, match=r"stop\.policies\.main\.klm: .*; did you mean 'policies/main/kl'"):
        Stop({"policies.main.klm": 1}).reason(result())


def test_thresholds_must_be_numbers():
    with pytest.raises(ConfigError) as caught:
        Stop({"return_mean": "475", "env_steps": True, "seconds": None, "episodes": 3})
    assert caught.value.problems == (
        "stop.return_mean = '475': not a number",
        "stop.env_steps = True: not a number",
        "stop.seconds = None: not a number",
    )


def run_into(folder, **arguments):
    """A run of two iterations, 32 steps."""
    return Trainer("CartPole-v1", PPOConfig(fragment_length=8, epochs=1), num_envs=2, seed=1, run_dir=folder,
                   config={"logging.tensorboard": False}, **arguments)  # fmt: skip


def provenance(folder):
    """Returns the criteria that `rookery explain` reads."""
    found = json.loads((folder / "provenance.json").read_text())
    return {path: [list(given) for given in told] for path, told in found.items() if path.startswith("stop.")}


def test_what_a_loaded_run_is_told_of_its_end_counts_and_is_explained(tmp_path):
    with run_into(tmp_path, stop={"env_steps": 32}) as trainer:
        trainer.train()
    with Trainer.load(tmp_path, resume=True, config={"stop.env_steps": 64}) as trainer:
        assert trainer.resolved.explain("stop.env_steps").startswith("stop.env_steps = 64.0  (code)\n")
        assert trainer.train().stop_reason == "env_steps 64 reached 64"
    with Trainer.load(tmp_path, config={"stop.env_steps": None, "stop.iterations": 5}) as trainer:
        assert trainer.train().stop_reason == "iterations 5 reached 5"
    assert provenance(tmp_path) == {"stop.env_steps": [["code", "32.0"], ["code", "64.0"]]}


def test_criteria_of_train_stand_beside_those_of_settings_until_others_are_given(tmp_path):
    with run_into(tmp_path, stop={"episodes": 1000}) as trainer:
        assert trainer.train({"iterations": 2}).stop_reason == "iterations 2 reached 2"
        assert provenance(tmp_path) == {
            "stop.episodes": [["code", "1000.0"]],
            "stop.iterations": [["train(stop)", "2"]],
        }
        assert trainer.train({"env_steps": 64}).stop_reason == "env_steps 64 reached 64"
        assert trainer._criteria == {"episodes": 1000.0, "env_steps": 64}
    with Trainer.load(tmp_path, resume=True) as trainer:
        assert trainer._current_criteria == {"episodes": 1000.0, "env_steps": 64}
        assert provenance(tmp_path)["stop.env_steps"] == [["train(stop)", "64"]]
    with Trainer.load(tmp_path, config={"stop.env_steps": 80}) as trainer:
        assert trainer._current_criteria == {"episodes": 1000.0, "env_steps": 80.0}


def test_a_criterion_with_dots_stands_for_the_one_with_slashes():
    rule = stop_rule({"policies.main.kl": 2.0}, {"policies/main/kl": 1.0, "seconds": 9.0}, None, 0)
    assert rule.criteria == {"seconds": 9.0, "policies.main.kl": 2.0}


@pytest.mark.regression("setting dropped", "Criteria whose names have dots may stand among settings, and be given anew")
def test_criteria_with_dots_among_settings_are_carried_on_and_given_anew(tmp_path):
    metric = "policies.main.entropy"
    given = {"stop": {metric: 5, "iterations": 9}}
    small = PPOConfig(fragment_length=8, epochs=1)
    with Trainer("CartPole-v1", small, num_envs=2, config=given, run_dir=tmp_path / "r") as trainer:
        assert trainer.train({"iterations": 1}).stop_reason == "iterations 1 reached 1"
    with Trainer.load(tmp_path / "r", resume=True, config={"stop": {metric: 0.1, "iterations": 5}}) as trainer:
        assert trainer.train().stop_reason.startswith(f"{metric} ")
    told = json.loads((tmp_path / "r" / "provenance.json").read_text())
    assert [path for path in told if path.startswith("stop")] == ["stop.policies/main/entropy", "stop.iterations"]
