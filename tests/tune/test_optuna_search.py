"""Search by Optuna: values of the space, the same again, several at once, failures, several metrics."""

from __future__ import annotations

import sys
import warnings

import pytest

from rookery import ConfigError, tune
from rookery.core.seeding import Streams
from rookery.tune.optuna_search import OptunaConfig
from rookery.tune.search import RandomConfig, Suggestions

pytest.importorskip("optuna")

SPACE = {
    "lr": tune.loguniform(1e-5, 1e-1),
    "x": tune.uniform(-1, 1),
    "q": tune.quniform(0, 1, 0.1),
    "lq": tune.qloguniform(0.5, 8, 0.5),
    "n": tune.randint(1, 20),
    "nq": tune.qrandint(0, 12, 3),
    "ln": tune.lograndint(1, 1000),
    "lnq": tune.qlograndint(4, 64, 4),
    "z": tune.randn(1, 2),
    "zq": tune.qrandn(0, 1, 0.5),
    "shape": tune.choice([(64, 64), (128,), None]),
    "size": tune.choice([16, 32, 64]),
    "one": tune.choice(["only"]),
}
NUMBERS = {"lr": tune.loguniform(1e-5, 1e-1), "x": tune.uniform(-1, 1), "n": tune.randint(0, 9)}
NEEDS = {"gp": "scipy", "qmc": "scipy", "cmaes": "cmaes"}
SAMPLERS = ["tpe", "gp", "cmaes", "qmc", "nsga2", "random"]


def suggestions(cfg, space, num_samples, points=(), modes=("max",), seed=0):
    if cfg.sampler in NEEDS:
        pytest.importorskip(NEEDS[cfg.sampler])
    return Suggestions(cfg, space, modes, num_samples, points, Streams(seed))


def score(params):
    return -((params["x"] - 0.3) ** 2) - (params["n"] - 3) ** 2 / 50


def played(asked, open_at_once=3):
    """Returns suggestions when several trials run at the same time, end in another order, and each fifth fails."""
    found, waiting, number = [], [], 0
    while waiting or (number is not None):
        while number is not None and len(waiting) < open_at_once:
            params = asked.ask(number)
            if params is None:
                number = None
            else:
                found.append(params)
                waiting.append((number, params))
                number += 1
        if waiting:
            done, params = waiting.pop(len(found) % len(waiting))
            asked.tell(done, None if done % 5 == 4 else [score(params)])
    return found


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_suggestions_lie_in_the_space(sampler):
    found = played(suggestions(OptunaConfig(sampler=sampler, startup=4), SPACE, 6 if sampler == "gp" else 16))
    for params in found:
        assert list(params) == list(SPACE)
        assert {path: value for path, value in params.items() if not SPACE[path].contains(value)} == {}
        assert params["shape"] in [(64, 64), (128,), None]
        assert type(params["n"]) is int


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_the_same_calls_give_the_same_suggestions_bit_for_bit(sampler):
    # What a runner does after a kill; other numbers must lead elsewhere.
    cfg = OptunaConfig(sampler=sampler, startup=3)
    count = 9 if sampler != "gp" else 6  # whose suggestions take long
    first = played(suggestions(cfg, NUMBERS, count))
    assert played(suggestions(cfg, NUMBERS, count)) == first
    assert played(suggestions(cfg, NUMBERS, count, seed=1)) != first


@pytest.mark.parametrize(("sampler", "count"), [("tpe", 6), ("gp", 4), ("cmaes", 12)])  # a generation of cmaes is 7
def test_what_is_told_decides_what_comes_next(sampler, count):
    found = []
    for sign in (1, -1):
        asked = suggestions(OptunaConfig(sampler=sampler, startup=3), NUMBERS, 20)
        for number in range(count):
            params = asked.ask(number)
            asked.tell(number, [sign * score(params)])
        found.append(asked.ask(count))
    assert found[0] != found[1]


def test_modes_say_whether_more_is_better():
    found = []
    for mode, sign in (("max", 1), ("min", -1)):
        asked = suggestions(OptunaConfig(), NUMBERS, 12, modes=(mode,))
        for number in range(12):
            params = asked.ask(number)
            asked.tell(number, [sign * score(params)])
            found.append(params)
    assert found[:12] == found[12:]


def test_tpe_finds_more_than_random_search_with_as_many_trials():
    def best(cfg, seed):
        asked = Suggestions(cfg, NUMBERS, ["max"], 30, (), Streams(seed))
        scores = []
        for number in range(30):
            params = asked.ask(number)
            scores.append(score(params))
            asked.tell(number, [scores[-1]])
        return max(scores)

    seeds = range(8)
    tpe, random = (sum(best(cfg, seed) for seed in seeds) / 8 for cfg in (OptunaConfig(), RandomConfig()))
    assert tpe > random / 2  # both are below 0


def test_open_suggestions_are_not_made_twice():
    # The constant liar: tpe takes open ones for bad ones, so six at once differ.
    asked = suggestions(OptunaConfig(startup=4), {"n": tune.randint(0, 100)}, 20)
    for number in range(10):
        asked.tell(number, [-abs(asked.ask(number)["n"] - 50)])
    assert len({asked.ask(number)["n"] for number in range(10, 16)}) >= 4


def test_points_are_learned_from():
    point = {"x": 0.3, "n": 3}
    asked = suggestions(OptunaConfig(startup=3), SPACE, 5, points=(point,))
    first = asked.ask(0)
    assert first == first | point
    asked.tell(0, [1.0])
    study = asked.search.study
    assert study.best_value == 1.0
    assert study.best_params["x"] == 0.3
    assert asked.ask(1)["x"] != 0.3


def test_a_point_is_the_value_that_was_asked_for_in_every_kind_of_domain():
    point = {
        "lr": 1e-3, "x": 0.25, "q": 0.3, "lq": 2.5, "n": 19, "nq": 9, "ln": 7, "lnq": 12, "z": 2.5, "zq": -0.5,
        "shape": (128,), "size": 32, "one": "only",
    }  # fmt: skip
    asked = suggestions(OptunaConfig(), SPACE, 2, points=(point,))
    assert asked.ask(0) == point
    axes, trial = asked.search.axes, asked.search.trials[0]
    for path, axis in axes.items():
        value = axis.value(trial.params[path])
        assert value == (pytest.approx(point[path]) if path == "z" else point[path])  # z went through its distribution


def test_failures_are_no_results():
    asked = suggestions(OptunaConfig(), NUMBERS, 4)
    for number, values in enumerate([None, [float("nan")], [1.0]]):
        asked.ask(number)
        asked.tell(number, values)
    assert [trial.state.name for trial in asked.search.study.trials] == ["FAIL", "FAIL", "COMPLETE"]


@pytest.mark.parametrize("sampler", ["tpe", "gp", "nsga2"])
def test_several_metrics_are_searched_at_once(sampler):
    count = 8 if sampler != "gp" else 5
    asked = suggestions(OptunaConfig(sampler=sampler, startup=3), NUMBERS, count, modes=("max", "min"))
    for number in range(count):
        params = asked.ask(number)
        asked.tell(number, [params["x"], params["lr"]])
    front = {(trial.values[0], trial.values[1]) for trial in asked.search.study.best_trials}
    assert front
    assert asked.search.study.directions[0].name == "MAXIMIZE"
    assert asked.search.study.directions[1].name == "MINIMIZE"


@pytest.mark.parametrize(
    ("cfg", "space", "modes", "says"),
    [
        (OptunaConfig(), {"a": tune.grid_search([1, 2])}, ("max",),
         "search optuna does not support grids; write choice, or search: {name: random}"),
        (OptunaConfig(sampler="cmaes"), NUMBERS, ("max", "min"), "search.sampler = 'cmaes' supports one metric, not 2"),
    ],
)  # fmt: skip
def test_what_optuna_cannot_do_is_refused(cfg, space, modes, says):
    with pytest.raises(ConfigError) as error:
        suggestions(cfg, space, 4, modes=modes)
    assert says in str(error.value)


def test_without_optuna_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ConfigError, match=r"search optuna needs optuna.*pip install 'rookery-rl\[tune\]'"):
        suggestions(OptunaConfig(), NUMBERS, 4)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_optuna_says_nothing(sampler, capfd):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        played(suggestions(OptunaConfig(sampler=sampler, startup=2), SPACE, 4))
    assert capfd.readouterr() == ("", "")
