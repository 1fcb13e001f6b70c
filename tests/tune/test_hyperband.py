"""HyperBand: the table of the paper, brackets worked out by hand, what they spend, and that it finds the optimum."""

import math
from itertools import pairwise

import pytest
from simulation import OPTIMUM, Simulation, hill, on_curve, replay, samples

from rookery.core.seeding import Streams
from rookery.tune.scheduler import FIFO, Action, FIFOConfig
from rookery.tune.schedulers.hyperband import HyperBand, HyperBandConfig, plan
from rookery.tune.trial import Status

CONTINUE, PAUSE, STOP = Action.CONTINUE, Action.PAUSE, Action.STOP

TABLE = [
    [(81, 1), (27, 3), (9, 9), (3, 27), (1, 81)],
    [(34, 3), (11, 9), (3, 27), (1, 81)],
    [(15, 9), (5, 27), (1, 81)],
    [(8, 27), (2, 81)],
    [(5, 81)],
]
"""(n_i, r_i) of the brackets s = 4 ... 0 for R = 81, eta = 3: n = ceil(5 * 3^s / (s + 1)) = 81, 33.75, 15, 7.5, 5."""


def hyperband(**settings):
    return HyperBand(HyperBandConfig(**settings), {}, Streams(0))


def numbers(brackets):
    return [[(rung.number, rung.age) for rung in rungs] for rungs in brackets]


def added(scheduler, names):
    for name in names:
        scheduler.add(name, {})
    return scheduler


def spending(brackets):
    """Iterations: n_i trials do r_i - r_(i-1) in rung i."""
    return sum(
        number * (age - before) for rungs in brackets for (_, before), (number, age) in pairwise([(0, 0), *rungs])
    )


def run(scheduler, suggestions, curve=lambda params, age: params["x"], **keywords):
    return Simulation(scheduler, suggestions, on_curve(curve), **keywords).run()


def rising(number):
    return [{"x": i} for i in range(number)]


# --- the plan ---------------------------------------------------------------------------------------------------


def test_brackets_are_those_of_the_paper():
    assert numbers(plan(81, 1, 3)) == TABLE


def test_ages_scale_with_the_unit_and_numbers_do_not():
    assert numbers(plan(81_000, 1_000, 3)) == [[(n, 1_000 * age) for n, age in rungs] for rungs in TABLE]


def test_a_max_time_between_two_powers_has_the_brackets_of_the_lower():
    # s_max = floor(log_2 5) = 2; n = 3 * 4 / 3, 3 * 2 / 2, 3; ages 5 / 4, 5 / 2, 5
    assert numbers(plan(5, 1, 2)) == [[(4, 1.25), (2, 2.5), (1, 5)], [(3, 2.5), (1, 5)], [(3, 5)]]


# --- one bracket, by hand -----------------------------------------------------------------------------------------


def test_trials_wait_for_each_other_and_the_better_half_goes_on():
    scheduler = added(hyperband(max_time=4, reduction=2), "abcd")  # 4 to age 1, 2 to age 2, 1 to age 4
    assert [scheduler.milestone(trial) for trial in "abcd"] == [1] * 4
    assert scheduler.on_result("b", 1, 7.0) == {"b": PAUSE}
    assert scheduler.on_result("a", 1, 5.0) == {"a": PAUSE}
    assert scheduler.on_result("d", 1, 6.0) == {"d": PAUSE}
    assert scheduler.on_result("c", 1, 1.0) == {"c": STOP, "a": STOP, "b": CONTINUE, "d": CONTINUE}
    assert scheduler.on_end("c") == scheduler.on_end("a") == {}
    assert [scheduler.milestone(trial) for trial in "bd"] == [2, 2]
    assert scheduler.on_result("b", 2, 7.0) == {"b": PAUSE}
    assert scheduler.on_result("d", 2, 8.0) == {"b": STOP, "d": CONTINUE}
    assert scheduler.milestone("d") == 4
    assert scheduler.on_result("d", 3, 8.0) == {}
    assert scheduler.on_result("d", 4, 8.0) == {"d": STOP}


def test_nothing_is_decided_before_the_bracket_is_full():
    scheduler = added(hyperband(max_time=4, reduction=2), "abc")
    for trial in "abc":
        assert scheduler.on_result(trial, 1, 1.0) == {trial: PAUSE}
    scheduler.add("d", {})
    assert set(scheduler.on_result("d", 1, 2.0).values()) == {STOP, CONTINUE}


def test_of_equals_those_who_joined_first_go_on_whoever_came_first():
    scheduler = added(hyperband(max_time=4, reduction=2), "abcd")
    for trial in "dcb":
        scheduler.on_result(trial, 1, 0.0)
    assert scheduler.on_result("a", 1, 0.0) == {"a": CONTINUE, "b": CONTINUE, "c": STOP, "d": STOP}


def test_who_has_no_score_never_goes_on_before_one_who_has():
    scheduler = added(hyperband(max_time=4, reduction=2), "abcd")
    for trial, score in zip("abc", (-math.inf, -math.inf, -1e300), strict=True):
        scheduler.on_result(trial, 1, score)
    assert scheduler.on_result("d", 1, -1e301) == {"a": STOP, "b": STOP, "c": CONTINUE, "d": CONTINUE}


def test_a_failure_leaves_its_place_to_the_next_best():
    scheduler = added(hyperband(max_time=4, reduction=2), "abcd")
    for trial, score in zip("abc", (3.0, 2.0, 1.0), strict=True):
        scheduler.on_result(trial, 1, score)
    assert scheduler.on_end("d") == {"a": CONTINUE, "b": CONTINUE, "c": STOP}


def test_who_is_past_the_next_rung_already_does_not_run_for_it():
    scheduler = added(hyperband(max_time=4, reduction=2), "abcd")
    for trial, age, score in (("a", 2, 4.0), ("b", 1, 3.0), ("c", 1, 2.0)):
        assert scheduler.on_result(trial, age, score) == {trial: PAUSE}
    assert scheduler.on_result("d", 1, 1.0) == {"b": CONTINUE, "c": STOP, "d": STOP}, "a waits for b at age 2"
    assert scheduler.on_result("b", 2, 5.0) == {"b": CONTINUE, "a": STOP}


def test_all_who_are_past_several_rungs_are_compared_at_once():
    scheduler = added(hyperband(max_time=4, reduction=2), "abcd")
    for trial, score in zip("abc", (3.0, 2.0, 1.0), strict=True):
        scheduler.on_result(trial, 3, score)
    assert scheduler.on_result("d", 3, 4.0) == {"d": CONTINUE, "a": STOP, "b": STOP, "c": STOP}


def test_one_iteration_longer_than_max_time_makes_it_plain_running():
    done = run(hyperband(), rising(20), stride=lambda params: 100.0)
    assert done.spent == 20
    assert all(call[2] != {call[1][0]: PAUSE} for call in done.calls if call[0] == "on_result")


# --- many brackets ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("places", [1, 4, 200])
def test_a_round_spends_exactly_what_the_table_says(places):
    """81 + 27 * 2 + 9 * 6 + 3 * 18 + 54 = 297 in the first bracket, then 276, 279, 324 and 405."""
    trials = sum(rungs[0][0] for rungs in TABLE)
    done = run(hyperband(), rising(trials), places=places)
    assert done.spent == spending(TABLE) == 297 + 276 + 279 + 324 + 405
    assert all(trial.reason == "stopped by the scheduler" for trial in done.trials.values())


def test_in_each_rung_the_best_survive():
    done = run(hyperband(), rising(81), places=4)
    for number, age in TABLE[0]:
        assert {trial.params["x"] for trial in done.trials.values() if trial.age >= age} == set(range(81 - number, 81))


def test_after_the_last_bracket_the_first_comes_again():
    done = run(hyperband(max_time=4, reduction=2), rising(2 * 10), places=3)  # brackets of 4, 3 and 3
    brackets = done.scheduler.brackets
    assert [bracket.joined for bracket in brackets] == [4, 3, 3, 4, 3, 3]
    one_round = 4 * 1 + 2 * 1 + 1 * 2 + 3 * 2 + 1 * 2 + 3 * 4
    assert done.spent == 2 * one_round


def test_a_bracket_that_is_not_full_goes_on_with_those_there_are():
    """8 of 81: all of them fit into the 27 and 9 places at the ages 1 and 3; at 9 there are 3 places, at 27 one."""
    done = run(hyperband(), rising(8), places=2)
    assert sorted(trial.age for trial in done.trials.values()) == [9] * 5 + [27] * 2 + [81]
    assert done.spent == 8 * 9 + 3 * 18 + 1 * 54
    assert done.best(81).params == {"x": 7}


def test_a_single_trial_runs_to_its_end():
    assert run(hyperband(), rising(1)).spent == 81


@pytest.mark.parametrize("broken", [lambda trial: trial.params["x"] % 3 == 0, lambda trial: trial.age == 3])
def test_failures_hang_nobody(broken):
    done = run(hyperband(max_time=9), rising(30), fails=broken)
    assert {trial.status for trial in done.trials.values()} <= {Status.TERMINATED, Status.ERROR}
    assert Status.ERROR in {trial.status for trial in done.trials.values()}


def test_trials_that_end_on_their_own_hang_nobody():
    done = run(hyperband(max_time=9), rising(9), ends=lambda trial: trial.params["x"] == 8 and trial.age == 2)
    assert done.trials["00008"].reason == "own end"
    assert [trial.name for trial in done.trials.values() if trial.age >= 9] == ["00007"]
    assert done.spent == 9 * 1 + 1 + 2 * 2 + 6  # 8 leaves on its way to age 3, where 7 and 6 compete for one place


def test_a_pause_comes_with_a_checkpoint_of_that_moment():
    scheduler = hyperband()
    done = Simulation(scheduler, rising(81), on_curve(lambda params, age: params["x"]))
    paused = []
    saving = done.iterate

    def iterate(trial):
        milestone = done.milestones[trial.name]
        saving(trial)
        if trial.status is Status.PAUSED:
            paused.append((trial.age, milestone))

    done.iterate = iterate
    done.run()
    assert paused and all(age == milestone for age, milestone in paused)


# --- what it finds ------------------------------------------------------------------------------------------------


def search(scheduler, seed, **keywords):
    keywords = {"places": 3, "duration": lambda params: 1 + params["x"]} | keywords
    return run(scheduler, samples(143, seed), hill, **keywords)


def test_it_finds_the_best_of_all_samples_for_exactly_the_planned_budget():
    found, errors = 0, []
    for seed in range(10):
        done = search(hyperband(), seed)
        assert done.spent == spending(TABLE)
        best = max(samples(143, seed), key=lambda params: hill(params, 81))
        found += done.best(81).params == best
        errors.append(abs(done.best(81).params["x"] - OPTIMUM))
    everything = search(FIFO(FIFOConfig(), {}, Streams(0)), 0, ends=lambda trial: trial.age >= 81).spent
    assert found >= 8
    assert max(errors) < 0.02
    assert spending(TABLE) == 1581 < everything / 7


def test_at_random_the_best_is_lost():
    """The control: the same budget, but scores that say nothing until the end."""
    noise = {}

    def curve(params, age):
        return hill(params, age) if age >= 81 else noise.setdefault(params["x"], math.sin(1e6 * params["x"]))

    found = 0
    for seed in range(10):
        done = run(hyperband(), samples(143, seed), curve, places=3)
        found += done.best(81).params == max(samples(143, seed), key=lambda params: hill(params, 81))
    assert found <= 3


def test_it_repeats_itself_and_answers_the_same_when_told_again():
    first, second = (search(hyperband(), 7) for _ in range(2))
    assert first.calls == second.calls
    replay(first, hyperband())


# --- settings -----------------------------------------------------------------------------------------------------
