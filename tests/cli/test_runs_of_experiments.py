"""A trial of an experiment is a run: it is found by its name, and the experiment itself says that it is none."""

from __future__ import annotations

import pytest

from rookery.cli.runs import find_run
from rookery.cli.train import train
from rookery.core.errors import ConfigError


@pytest.fixture
def experiment(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "runs" / "lr"
    for name in ("00000_lr=0.1", "00001-0_lr=0.2", "00001-1_lr=0.2", "00002"):
        (folder / "trials" / name).mkdir(parents=True)
        (folder / "trials" / name / "config.yaml").touch()
    (folder / "journal.jsonl").touch()
    return folder


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("lr/00000", "00000_lr=0.1"),
        ("runs/lr/00001-1", "00001-1_lr=0.2"),
        ("runs/lr/trials/00002", "00002"),
        ("lr/trials/00000", "00000_lr=0.1"),
        ("runs/lr/trials/00000_lr=0.1", "00000_lr=0.1"),
    ],
)
def test_a_trial_is_found_by_its_name(experiment, said, found):
    assert find_run(type(experiment)(said)).name == found


def test_an_experiment_is_no_run(experiment):
    with pytest.raises(ConfigError, match="is an experiment of many runs; name one of its trials.*tune show"):
        find_run(type(experiment)("lr"))
    with pytest.raises(ConfigError, match="there is no such run"):
        find_run(type(experiment)("lr/00009"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "algorithm: {lr: {loguniform: [1e-4, 1e-2]}}",
            "spec.yaml:1: algorithm.lr is for many trainings.*rookery tune",
        ),
        ("tune: {num_samples: 3}", "spec.yaml:1: tune is for many trainings"),
    ],
)
def test_training_with_a_file_of_an_experiment_says_what_it_is(tmp_path, text, said):
    (tmp_path / "spec.yaml").write_text(text)
    with pytest.raises(ConfigError, match=said):
        train(["CartPole-v1", str(tmp_path / "spec.yaml")], run_dir=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()
