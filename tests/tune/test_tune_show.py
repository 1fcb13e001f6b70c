"""Tests of the output of `rookery tune show`."""

import pytest
from experiments import Experiment

from rookery.cli.runs import find_experiment
from rookery.cli.tune import show
from rookery.core.errors import ConfigError


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Two experiments in runs/, of which one is not finished."""
    monkeypatch.chdir(tmp_path)
    made = Experiment(tmp_path / "runs" / "hill", {"lr": {"uniform": [0, 1]}})
    made.whole("00000", {"lr": 0.1}, [1.0, 4.0])
    made.whole("00001", {"lr": 0.2}, [5.0, 2.0])
    made.record("exhausted")
    made.journal.close()
    other = Experiment(tmp_path / "runs" / "valley", {})
    other.trial("00000", {})
    other.begin("00000")
    other.journal.close()
    return tmp_path / "runs"


def test_the_table_the_best_and_the_way_on_are_shown(runs, capsys):
    show(runs / "hill")
    said = capsys.readouterr().out
    assert "2 trials: 2 TERMINATED" in said
    assert "best: trial 00000, score 4.00" in said
    assert "its parameters:  lr=0.1" in said
    assert "rookery tune resume" not in said
    show(runs / "hill", scope="best")
    assert "best: trial 00001, score 5.00" in capsys.readouterr().out
    show(runs / "hill", metric="loss", mode="max", scope="best")
    assert "best: trial 00000, loss 9.00" in capsys.readouterr().out  # 10 - 1, which only metrics.jsonl holds


def test_an_experiment_that_is_not_finished_says_how_it_goes_on(runs, capsys):
    show(runs / "valley")
    assert "rookery tune resume runs/valley" in capsys.readouterr().out.replace(str(runs), "runs")


def test_what_a_kill_left_running_waits(runs, capsys):
    show(runs / "valley")
    said = capsys.readouterr().out
    assert "1 PENDING" in said
    assert "RUNNING" not in said


def test_a_report_is_written_on_request(runs, capsys):
    pytest.importorskip("matplotlib")
    show(runs / "hill", output=runs / "report.html")
    assert f"report: {runs / 'report.html'}" in capsys.readouterr().out
    assert (runs / "report.html").read_text().startswith("<!doctype html>")


def test_an_experiment_is_found_by_its_name_and_a_wrong_one_names_those_there_are(runs):
    assert find_experiment(runs / "hill") == runs / "hill"
    assert str(find_experiment(type(runs)("hill"))) == "runs/hill"
    with pytest.raises(ConfigError, match=r"hil: .* did you mean 'hill'\?; the newest are .*runs/valley"):
        find_experiment(type(runs)("hil"))
    with pytest.raises(ConfigError, match=r"no journal.jsonl in it"):
        find_experiment(runs)
