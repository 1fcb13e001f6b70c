"""What the table of trials shows, at any width, and what each view writes."""

import io
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from rookery.tune.seeing import table
from rookery.tune.seeing.table import Facts, LiveTable, TrialTable, facts_of, view
from rookery.tune.seeing.words import short_names, told, varying
from rookery.tune.settings import TuneConfig
from rookery.tune.space import choice, grid_search
from rookery.tune.trial import Status, Trial

FACTS = Facts("CartPole-v1-ppo", "runs/lr", ("return_mean",), ("max",), "last", total=12, cores=2)


def trial(number, lr, returns, status=Status.TERMINATED, **about):
    rows = [
        {"iteration": at, "seconds": 2.0 * at, "env_steps": 512 * at, "return_mean": value}
        for at, value in enumerate(returns, 1)
    ]
    params = {"algorithm.lr": lr, "algorithm.model.hidden": [64, 64], "algorithm.gamma": about.pop("gamma", 0.99)}
    name = about.pop("name", f"{number:05d}")
    made = Trial(name, number, params, Path("runs/lr/trials") / name, 0, status, rows=rows, **about)
    made.row = rows[-1] if rows else {}
    return made


def lines(trials, width=100, facts=FACTS, most=50, **about):
    console = Console(file=io.StringIO(), width=width, highlight=False)
    console.print(TrialTable(facts).draw(console, trials, 2, most, **about))
    return console.file.getvalue().splitlines()


def names(shown):
    return [word for line in shown for word in line.replace("│", " ").split()[:1] if word.isdigit() and len(word) == 5]


def test_only_what_varies_is_a_column():
    shown = "\n".join(lines([trial(0, 0.001, [10.0]), trial(1, 0.0005, [20.0])]))
    assert "lr" in shown and "0.0005" in shown
    assert "hidden" not in shown and "gamma" not in shown  # equal in all trials
    assert "best 00001: return_mean 20.00 with lr 0.0005" in shown


def test_those_at_work_stand_first_then_the_best():
    trials = [
        trial(0, 0.1, [1.0]),
        trial(1, 0.2, [9.0, 5.0]),
        trial(2, 0.3, [], Status.PENDING),
        trial(3, 0.4, [2.0], Status.RUNNING),
        trial(4, 0.5, [2.0, 2.0], Status.RUNNING),
        trial(5, 0.6, [3.0], Status.PAUSED),
    ]
    assert names(lines(trials)) == ["00004", "00003", "00001", "00005", "00000", "00002"]
    lower = Facts("hill", "runs/x", ("return_mean",), ("min",), "best")
    assert names(lines(trials[:2], facts=lower)) == ["00000", "00001"]


def test_of_many_trials_the_rest_is_counted():
    trials = [trial(n, 0.1 * n, [float(n)]) for n in range(1, 201)]
    trials[0].status = Status.ERROR
    shown = lines(trials, most=10)
    assert len(names(shown)) <= 10
    assert len(shown) < 20
    assert any("191 more: 190 TERMINATED, 1 ERROR" in line for line in shown)


def test_a_failure_is_one_line_that_says_where_its_traceback_is():
    failed = trial(7, 0.1, [1.0], Status.ERROR, error="ValueError: the observation\nof lane 3 is not finite " * 5)
    shown = lines([failed, trial(1, 0.2, [2.0])], width=110)
    (line,) = [line for line in shown if "ValueError" in line]
    assert "runs/lr/trials/00007/error.txt" in line


@pytest.mark.parametrize("width", [50, 80, 120, 200])
@pytest.mark.parametrize("framed", [True, False])
def test_no_line_is_wider_than_the_terminal(width, framed):
    trials = [trial(n, 0.00123456 * n, [1.0, 2.0, None, 4.0] * 10, gamma=1 - 0.001 * n) for n in range(1, 6)]
    shown = lines(trials, width=width, framed=framed)
    assert max(map(len, shown)) <= width
    (head,) = [line for line in shown if "TRIAL" in line]
    assert ("gamma" in head, "parameters" in head) == ((True, False) if width >= 80 else (False, True))


def test_with_repeats_the_best_is_that_of_the_best_mean():
    trials = [trial(0, 0.1, [10.0], name="00000-0"), trial(0, 0.1, [0.0], name="00000-1")]
    trials += [trial(1, 0.2, [6.0], name="00001-0"), trial(1, 0.2, [8.0], name="00001-1")]
    assert TrialTable(FACTS).best(trials).name == "00001-1"
    assert TrialTable(FACTS).best([]) is None


def test_a_score_follows_its_trial():
    drawn, one = TrialTable(FACTS), trial(0, 0.1, [1.0])
    assert drawn.scores(one) == [1.0]
    one.rows.append({"return_mean": 4.0})
    assert drawn.scores(one) == [4.0]


def experiment(**settings):
    cfg = TuneConfig(metric="score", num_samples=3, repeats=2, cpus=0.5, **settings)
    space = {"a": grid_search([1, 2]), "b": choice([3, 4])}
    return SimpleNamespace(cfg=cfg, space=space, folder=Path("runs/x"), metrics=("score",), modes=("max",))


JOB = SimpleNamespace(title="hill", cpus=1.0, metrics=("loss",))


def test_the_number_of_trials_counts_grid_and_seeds():
    facts = facts_of(experiment(), JOB, 4)
    assert (facts.total, facts.cpus, facts.cores, facts.columns) == (12, 0.5, 4, ("loss",))  # 3 * 2 * 2


def test_plain_lines_end_with_the_table(capsys, monkeypatch):
    monkeypatch.setattr(table, "EVERY_SECONDS", 0.0)
    shown = view("plain")
    shown.start(experiment(), JOB, 2)
    shown.event("00000 begins")
    one = trial(0, 0.1, [1.0], Status.RUNNING)
    one.rows[0]["score"] = 1.0
    shown.update([one], 1)
    shown.update([one], 1)  # nothing is new
    one.status = Status.TERMINATED
    shown.note("one core only")
    shown.finish([one])
    said = capsys.readouterr().out.splitlines()
    assert said[:2] == ["hill, 12 trials, in runs/x", "00000 begins"]
    assert sum(line.startswith("TRIAL") for line in said) == 2
    assert "note: one core only" in said
    assert "1 of 12 trials: 1 TERMINATED" in said


def test_json_is_an_object_a_result_and_one_a_trial(capsys):
    shown = view("json")
    one = trial(0, 0.1, [1.0], reason="iterations 1 reached 1")
    shown.start(experiment(), JOB, 2)
    shown.result(one, {"iteration": 1, "score": 2.0})
    shown.event("00000 ends")
    shown.finish([one])
    result, end = map(json.loads, capsys.readouterr().out.splitlines())
    assert result == {"trial": "00000", "iteration": 1, "score": 2.0}
    assert (end["status"], end["reason"], end["params"]["algorithm.lr"]) == (
        "TERMINATED",
        "iterations 1 reached 1",
        0.1,
    )


def test_a_metric_that_nobody_reports_is_told_once_with_the_nearest(capsys):
    shown = view("quiet")
    for _ in range(3):
        shown.missing("scor", {"iteration": 1, "score": 1.0})
    said = "the trials report no such number; did you mean 'score'?; there are iteration, score"
    assert capsys.readouterr().err == f"note: tune.metric = scor: {said}\n"


def test_drawing_takes_at_most_a_hundredth_of_the_time(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(table, "time", SimpleNamespace(monotonic=lambda: now[0]))
    shown = LiveTable(Console(file=io.StringIO(), force_terminal=True, width=80))
    drawings = []

    def draw(self, *args, **about):
        drawings.append(now[0])
        now[0] += 0.5
        return "table"

    monkeypatch.setattr(TrialTable, "draw", draw)
    shown.start(experiment(), JOB, 2)
    while now[0] < 200:
        now[0] += 0.1
        shown.update([], 0)
    shown.finish([])
    assert len(drawings) == 5  # at 0, 50.5, 101, 151.5, and at the end


def test_names_are_as_short_as_they_can_be_told_apart():
    assert short_names(["algorithm.lr", "policies.a.lr", "policies.b.lr", "seed"]) == {
        "algorithm.lr": "algorithm.lr",
        "policies.a.lr": "a.lr",
        "policies.b.lr": "b.lr",
        "seed": "seed",
    }
    assert varying([{"a": 1, "b": 2}, {"a": 1, "b": 3, "c": 4}]) == ["b", "c"]
    assert varying([{"a": 1}]) == ["a"]
    assert [told(value) for value in (0.00012345678, 1e-7, 64, True, None, [64, 64], "relu", 123456.0)] == [
        "0.0001235", "1e-7", "64", "true", "null", "64,64", "relu", "1.235e+5"
    ]  # fmt: skip
