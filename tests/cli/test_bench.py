"""``rookery bench``: what it measures, what it leaves out, and the advice it draws from the figures."""

from __future__ import annotations

import json

import pytest

from rookery import PPOConfig, Trainer
from rookery.run import presets
from rookery.run.plan import speed
from rookery.run.plan.speed import Limits, Pace, Tried, advice, survey

SMALL = ["algorithm.fragment_length=4", "algorithm.epochs=1", "--preset", "none", "--seconds", 0.1]


def pace(rate, **shares):
    return Pace(rate, 1.0, 3, {"environment": 0.0, "acting": 0.0, "recording": 0.0, "learning": 0.0, **shares})


def tried(implementation, num_envs, rate, **shares):
    return Tried(implementation, num_envs, pace(rate, **shares))


def test_bench_writes_one_object_of_json_and_leaves_nothing_behind(rookery, tmp_path):
    code, out, err = rookery("bench", "--json", *SMALL)
    assert (code, err) == (0, "")
    assert list(tmp_path.iterdir()) == []
    found = json.loads(out)
    assert (found["env"], found["algorithm"]) == ("CartPole-v1", "ppo")
    assert (found["tried"][0]["implementation"], found["tried"][0]["num_envs"]) == ("auto", 8)
    measured = [choice for choice in found["tried"] if choice["pace"]]
    assert {choice["implementation"] for choice in measured} >= {"auto", "batched", "serial"}
    assert found["fastest"]["pace"]["steps_per_second"] == max(c["pace"]["steps_per_second"] for c in measured)
    assert all(abs(sum(choice["pace"]["shares"].values()) - 1) < 1e-6 for choice in measured)
    assert min(found["limits"].values()) > 0


def test_bench_shows_a_row_for_each_choice_and_what_to_set(rookery):
    code, out, _ = rookery("bench", "env.implementation=serial", "sampling.num_envs=4", *SMALL)
    assert code == 0
    rows = [line.split()[:2] for line in out.splitlines() if line.startswith("serial ")]
    assert rows == [["serial", "4"], ["serial", "8"], ["serial", "32"], ["serial", "128"]]
    assert "of the time: " in out
    assert "are reached" in out


def test_an_implementation_the_environment_cannot_have_is_named_with_the_reason(rookery, tmp_path):
    (tmp_path / "benched_env.py").write_text(
        "import gymnasium\n\ndef make():\n    return gymnasium.make('CartPole-v1')\n"
    )
    code, out, _ = rookery("bench", "benched_env:make", *SMALL)
    assert code == 0
    assert "not measured: batched, 8 environments: " in out
    assert "no batched variant" in out


def test_what_a_preset_says_of_the_implementation_is_what_is_measured(rookery, monkeypatch):
    said = {"env.implementation": "serial", "sampling.num_envs": 2}
    monkeypatch.setitem(presets.ENV_PRESETS["ppo"], "CartPole-v1", said)
    code, out, _ = rookery("bench", "--json", *[word for word in SMALL if word not in ("--preset", "none")])
    assert code == 0
    tried = json.loads(out)["tried"]
    assert (tried[0]["implementation"], tried[0]["num_envs"]) == ("serial", 2)
    assert {choice["implementation"] for choice in tried} == {"serial"}


def test_parts_in_turn_allow_the_harmonic_sum():
    # 1 / (1/300 + 1/600 + 1/200) = 1 / (2/600 + 1/600 + 3/600) = 100
    assert Limits(environment=300.0, inference=600.0, learner=200.0).together == pytest.approx(100.0)


def test_what_a_part_allows_follows_from_its_share_of_the_time():
    # 100 steps a second of which acting takes a quarter: acting alone would make 400
    assert pace(100.0, acting=0.25, learning=0.5).limit("acting") == 400.0
    assert pace(100.0, acting=0.25, learning=0.5).limit("learning") == 200.0
    assert pace(100.0, acting=0.25).limit("learning") == float("inf")


def test_choices_that_would_take_long_are_left_out(monkeypatch):
    # An iteration takes 1 s with 8 copies: two with 32 copies would take 8 s, more than the 4 s a choice may take.
    monkeypatch.setattr(speed, "measure_pace", lambda trainer, seconds: pace(10.0 * trainer.env.num_lanes))
    seen = []
    found = survey(
        lambda implementation, num_envs: Trainer("CartPole-v1", num_envs=num_envs, seed=0),
        ("auto", 8),
        ["serial"],
        0.1,
        seen.append,
    )
    assert [(choice.implementation, choice.num_envs, choice.pace is None) for choice in seen] == [
        ("auto", 8, False), ("serial", 8, False), ("serial", 32, True), ("serial", 128, True)
    ]  # fmt: skip
    assert seen[2].reason == "two iterations would take 8 s"
    assert found.tried == tuple(seen)


def test_advice_names_the_part_that_takes_most_and_the_setting_for_it():
    own, fastest = tried("auto", 8, 100.0, learning=0.9), tried("processes", 32, 250.0, environment=0.6, learning=0.4)
    first, second = advice(own, fastest, Limits(400.0, 1e6, 625.0), PPOConfig())
    assert first.startswith("Environment takes 60 % of the time: a step of one environment costs 2,500.0 us")
    assert second.startswith(
        "sampling.num_envs=32 env.implementation=processes is 2.5 x as fast as 8 environments, auto."
    )


def test_advice_for_a_slow_learner_names_its_own_settings():
    own = tried("auto", 8, 100.0, learning=0.9, acting=0.1)
    first, second = advice(own, own, Limits(1e6, 1e6, 110.0), PPOConfig(minibatch_size=64, epochs=7))
    assert "algorithm.minibatch_size, now 64" in first
    assert "algorithm.epochs, now 7" in first
    assert second == "8 environments, auto, are as fast as the best of these, or nearly."
