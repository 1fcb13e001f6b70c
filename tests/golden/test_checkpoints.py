"""Runs that an older version of Rookery wrote load and train on: of each kind, each as a run of another user.

`make_checkpoints.py` wrote them, with the commits in ``checkpoints/written.json``; the key of the tests is another one
than that of these runs, so that nothing in them is trusted.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from rookery import Trainer, tune
from rookery.cli.main import app

STORED = Path(__file__).parent / "checkpoints"

PLAYED = ("curriculum", "dqn", "lstm", "own-signal", "ppo", "qmix", "sac", "self-play")


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """Copies what is stored under a name to the working directory of the test."""
    monkeypatch.chdir(tmp_path)

    def copied(name):
        shutil.copytree(STORED / name, tmp_path / name)
        return tmp_path / name

    return copied


def rows_of(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("name", PLAYED)
def test_a_run_that_plays_resumes(name, stored):
    folder = stored(name)
    before = rows_of(folder)
    with Trainer.load(folder, resume=True) as trainer:
        assert (trainer.iteration, trainer.env_steps) == (4, before[-1]["env_steps"])
        trainer.train({"iterations": 6})
    after = rows_of(folder)
    assert after[:4] == before
    assert [row["iteration"] for row in after] == [1, 2, 3, 4, 5, 6]
    lengths = np.diff([row["env_steps"] for row in after])
    assert (lengths > 0).all()
    assert name == "self-play" or len(set(lengths)) == 1, "iterations are as long as they were"
    assert all(row["exact"] for row in after)
    assert after[5]["episodes"] >= after[3]["episodes"]


def test_a_run_from_data_resumes(stored):
    folder = stored("iql")  # the data are in its own replay: where they came from is gone
    before = rows_of(folder)
    with Trainer.load(folder, resume=True) as trainer:
        trainer.learn(15)
        learner = trainer.learners["main"]
        assert (learner.replay.gradient_steps, len(learner.replay.buffer)) == (55, 204)
    after = rows_of(folder)
    assert after[: len(before)] == before
    assert len(after) == len(before) + 1


def test_an_experiment_resumes(stored):
    folder = stored("tune")
    analysis = tune.resume(folder, console="quiet")
    assert [trial.status.name for trial in analysis.trials] == ["TERMINATED"] * 3
    for trial in folder.glob("trials/*"):
        assert [row["iteration"] for row in rows_of(trial)] == [1, 2, 3, 4]


def test_a_run_of_mlagents_resumes(stored):
    folder = stored("results") / "basic"
    before = rows_of(folder)
    words = "mlagents learn --resume --run-id basic --console quiet"
    result = CliRunner().invoke(app, words.split())
    assert result.exit_code == 0, result.output
    after = rows_of(folder)
    assert after[: len(before)] == before
    assert [row["iteration"] for row in after] == list(range(1, len(after) + 1))
    assert after[-1]["env_steps"] == 1024
    models = {path.name for path in (folder / "Basic").glob("*.onnx")}
    assert len(models) == 5, "five are kept"
    assert "Basic-384.onnx" in models, "the run knows those that it wrote before"
    assert "Basic-256.onnx" not in models, "and removes the oldest"


def test_a_setting_with_a_former_name_is_no_change_when_mlagents_resumes_with_its_file(stored):
    folder = stored("results") / "basic"
    (folder.parent.parent / "Basic.yaml").write_text((folder / "configuration.yaml").read_text())
    words = "mlagents learn Basic.yaml --env rookery.tasks:Basic --resume --run-id basic --console quiet"
    result = CliRunner().invoke(app, words.split())
    assert result.exit_code == 0, result.output
    given = json.loads((folder / "provenance.json").read_text())
    assert [value for _, value in given["policies.Basic.rollout_size"]] == ["null", "64"]
    assert "policies.Basic.batch_size" not in given


def test_what_is_stored_is_small_and_names_no_place():
    files = [path for path in STORED.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 3_000_000
    for path in files:
        content = path.read_bytes()
        assert not [word for word in (b"/tmp/", b"/home/", b"/Users/", b"site-packages") if word in content], path
