"""Cost model: its limits, its bottlenecks, and that more resources never reduce the predicted speed without reason."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import pytest

from rookery.run.plan import cost_model
from rookery.run.plan.cost_model import (
    CORES,
    CROWD,
    EXCHANGE,
    LEARNING,
    PLAYING,
    TRANSFER,
    Costs,
    LinearCost,
    Machines,
    Workload,
    predict,
)

STEP = LinearCost(0.0, 0.001)
COMPUTING = Costs(vector_step=STEP, vector_step_cpu=STEP, own_step=STEP, learn=LinearCost(0.0, 0.0001))
SLEEPING = replace(COMPUTING, vector_step_cpu=LinearCost(0.0, 0.00001))
PLAIN = Workload(fragment_length=50)
AHEAD = Workload(fragment_length=50, batch=500, asynchronous=True)
MANY = Machines(cores=1000)


def rate(costs, workload, machines, workers, learners=1, copies=None):
    return predict(costs, workload, machines, workers, learners, copies or max(workers, learners)).steps_per_second


def test_one_worker_makes_what_its_parts_make_in_turn():
    # 1 ms a step and 0.1 ms of learning: 1 / 1.1 ms
    found = predict(COMPUTING, PLAIN, MANY, 1, 1, 1)
    assert found.steps_per_second == pytest.approx(1 / 0.0011)
    assert found.parts == {PLAYING: pytest.approx(0.05), TRANSFER: 0.0, LEARNING: pytest.approx(0.005)}
    assert predict(COMPUTING, PLAIN, MANY, 0, 1, 1).steps_per_second == pytest.approx(1 / 0.0011)


def test_a_learner_that_takes_no_time_leaves_what_workers_play():
    free = replace(COMPUTING, learn=LinearCost())
    for workload in (PLAIN, AHEAD):
        for workers in (1, 3, 8):
            assert rate(free, workload, MANY, workers) == pytest.approx(1000 * workers)


def test_synchronous_playing_gains_what_amdahl_says():
    # eight copies shared: playing is divided by the workers, learning is not
    for workers in (1, 2, 4, 8):
        assert rate(COMPUTING, PLAIN, MANY, workers, copies=8) == pytest.approx(1 / (0.001 / workers + 0.0001))


def test_asynchronous_playing_comes_to_what_the_learner_takes():
    # 0.1 ms a decision: 10,000 a second, however many workers; with few of them, these decide
    found = predict(COMPUTING, AHEAD, MANY, 100, 1, 100)
    assert (found.steps_per_second, found.bottleneck) == (pytest.approx(10_000), LEARNING)
    found = predict(COMPUTING, AHEAD, MANY, 2, 1, 2)
    assert (found.steps_per_second, found.bottleneck) == (pytest.approx(2000), PLAYING)


@pytest.mark.parametrize("workload", [PLAIN, AHEAD])
def test_an_environment_that_computes_fills_the_cores_and_one_that_sleeps_does_not(workload):
    two = Machines(cores=2)
    free = LinearCost()
    computing, sleeping = replace(COMPUTING, learn=free), replace(SLEEPING, learn=free)
    assert rate(computing, workload, two, 2) == pytest.approx(2000)
    assert rate(computing, workload, two, 8) == pytest.approx(2000)
    assert predict(computing, workload, two, 8, 1, 8).bottleneck == CORES
    assert rate(sleeping, workload, two, 8) == pytest.approx(8000)
    assert predict(sleeping, workload, two, 8, 1, 8).bottleneck == PLAYING


@pytest.mark.parametrize("workload", [PLAIN, AHEAD])
def test_steps_cost_more_where_more_processes_compute_than_there_are_cores(workload):
    two, free = Machines(cores=2), LinearCost()
    plain, crowded = (replace(COMPUTING, learn=free, crowded=factor) for factor in (1.0, 1.5))
    assert rate(crowded, workload, two, 2) == rate(plain, workload, two, 2)
    assert rate(crowded, workload, two, 2 * CROWD) == pytest.approx(rate(plain, workload, two, 2 * CROWD) / 1.5)
    assert rate(crowded, workload, two, 2 * CROWD) == rate(crowded, workload, two, 4 * CROWD)
    sleeping = replace(crowded, vector_step_cpu=LinearCost(0.0, 0.00001))
    assert rate(sleeping, workload, two, 8) == pytest.approx(8000)


@pytest.mark.parametrize("workload", [PLAIN, AHEAD])
def test_workers_of_one_process_have_one_core_together(workload):
    together, free = replace(workload, together=4), LinearCost()
    computing, sleeping = replace(COMPUTING, learn=free), replace(SLEEPING, learn=free)
    assert rate(computing, together, MANY, 8) == pytest.approx(2000)
    assert rate(sleeping, together, MANY, 8) == pytest.approx(8000)


@pytest.mark.parametrize("workload", [PLAIN, AHEAD])
@pytest.mark.parametrize("costs", [COMPUTING, SLEEPING])
def test_more_workers_cores_or_machines_never_make_less_where_calls_cost_nothing(workload, costs):
    counts = (1, 2, 4, 8, 16, 32)
    for several in (
        [rate(costs, workload, Machines(4), workers) for workers in counts],
        [rate(costs, workload, Machines(cores), 32) for cores in counts],
        [rate(costs, workload, Machines(1, machines, latency=0.0), 32) for machines in counts],
    ):
        assert all(later >= earlier * (1 - 1e-9) for earlier, later in zip(several, several[1:], strict=False))


@pytest.mark.parametrize("workload", [PLAIN, AHEAD])
@pytest.mark.parametrize("name", ["call", "round_trip", "row", "weights", "weights_elsewhere", "learn"])
def test_whatever_costs_more_never_makes_more(workload, name):
    dear = LinearCost(0.0, 1.0) if name == "learn" else 1.0
    before, after = (
        predict(costs, workload, Machines(4), 8, 1, 8) for costs in (COMPUTING, replace(COMPUTING, **{name: dear}))
    )
    assert after.steps_per_second < before.steps_per_second


@pytest.mark.parametrize("workload", [PLAIN, AHEAD])
def test_the_bottleneck_is_the_part_that_was_made_dear(workload):
    quick = replace(COMPUTING, learn=LinearCost())
    for changed, expected in (
        ({"learn": LinearCost(0.0, 1.0)}, LEARNING),
        ({"row": 1.0}, TRANSFER),
        ({"call": 10.0}, TRANSFER),
        ({"vector_step": LinearCost(0.0, 1.0)}, PLAYING),
        ({"exchanges": 1.0, "exchange": 100.0}, EXCHANGE),
    ):
        assert predict(replace(quick, **changed), workload, MANY, 8, 2, 8).bottleneck == expected


def test_workers_play_so_far_ahead_and_no_further_while_the_driver_learns():
    # An update takes 1 s; two fragments of 50 steps take 0.1 s, so the worker has 100 of the next 500 decisions then,
    # and the other 400 take 0.4 s.
    slow = replace(COMPUTING, learn=LinearCost(1.0, 0.0))
    assert predict(slow, AHEAD, MANY, 1, 1, 1).update_seconds == pytest.approx(1.4)
    further = replace(AHEAD, in_flight=100)
    assert predict(slow, further, MANY, 1, 1, 1).update_seconds == pytest.approx(1.0)


def test_a_worker_that_is_asked_for_one_fragment_waits_for_the_next_call():
    costs = replace(COMPUTING, learn=LinearCost(), round_trip=0.05)
    assert rate(costs, replace(AHEAD, in_flight=1), MANY, 1) == pytest.approx(500)
    assert rate(costs, AHEAD, MANY, 1) == pytest.approx(1000)


def test_the_link_between_machines_bounds_what_is_sent_and_one_machine_has_none():
    heavy = replace(COMPUTING, learn=LinearCost(), row_bytes=1e6)
    slow = Machines(cores=1000, count=2, bandwidth=1e6, latency=0.0)
    assert rate(heavy, AHEAD, slow, 8) == pytest.approx(2.0)  # every other decision comes from the other machine
    assert predict(heavy, AHEAD, slow, 8, 1, 8).bottleneck == TRANSFER
    assert rate(heavy, AHEAD, replace(slow, count=1), 8) == pytest.approx(8000)


def test_learners_divide_an_update_and_pay_for_messages():
    # 100 decisions divided by two: 50 ms of playing and 5 ms of learning, and 10 messages of 1 ms
    costs = replace(COMPUTING, exchanges=10.0, exchange=0.001, exchange_rows=50.0)
    assert predict(costs, PLAIN, MANY, 0, 1, 2).update_seconds == pytest.approx(0.110)
    assert predict(costs, PLAIN, MANY, 0, 2, 2).update_seconds == pytest.approx(0.065)
    # an update of twice the decisions has twice the messages
    assert predict(costs, PLAIN, MANY, 0, 2, 4).update_seconds == pytest.approx(0.130)
    seconds = [predict(costs, PLAIN, MANY, 0, many, many).parts[EXCHANGE] for many in (2, 4, 8, 16)]
    assert seconds == sorted(seconds)


def test_a_line_goes_through_its_ends_and_never_below_nothing():
    assert LinearCost.through((1.0, 3.0), (3.0, 7.0)) == LinearCost(1.0, 2.0)
    assert LinearCost.through((2.0, 3.0), (2.0, 5.0)) == LinearCost(0.0, 2.0)
    assert LinearCost.through((1.0, 4.0), (2.0, 2.0)) == LinearCost(3.0, 0.0)
    assert LinearCost.through((1.0, 1.0), (2.0, 4.0)) == LinearCost(0.0, 2.0)


def test_nobody_shares_what_is_not_there():
    for workers, learners, copies in ((4, 1, 3), (0, 4, 3), (1, 2, 8), (1, 0, 1), (-1, 1, 1)):
        with pytest.raises(ValueError, match="each needs one at least"):
            predict(COMPUTING, PLAIN, MANY, workers, learners, copies)


def test_the_model_neither_measures_nor_learns():
    tree = ast.parse(Path(cost_model.__file__).read_text(encoding="utf-8"))
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    imported |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert imported == {"__future__", "dataclasses", "math"}
