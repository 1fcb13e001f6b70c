"""Random and grid search, the user's points, other people's searches, and parameters that functions compute."""

from __future__ import annotations

import pytest

from messages import check_error
from rookery import ConfigError, tune
from rookery.core.config import resolve
from rookery.core.seeding import Streams
from rookery.core.settings.layers import Layer
from rookery.tune.names import SEARCHES
from rookery.tune.search import RandomConfig, Suggestions
from rookery.tune.settings import TuneConfig

SPACE = {"algorithm.lr": tune.loguniform(1e-4, 1e-2), "size": tune.choice([[64, 64], [128, 128]])}


def suggestions(space, num_samples, points=(), search=None, config=None, seed=0):
    cfg = TuneConfig(num_samples=num_samples, points=points)
    return Suggestions(search or RandomConfig(), space, ["max"], cfg.num_samples, cfg.points, Streams(seed), config)


def everything(asked):
    """All that is suggested, until there is no more."""
    found = []
    while (params := asked.ask(len(found))) is not None:
        found.append(params)
    return found


class Scripted:
    """A search that is none of ours: gives what it was made with, and records its scores."""

    def __init__(self, *script):
        self.script = script
        self.told = []

    def ask(self, number):
        return self.script[number] if number < len(self.script) else None

    def tell(self, number, values):
        self.told.append((number, values))


# --- random and grid ------------------------------------------------------------------------------------------------


def test_num_samples_suggestions_come_and_no_more():
    assert len(everything(suggestions(SPACE, 7))) == 7
    assert len(everything(suggestions({}, 3))) == 3


def test_a_suggestion_depends_on_the_seed_and_its_number_only():
    first = everything(suggestions(SPACE, 6))
    again = suggestions(SPACE, 6)
    assert [again.ask(number) for number in reversed(range(6))] == first[::-1]
    assert everything(suggestions(SPACE, 3)) == first[:3]
    assert everything(suggestions(SPACE, 6, seed=1)) != first


def test_the_whole_grid_is_tried_num_samples_times_with_new_draws():
    space = {"a": tune.grid_search([1, 2]), "x": tune.uniform(0, 1), "b": tune.grid_search("pq".split() + ["r"])}
    found = everything(suggestions(space, 2))
    assert [(params["a"], params["b"]) for params in found] == 2 * [(a, b) for a in (1, 2) for b in ("pq", "r")]
    assert len({params["x"] for params in found}) == 8
    assert [list(params) for params in found] == [["a", "x", "b"]] * 8


# --- points ---------------------------------------------------------------------------------------------------------


def test_points_come_first_and_what_they_leave_out_is_drawn():
    plain = everything(suggestions(SPACE, 4))
    found = everything(suggestions(SPACE, 4, points=({"algorithm.lr": 1e-3}, {"size": (128, 128)})))
    assert found[0] == plain[0] | {"algorithm.lr": 1e-3}
    assert found[1] == plain[1] | {"size": [128, 128]}
    assert found[2:] == plain[2:]


def test_all_points_are_tried_even_if_there_are_more_than_samples():
    found = everything(suggestions(SPACE, 1, points=tuple({"algorithm.lr": lr} for lr in (1e-4, 1e-3, 1e-2))))
    assert [params["algorithm.lr"] for params in found] == [1e-4, 1e-3, 1e-2]


def test_a_point_is_tried_with_every_combination_of_the_grids_it_leaves_out():
    space = {"a": tune.grid_search([1, 2]), "x": tune.uniform(0, 1), "b": tune.grid_search([True, False])}
    plain = everything(suggestions(space, 3))
    found = everything(suggestions(space, 3, points=({"x": 0.5}, {"a": 2})))
    assert [(p["a"], p["x"], p["b"]) for p in found[:4]] == [(a, 0.5, b) for a in (1, 2) for b in (True, False)]
    assert found[4:6] == plain[6:8]  # of the second sample only those with a = 2
    assert found[6:] == plain[8:]


# --- functions ------------------------------------------------------------------------------------------------------


def test_functions_see_the_settings_and_what_was_chosen_before():
    config = {"algorithm": {"lr": tune.uniform(0, 1), "gamma": 0.9}, "half": tune.sample_from(lambda c: c["twice"] / 4)}
    space = {
        "half": tune.sample_from(lambda c: c["algorithm"]["lr"] / 2),
        "algorithm.lr": tune.uniform(0, 1),
        "next": tune.sample_from(lambda c: (c["half"], c["algorithm"]["gamma"])),
    }
    (params,) = everything(suggestions(space, 1, config=config))
    assert list(params) == ["half", "algorithm.lr", "next"]
    assert params["half"] == params["algorithm.lr"] / 2
    assert params["next"] == (params["half"], 0.9)


def test_functions_see_the_parameters_where_there_is_nothing_else():
    space = {"net.size": tune.randint(1, 9), "double": tune.sample_from(lambda c: 2 * c["net"]["size"])}
    assert all(params["double"] == 2 * params["net.size"] for params in everything(suggestions(space, 5)))


def test_functions_have_random_numbers_of_their_own():
    space = {
        "x": tune.sample_from(lambda config, rng: rng.random()),
        "y": tune.sample_from(lambda c, rng: rng.random()),
    }
    found = everything(suggestions(space, 5))
    assert found == everything(suggestions(space, 5))
    assert len({value for params in found for value in params.values()}) == 10


def test_a_point_may_give_what_a_function_would_compute():
    space = {"x": tune.uniform(0, 1), "y": tune.sample_from(lambda c: c["x"])}
    found = everything(suggestions(space, 2, points=({"y": "given"},)))
    assert found[0]["y"] == "given"
    assert found[1]["y"] == found[1]["x"]


def test_a_function_that_raises_is_found_before_anything_is_tried():
    space = {"x": tune.uniform(0, 1), "y": tune.sample_from(lambda config: config["xx"])}
    with pytest.raises(
        ConfigError, match=r"y = sample_from\(.*the function raised KeyError: 'xx'; its argument was {'x': 0"
    ):
        suggestions(space, 1)


# --- searches of others ---------------------------------------------------------------------------------------------


def test_any_object_that_asks_and_tells_is_a_search():
    search = Scripted({"algorithm.lr": 1e-3, "size": (64, 64)}, {"size": [128, 128], "algorithm.lr": 1e-4})
    asked = suggestions(SPACE, 9, search=search)
    assert everything(asked) == [
        {"algorithm.lr": 1e-3, "size": [64, 64]},
        {"algorithm.lr": 1e-4, "size": [128, 128]},
    ]
    asked.tell(1, [0.5])
    asked.tell(0, None)
    assert search.told == [(1, [0.5]), (0, None)]
    assert len(everything(suggestions(SPACE, 1, search=search))) == 1  # no more than num_samples


def test_a_search_of_others_starts_after_the_points_and_hears_nothing_of_them():
    search = Scripted(None, {"algorithm.lr": 1e-3, "size": [64, 64]}, {"algorithm.lr": 1e-4, "size": [64, 64]})
    asked = suggestions(SPACE, 3, points=({"algorithm.lr": 1e-2},), search=search)
    assert [params["algorithm.lr"] for params in everything(asked)] == [1e-2, 1e-3, 1e-4]
    asked.tell(0, [1.0])
    asked.tell(1, [2.0])
    assert search.told == [(1, [2.0])]


def test_a_search_of_others_may_choose_from_a_grid():
    space = {"a": tune.grid_search([1, 2, 3])}
    asked = suggestions(space, 3, points=({"a": 3},), search=Scripted(None, {"a": 2}, {"a": 2}))
    assert everything(asked) == [{"a": 3}, {"a": 2}, {"a": 2}]


class OnlyAsks:
    def ask(self, number):
        return None


class AsksForNothing(Scripted):
    def ask(self):
        return None


def test_random_is_the_search_where_none_is_named():
    cfg = resolve(TuneConfig, [Layer("file", {"num_samples": 3})], SEARCHES).config
    assert type(cfg.search) is RandomConfig
    assert type(TuneConfig().search) is RandomConfig


def pointed(point):
    return suggestions(SPACE, 1, points=(point,))


def asked(params):
    return suggestions(SPACE, 1, search=Scripted(params)).ask(0)


def searched(search):
    return suggestions(SPACE, 1, search=search)


BOTH = {"algorithm.lr": 1e-3, "size": [64, 64]}
MISTAKES = [
    (pointed, {"lr": 1e-3}, "points[0]: lr = 0.001: there is no such parameter; did you mean 'algorithm.lr'?"),
    (pointed, {"algorithm.lrr": 1e-3}, "did you mean 'algorithm.lr'?"),
    (pointed, {"algorithm.lr": 1.0}, "points[0]: algorithm.lr = 1.0: 1.0 is not in loguniform(0.0001, 0.01)"),
    (pointed, {"size": [64]}, "[64] is not one of the values of choice([[64, 64], [128, 128]])"),
    (asked, {"algorithm.lr": 1e-3}, "search = Scripted: suggestion 0: size is missing"),
    (asked, {**BOTH, "algorithm.lr": 1.0}, "1.0 is not in loguniform(0.0001, 0.01)"),
    (asked, {**BOTH, "sice": 1}, "there is no such parameter; did you mean 'size'?"),
    (asked, [1e-3], "suggestion 0 is [0.001]; ask must return parameters by path, or None"),
    (searched, OnlyAsks(), "this is not a search, an object with ask(number)"),
    (searched, AsksForNothing(), "this is not a search"),
    (searched, Scripted, "test_search:Scripted: this is not a search, an object"),
    (searched, 7, "search = 7: this is not a search"),
]


@pytest.mark.parametrize(("make", "given", "expected"), MISTAKES)
def test_points_suggestions_and_searches_that_do_not_fit_are_refused(make, given, expected):
    check_error(f"ConfigError: {expected}", make, given)
