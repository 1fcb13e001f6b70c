"""Population-based bandits: the Gaussian process, what is chosen by it, and that it follows a moving optimum."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from statistics import median
from typing import Any

import numpy as np
import pytest
from simulation import Simulation, replay

from rookery.core.errors import ConfigError
from rookery.core.seeding import Role, Streams
from rookery.tune import space as tune
from rookery.tune.scheduler import FIFO, Action, Exploit, FIFOConfig
from rookery.tune.schedulers.pb2 import PB2, GaussianProcess, Kernel, PB2Config, fit, maximize, share
from rookery.tune.schedulers.pbt import PBT, PBTConfig
from selection import slow_repeats

SPACE = {"algorithm.lr": tune.loguniform(1e-5, 1e-1), "algorithm.clip": tune.uniform(0, 1)}


def pb2(space: Mapping[str, Any] = SPACE, seed: int = 0, **settings: Any) -> PB2:
    return PB2(PB2Config(**{"interval": 10.0, **settings}), space, Streams(seed))


# --- the Gaussian process -------------------------------------------------------------------------------------------


def test_the_kernel_is_that_of_the_paper() -> None:
    kernel = Kernel(variance=3.0, length=0.5, forgetting=0.2, noise=0.0)
    # exp(-0.3^2 / (2 0.5^2)) (1 - 0.2)^(4 / 2)
    assert kernel.correlation(np.array(4.0), np.array(0.09)) == pytest.approx(math.exp(-0.18) * 0.64)
    assert kernel.correlation(np.array(0.0), np.array(0.0)) == 1.0


def test_the_posterior_of_one_observation_is_the_closed_form() -> None:
    kernel = Kernel(variance=2.0, length=1.0, forgetting=0.1, noise=0.5)
    process = GaussianProcess(kernel, np.array([0.0]), np.array([[0.0]]), np.array([1.5]))
    mean, std = process.predict(np.array([2.0]), np.array([[1.0]]))
    alike = 0.9 * math.exp(-0.5)  # time kernel (1 - 0.1)^(2 / 2), squared exponential at distance 1
    assert mean[0] == pytest.approx(alike * 1.5 / 1.5)  # k / (1 + noise) * target
    assert std[0] == pytest.approx(math.sqrt(2.0 * (1.0 - alike**2 / 1.5)))


def test_the_posterior_of_several_observations_is_the_closed_form() -> None:
    rng = np.random.default_rng(0)
    time, place, target = rng.uniform(0, 5, 12), rng.random((12, 3)), rng.standard_normal(12)
    kernel = Kernel(variance=1.7, length=0.4, forgetting=0.05, noise=0.1)
    at_time, at_place = rng.uniform(0, 5, 4), rng.random((4, 3))

    def k(t: Any, x: Any, u: Any, y: Any) -> Any:
        return np.array(
            [
                [math.exp(-((x[i] - y[j]) ** 2).sum() / 0.32) * 0.95 ** (abs(t[i] - u[j]) / 2) for j in range(len(u))]
                for i in range(len(t))
            ]
        )

    inverse = np.linalg.inv(k(time, place, time, place) + 0.1 * np.eye(12))
    across = k(time, place, at_time, at_place)
    mean, std = GaussianProcess(kernel, time, place, target).predict(at_time, at_place)
    np.testing.assert_allclose(mean, across.T @ inverse @ target, rtol=1e-9)
    np.testing.assert_allclose(std**2, 1.7 * (1 - np.diag(across.T @ inverse @ across)), rtol=1e-9)


def test_it_knows_what_it_saw_and_nothing_far_away_or_long_after() -> None:
    kernel = Kernel(variance=4.0, length=0.1, forgetting=0.3, noise=1e-6)
    time, place, target = np.zeros(3), np.array([[0.0], [0.5], [1.0]]), np.array([1.0, -2.0, 3.0])
    process = GaussianProcess(kernel, time, place, target)
    mean, std = process.predict(time, place)
    np.testing.assert_allclose(mean, target, rtol=1e-4)
    assert std.max() < 0.01
    for at in ((np.zeros(1), np.array([[9.0]])), (np.array([90.0]), np.array([[0.5]]))):
        mean, std = process.predict(*at)
        assert mean[0] == pytest.approx(0.0, abs=1e-5)
        assert std[0] == pytest.approx(2.0, rel=1e-5)


@pytest.mark.parametrize(("forgetting", "length"), slow_repeats(of=itertools.product([0.0, 0.2], [0.15, 0.5])))
def test_a_fit_recovers_what_functions_were_drawn_with(length: float, forgetting: float) -> None:
    true = Kernel(variance=1.0, length=length, forgetting=forgetting, noise=0.01)
    found = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        time, place = np.repeat(np.arange(10.0), 8), rng.random((80, 1))
        gap, squared = np.abs(time[:, None] - time), (place - place.T) ** 2
        target = np.linalg.cholesky(true.correlation(gap, squared) + 0.01 * np.eye(80)) @ rng.standard_normal(80)
        found.append(fit(time, place, target))
    assert median(kernel.length for kernel in found) == pytest.approx(length, rel=0.35)
    assert median(kernel.forgetting for kernel in found) == pytest.approx(forgetting, abs=0.1)
    assert 0.003 < median(kernel.noise * kernel.variance for kernel in found) < 0.03


def test_a_fit_of_what_never_changes_is_finite() -> None:
    kernel = fit(np.arange(5.0), np.full((5, 2), 0.5), np.zeros(5))
    mean, std = GaussianProcess(kernel, np.arange(5.0), np.full((5, 2), 0.5), np.zeros(5)).predict(
        np.zeros(1), np.zeros((1, 2))
    )
    assert np.isfinite([*mean, *std]).all()


# --- what is chosen -------------------------------------------------------------------------------------------------


def test_the_highest_point_of_a_smooth_function_is_found() -> None:
    peak = np.array([0.2, 0.9, 1.0])
    found = maximize(lambda points: -((points - peak) ** 2).sum(axis=1), 3, np.random.default_rng(0))
    np.testing.assert_allclose(found, peak, atol=0.02)


@pytest.mark.parametrize(
    "domain",
    [tune.uniform(-2, 3), tune.loguniform(1e-5, 1e-1), tune.quniform(0, 1, 0.1), tune.randint(1, 9)]
    + [tune.lograndint(1, 1000), tune.qrandint(32, 256, 32), tune.qloguniform(0.1, 10, 0.1)],
)
def test_a_share_of_a_range_is_what_its_value_is_made_of(domain: Any) -> None:
    for u in (0.01, 0.3, 0.5, 0.77, 0.99):
        value = domain.quantile(u)
        assert domain.quantile(share(domain, value)) == pytest.approx(value)
        assert 0.0 <= share(domain, value) <= 1.0
        if not domain.step:
            assert share(domain, value) == pytest.approx(u)


def population(scheduler: PB2, gains: Any, rounds: int) -> dict[str, Exploit]:
    """Eight members run some intervals in which their scores grow by ``gains(params, round)``: the last exploits."""
    rng = np.random.default_rng(3)
    names = [f"{i:05d}" for i in range(8)]
    for name in names:
        scheduler.add(name, {path: domain.quantile(rng.random()) for path, domain in scheduler.space.items()})
    scores = dict.fromkeys(names, 0.0)
    exploits: dict[str, Exploit] = {}
    for i in range(rounds):
        actions: dict[str, Any] = {}
        for name in names:
            scores[name] += gains(scheduler.members[name].params, i)
            actions |= scheduler.on_result(name, (i + 1) * 10.0, scores[name])
        actions = actions if i else scheduler.drained(names)
        exploits = {name: action for name, action in actions.items() if isinstance(action, Exploit)}
        for name, exploit in exploits.items():
            scores[name] = scores[exploit.donor]
    return exploits


def test_until_something_was_seen_the_choice_is_random_and_after_that_it_goes_where_most_is_gained() -> None:
    def gains(params: Mapping[str, Any], i: int) -> float:
        return 1.0 - abs(math.log10(params["algorithm.lr"]) + 2.0) - abs(params["algorithm.clip"] - 0.3)

    def misses(rounds: int) -> float:
        found = [
            1.0 - gains(exploit.params, 0)
            for seed in range(6)
            for exploit in population(pb2(seed=seed), gains, rounds).values()
        ]
        return median(found)

    assert misses(1) > 0.8
    assert misses(5) < 0.3


def test_a_gain_is_counted_from_the_score_that_was_taken_over() -> None:
    scheduler = pb2(quantile=0.5)
    for name in "ab":
        scheduler.add(name, {"algorithm.lr": 1e-3, "algorithm.clip": 0.5})
    scheduler.on_result("a", 10.0, 1.0)
    scheduler.on_result("b", 10.0, 5.0)
    exploit = scheduler.drained(["a", "b"])["a"]
    scheduler.on_result("a", 20.0, 8.0)
    scheduler.on_result("b", 25.0, 2.0)
    first, second = scheduler.intervals
    assert (first.trial, first.time, first.score, first.gain) == ("a", 10.0, 5.0, 3.0)  # from 5, not from 1
    assert isinstance(exploit, Exploit)
    assert first.params == exploit.params
    assert (second.trial, second.gain) == ("b", pytest.approx(-2.0))  # -3 in one and a half intervals


def test_clones_of_one_moment_do_not_all_choose_the_same() -> None:
    def gains(params: Mapping[str, Any], i: int) -> float:
        return math.sin(3 * params["algorithm.clip"]) + math.sin(1e4 * params["algorithm.clip"])  # as good as noise

    exploits = population(pb2(quantile=0.5), gains, 3)
    assert len(exploits) == 4
    chosen = np.array([[share(SPACE[path], e.params[path]) for path in SPACE] for e in exploits.values()])
    distances = np.linalg.norm(chosen[:, None] - chosen, axis=2)[np.triu_indices(4, 1)]
    assert distances.min() > 0.02


def test_points_that_others_go_on_with_are_avoided() -> None:
    scheduler = pb2({"x": tune.uniform(0, 1)})
    scheduler.add("a", {"x": 0.5})
    for time, score in ((10.0, 0.0), (20.0, 1.0), (30.0, 2.0), (40.0, 3.0)):  # x = 0.5 gains 1, again and again
        scheduler.on_result("a", time, score)
    alone = scheduler.best_point("a", [{"x": 0.5}], np.random.default_rng(0))
    crowded = [{"x": x} for x in np.linspace(float(alone[0]) - 0.1, float(alone[0]) + 0.1, 9).clip(0, 1)]
    other = scheduler.best_point("a", crowded, np.random.default_rng(0))
    assert abs(other[0] - alone[0]) > 0.2


def test_only_numbers_change_and_everything_else_comes_from_the_donor() -> None:
    space = {**SPACE, "algorithm.model.hidden": tune.choice([[32], [64]]), "algorithm.epochs": tune.randint(1, 9)}
    space |= {
        "algorithm.double": tune.choice([True, False]),
        "sampling.num_envs": replace(tune.qrandint(8, 64, 8), fixed=True),
    }
    scheduler = pb2(space, quantile=0.25)
    assert list(scheduler.axes) == ["algorithm.lr", "algorithm.clip", "algorithm.epochs"]
    exploits = population(scheduler, lambda params, i: params["algorithm.clip"], 4)
    for exploit in exploits.values():
        donor = scheduler.members[exploit.donor].params
        for path in set(space) - set(scheduler.axes):
            assert exploit.params[path] == donor[path]
        assert type(exploit.params["algorithm.epochs"]) is int
        assert all(space[path].contains(value) for path, value in exploit.params.items())


def test_choices_stay_within_the_bounds_asked_for() -> None:
    scheduler = pb2(bounds={"algorithm.lr": (1e-3, 2e-3)}, quantile=0.5)
    for rounds in (1, 5):
        for exploit in population(scheduler, lambda params, i: -math.log10(params["algorithm.lr"]), rounds).values():
            assert 1e-3 <= exploit.params["algorithm.lr"] <= 2e-3
            assert exploit.params["algorithm.clip"] == scheduler.members[exploit.donor].params["algorithm.clip"]


def test_the_order_of_arrival_does_not_matter() -> None:
    def run(order: list[int]) -> list[Any]:
        scheduler = pb2(quantile=0.4)
        for i in range(6):
            scheduler.add(str(i), {"algorithm.lr": 10.0 ** -(i + 1) if i < 4 else 1e-3, "algorithm.clip": i / 6})
        told: list[Any] = []
        for k in range(1, 5):
            for i in order:
                actions = scheduler.on_result(str(i), 10.0 * k, math.sin(7 * i + k) + k)
            told.append(scheduler.drained([str(i) for i in order]) if k == 1 else actions)
        return told

    first = run([0, 1, 2, 3, 4, 5])
    assert any(isinstance(action, Exploit) for action in first[-1].values())
    assert run([5, 3, 1, 0, 2, 4]) == first
    assert run([2, 0, 5, 4, 3, 1]) == first


# --- bad settings ---------------------------------------------------------------------------------------------------


def test_bounds_that_cannot_be_are_refused() -> None:
    space = {**SPACE, "algorithm.epochs": tune.qrandint(2, 8, 2), "algorithm.double": tune.choice([True, False])}
    for bounds, told in (
        ({"algorithm.lr": (0.0, 1.0)}, r"algorithm\.lr = \[0, 1\]: loguniform: low must be above 0"),
        ({"algorithm.clip": (0.5, 0.5)}, r"algorithm\.clip = \[0\.5, 0\.5\]: uniform: low must be below high"),
        ({"algorithm.epochs": (2, 7)}, r"algorithm\.epochs = \[2, 7\]: qrandint: high must be .*; write 6 or 8"),
        ({"algorithm.double": (0, 1)}, r"scheduler\.bounds: algorithm\.double cannot change"),
        ({"algorithm.clap": (0, 1)}, r"did you mean 'algorithm\.clip'"),
        ({"algorithm.model.hidden": (0, 1)}, r"algorithm\.model\.hidden has no domain"),
    ):
        with pytest.raises(ConfigError, match=told):
            pb2(space, bounds=bounds)
    with pytest.raises(ConfigError, match="no parameter of the space can change"):
        pb2({"algorithm.double": tune.choice([True, False])})


# --- it works -------------------------------------------------------------------------------------------------------

STEPS = 120


def moving(state: list[float], params: Mapping[str, float], age: float) -> float:
    """An iteration brings most, 1, where the optimum is now; in a trial's life it moves through most of the space."""
    done = age / STEPS
    lr, clip = share(SPACE["algorithm.lr"], params["algorithm.lr"]), params["algorithm.clip"]
    miss = (lr - (0.9 - 0.8 * done)) ** 2 + (clip - (0.2 + 0.6 * done)) ** 2
    state[0] += math.exp(-miss / (2 * 0.15**2))
    return state[0]


SCHEDULERS = {
    "pb2": lambda streams: PB2(PB2Config(interval=10.0), SPACE, streams),
    "pbt": lambda streams: PBT(PBTConfig(interval=10.0), SPACE, streams),
    "random": lambda streams: PBT(PBTConfig(interval=10.0, resample=1.0), SPACE, streams),
    "fifo": lambda streams: FIFO(FIFOConfig(), SPACE, streams),
}


@cache
def simulate(kind: str, seed: int) -> Simulation:
    """Eight members on four places."""
    streams = Streams(seed)
    suggestions = [
        {path: domain.draw(streams.generator(Role.TUNE, "search", i, path)) for path, domain in SPACE.items()}
        for i in range(8)
    ]
    begin, ends = (lambda params: [0.0]), (lambda trial: trial.iteration >= STEPS)
    return Simulation(SCHEDULERS[kind](streams), suggestions, moving, start=begin, ends=ends).run()


def test_it_follows_a_moving_optimum_better_than_perturbing_drawing_or_staying_does() -> None:
    reached = {kind: median(simulate(kind, seed).best().score for seed in range(5)) / STEPS for kind in SCHEDULERS}
    assert reached["pb2"] > 0.7
    assert reached["pb2"] > max(reached["pbt"], reached["random"]) + 0.1
    assert min(reached["pbt"], reached["random"]) > reached["fifo"] + 0.1


def test_told_the_same_again_it_answers_the_same() -> None:
    simulation = simulate("pb2", 0)
    given = [action for _, _, actions in simulation.calls for action in (actions or {}).values()]
    assert sum(isinstance(action, Exploit) for action in given) > 10
    assert Action.PAUSE in given
    replay(simulation, pb2(seed=0))
