"""ASHA: rungs and verdicts by hand, what it spends against what theory says, and that it finds the optimum."""

import math
from itertools import permutations
from statistics import fmean

import pytest
from simulation import OPTIMUM, Simulation, hill, on_curve, replay, samples

from rookery.core.seeding import Role, Streams
from rookery.tune.scheduler import FIFO, Action, FIFOConfig
from rookery.tune.schedulers.asha import ASHA, ASHAConfig, passes_rung, rung_ages

STOP = Action.STOP


def asha(seed=0, **settings):
    return ASHA(ASHAConfig(**{"max_time": 100, "reduction": 2} | settings), {}, Streams(seed))


def told(scheduler, *results):
    """Returns the scheduler's action for each (trial, age, score)."""
    said = []
    for trial, age, score in results:
        if trial not in scheduler.bracket:
            scheduler.add(trial, {})
        actions = scheduler.on_result(trial, age, score)
        assert actions.keys() <= {trial}
        said.append(actions.get(trial, Action.CONTINUE))
    return said


def goes(*verdicts):
    return [Action.CONTINUE if goes_on else STOP for goes_on in verdicts]


# --- rungs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("grace", "max_time", "reduction", "ages"),
    [
        (1, 100, 4, [1, 4, 16, 64]),
        (1, 64, 4, [1, 4, 16]),  # at max_time a trial is over anyway
        (1, 1000, 10, [1, 10, 100]),  # log(1000) / log(10) is 2.9999999999999996
        (2_500, 50_000, 3, [2_500, 7_500, 22_500]),
        (0.5, 3, 2, [0.5, 1, 2]),
    ],
)
def test_rungs_are_at_powers_of_the_reduction_below_max_time(grace, max_time, reduction, ages):
    assert rung_ages(grace, max_time, reduction) == ages


def test_who_is_in_the_top_half_of_those_before_goes_on():
    # n = 1: 3 is the best of 1.            n = 4: 2 of the 2 places go to 4 and 3, before 2.
    # n = 2: 1 place, for 3, before 1.      n = 5: 5 is the best.
    # n = 3: 4 is the best.                 n = 6: 3 places, for 5, 4 and 3.5.
    scores = [3, 1, 4, 2, 5, 3.5]
    results = [(f"t{i}", 1, score) for i, score in enumerate(scores)]
    assert told(asha(), *results) == goes(True, False, True, False, True, True)


def test_a_quarter_goes_on_with_a_reduction_of_four():
    rung = []
    assert [passes_rung(rung, score, 4) for score in (5, 4, 3, 2, 4.5, 1, 0, 4.8)] == [True] + [False] * 6 + [True]


def test_equal_scores_decide_nothing():
    rung = []
    assert [passes_rung(rung, -200.0, 4) for _ in range(8)] == [True] * 8
    assert [passes_rung(rung, score, 4) for score in (-100, -150, -120, -200, -300)] == [True, True, True, False, False]


def test_scores_are_compared_with_scores_of_the_same_rung_only():
    said = told(asha(), ("a", 1, 1), ("a", 2, 10), ("b", 1, 2), ("b", 2, 11), ("c", 1, 3), ("c", 2, 9))
    assert said == goes(True, True, True, True, True, False)


def test_between_rungs_and_before_the_first_nobody_is_stopped():
    scheduler = asha(grace=4, max_time=20)
    assert told(scheduler, *((f"t{i}", age, -i) for i in range(5) for age in (1, 2, 3.9))) == goes(*[True] * 15)
    assert told(scheduler, ("t0", 4, 0), ("t0", 5, -99), ("t0", 7.9, -99)) == goes(True, True, True)
    assert told(scheduler, ("t1", 4, -1)) == [STOP]


def test_a_trial_that_jumps_over_rungs_counts_at_the_highest_of_them_only():
    scheduler = asha()
    assert told(scheduler, ("long", 5, 7), ("long", 6, 99)) == goes(True, True)  # past the rungs 1, 2 and 4, before 8
    assert scheduler.rungs[0] == [[], [], [7], [], [], [], []]
    assert told(scheduler, ("small", 1, 1), ("small", 2, 2), ("small", 3, 2.5)) == goes(True, True, True)
    assert told(scheduler, ("small", 4, 3)) == [STOP]


def test_at_max_time_a_trial_is_over_however_good():
    assert told(asha(max_time=10), ("a", 9, 1), ("a", 10, 99), ("b", 12, 99)) == goes(True, False, False)


def test_who_has_no_score_never_goes_on_where_others_have_one():
    said = told(asha(), ("a", 1, 1.0), *((f"t{i}", 1, -math.inf) for i in range(6)))
    assert said == goes(True, *[False] * 6)


def test_where_nobody_has_a_score_nobody_is_stopped_and_the_first_score_counts():
    scheduler = asha()
    said = told(scheduler, ("a", 1, -math.inf), ("b", 1, -math.inf), ("a", 1.5, 2), ("b", 1.5, 1), ("c", 1, -math.inf))
    assert said == goes(True, True, True, False, False)
    assert scheduler.rungs[0][0] == [-math.inf, 1, 2]


# --- brackets ---------------------------------------------------------------------------------------------------


def test_a_later_bracket_leaves_out_the_first_rungs_and_compares_among_its_own():
    scheduler = asha(brackets=3, max_time=16)
    scheduler.bracket = {"a": 1, "b": 1, "c": 0}
    scheduler.next_rung = dict(scheduler.bracket)
    assert told(scheduler, ("c", 1, 99), ("c", 2, 99)) == goes(True, True)
    assert told(scheduler, ("a", 1, 2), ("b", 1, 1), ("a", 2, 2)) == goes(True, True, True)
    assert told(scheduler, ("b", 2, 1)) == [STOP]


def test_a_bracket_with_a_rung_less_is_drawn_as_often_as_one_in_e():
    scheduler = asha(brackets=2)
    for i in range(4000):
        scheduler.add(f"{i:05d}", {})
    later = fmean(scheduler.bracket.values())
    share = 1 / (1 + math.e)  # e^-1 / (e^0 + e^-1)
    assert abs(later - share) < 4 * math.sqrt(share * (1 - share) / 4000)


def test_brackets_depend_on_the_seed_and_the_trial_but_not_on_the_order():
    one, again, other = asha(brackets=3), asha(brackets=3), asha(seed=1, brackets=3)
    names = [f"{i:05d}" for i in range(50)]
    for name in names:
        one.add(name, {})
        other.add(name, {})
    for name in reversed(names):
        again.add(name, {})
    assert one.bracket == again.bracket != other.bracket


# --- what it spends, and what it finds --------------------------------------------------------------------------


def test_as_many_pass_a_rung_as_theory_says():
    """Over all orders of 6 trials the n-th continues in max(1, n // 2) / n of them: 1 + 1/2 + 1/3 + 2/4 + 2/5 + 3/6."""
    spent = []
    for order in permutations(range(6)):
        suggestions = [{"x": x} for x in order]
        scheduler = asha(max_time=2)
        spent.append(
            Simulation(scheduler, suggestions, on_curve(lambda params, age: params["x"]), places=1).run().spent
        )
    passing = 1 + 1 / 2 + 1 / 3 + 2 / 4 + 2 / 5 + 3 / 6
    assert fmean(spent) == pytest.approx(6 + passing, rel=1e-12)


def expected_spending(number, reduction, ages, max_time):
    """Iterations on average, where scores rank trials alike at all ages.

    The n-th trial has each rank among the first n with the same probability, and passes a rung if all who rank higher
    fit into its places, of which there are ``max(1, m // reduction)`` if it is the m-th to come there. Only the mean of
    m is followed, which gives somewhat too little: a high m makes more places, a low one never less than one.
    """
    came = [0.0] * (len(ages) + 1)
    for n in range(1, number + 1):
        before, chance = list(came), 1.0
        came[0] = n
        for rung in range(len(ages)):
            chance = min(chance, max(1, math.floor((before[rung] + 1) / reduction)) / n)
            came[rung + 1] += chance
    steps = [later - earlier for earlier, later in zip([0, *ages], [*ages, max_time], strict=True)]
    return sum(trials * step for trials, step in zip(came, steps, strict=True))


def flat(params, age):
    return -abs(params["x"] - OPTIMUM)


def test_it_spends_what_theory_says_where_curves_do_not_cross():
    spent = [
        Simulation(asha(max_time=64, reduction=4), samples(143, seed), on_curve(flat), places=3).run().spent
        for seed in range(30)
    ]
    expected = expected_spending(143, 4, [1, 4, 16], 64)
    assert round(expected) == 671
    assert expected < fmean(spent) < 1.15 * expected


class Dice(ASHA):
    """Stops as many as ASHA does, but any: the control."""

    def on_result(self, trial, time, score):
        return super().on_result(trial, time, self.streams.generator(Role.TUNE, "dice", trial, int(time)).random())


def search(scheduler, seed, **keywords):
    """143 random trials on `hill`, of different speed; the x that came out best at age 81."""
    keywords = {"places": 3, "duration": lambda params: 1 + params["x"]} | keywords
    return Simulation(scheduler, samples(143, seed), on_curve(hill), **keywords).run()


def test_it_finds_the_best_of_all_samples_for_a_fraction_of_the_budget():
    """Ten searches, each with other samples. The control stops as many, at random, and finds the best by luck only."""
    found, by_luck, errors, spent = 0, 0, [], []
    for seed in range(10):
        best = max(samples(143, seed), key=lambda params: hill(params, 81))
        done = search(asha(seed, max_time=81, reduction=3), seed)
        found += done.best(81).params == best
        errors.append(abs(done.best(81).params["x"] - OPTIMUM))
        spent.append(done.spent)
        by_luck += search(Dice(ASHAConfig(max_time=81, reduction=3), {}, Streams(seed)), seed).best(81).params == best
    everything = search(FIFO(FIFOConfig(), {}, Streams(0)), 0, ends=lambda trial: trial.age >= 81).spent
    assert everything == 143 * 81
    assert found >= 9 > 2 >= by_luck
    assert max(errors) < 0.02
    assert fmean(spent) == pytest.approx(expected_spending(143, 3, [1, 3, 9, 27], 81), rel=0.15)
    assert fmean(spent) < everything / 12


def test_it_repeats_itself_and_answers_the_same_when_told_again():
    settings = {"max_time": 81, "reduction": 3, "brackets": 3}
    first, second = (search(asha(7, **settings), 7) for _ in range(2))
    assert first.calls == second.calls
    replay(first, asha(7, **settings))


# --- settings ---------------------------------------------------------------------------------------------------
