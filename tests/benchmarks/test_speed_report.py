"""The arithmetic of the speed benchmark: rates, ratios to goals, and rows that stay when others are measured again."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
ABOUT = {"machine": {"cpu": "a CPU", "cores": 2, "system": "Linux"}}


@pytest.fixture
def load(monkeypatch):
    """Imports a module of benchmarks/ as its scripts do."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield importlib.import_module
    for name in ("measure", "report", "workloads"):
        sys.modules.pop(name, None)


def line(workload, entrant, library, seed=0, **values):
    place = {"cpu": "a CPU", "contended": False}
    return {"workload": workload, "entrant": entrant, "library": library, "seed": seed, **place, **values}


def test_a_rate_is_the_slope_after_the_first_two_seconds(load):
    # From the first iteration at 1 s on: 2 s are dropped, whose steps came slowly; then 100 steps each second.
    points = [(1.0, 10), (2.0, 20), (2.9, 30), *((second, 100 * second) for second in range(3, 12))]
    assert load("measure").steady_rate(points) == pytest.approx(100.0)


def test_a_run_of_two_iterations_has_the_rate_of_the_second(load):
    assert load("measure").steady_rate([(5.0, 4000), (15.0, 8000)]) == pytest.approx(400.0)


def test_a_target_is_reached_once_and_ends_the_run(load):
    meter = load("measure").Meter(0.0, seconds=60.0, target=475.0)
    assert not meter.iteration(100, 400.0)
    assert meter.iteration(200, 480.0)
    assert meter.reached["env_steps"] == 200


def test_the_memory_of_a_process_tree_counts_this_process(load):
    measure = load("measure")
    pss, rss = measure.memory([measure.os.getpid()])
    assert 0 < pss <= rss


def test_lines_of_another_workload_stay_and_those_of_the_same_entrant_are_replaced(load, tmp_path):
    report = load("report")
    report.write(tmp_path, ABOUT, [line("pong", "ours", "rookery", steps_per_second=1.0),
                                   line("crowd", "alone", "rookery", playing_us_per_decision=5.0)])  # fmt: skip
    report.write(tmp_path, ABOUT, [line("pong", "ours", "rookery", seed, steps_per_second=2.0) for seed in (0, 1)])
    lines = json.loads((tmp_path / "speed.json").read_text())["lines"]
    assert [(kept["workload"], kept.get("steps_per_second")) for kept in lines] == [
        ("pong", 2.0), ("pong", 2.0), ("crowd", None)
    ]  # fmt: skip
    assert "| **rookery**, ours | 2 | 2 to 2 | 2 |" in (tmp_path / "speed.md").read_text()


def goal_row(load, workload, lines):
    report = load("report")
    row = next(report.goal_row(goal, lines) for goal in report.GOALS if goal.workload == workload)
    *cells, cpu = [cell.strip() for cell in row.strip("|").split("|")]
    assert cpu == "a CPU"
    return cells


def test_a_ratio_is_that_of_medians_to_the_best_variant_of_the_peer(load):
    # Medians: Rookery 20, the peer 10 with one thread and 8 with two. 20 / 10 = 2 < 3.
    lines = [line("pong", "ours", "rookery", seed, steps_per_second=rate) for seed, rate in enumerate((20, 90, 10))]
    lines += [
        line("pong", "sb3, 1 thread", "sb3", steps_per_second=10),
        line("pong", "sb3, 2 threads", "sb3", steps_per_second=8),
    ]
    cells = goal_row(load, "pong", lines)
    assert cells[1:] == ["20 (ours)", "10 (sb3, 1 thread)", "2.00", "", ">= 3 x", "**no**"]


def test_beside_the_ratio_of_medians_stand_those_of_single_rounds(load):
    # Rounds: 20 / 10, 30 / 20; the third has no peer. Medians: 30 / 15.
    lines = [line("pong", "ours", "rookery", seed, steps_per_second=rate) for seed, rate in enumerate((20, 30, 90))]
    lines += [line("pong", "sb3", "sb3", seed, steps_per_second=rate) for seed, rate in enumerate((10, 20))]
    assert goal_row(load, "pong", lines)[3:5] == ["2.00", "1.50 to 2.00"]


def test_with_memory_python_copies_are_compared_with_the_fastest_variant_of_the_peer(load):
    # 360 / 15 = 24 >= 20; batched copies of ours do not count.
    lines = [line("memory", "serial", "rookery", steps_per_second=360.0)]
    lines += [line("memory", "batched", "rookery", steps_per_second=900.0)]
    lines += [line("memory", "sb3, one LSTM, 1 thread", "sb3", steps_per_second=15.0)]
    lines += [line("memory", "sb3, an LSTM for the critic too, 1 thread", "sb3", steps_per_second=10.0)]
    cells = goal_row(load, "memory", lines)
    assert cells[1:] == ["360 (serial)", "15 (sb3, one LSTM, 1 thread)", "24.00", "", ">= 20 x", "yes"]


def test_where_less_is_better_the_ratio_is_theirs_to_ours(load):
    lines = [line("arena-one", "ours", "rookery", iteration_seconds=2.5)]
    lines += [line("arena-one", "rllib, 1 thread", "rllib", iteration_seconds=10.0)]
    assert goal_row(load, "arena-one", lines)[3:] == ["4.00", "", ">= 20 x", "**no**"]


def test_a_cost_may_be_so_many_times_the_other_at_most(load):
    lines = [line("crowd", "together", "rookery", playing_us_per_decision=6.0)]
    lines += [line("crowd", "alone", "rookery", playing_us_per_decision=5.0)]
    assert goal_row(load, "crowd", lines)[3:] == ["1.20", "", "<= 1.3 x", "yes"]


def test_a_peer_may_have_no_goal(load):
    lines = [line("pendulum-matched", "serial", "rookery", steps_per_second=30.0)]
    lines += [line("pendulum-matched", "rsl-rl", "rsl_rl", steps_per_second=5.0)]
    assert goal_row(load, "pendulum-matched", lines)[1:] == ["30 (serial)", "5 (rsl-rl)", "6.00", "", "none", ""]


def test_settings_that_miss_the_target_do_not_count(load):
    reached = {"after_import": 5.0, "env_steps": 100, "wall_seconds": 6.0}
    lines = [
        line("cartpole-best", "128", "rookery", steps_per_second=80, reached=reached),
        line("cartpole-best", "sb3, 64", "sb3", steps_per_second=40, reached=reached),
        line("cartpole-best", "sb3, 256", "sb3", steps_per_second=79, reached=None),
    ]
    report = load("report")
    row = report.goal_row(next(goal for goal in report.GOALS if goal.workload == "cartpole-best"), lines)
    assert "| 80 (128) | 40 (sb3, 64) | 2.00 |" in row


def test_a_peer_that_failed_has_a_row_that_says_why(load):
    text = load("report").page(ABOUT, [line("pong", "sb3, 1 thread", "sb3", failed="no ale_py")])
    assert "| sb3, 1 thread | failed: no ale_py |" in text


def test_a_row_says_that_its_process_had_one_core_only(load):
    confined = line("cartpole-64", "jax", "jax", steps_per_second=7.0, one_core=True)
    free = line("cartpole-64", "batched", "rookery", steps_per_second=9.0, one_core=False)
    entrants = {"jax": [confined], "batched": [free]}
    rows = load("report").training_table(entrants, "cartpole-64")
    assert rows[2].startswith("| jax (one core) | 7 |")
    assert rows[3].startswith("| **rookery**, batched | 9 |")


def test_the_64_copies_are_compared_with_the_compiled_program_alone(load):
    lines = [line("cartpole-64", "batched", "rookery", steps_per_second=30.0)]
    lines += [line("cartpole-64", "jax", "jax", steps_per_second=20.0)]
    lines += [line("cartpole-64", "sb3, 1 thread", "sb3", steps_per_second=99.0)]
    assert goal_row(load, "cartpole-64", lines)[1:] == ["30 (batched)", "20 (jax)", "1.50", "", ">= 1.5 x", "yes"]
