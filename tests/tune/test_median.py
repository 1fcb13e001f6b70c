"""Median stopping: verdicts by hand, what it spends against what theory says, and that it finds the optimum."""

import math
from itertools import permutations
from statistics import fmean

import pytest
from simulation import OPTIMUM, Simulation, hill, on_curve, replay, samples

from rookery.core.seeding import Role, Streams
from rookery.tune.scheduler import Action
from rookery.tune.schedulers.median import Median, MedianConfig

PAUSE, STOP = Action.PAUSE, Action.STOP


def rule(**settings):
    return Median(MedianConfig(**settings), {}, Streams(0))


def with_tracks(scheduler, **tracks):
    """Passes whole trials to the scheduler: {trial: scores at the ages 1, 2, ...}, which must all continue."""
    for trial, scores in tracks.items():
        scheduler.add(trial, {})
        for age, score in enumerate(scores, 1):
            assert scheduler.on_result(trial, age, score) == {}
    return scheduler


def verdict(scheduler, trial, *scores):
    """Returns the scheduler's answers to the scores of a trial at the ages 1, 2, ..."""
    scheduler.add(trial, {})
    return [scheduler.on_result(trial, age, score).get(trial) for age, score in enumerate(scores, 1)]


# --- by hand ------------------------------------------------------------------------------------------------------


def test_the_best_so_far_is_compared_with_the_median_of_the_others_means_up_to_then():
    # Means up to age 1: 0 2 4, median 2; up to age 2: 1 4 5, median 4; up to age 3: 2 5 6, median 5.
    three = {"a": [0, 2, 4], "b": [2, 6, 7], "c": [4, 6, 8]}
    assert verdict(with_tracks(rule(), **three), "d", 3, 4.5, 4.9) == [None, None, STOP]
    assert verdict(with_tracks(rule(), **three), "d", 3, 3.9) == [None, STOP]
    assert verdict(with_tracks(rule(), **three), "d", 1.9) == [STOP]
    assert verdict(with_tracks(rule(), **three), "d", 5, 0, 0) == [None, None, None], "its best, not its last"


def test_of_an_even_number_the_median_is_between_the_two_in_the_middle():
    four = {"a": [4], "b": [3], "c": [2], "d": [4]}  # d comes when the median is 3; then it is 3.5
    assert verdict(with_tracks(rule(), **four), "e", 3.4) == [STOP]
    assert verdict(with_tracks(rule(), **four), "e", 3.5) == [None]


def test_who_is_as_good_as_the_median_goes_on():
    assert verdict(with_tracks(rule(), a=[5, 5], b=[5, 5], c=[5, 5]), "d", 5, 5) == [None, None]


def test_with_fewer_others_than_min_samples_nobody_is_stopped():
    assert verdict(with_tracks(rule(), a=[9], b=[9]), "c", 0) == [None]
    assert verdict(with_tracks(rule(min_samples=2), a=[9], b=[9]), "c", 0) == [STOP]


def test_others_that_did_not_come_as_far_do_not_count():
    assert verdict(with_tracks(rule(), a=[9, 9], b=[9, 9], c=[0]), "d", 9, 0, 0) == [None, None, None]
    scheduler = with_tracks(rule(), a=[9, 9], b=[9, 9], c=[0])
    assert verdict(scheduler, "d", 8) == [STOP], "at age 1 all three count"


def test_before_grace_nobody_is_stopped_and_no_score_counts():
    three = {"a": [100, 2, 2], "b": [100, 2, 2], "c": [100, 2, 2]}
    assert verdict(with_tracks(rule(grace=2), **three), "d", 0, 3, 1) == [None, None, None]
    assert verdict(with_tracks(rule(grace=2), **three), "d", 50, 1) == [None, STOP]


def test_ages_need_not_be_the_same():
    scheduler = rule()
    for trial in "abc":
        scheduler.add(trial, {})
        for age, score in ((1_000, 1), (2_000, 3), (3_000, 100)):
            scheduler.on_result(trial, age, score)
    scheduler.add("d", {})
    assert scheduler.on_result("d", 2_500, 1.9) == {"d": STOP}, "what the others had up to 2000: a mean of 2"


def test_who_has_no_score_is_stopped_where_others_have_one_and_is_no_sample_itself():
    nothing = [-math.inf]
    assert verdict(with_tracks(rule(), a=[1], b=[2], c=[3]), "d", *nothing) == [STOP]
    scheduler = with_tracks(rule(), a=nothing, b=nothing, c=nothing, d=nothing)
    assert verdict(scheduler, "e", -5) == [None]
    late = {"a": [-math.inf, 4], "b": [1, 1], "c": [9, 9]}  # the mean of a is 4, and so is the median at age 2
    assert verdict(with_tracks(rule(), **late), "d", 2, 2) == [None, STOP]


def test_a_soft_stop_pauses_and_spares_the_trial_afterwards():
    scheduler = with_tracks(rule(hard_stop=False), a=[9] * 3, b=[9] * 3, c=[9] * 3)
    assert verdict(scheduler, "d", 0, 0, 0) == [PAUSE, None, None]


def test_with_soft_stops_everybody_gets_to_the_end_the_good_ones_first():
    suggestions = [{"x": x} for x in (5, 6, 7, 1, 8)]
    done = Simulation(
        rule(hard_stop=False), suggestions, on_curve(lambda params, age: params["x"]), places=1,
        ends=lambda trial: trial.age >= 4,
    ).run()  # fmt: skip
    assert done.spent == 5 * 4
    assert [call[1][0] for call in done.calls if call[0] == "on_end"] == ["00000", "00001", "00002", "00004", "00003"]
    replay(done, rule(hard_stop=False))


# --- what it spends, and what it finds ----------------------------------------------------------------------------


def test_the_fourth_of_four_is_stopped_in_half_of_all_orders():
    """Three run for 10 iterations; the fourth is below their median, and stops after one, with a probability of 1/2."""
    spent = []
    for order in permutations(range(4)):
        suggestions = [{"x": x} for x in order]
        curve = on_curve(lambda params, age: params["x"])
        spent.append(Simulation(rule(), suggestions, curve, places=1, ends=lambda trial: trial.age >= 10).run().spent)
    assert fmean(spent) == 3 * 10 + (1 + 10) / 2


def expected_spending(number, max_time):
    """Iterations on average where scores do not change with age, trials come one after the other, and grace is 1.

    The n-th trial has each rank among the first n with the same probability. It passes an age that m others came to, m
    at least 3, if at most half of m rank higher: (m + 1) / 2 of n ranks. Only the mean of m is followed.
    """
    came = [0.0] * (max_time + 1)
    for n in range(1, number + 1):
        before = list(came)
        came[0] += 1
        for age in range(1, max_time):
            others = before[age - 1]
            came[age] += 1 if others < 3 else min(1, (others + 1) / 2 / n)
    return sum(came[:max_time])


def flat(params, age):
    return -abs(params["x"] - OPTIMUM)


@pytest.mark.slow
def test_it_spends_what_theory_says_where_scores_stay_as_they_are():
    spent = [
        Simulation(rule(), samples(100, seed), on_curve(flat), places=1, ends=lambda trial: trial.age >= 40).run().spent
        for seed in range(40)
    ]
    expected = expected_spending(100, 40)
    assert expected < 100 * 40 / 3
    assert fmean(spent) == pytest.approx(expected, rel=0.1)


class Dice(Median):
    """Stops by scores that say nothing, drawn once for each trial: the control."""

    def on_result(self, trial, time, score):
        return super().on_result(trial, time, self.streams.generator(Role.TUNE, "dice", trial).random())


def search(scheduler, seed):
    return Simulation(
        scheduler, samples(143, seed), on_curve(hill), places=3, duration=lambda params: 1 + params["x"],
        ends=lambda trial: trial.age >= 81,
    ).run()  # fmt: skip


@pytest.mark.slow
def test_it_finds_the_best_of_all_samples_for_less_than_half_of_the_budget():
    found, by_luck, errors, spent = 0, 0, [], []
    for seed in range(6):
        best = max(samples(143, seed), key=lambda params: hill(params, 81))
        done = search(rule(grace=10), seed)
        found += done.best(81).params == best
        errors.append(abs(done.best(81).params["x"] - OPTIMUM))
        spent.append(done.spent)
        lucky = search(Dice(MedianConfig(grace=10), {}, Streams(seed)), seed)
        by_luck += any(trial.params == best and trial.age >= 81 for trial in lucky.trials.values())
    assert found == 6
    assert max(errors) < 0.02
    # Half of the trials but the first few are stopped at 10, and half of the others soon after.
    assert fmean(spent) < 143 * (10 + 71 / 4)
    assert by_luck <= 2


def test_it_repeats_itself_and_answers_the_same_when_told_again():
    first, second = (search(rule(grace=5), 3) for _ in range(2))
    assert first.calls == second.calls
    replay(first, rule(grace=5))


# --- settings -----------------------------------------------------------------------------------------------------
