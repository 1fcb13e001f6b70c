"""Tests of population-based training: choice of clones and donors, parameters of clones, and the optimum is found."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

import numpy as np
import pytest
from simulation import Simulated, Simulation, on_curve, replay

from rookery.core.config import resolve
from rookery.core.errors import ConfigError
from rookery.core.seeding import Role, Streams
from rookery.core.settings.layers import Layer
from rookery.tune import space as tune
from rookery.tune.names import SCHEDULERS, SEARCHES
from rookery.tune.scheduler import FIFO, Action, Exploit, FIFOConfig
from rookery.tune.schedulers.pbt import PBT, PBTConfig, perturbed
from rookery.tune.settings import TuneConfig

LR = {"algorithm.lr": tune.loguniform(1e-4, 1e-1)}


def pbt(space: Mapping[str, Any] = LR, seed: int = 0, **settings: Any) -> PBT:
    return PBT(PBTConfig(**{"interval": 2.0, **settings}), space, Streams(seed))


def four(**settings: Any) -> PBT:
    """A population of a, b, c, d with lr 1e-3, 2e-3, 3e-3, 4e-3."""
    scheduler = pbt(**{"resample": 0.0, "factors": (1.2,), **settings})
    for i, name in enumerate("abcd"):
        scheduler.add(name, {"algorithm.lr": (i + 1) * 1e-3})
    return scheduler


# --- who ------------------------------------------------------------------------------------------------------------


def test_the_worst_quarter_becomes_a_copy_of_the_best_and_the_others_go_on() -> None:
    scheduler = four()
    assert scheduler.milestone("a") == 2.0
    for name in "abcd":
        assert scheduler.on_result(name, 1.0, 0.0) == {}
    for name, score in zip("abcd", (5.0, 1.0, 9.0, 7.0), strict=True):
        assert scheduler.on_result(name, 2.0, score) == {name: Action.PAUSE}
    actions = scheduler.drained(["a", "b", "c", "d"])
    go_on = Action.CONTINUE
    # b is the worst, c the best: b continues with c's lr, 3e-3, times 1.2.
    assert actions == {"b": Exploit("c", {"algorithm.lr": pytest.approx(3.6e-3)}), "a": go_on, "c": go_on, "d": go_on}
    assert list(actions)[0] == "b"  # donors' checkpoints are taken before the donors continue


def test_from_the_second_interval_on_the_last_who_arrives_lets_the_others_go_on() -> None:
    scheduler = four()
    for name, score in zip("abcd", (5.0, 1.0, 9.0, 7.0), strict=True):
        scheduler.on_result(name, 2.0, score)
    scheduler.drained(["a", "b", "c", "d"])
    assert scheduler.milestone("b") == 4.0
    for name, score in zip("abc", (1.0, 5.0, 6.0), strict=True):
        assert scheduler.on_result(name, 4.0, score) == {name: Action.PAUSE}
    actions = scheduler.on_result("d", 4.0, 9.0)
    assert actions["a"] == Exploit("d", {"algorithm.lr": pytest.approx(4.8e-3)})
    assert {name: actions[name] for name in "bcd"} == dict.fromkeys("bcd", Action.CONTINUE)


def test_who_is_copied_does_not_depend_on_the_order_of_arrival() -> None:
    told = []
    for order in [np.random.default_rng(i).permutation(8) for i in range(30)]:
        scheduler = pbt(quantile=0.4)
        for i in range(8):
            scheduler.add(str(i), {"algorithm.lr": 1e-3 * (i + 1)})
        for i in order:
            scheduler.on_result(str(i), 2.0, float(i % 5))
        told.append(scheduler.drained([str(i) for i in order]))
    assert sum(isinstance(action, Exploit) for action in told[0].values()) == 4
    assert all(actions == told[0] and list(actions) == list(told[0]) for actions in told)


@pytest.mark.parametrize(
    ("number", "quantile", "clones"), [(1, 0.5, 0), (2, 0.25, 1), (3, 0.5, 1), (4, 0.25, 1), (5, 0.25, 2), (9, 0.0, 0)]
)
def test_the_quantile_is_rounded_up_but_nobody_is_both_worst_and_best(
    number: int, quantile: float, clones: int
) -> None:
    scheduler = pbt(quantile=quantile)
    for i in range(number):
        scheduler.add(str(i), {"algorithm.lr": 1e-3})
        scheduler.on_result(str(i), 2.0, float(i))
    actions = scheduler.drained([str(i) for i in range(number)])
    exploits = {name: action for name, action in actions.items() if isinstance(action, Exploit)}
    assert sorted(exploits) == [str(i) for i in range(clones)]
    assert all(int(exploit.donor) >= number - clones for exploit in exploits.values())


def test_nobody_copies_a_trial_without_a_score() -> None:
    scheduler = four(quantile=0.5)
    for name, score in zip("abcd", (-math.inf, -math.inf, 3.0, -math.inf), strict=True):
        scheduler.on_result(name, 2.0, score)
    exploits = [action for action in scheduler.drained(list("abcd")).values() if isinstance(action, Exploit)]
    assert [exploit.donor for exploit in exploits] == ["c", "c"]

    scheduler = four(quantile=0.5)
    for name in "abcd":
        scheduler.on_result(name, 2.0, -math.inf)
    assert scheduler.drained(list("abcd")) == dict.fromkeys("abcd", Action.CONTINUE)


def test_nobody_is_compared_during_the_burn_in() -> None:
    scheduler = four(burn_in=5.0)
    assert scheduler.milestone("a") == 6.0  # the first multiple of 2 that is not below 5
    assert scheduler.on_result("a", 4.0, 1.0) == {}
    assert scheduler.on_result("a", 6.0, 1.0) == {"a": Action.PAUSE}
    assert scheduler.milestone("a") == 8.0


def test_an_interval_that_binary_numbers_cannot_hold_is_met_once_each() -> None:
    scheduler = pbt(interval=0.1, synchronous=False)
    scheduler.add("a", {"algorithm.lr": 1e-3})
    for i in range(1, 50):
        time = i / 10
        assert scheduler.milestone("a") == pytest.approx(time)
        scheduler.on_result("a", scheduler.milestone("a"), 1.0)
    assert scheduler.members["a"].arrivals == 49


def test_an_iteration_longer_than_an_interval_counts_once() -> None:
    scheduler = four()
    assert scheduler.on_result("a", 7.0, 1.0) == {"a": Action.PAUSE}
    assert scheduler.milestone("a") == 8.0


# --- members that end -----------------------------------------------------------------------------------------------


def test_those_who_wait_go_on_when_the_one_they_wait_for_ends() -> None:
    scheduler = four()
    for name, score in zip("abcd", (5.0, 1.0, 9.0, 7.0), strict=True):
        scheduler.on_result(name, 2.0, score)
    scheduler.drained(list("abcd"))
    for name, score in zip("abc", (1.0, 5.0, 6.0), strict=True):
        scheduler.on_result(name, 4.0, score)
    actions = scheduler.on_end("d")
    assert isinstance(actions["a"], Exploit)
    assert actions["a"].donor == "c"
    assert sorted(actions) == ["a", "b", "c"]


@pytest.mark.parametrize("best", [True, False])
def test_one_that_ends_at_an_interval_is_compared_once_more_whoever_arrived_before_it(best: bool) -> None:
    def told(order: str) -> dict[str, Any]:
        scheduler = four(quantile=0.5)
        for name, score in zip("abcd", (5.0, 1.0, 9.0, 7.0), strict=True):
            scheduler.on_result(name, 2.0, score)
        scheduler.drained(list("abcd"))
        scores = {"a": 1.0, "b": 5.0, "c": 6.0, "d": 9.0 if best else 0.0}
        actions: dict[str, Any] = {}
        for name in order:
            actions |= scheduler.on_result(name, 4.0, scores[name])
            if name == "d":
                actions |= scheduler.on_end("d")
        assert "d" not in scheduler.members
        return {name: action for name, action in actions.items() if name != "d"}

    first = told("abcd")
    donors = {name: action.donor for name, action in first.items() if isinstance(action, Exploit)}
    assert set(donors) == ({"a", "b"} if best else {"a"})
    assert all(told(order) == first for order in ("dabc", "cdba", "bcad"))


def test_when_all_end_at_an_interval_nobody_is_left() -> None:
    scheduler = four()
    for name in "abcd":
        scheduler.on_result(name, 2.0, 1.0)
        assert scheduler.on_end(name) == {}
    assert scheduler.drained([]) == {}
    assert scheduler.members == {}


def test_an_end_before_all_trials_have_begun_lets_nobody_go_on() -> None:
    scheduler = four()
    for name in "abc":
        scheduler.on_result(name, 2.0, 1.0)
    assert scheduler.on_end("d") == {}  # there may be trials to come


@pytest.mark.parametrize("places", [1, 3, 8])
def test_a_population_ends_whoever_fails_or_stops_and_however_few_places_there_are(places: int) -> None:
    scheduler = pbt(quantile=0.3)
    trials = simulate(
        scheduler,
        places,
        ends=lambda trial: trial.iteration >= 9 or (trial.name == "00003" and trial.spent >= 4),
        fails=lambda trial: trial.name == "00005" and trial.spent >= 3,
    ).trials
    assert trials["00005"].reason == "failed"
    assert all(trial.iteration == 9 for name, trial in trials.items() if name not in ("00003", "00005"))
    assert scheduler.members == {}


def simulate(scheduler: PBT, places: int, seed: int = 0, **about: Any) -> Simulation:
    """Eight trials on a task whose score grows with lr, and differ in how long their iterations take."""
    rng = np.random.default_rng(seed)
    suggestions = [{"algorithm.lr": 10.0**-exponent} for exponent in np.linspace(1.2, 3.8, 8)]
    hurry = {round(math.log(params["algorithm.lr"]), 9): rng.uniform(0.1, 3.0) for params in suggestions}
    about.setdefault("ends", lambda trial: trial.iteration >= 9)
    duration = lambda params: hurry.get(round(math.log(params["algorithm.lr"]), 9), rng.uniform(0.1, 3.0))  # noqa: E731
    learn = on_curve(lambda params, age: age * params["algorithm.lr"])
    return Simulation(scheduler, suggestions, learn, places=places, duration=duration, **about).run()


def test_the_same_seed_gives_the_same_population_whatever_the_timing_and_the_places() -> None:
    def outcome(places: int, seed: int, **settings: Any) -> dict[str, Any]:
        trials = simulate(pbt(quantile=0.4, **settings), places, seed).trials
        return {name: (trial.params, trial.parents, trial.reports) for name, trial in sorted(trials.items())}

    first = outcome(8, 0)
    assert any(parents for _, parents, _ in first.values())
    assert all(outcome(places, seed) == first for places, seed in ((8, 1), (3, 2), (1, 3), (8, 4)))
    assert outcome(8, 0, synchronous=False) != outcome(8, 1, synchronous=False)  # which is why it is not the default


@pytest.mark.regression("wrong result", "Members that are added to a population when it is resumed wait for each other")
def test_members_that_come_when_more_samples_are_wanted_wait_for_each_other() -> None:
    scheduler = pbt()
    scheduler.add("a", {"algorithm.lr": 1e-3})
    scheduler.on_result("a", 2.0, 1.0)
    scheduler.drained(["a"])
    scheduler.on_end("a")
    for name in "bc":
        scheduler.add(name, {"algorithm.lr": 1e-2})
        assert scheduler.on_result(name, 2.0, float(name == "c")) == {name: Action.PAUSE}
    assert isinstance(scheduler.drained(["b", "c"])["b"], Exploit)


@pytest.mark.parametrize("synchronous", [True, False])
def test_told_the_same_again_it_answers_the_same(synchronous: bool) -> None:
    simulation = simulate(pbt(quantile=0.4, synchronous=synchronous), 8)
    replay(simulation, pbt(quantile=0.4, synchronous=synchronous))


# --- without waiting ------------------------------------------------------------------------------------------------


def test_without_waiting_each_is_compared_with_the_last_scores_of_those_that_have_arrived() -> None:
    scheduler = four(synchronous=False, quantile=0.5)
    assert scheduler.on_result("a", 2.0, 1.0) == {}  # alone
    assert scheduler.on_result("d", 2.0, 4.0) == {}  # better than a, who is on its way
    actions = scheduler.on_result("b", 2.0, 2.0)  # one of three: a is the worst
    assert actions == {}
    assert scheduler.on_result("a", 4.0, 1.5) == {"a": Exploit("d", {"algorithm.lr": pytest.approx(4.8e-3)})}
    assert scheduler.milestone("a") == 4.0  # it resumes from d's checkpoint, of age 2


def test_without_waiting_nobody_pauses() -> None:
    calls = simulate(pbt(quantile=0.4, synchronous=False), 8).calls
    given = [action for _, _, actions in calls for action in (actions or {}).values()]
    assert any(isinstance(action, Exploit) for action in given)
    assert Action.PAUSE not in given


def grow(state: list[float], params: Mapping[str, Any], age: float) -> float:
    """A trial grows by its rate in every iteration; what it has grown to is its score and its state."""
    state[0] += params["rate"]
    return state[0]


RATES = {"rate": tune.uniform(0, 10)}


def growing(places: int, rates: Sequence[float], fails: int = 0, **settings: Any) -> Simulation:
    """Members with these rates, twelve iterations each, those of a donor included; a clone has its donor's rate.

    The first member fails in its iteration `fails`.
    """
    scheduler = pbt(RATES, resample=0.0, factors=(1.0,), synchronous=False, quantile=0.5, **settings)
    start, given = (lambda params: [0.0]), [{"rate": rate} for rate in rates]
    return Simulation(
        scheduler,
        given,
        grow,
        places=places,
        start=start,
        ends=lambda trial: trial.iteration >= 12,
        fails=lambda trial: (trial.name, trial.spent) == ("00000", fails),
    )


@pytest.mark.regression(
    "wrong result", "With fewer workers than trials, members of a population that does not wait yield to each other"
)
@pytest.mark.parametrize("places", [1, 2, 3])
@pytest.mark.parametrize("fails", [0, 5, 9])
def test_with_few_places_the_worst_of_a_known_population_are_replaced_and_the_best_is_kept(
    places: int, fails: int
) -> None:
    for others in itertools.permutations((5.0, 6.0, 7.0, 8.0)):
        rates = (3.0, *others)
        simulation = growing(places, rates, fails).run()
        clones = [rates[int(name)] for name, trial in simulation.trials.items() if trial.parents]
        assert 8.0 not in clones, "whose score is the highest of its age at every age"
        assert 5.0 in clones, "whose score is low"
        assert simulation.best().score == 96.0


@pytest.mark.regression(
    "wrong result", "With fewer workers than trials, members of a population that does not wait yield to each other"
)
@pytest.mark.parametrize("places", [1, 2, 3])
def test_with_few_places_nobody_is_compared_with_one_that_is_two_intervals_older(places: int) -> None:
    simulation = growing(places, (3.0, 1.0, 2.0, 5.0, 4.0))
    run, ages = simulation.ask, dict[str, float]()

    def watched(method: str, *arguments: Any) -> Any:
        if method == "on_result":
            ages[arguments[0]] = arguments[1]
            arrived = [age for name, age in ages.items() if not simulation.trials[name].status.is_over]
            assert max(arrived) - min(arrived) <= 2 * 2.0, ages
        return run(method, *arguments)

    simulation.ask = watched  # type: ignore[method-assign]
    simulation.run()


def test_with_a_place_for_each_nobody_yields() -> None:
    """Each begins once, and anew when it becomes a clone: as often as it waits for a place."""
    simulation, waits = growing(4, (1.0, 2.0, 4.0, 8.0)), []
    wait = simulation.wait_for_a_place
    simulation.wait_for_a_place = lambda trial: (waits.append(trial.name), wait(trial))  # type: ignore
    simulation.run()
    assert len(waits) == sum(len(trial.parents) for trial in simulation.trials.values()) > 0


# --- parameters of the clone ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("domain", "value", "factor", "expected"),
    [
        (tune.uniform(0, 1), 0.5, 1.2, 0.6),
        (tune.uniform(0, 1), 0.9, 1.2, 1.0),  # clipped
        (tune.loguniform(1e-4, 1e-2), 1.1e-4, 0.8, 1e-4),
        (tune.quniform(0, 1, 0.1), 0.5, 0.8, 0.4),
        (tune.quniform(0, 1, 0.1), 0.2, 1.2, 0.3),  # 0.24 would be rounded to 0.2
        (tune.randint(1, 100), 50, 1.2, 60),
        (tune.randint(1, 100), 2, 1.2, 3),  # 2.4 would be rounded to 2
        (tune.randint(1, 100), 1, 0.8, 1),
        (tune.randint(-9, 10), 0, 1.2, 1),
        (tune.randint(-9, 10), -5, 1.2, -6),
        (tune.qrandint(32, 256, 32), 64, 0.8, 32),
        (tune.randn(0, 1), 2.0, 0.8, 1.6),
        (tune.uniform(0, 1), 0.5, 1.0, 0.5),
    ],
)
def test_a_number_is_multiplied_within_its_domain_and_moves_by_a_step_at_least(
    domain: Any, value: float, factor: float, expected: float
) -> None:
    found = perturbed(domain, value, (factor,), np.random.default_rng(0))
    assert found == pytest.approx(expected, rel=1e-12)
    assert type(found) is type(expected)


def test_of_a_list_the_value_before_or_behind_is_taken() -> None:
    rng = np.random.default_rng(0)
    for domain in (tune.choice([[64], [64, 64], [128]]), tune.grid_search([[64], [64, 64], [128]])):
        middle = [perturbed(domain, [64, 64], (1.2,), rng) for _ in range(50)]
        end = [perturbed(domain, [128], (1.2,), rng) for _ in range(50)]
        assert {str(value) for value in middle} == {"[64]", "[128]"}
        assert {str(value) for value in end} == {"[64, 64]", "[128]"}


def test_each_factor_is_as_likely_as_the_others() -> None:
    rng = np.random.default_rng(0)
    found = [perturbed(tune.uniform(0, 1), 0.5, (1.2, 0.8), rng) for _ in range(1000)]
    assert sum(value > 0.5 for value in found) == pytest.approx(500, abs=50)


def test_a_parameter_is_drawn_anew_as_often_as_asked() -> None:
    def news(resample: float) -> float:
        scheduler = pbt(resample=resample)
        scheduler.add("donor", {"algorithm.lr": 1e-2})
        found = [scheduler.explore("donor", [], np.random.default_rng(i))["algorithm.lr"] for i in range(400)]
        return (
            sum(value not in (1e-2 * 1.2, 1e-2 * 0.8) and not math.isclose(value, 1e-2 * 1.2) for value in found) / 400
        )

    assert news(1.0) == 1.0
    assert news(0.25) == pytest.approx(0.25, abs=0.07)
    assert news(0.0) == 0.0


def test_what_cannot_change_in_a_training_a_clone_has_from_its_donor() -> None:
    space = {
        **LR,
        "algorithm.model.hidden": replace(tune.choice([[32], [64], [128]]), fixed=True),
        "sampling.num_envs": replace(tune.grid_search([4, 8]), fixed=True),
        "algorithm.gamma": tune.uniform(0.9, 1.0),
    }
    scheduler = pbt(space, resample=1.0, mutations=["algorithm.lr"])
    assert list(pbt(space).mutations) == ["algorithm.lr", "algorithm.gamma"]
    for name, hidden, num_envs in (("a", [32], 4), ("b", [128], 8)):
        params = {"algorithm.lr": 1e-3, "algorithm.gamma": 0.95 + num_envs / 1000}
        scheduler.add(name, {**params, "algorithm.model.hidden": hidden, "sampling.num_envs": num_envs})
    scheduler.on_result("a", 2.0, 0.0)
    scheduler.on_result("b", 2.0, 1.0)
    exploit = scheduler.drained(["a", "b"])["a"]
    assert isinstance(exploit, Exploit)
    donor = scheduler.members["b"].params
    assert {path for path, value in exploit.params.items() if value != donor[path]} == {"algorithm.lr"}


def test_a_clone_may_draw_from_other_domains_than_the_search() -> None:
    for given in ([0.5, 0.6], (0.5, 0.6), {"uniform": [0.5, 0.6]}, tune.uniform(0.5, 0.6)):
        scheduler = pbt(mutations={"algorithm.lr": given})
        scheduler.add("a", {"algorithm.lr": 1e-3})  # not in its list, so it is drawn anew
        assert 0.5 <= scheduler.explore("a", [], np.random.default_rng(0))["algorithm.lr"] <= 0.6


def test_a_function_of_ones_own_has_the_last_word() -> None:
    scheduler = four(explore=lambda params: {path: 2 * value for path, value in params.items()})
    assert scheduler.explore("a", [], np.random.default_rng(0)) == {"algorithm.lr": pytest.approx(2.4e-3)}
    scheduler = four(explore=lambda params: {"lr": 1.0})
    with pytest.raises(ConfigError, match=r"scheduler\.explore .*value for each of algorithm\.lr, but returned lr"):
        scheduler.explore("a", [], np.random.default_rng(0))


# --- bad settings ---------------------------------------------------------------------------------------------------


def test_a_path_that_cannot_change_is_refused_with_the_way_out() -> None:
    path = "algorithm.model.hidden"
    space = {**LR, path: replace(tune.choice([1, 2]), fixed=True)}
    told = rf"{path} cannot change in a running training.*stays in the space.*donor's value; .*algorithm\.lr"
    for mutations in ([path], {path: [3, 4]}):
        with pytest.raises(ConfigError, match=told):
            pbt(space, mutations=mutations)
    assert list(pbt(space).mutations) == ["algorithm.lr"]


def test_all_mistakes_are_told_at_once_with_hints() -> None:
    space = {**LR, "x": tune.sample_from(lambda config: 1)}
    with pytest.raises(ConfigError) as error:
        pbt(space, mutations=["algorithm.rl", "x", "nothing.like.it"])
    first, second, third = error.value.problems
    assert "did you mean 'algorithm.lr'" in first
    assert "x cannot change" in second
    assert "these have one: algorithm.lr, x" in third


def test_a_space_in_which_nothing_can_change_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"no parameter .* can change .*\(env\.name\); give one"):
        pbt({"env.name": replace(tune.choice(["a", "b"]), fixed=True)})
    with pytest.raises(ConfigError, match="it is empty"):
        pbt({})


def test_settings_are_checked() -> None:
    with pytest.raises(ConfigError) as error:
        PBTConfig(quantile=0.7, factors=(), interval=0.0)
    assert len(error.value.problems) == 3
    with pytest.raises(ConfigError, match=r"algorithm\.lr = 3: must be a list of values or a domain"):
        pbt(mutations={"algorithm.lr": 3})
    with pytest.raises(ConfigError, match="did you mean 'uniform'"):
        pbt(mutations={"algorithm.lr": {"unifrm": [0, 1]}})


def test_a_file_can_say_all_of_it() -> None:
    asked = {"name": "pbt", "interval": 5, "mutations": {"algorithm.lr": {"loguniform": [1e-5, 1.0]}}}
    cfg = resolve(TuneConfig, [Layer("file", {"scheduler": asked})], SEARCHES | SCHEDULERS).config.scheduler
    assert PBT(cfg, LR, Streams(0)).mutations == {"algorithm.lr": tune.loguniform(1e-5, 1.0)}


# --- it works -------------------------------------------------------------------------------------------------------

SURROGATE = {"h0": tune.uniform(0, 1), "h1": tune.uniform(0, 1)}


def surrogate(theta: np.ndarray, params: Mapping[str, float], age: float) -> float:
    """A step of gradient ascent on ``1.2 - h0 theta0^2 - h1 theta1^2``; the score is the same with h = (1, 1)."""
    theta -= 0.01 * 2 * np.array([params["h0"], params["h1"]]) * theta
    return 1.2 - float((theta**2).sum())


class WithoutCopies(Simulation):
    """A clone gets new parameters, but keeps its own weights."""

    def adopt(self, clone: Simulated, action: Exploit) -> None:
        own = clone.state
        super().adopt(clone, action)
        clone.state = own


def regret(kind: type[Simulation], scheduler: Any) -> float:
    """Returns the distance of the better of two workers from 1.2 after 150 steps; each begins blind to one weight."""
    blind = [{"h0": 1.0, "h1": 0.0}, {"h0": 0.0, "h1": 1.0}]
    begin, ends = (lambda params: np.array([0.9, 0.9])), (lambda trial: trial.iteration >= 150)
    return 1.2 - kind(scheduler, blind, surrogate, places=2, start=begin, ends=ends).run().best().score


def test_exploit_and_explore_together_reach_the_optimum_that_neither_reaches_alone() -> None:
    """The task of Jaderberg et al. 2017, figure 2."""

    def median_regret(kind: type[Simulation], **settings: Any) -> float:
        settings = {"quantile": 0.5, **settings}
        return median(regret(kind, pbt(SURROGATE, seed, **settings)) for seed in range(15))

    both = median_regret(Simulation)
    assert both < 0.01
    assert median_regret(WithoutCopies) > 2 * both
    assert median_regret(Simulation, resample=0.0, factors=(1.0,)) == pytest.approx(0.81, abs=0.01)
    assert median_regret(Simulation, quantile=0.0) == pytest.approx(0.81, abs=0.01)
    assert regret(Simulation, FIFO(FIFOConfig(), {}, Streams(0))) == pytest.approx(0.81, abs=0.01)


def test_a_population_finds_the_best_constant_within_the_expected_budget() -> None:
    """Sixteen members, ten intervals. A random choice is within a tenth of the range of the optimum in one of five
    cases; after ten selections of the best quarter the median member must be.
    """

    def curve(params: Mapping[str, float], age: float) -> float:
        return -abs(math.log10(params["algorithm.lr"]) + 2.5)

    def distance(scheduler: Any, seed: int) -> float:
        draw = [LR["algorithm.lr"].draw(Streams(seed).generator(Role.TUNE, "search", i)) for i in range(16)]
        suggestions = [{"algorithm.lr": value} for value in draw]
        run = Simulation(scheduler, suggestions, on_curve(curve), ends=lambda trial: trial.iteration >= 21).run()
        return -median(trial.score for trial in run.trials.values())

    found = [distance(pbt(seed=seed), seed) for seed in range(9)]
    control = [distance(FIFO(FIFOConfig(), {}, Streams(0)), seed) for seed in range(9)]
    assert median(found) < 0.15 < 0.5 < median(control)
