"""The table of trials at any width, and the output of each reporter."""

import io
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from rookery.report import experiment_table, live
from rookery.report.experiment import ExperimentSummary, TrialSummary, format_value, short_names, varying_paths
from rookery.report.experiment_table import LiveTable, draw_table, progress_reporter

FACTS = ExperimentSummary(
    title="CartPole-v1-ppo", folder="runs/lr", metrics=("return_mean",), modes=("max",), scope="last", total=12, cores=2
)


def trial(number, lr, returns, status="TERMINATED", *, gamma=0.99, name="", error="", reason=""):
    rows = [
        {"iteration": at, "seconds": 2.0 * at, "env_steps": 512 * at, "return_mean": value}
        for at, value in enumerate(returns, 1)
    ]
    params = {"algorithm.lr": lr, "algorithm.model.hidden": [64, 64], "algorithm.gamma": gamma}
    name = name or f"{number:05d}"
    scores = [value for value in returns if value is not None]
    return TrialSummary(
        name=name, number=number, params=params, status=status, scores=(scores[-1] if scores else None,),
        last=rows[-1] if rows else {}, history=rows, reason=reason, error=error,
        folder=Path("runs/lr/trials") / name,
    )  # fmt: skip


def lines(trials, width=100, facts=FACTS, most=50, **about):
    console = Console(file=io.StringIO(), width=width, highlight=False)
    console.print(draw_table(replace(facts, trials=trials, running=2), console, most, **about))
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
        trial(2, 0.3, [], "PENDING"),
        trial(3, 0.4, [2.0], "RUNNING"),
        trial(4, 0.5, [2.0, 2.0], "RUNNING"),
        trial(5, 0.6, [3.0], "PAUSED"),
    ]
    assert names(lines(trials)) == ["00004", "00003", "00001", "00005", "00000", "00002"]
    lower = replace(FACTS, modes=("min",))
    assert names(lines(trials[:2], facts=lower)) == ["00000", "00001"]


def test_of_many_trials_the_rest_is_counted():
    trials = [trial(n, 0.1 * n, [float(n)], "ERROR" if n == 1 else "TERMINATED") for n in range(1, 201)]
    shown = lines(trials, most=10)
    assert len(names(shown)) <= 10
    assert len(shown) < 20
    assert any("191 more: 190 TERMINATED, 1 ERROR" in line for line in shown)


def test_a_failure_is_one_line_that_says_where_its_traceback_is():
    failed = trial(7, 0.1, [1.0], "ERROR", error="ValueError: the observation\nof environment 3 is not finite " * 5)
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
    assert replace(FACTS, trials=trials).best.name == "00001-1"
    assert any("best 00001-1: return_mean 8.00" in line for line in lines(trials))
    assert not any("best" in line for line in lines([]))


def test_plain_lines_end_with_the_table(capsys, monkeypatch):
    monkeypatch.setattr(experiment_table, "EVERY_SECONDS", 0.0)
    shown = progress_reporter("plain")
    shown.start(FACTS)
    shown.event("00000 begins")
    one = trial(0, 0.1, [1.0], "RUNNING")
    shown.update(lambda: [one], 1)
    shown.update(lambda: [one], 1)  # nothing is new
    shown.note("one core only")
    shown.finish(lambda: [replace(one, status="TERMINATED")])
    said = capsys.readouterr().out.splitlines()
    assert said[:2] == ["CartPole-v1-ppo, 12 trials, in runs/lr", "00000 begins"]
    assert sum(line.startswith("TRIAL") for line in said) == 2
    assert "note: one core only" in said
    assert "1 of 12 trials: 1 TERMINATED" in said


def test_json_is_an_object_a_result_and_one_a_trial(capsys):
    shown = progress_reporter("json")
    shown.start(FACTS)
    shown.result("00000", {"iteration": 1, "score": 2.0})
    shown.event("00000 ends")
    shown.finish(lambda: [trial(0, 0.1, [1.0], reason="iterations 1 reached 1")])
    result, end = map(json.loads, capsys.readouterr().out.splitlines())
    assert result == {"trial": "00000", "iteration": 1, "score": 2.0}
    assert (end["status"], end["reason"], end["params"]["algorithm.lr"]) == (
        "TERMINATED",
        "iterations 1 reached 1",
        0.1,
    )


def test_drawing_takes_at_most_a_hundredth_of_the_time(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(live, "time", SimpleNamespace(monotonic=lambda: now[0]))
    shown = LiveTable(Console(file=io.StringIO(), force_terminal=True, width=80))
    drawings = []

    def draw(*args, **about):
        drawings.append(now[0])
        now[0] += 0.5
        return "table"

    monkeypatch.setattr(experiment_table, "draw_table", draw)
    shown.start(FACTS)
    while now[0] < 200:
        now[0] += 0.1
        shown.update(list, 0)
    shown.finish(list)
    assert len(drawings) == 5  # at 0, 50.5, 101, 151.5, and at the end


def test_names_are_as_short_as_they_can_be_told_apart():
    assert short_names(["algorithm.lr", "policies.a.lr", "policies.b.lr", "seed"]) == {
        "algorithm.lr": "algorithm.lr",
        "policies.a.lr": "a.lr",
        "policies.b.lr": "b.lr",
        "seed": "seed",
    }
    assert varying_paths([{"a": 1, "b": 2}, {"a": 1, "b": 3, "c": 4}]) == ["b", "c"]
    assert varying_paths([{"a": 1}]) == ["a"]
    assert [format_value(value) for value in (0.00012345678, 1e-7, 64, True, None, [64, 64], "relu", 123456.0)] == [
        "0.0001235", "1e-7", "64", "true", "null", "64,64", "relu", "1.235e+5"
    ]  # fmt: skip
