"""``rookery evaluate RUN --replay DATA``: a table, a row and a picture in the run; nothing is played."""

from __future__ import annotations

import json

import pytest

from rookery import record_replay

QUICK = ("--set", "fit_steps=40", "--set", "clone_steps=30", "--set", "resamples=50")


@pytest.fixture
def judged(trained, tmp_path):
    """A run and data of its play, in an empty folder."""
    assert trained("--run-id", "run")[0] == 0
    run = tmp_path / "runs" / "run"
    record_replay("CartPole-v1", run, 12, tmp_path / "data", deterministic=False, max_episode_steps=30)
    return run


def test_it_is_told_and_kept(rookery, judged):
    code, out, err = rookery("evaluate", "run", "--replay", "data", "--stochastic", *QUICK)
    assert code == 0, err
    assert "policy      main of runs/run/checkpoints/" in out and ", sampled actions\n" in out
    assert "discounted return (gamma 0.99) of an episode" in out
    assert "of an episode of the data, undiscounted (--set gamma=1)\n" in out
    for method in ("the data themselves", "fitted Q", "weighted importance sampling", "doubly robust"):
        assert method in out
    assert "data:main: 12 whole episodes" in out and "effective sample size 12.0 of 12" in out
    assert "coverage    0.0% of the policy's actions" in out and "note        12 whole episodes are few" in out
    (row,) = [json.loads(line) for line in (judged / "judged.jsonl").read_text().splitlines()]
    assert row["estimates"]["wis"]["value"] == pytest.approx(row["estimates"]["data"]["value"], rel=1e-3)
    assert row["coverage"]["percentiles"]["policy"].keys() == {"5", "25", "50", "75", "95"}
    assert "judged.png" in out.splitlines()[-1] or "no picture" in err
    code, out, _ = rookery(
        "evaluate", "run", "--replay", "data", "--json", "--method", "wis", "--set", "gamma=1", *QUICK
    )
    assert code == 0 and json.loads(out)["gamma"] == 1 and list(json.loads(out)["estimates"]) == ["data", "wis"]
    assert len((judged / "judged.jsonl").read_text().splitlines()) == 2


def test_wrong_words_are_refused(rookery, judged):
    for words, said in (
        ("run --method wis", "--method: the option is for off-policy evaluation; name the data with --replay DATA"),
        ("run --policy main", "--policy: the option is for off-policy evaluation"),
        ("run --replay data --episodes 3", "--episodes: the option is for playing"),
        ("run --replay data algorithm.lr=1", "algorithm.lr=1: the option is for playing"),
        ("run --replay data --set gamma", "--set gamma: must be NAME=VALUE"),
        ("run --replay data --set gama=1", "error: --set gama = 1: there is no such setting; did you mean"),
        ("run --replay data --set gamma=2", "error: --set gamma = 2: must be"),
        ("run --replay data --method wsi", "--method wsi: there is no such estimator; did you mean 'wis'?"),
        ("run --replay data --policy maine", "--policy maine: "),
        ("run --replay nowhere", "nowhere"),
        ("other --replay data", "there is no such run"),
    ):
        code, _, err = rookery("evaluate", *words.split())
        assert code == 2 and said in err and "likeliest numbers" not in err, words


def test_a_run_without_a_checkpoint_has_no_policy(rookery, judged):
    import shutil

    shutil.rmtree(judged / "checkpoints")
    code, _, err = rookery("evaluate", "run", "--replay", "data")
    assert code == 2 and "has no checkpoint yet" in err
