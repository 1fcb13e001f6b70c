"""Output of a training: the panel in any terminal, plain lines, JSON; and its cost."""

from __future__ import annotations

import io
import itertools
import json
import re
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from rich.console import Console
from rich.panel import Panel as Frame

from rookery import PPOConfig, Trainer
from rookery.core.timers import Timers
from rookery.report import console
from rookery.report.console import (
    JsonReporter,
    LiveReporter,
    PlainReporter,
    PolicyFacts,
    Reporter,
    RunFacts,
    first_lines,
    reporter,
)
from rookery.report.finding import Finding
from rookery.report.live import LiveDisplay
from rookery.report.panel import Panel, number, span, sparkline
from rookery.report.results import EvaluationResult, IterationResult, PolicyResult

LEARNING = {"kl": 0.01, "entropy": 1.2, "explained_variance": 0.5, "clip_fraction": 0.1, "value_loss": 3.0, "lr": 3e-4}


def result(iteration, *, policies=1, learning=LEARNING, evaluation=None, **changes):
    rows = {
        f"policy{n}": PolicyResult(
            float(iteration), iteration, 64, 64, 0, {**learning, "skipped_steps": 0, "updates": 1}
        )
        for n in range(policies)
    }
    values = {
        "iteration": iteration, "env_steps": 100 * iteration, "episodes": 3 * iteration,
        "return_mean": float(iteration), "return_min": -1.5, "return_max": 40.0, "length_mean": 10.0,
        "running_length": 5.0, "agents": {}, "exact": True, "policies": rows, "evaluation": evaluation,
        "seconds": 2.0 * iteration, "steps_per_second": 50.0,
    }  # fmt: skip
    return IterationResult(**(values | changes))


def measured(mean):
    return EvaluationResult(mean, (mean - 1, mean + 1), 0.0, 20.0, 50.0, 20, {}, {}, 100, True)


@pytest.fixture
def timers():
    found = Timers()
    with found["train_iteration"]:
        with found["sample"]:
            for label in ("act", "env.step", "record"):
                with found[label]:
                    pass
        with found["training_step"]:
            pass
    return found


def picture(panel, timers, width=120, height=40, encoding="utf-8"):
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    terminal = Console(file=file, width=width, height=height, force_terminal=True, color_system=None, _environ={})
    terminal.print(panel.draw(terminal, timers, height))
    file.flush()
    return file.buffer.getvalue().decode(encoding)


def panel_of(criteria, *results):
    panel = Panel("Arena, seed 3", criteria)
    for each in results:
        panel.update(each)
    return panel


# --- the panel ----------------------------------------------------------------------------------------------


def test_the_panel_shows_progress_returns_learning_time_and_events(timers):
    panel = panel_of(
        {"env_steps": 1000},
        *(result(n, policies=2) for n in range(1, 5)),
        result(5, policies=2, evaluation=measured(7.0)),
    )
    panel.event("checkpoint 000005")
    shown = picture(panel, timers)
    assert "Arena, seed 3" in shown
    assert re.search(r"50 %  env_steps 500 / 1,000 · 0:10 left", shown)  # 500 steps at 50 a second
    assert "iteration 5 · 50 env steps/s · 15 episodes · 0:10" in shown
    assert re.search(r"total +5\.00  -1\.50 to 40\.00  ▁▃▅▆█", shown)
    assert re.search(r"evaluation +7\.00 +6\.00 to 8\.00", shown)
    assert re.search(r"policy0 +0\.0100 +1\.20 +0\.5000 +0\.1000 +3\.00 +3\.0e-04", shown)
    assert re.search(r"    env\.step +0\.0 s", shown)
    assert re.search(r"0:10  evaluation 7\.00, 95 % interval 6\.00 to 8\.00", shown)
    assert re.search(r"0:10  checkpoint 000005", shown)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(width=st.integers(50, 200), height=st.integers(16, 60), policies=st.sampled_from([1, 2, 30]))
@example(width=50, height=16, policies=30)
@example(width=96, height=24, policies=2)
def test_the_panel_fits_any_terminal(timers, width, height, policies):
    criteria = {"env_steps": 1000, "return_mean": 99}
    found = (SKIPPED, FAR, FALLING)[: width % 4]
    rows = (result(n, policies=policies, evaluation=measured(1.0 * n), findings=found) for n in range(1, 50))
    panel = panel_of(criteria, *rows)
    lines = picture(panel, timers, width, height).splitlines()
    assert max(map(len, lines)) <= width
    assert len(lines) <= height


def test_a_terminal_without_unicode_gets_ascii(timers):
    panel = panel_of({"env_steps": 1000}, result(1), result(2), result(9))
    shown = picture(panel, timers, encoding="ascii")
    assert shown.isascii()
    assert re.search(r"total +9\.00  -1\.50 to 40\.00  _\.@", shown)


def test_before_the_first_iteration_the_panel_says_what_is_going_on(timers):
    assert "sampling the first iteration" in picture(Panel("Arena", {}), timers)


def test_before_an_episode_has_ended_the_running_length_stands_for_the_return(timers):
    first = result(1, return_mean=None, return_min=None, return_max=None)
    shown = picture(panel_of({}, first), timers)
    assert re.search(r"total +-  no episode has ended; running length 5", shown)


def test_a_run_that_cannot_repeat_is_marked(timers):
    assert "Arena, seed 3, not exact" in picture(panel_of({}, result(1, exact=False)), timers)


def test_what_was_waited_for_is_shown_where_workers_are_elsewhere(timers):
    waits = {"workers/wait": 12.5, "workers/fetch": 0.5, "workers/join": 0.25, "workers/bytes": 3_400_000,
             "workers/idle/0": 0.25, "workers/idle/1": 0.05}  # fmt: skip
    shown = picture(panel_of({}, result(1, waits=waits)), timers)
    assert "waited 12.50 s for workers · fetched 3.4 MB in 0.5000 s · joined in 0.2500 s · workers idle 15 %" in shown
    assert "for workers" not in picture(panel_of({}, result(1)), timers)


def test_what_callbacks_measured_is_shown(timers):
    shown = picture(panel_of({}, result(1, metrics={"touches": (0.0, 2.5, 9.0)})), timers)
    assert re.search(r"touches +2\.50  0 to 9\.00", shown)


# --- findings -----------------------------------------------------------------------------------------------


FAR = Finding("kl-out-of-range", "warning", "policy0", "each update moves the policy far", metric="kl")
SKIPPED = Finding("steps-skipped", "error", "policy0", "4 gradient steps were skipped", metric="skipped_steps")
FALLING = Finding("return-falling", "note", "", "the return has fallen")


def test_findings_have_a_line_each_and_mark_their_metrics(timers):
    shown = picture(panel_of({}, result(1, findings=(FAR, FALLING))), timers)
    assert re.search(r"policy0 +0\.0100! +1\.20 ", shown)
    assert shown.count("!") == 1
    assert re.search(r"FINDINGS +rookery doctor RUN explains them *│", shown)
    assert re.search(r"warning +kl-out-of-range: each update moves the policy far", shown)
    assert re.search(r"note +return-falling: the return has fallen", shown)
    without = picture(panel_of({}, result(1)), timers)
    assert "FINDINGS" not in without
    assert "!" not in without


def test_a_finding_of_one_policy_does_not_mark_another(timers):
    both = (FAR, replace(FAR, subject="policy1", message="hardly moves", metric=""))
    shown = picture(panel_of({}, result(1, policies=2, findings=both)), timers)
    assert shown.count("0.0100!") == 1
    assert "policy1: hardly moves" in shown


def test_a_low_terminal_has_room_for_the_first_finding(timers):
    shown = picture(panel_of({}, result(1, findings=(SKIPPED, FAR, FALLING))), timers, 80, 24)
    assert "4 gradient steps were skipped" in shown
    assert "explains them, 2 more" in shown
    assert "kl-out" not in shown


def test_skipped_steps_get_a_column_when_a_finding_is_about_them(timers):
    assert re.search(r"skipped steps", picture(panel_of({}, result(1, findings=(SKIPPED,))), timers))
    assert "skipped" not in picture(panel_of({}, result(1)), timers)


def test_an_algorithm_with_other_metrics_is_shown_by_these(timers):
    shown = picture(panel_of({}, result(1, learning={"q_loss": 0.5, "novelty": 0.1})), timers)
    assert re.search(r"q loss +novelty", shown)


# --- goals --------------------------------------------------------------------------------------------------


def test_the_goal_that_is_reached_first_stands_first():
    panel = panel_of({"env_steps": 10_000, "seconds": 15, "return_mean": 20}, *(result(n) for n in range(1, 6)))
    goals = panel.goals()
    # at iteration 5: 10 seconds and 500 steps have passed; 5 seconds are left, or 9,500 steps at 50 a second
    assert [words.split()[0] for _, _, words in goals] == ["seconds", "env_steps", "return_mean"]
    assert goals[0][:2] == (10 / 15, 5.0)
    assert goals[1][:2] == (0.05, 190.0)
    assert goals[2][:2] == ((5 - 1) / (20 - 1), None)  # on the way from the first return to the threshold


def test_the_time_left_goes_by_the_last_iterations():
    slow = [result(n) for n in range(1, 40)]
    fast = [result(n, env_steps=3900 + 1000 * (n - 39), seconds=78.0 + (n - 39)) for n in range(40, 80)]
    (_, left, _), = panel_of({"env_steps": 50_000}, *slow, *fast).goals()  # fmt: skip
    assert left == pytest.approx((50_000 - 43_900 - 1000 * 0) / 1000, rel=0.2)


def test_minutes_are_left_as_seconds_are():
    (part, left, words), = panel_of({"minutes": 1}, *(result(n) for n in range(1, 6))).goals()  # fmt: skip
    assert (round(part, 3), left, words) == (0.167, 50.0, "minutes 0.1667 / 1")


def test_a_budget_that_is_passed_is_full():
    (part, left, _), = panel_of({"env_steps": 100}, result(3)).goals()  # fmt: skip
    assert (part, left) == (1.0, 0.0)


# --- small things -------------------------------------------------------------------------------------------


def test_a_sparkline_goes_from_lowest_to_highest():
    assert sparkline([1, 2, 3], 10, "abc") == "abc"
    assert sparkline([None, 5.0, 1.0, None], 10, "abc") == " ca "
    assert sparkline([2, 2], 10, "abc") == "aa"
    assert sparkline(range(100), 3, "abc") == "abc"
    assert sparkline([None], 10, "abc") == " "


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0.0, "0"), (3, "3"), (12345, "12,345"), (0.01234, "0.0123"), (1.234, "1.23"), (-1234.56, "-1234.6"),
     (123456.7, "123,457"), (3e-4, "3.0e-04"), (1.5e12, "1.5e+12")],
)  # fmt: skip
def test_a_number_takes_few_characters(value, text):
    assert number(value) == text


def test_a_span_is_read_as_a_clock():
    assert [span(seconds) for seconds in (0.4, 42, 725, 11_045)] == ["0:00", "0:42", "12:05", "3:04:05"]


# --- reporters ----------------------------------------------------------------------------------------------


def tiny(style):
    return Trainer("CartPole-v1", PPOConfig(fragment_length=8, epochs=1), num_envs=2, seed=1, console=style)


def test_each_style_has_its_reporter(monkeypatch):
    assert [type(reporter(style)) for style in ("live", "plain", "quiet", "json")] == [
        LiveReporter,
        PlainReporter,
        Reporter,
        JsonReporter,
    ]
    assert type(reporter("auto")) is PlainReporter  # the tests have no terminal
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    assert type(reporter("auto")) is LiveReporter
    monkeypatch.setenv("TERM", "dumb")
    assert type(reporter("auto")) is PlainReporter


def test_the_opening_lines_say_what_is_trained_and_what_ends_it():
    policies = {
        "blue": PolicyFacts("DQN", "torch: forward hooks", 12_345, "Discrete(4)", 64, "lstm 32", "one step a decision"),
        "red": PolicyFacts("frozen", "kernels x86-64-v4", 10, "Box(2)"),
    }
    run = RunFacts("Arena", 8, 2, 3, policies, ["preset in use"], {"env_steps": 200_000, "return_mean": 18})
    assert first_lines(run) == [
        "Arena: 8 environments, 2 agents each, seed 3",
        "policy blue: DQN (torch: forward hooks), 12,345 weights, memory of 64 values (lstm 32), acts in Discrete(4)",
        "policy red: frozen (kernels x86-64-v4), 10 weights, acts in Box(2)",
        "policy blue learns by one step a decision",
        "preset in use",
        "until env_steps 200,000 or return_mean 18",
    ]
    assert first_lines(RunFacts("Arena", 1, 1, 0, {}, (), {})) == [
        "Arena: 1 environment, 1 agent each, seed 0",
        "until the stop function returns True",
    ]


def test_json_writes_a_row_an_iteration_and_nothing_else(capsys):
    with tiny("json") as trainer:
        trainer.train({"iterations": 3})
        trainer._reporter.event("checkpoint")
        trainer._reporter.note("careful")
    out, err = capsys.readouterr()
    assert [json.loads(line)["iteration"] for line in out.splitlines()] == [1, 2, 3]
    assert err == "note: careful\n"


def test_plain_lines_tell_events_and_the_end(capsys):
    with tiny("plain") as trainer:
        trainer._reporter.event("checkpoint 000000")
        trainer.train({"iterations": 3})
        trainer._reporter.event("checkpoint 000003")
        trainer._reporter.finish()
    out, _ = capsys.readouterr()
    assert re.search(r"^iteration 1 .* \| checkpoint 000000$", out, re.MULTILINE)
    assert "stopped: iterations 3 reached 3\n" in out
    assert "\ncheckpoint 000003\ntrain_iteration" in out
    assert re.search(r"^train_iteration +\d", out, re.MULTILINE)


def lines_of_a_log(monkeypatch, capsys, terminal):
    """The times of the lines of two hours with an iteration a second, and what was written."""
    now = [1000.0]
    monkeypatch.setattr(console.time, "monotonic", lambda: now[0])
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal)
    plain = PlainReporter()
    plain.start(RunFacts("x", 1, 1, 0, {}, (), {}), Timers())
    for iteration in range(1, 7201):
        now[0] += 1.0
        plain.iteration(result(iteration))
    plain.finish()
    out = capsys.readouterr().out
    return [int(shown) for shown in re.findall(r"^iteration (\d+) ", out, re.MULTILINE)]


@pytest.mark.regression("no end", "A run prints its progress at least every 10 s")
def test_lines_of_a_log_become_rarer_and_the_last_is_there(monkeypatch, capsys):
    shown = lines_of_a_log(monkeypatch, capsys, terminal=False)
    assert shown[:20] == list(range(1, 21)) and shown[-1] == 7200
    assert 800 < len(shown) < 1000
    assert all(after - before <= min(0.06 * after + 1, 10) for before, after in itertools.pairwise(shown))


def test_lines_at_a_terminal_come_as_they_did(monkeypatch, capsys):
    assert lines_of_a_log(monkeypatch, capsys, terminal=True) == list(range(1, 7201))


def test_the_live_panel_leaves_its_last_state_on_the_screen():
    file = io.StringIO()
    with tiny("quiet") as trainer:
        trainer._reporter = LiveReporter(
            Console(file=file, width=100, height=30, force_terminal=True, color_system=None)
        )
        trainer.train({"iterations": 3})
    last = file.getvalue().rpartition("╭")[2]
    assert "100 %" in last
    assert "iteration 3 ·" in last
    assert last.rstrip().endswith("stopped: iterations 3 reached 3")
    assert file.getvalue().startswith("CartPole-v1")  # the first lines stay above it


def test_a_narrower_terminal_is_cleared_of_the_lines_that_it_broke():
    file = io.StringIO()
    terminal = Console(file=file, width=100, height=30, force_terminal=True, color_system=None, _environ={})
    display = LiveDisplay(terminal)
    display.draw(lambda: Frame("content", width=96))
    terminal.width = 50
    before = len(file.getvalue())
    display.finish(Frame("content", width=46))
    after = file.getvalue()[before:]
    assert after.count("\x1b[1A") == 3 * 2 - 1 + 1  # each of three lines takes two now; and the empty last content
    assert after.count("╭") == 1


def test_a_note_stands_above_the_live_panel_as_it_was_written():
    file = io.StringIO()
    live = LiveReporter(Console(file=file, width=60, force_terminal=True, color_system=None))
    live.start(RunFacts("x", 1, 1, 0, {}, (), {}), Timers())
    live.note("careful, [bold]not markup[/bold]")
    live.finish()
    assert re.search(r"note: careful, \[bold\]not markup\[/bold\]\n╭─ x, seed 0", file.getvalue())


def test_the_panel_waits_a_quarter_of_a_second_and_a_hundred_times_its_own_cost(monkeypatch):
    now = [0.0]
    cost = [0.001]
    drawn = []

    def draw(self, terminal, timers, height):
        drawn.append(now[0])
        now[0] += cost[0]
        return ""

    monkeypatch.setattr(console.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(Panel, "draw", draw)
    live = LiveReporter(Console(file=io.StringIO(), force_terminal=True))
    live.start(RunFacts("x", 1, 1, 0, {}, (), {}), Timers())
    while now[0] < 10:
        now[0] += 0.01
        live.iteration(result(1))
    assert len(drawn) <= 4 * 10 + 1
    drawn.clear()
    cost[0] = 0.02  # a slow terminal: two seconds between drawings
    while now[0] < 30:
        now[0] += 0.01
        live.iteration(result(1))
    assert len(drawn) <= 11
    live.finish()
