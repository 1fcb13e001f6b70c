"""``rookery plot``: which runs it draws, under which names, and what it prints."""

from __future__ import annotations

import json
import shutil
import sys

import pytest

pytest.importorskip("matplotlib")


@pytest.fixture
def copied(runs):
    """Copies the run cart under another name, with changed text of its settings."""

    def copy(name, *changes):
        shutil.copytree(runs / "cart", runs / name)
        config = runs / name / "config.yaml"
        text = config.read_text()
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        config.write_text(text)
        return runs / name

    return copy


@pytest.fixture
def labels(monkeypatch):
    """The labels of the curves that were drawn, with the number of runs of each."""
    found = []

    def draw(groups, *rest):
        found.append({label: len(curves) for label, curves in groups.items()})

    monkeypatch.setattr("rookery.report.curves.draw", draw)
    return found


def test_it_writes_a_picture(rookery, runs, tmp_path):
    code, out, _ = rookery("plot", "cart", "arena")
    assert (code, out) == (0, "return_mean.png: 2 runs in 2 curves\n")
    assert (tmp_path / "return_mean.png").stat().st_size > 1000
    code, out, _ = rookery("plot", "cart", "--metric", "policies.main.kl", "--x", "seconds", "-o", "deep/kl.svg")
    assert (code, out) == (0, "deep/kl.svg: 1 run in 1 curve\n")
    assert "<svg" in (tmp_path / "deep" / "kl.svg").read_text()


def test_runs_that_differ_in_their_seed_only_are_one_curve(rookery, copied, labels):
    copied("again", ("seed: 3 ", "seed: 4 "))
    copied("hot", ("clip: 0.2 ", "clip: 0.3 "))
    code, out, _ = rookery("plot", "cart", "again", "hot")
    assert (code, out) == (0, "return_mean.png: 3 runs in 2 curves\n")
    assert rookery("plot", "cart", "again")[0] == 0
    assert rookery("plot", "cart")[0] == 0
    assert labels == [{"clip 0.2 (2 seeds)": 2, "clip 0.3": 1}, {"2 seeds": 2}, {"cart": 1}]


def test_a_run_counts_once_however_it_is_named(rookery, runs, copied, labels):
    checkpoint = next((runs / "cart" / "checkpoints").glob("0*"))
    code, out, _ = rookery("plot", "cart", "runs/cart", runs / "cart", checkpoint)
    assert (code, out) == (0, "return_mean.png: 1 run in 1 curve\n")
    copied("twin")
    code, out, _ = rookery("plot", "cart", "twin")
    assert out == "runs/twin: left out: it is the same run as runs/cart\nreturn_mean.png: 1 run in 1 curve\n"
    assert labels == [{"cart": 1}, {"cart": 1}]


def test_a_resumed_copy_takes_the_place_of_its_run(rookery, copied, labels):
    copied("longer")
    assert rookery("resume", "longer", "--stop", "env_steps=704", "--quiet", "--evaluate", 0)[0] == 0
    code, out, _ = rookery("plot", "cart", "longer", "--metric", "policies/main/policy_loss")
    assert code == 0
    assert out.startswith("runs/cart: left out: it is the same run as runs/longer\n")
    assert labels == [{"longer": 1}]


def test_what_the_machine_chose_sets_no_runs_apart(rookery, copied, labels):
    path = "sampling.env_processes"
    measured = copied("measured", ("env_processes: null", "env_processes: 3"), ("seed: 3 ", "seed: 4 "))
    copied("given", ("env_processes: null", "env_processes: 2"), ("seed: 3 ", "seed: 5 "))
    for folder, source, value in ((measured, "measured", "3"), (measured.parent / "given", "command line", "2")):
        history = json.loads((folder / "provenance.json").read_text())
        history[path].append([source, value])
        (folder / "provenance.json").write_text(json.dumps(history))
    assert rookery("plot", "cart", "measured")[0] == rookery("plot", "measured", "given")[0] == 0
    assert labels == [{"2 seeds": 2}, {"measured": 1, "env_processes 2": 1}]


def test_the_metrics_are_listed_with_their_last_values(rookery, runs, copied):
    code, out, _ = rookery("plot", "cart", "--list")
    assert code == 0
    last = json.loads((runs / "cart" / "metrics.jsonl").read_text().splitlines()[-1])
    lines = dict(line.split(maxsplit=1) for line in out.splitlines())
    assert lines["env_steps"] == "640"
    assert lines.keys() == {key for key, value in last.items() if type(value) in (int, float)}
    rows = (copied("other", ("seed: 3 ", "seed: 4 ")) / "metrics.jsonl").read_text().splitlines()
    changed = {**json.loads(rows[-1]), "env_steps": 900, "metrics/mine/mean": 1.5}
    (runs / "other" / "metrics.jsonl").write_text(json.dumps(changed) + "\n")
    lines = dict(line.split(maxsplit=1) for line in rookery("plot", "cart", "other", "--list")[1].splitlines())
    assert lines["env_steps"] == "640 to 900"
    assert lines["metrics/mine/mean"] == "1.50  in 1 of 2 runs"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--metric", "retrun_mean"], "it has no such metric; the nearest are return_mean, "),
        (["--metric", "entropi"], "the nearest are policies/main/entropy, "),
        (["--statistic", "median"], "command line: --statistic median: must be one of mean, iqm"),
        (["--x", "step"], "command line: --x step: must be one of env_steps, seconds, episodes, gradient_steps"),
    ],
)  # fmt: skip
def test_wrong_words_are_answered_with_the_right_ones(rookery, runs, words, message):
    code, _, err = rookery("plot", "cart", *words)
    assert code == 2
    assert message in err


def test_without_matplotlib_it_says_what_to_install(rookery, runs, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert rookery("plot", "cart")[2] == "error: rookery plot needs matplotlib: pip install 'rookery-rl[plot]'\n"
