"""Domains, what is drawn from them, and where they stand among settings."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rookery import ConfigError, ModelConfig, PPOConfig, tune
from rookery.algorithms.names import ALGORITHMS
from rookery.core.config import resolve
from rookery.core.seeding import Streams
from rookery.core.settings.layers import Layer, override_layer, yaml_layer
from rookery.run.settings import RunConfig
from rookery.tune.space import Choices, Float, Grid, Integer, Normal, cell, drawn, grid_size, to_json
from rookery.tune.spec import chosen_values, domains_in, fill, merged_values, read_layer, split, split_layers

QUICK = settings(max_examples=60, deadline=None)
BOUND = st.floats(-1e6, 1e6, allow_nan=False)
ABOVE_0 = st.floats(1e-9, 1e6)
SHARE = st.floats(0, 1, exclude_max=True)


def sample(domain, count=2000, seed=0):
    rng = np.random.default_rng(seed)
    return [domain.draw(rng) for _ in range(count)]


def distance(values, cdf):
    """Kolmogorov and Smirnov's statistic: how far the observed distribution lies from `cdf`, at most."""
    expected = np.array([cdf(value) for value in sorted(values)])
    n = len(values)
    return max(np.max(expected - np.arange(n) / n), np.max(np.arange(1, n + 1) / n - expected))


CRITICAL = 1.63 / math.sqrt(2000)
"""What 2000 draws of the right distribution stay under in 99 of 100 cases."""


# --- distributions --------------------------------------------------------------------------------------------------


@QUICK
@given(BOUND, st.floats(1e-3, 1e6), SHARE)
def test_uniform_values_lie_within_their_bounds(low, width, u):
    domain = tune.uniform(low, low + width)
    assert low <= domain.quantile(u) <= low + width
    assert domain.contains(domain.quantile(u))


@QUICK
@given(ABOVE_0, st.floats(1.01, 1e6), SHARE)
def test_loguniform_values_lie_within_their_bounds(low, factor, u):
    assert low <= tune.loguniform(low, low * factor).quantile(u) <= low * factor


@QUICK
@given(st.integers(-50, 50), st.integers(1, 100), st.sampled_from([0.1, 0.25, 0.001, 3.0, 1e-5]), SHARE)
def test_quniform_values_are_multiples_of_q_as_one_writes_them(first, steps, q, u):
    domain = tune.quniform(first * q, (first + steps) * q, q)
    value = domain.quantile(u)
    assert domain.low <= value <= domain.high
    assert value == float(f"{value:.6g}")  # 0.3, and never 0.30000000000000004
    assert math.isclose(value / q, round(value / q), abs_tol=1e-6)


@QUICK
@given(st.integers(1, 50), st.integers(1, 100), st.sampled_from([0.1, 0.25, 7.0]), SHARE)
def test_qloguniform_values_are_multiples_of_q(first, steps, q, u):
    domain = tune.qloguniform(first * q, (first + steps) * q, q)
    assert domain.contains(domain.quantile(u))
    assert math.isclose(domain.quantile(u) / q, round(domain.quantile(u) / q), abs_tol=1e-6)


@QUICK
@given(st.integers(-(10**9), 10**9), st.integers(1, 10**9), SHARE)
def test_randint_leaves_its_upper_end_out(low, width, u):
    value = tune.randint(low, low + width).quantile(u)
    assert isinstance(value, int)
    assert low <= value < low + width


@QUICK
@given(st.integers(1, 10**6), st.integers(1, 10**6), SHARE)
def test_lograndint_leaves_its_upper_end_out(low, width, u):
    assert low <= tune.lograndint(low, low + width).quantile(u) < low + width


@QUICK
@given(st.integers(-20, 20), st.integers(1, 20), st.integers(1, 9), SHARE)
def test_qrandint_values_are_multiples_of_q(first, steps, q, u):
    domain = tune.qrandint(first * q, (first + steps) * q, q)
    assert domain.quantile(u) % q == 0
    assert domain.low <= domain.quantile(u) <= domain.high


def test_uniform_is_uniform():
    assert distance(sample(tune.uniform(2, 4)), lambda x: (x - 2) / 2) < CRITICAL


def test_loguniform_is_uniform_in_the_logarithm():
    values = sample(tune.loguniform(1e-4, 1e-2))
    assert distance(values, lambda x: math.log(x / 1e-4) / math.log(100)) < CRITICAL
    assert distance(values, lambda x: (x - 1e-4) / (1e-2 - 1e-4)) > 5 * CRITICAL  # what the test would notice


def test_randn_is_normal():
    values = sample(tune.randn(3, 2))
    assert distance(values, lambda x: 0.5 * (1 + math.erf((x - 3) / 2 / math.sqrt(2)))) < CRITICAL
    assert set(sample(tune.qrandn(0, 1, 0.5), 50)) <= {k / 2 for k in range(-10, 11)}


@pytest.mark.parametrize(
    ("domain", "expected"),
    [
        (tune.randint(0, 4), {0: 1 / 4, 1: 1 / 4, 2: 1 / 4, 3: 1 / 4}),
        (tune.qrandint(0, 20, 10), {0: 1 / 3, 10: 1 / 3, 20: 1 / 3}),
        (tune.quniform(0, 0.3, 0.1), {0.0: 1 / 4, 0.1: 1 / 4, 0.2: 1 / 4, 0.3: 1 / 4}),
        (tune.choice(["a", "b"]), {"a": 1 / 2, "b": 1 / 2}),
        # From 0.5 to 4.5 in the logarithm, k has log((k + 0.5) / (k - 0.5)) / log(9).
        (tune.lograndint(1, 5), {1: 0.5, 2: 0.2325, 3: 0.1531, 4: 0.1144}),
        (tune.qlograndint(2, 4, 2), {2: math.log(3) / math.log(5), 4: math.log(5 / 3) / math.log(5)}),
        (tune.qloguniform(0.5, 1, 0.5), {0.5: math.log(3) / math.log(5), 1.0: math.log(5 / 3) / math.log(5)}),
    ],
    ids=str,
)
def test_every_value_has_its_share_the_ends_too(domain, expected):
    counts = Counter(sample(domain))
    assert counts.keys() == expected.keys()
    for value, share in expected.items():
        assert counts[value] / 2000 == pytest.approx(share, abs=4 * math.sqrt(share * (1 - share) / 2000))


@pytest.mark.parametrize(
    ("domain", "attributes"),
    [
        (tune.uniform(0, 1), Float(0.0, 1.0)),
        (tune.quniform(0, 1, 0.25), Float(0.0, 1.0, step=0.25)),
        (tune.loguniform(1e-4, 1), Float(1e-4, 1.0, log=True)),
        (tune.qloguniform(1, 9, 1), Float(1.0, 9.0, log=True, step=1.0)),
        (tune.randint(0, 3), Integer(0, 2)),
        (tune.qrandint(0, 6, 3), Integer(0, 6, step=3)),
        (tune.lograndint(1, 3), Integer(1, 2, log=True)),
        (tune.qlograndint(2, 8, 2), Integer(2, 8, log=True, step=2)),
        (tune.randn(), Normal(0.0, 1.0)),
        (tune.qrandn(1, 2, 0.5), Normal(1.0, 2.0, 0.5)),
        (tune.choice([1, "a", None]), Choices((1, "a", None))),
        (tune.grid_search([[64, 64], [128]]), Grid(([64, 64], [128]))),
    ],
    ids=str,
)
def test_a_domain_is_described_as_a_file_says_it(domain, attributes):
    assert domain == attributes
    written_down = json.loads(json.dumps(domain.describe()))
    assert read_layer(Layer("file", {"x": written_down})).values["x"] == domain


# --- refusals -------------------------------------------------------------------------------------------------------


# --- values ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("domain", "inside", "outside"),
    [
        (tune.uniform(0, 1), [0, 0.5, 1], [-0.1, 1.1, "0.5", True, float("nan"), None]),
        (tune.quniform(0, 1, 0.1), [0.3, 0.1 + 0.2, 1], [0.35, 1.1]),
        (tune.randint(0, 3), [0, 2, 1.0], [3, 0.5, True, float("inf")]),
        (tune.qrandint(0, 6, 3), [0, 3, 6], [1, 9]),
        (tune.randn(), [-100, 0.5], ["0", float("nan")]),
        (tune.qrandn(0, 1, 0.5), [-1.5, 0], [0.7]),
        (tune.choice([1, "a", (64, 64), PPOConfig]), [1, "a", [64, 64], PPOConfig], [2, True, "b", [64], ModelConfig]),
        (tune.grid_search([True, False]), [True], [1, 0, "true"]),
    ],
    ids=str,
)
def test_a_domain_knows_its_values(domain, inside, outside):
    assert [value for value in inside if not domain.contains(value)] == []
    assert [value for value in outside if domain.contains(value)] == []


def test_values_come_back_from_a_file_as_what_they_were():
    functions = [lambda: 1, lambda: 2]
    for values in ([(64, 64), (128,)], [PPOConfig, ModelConfig], [ModelConfig(hidden=(32,)), ModelConfig()], functions):
        domain = tune.choice(values)
        for value in values:
            assert domain.adopt(json.loads(json.dumps(to_json(value)))) is value
    assert tune.quniform(0, 1, 0.1).adopt(0.1 + 0.2) == 0.3
    assert type(tune.uniform(0, 3).adopt(1)) is float


# --- suggestions ----------------------------------------------------------------------------------------------------


def test_another_parameter_changes_nothing_for_those_that_were_there():
    alone = {"lr": tune.loguniform(1e-4, 1e-2)}
    more = {"gamma": tune.uniform(0, 1), **alone, "n": tune.randint(0, 9)}
    for number in range(5):
        assert drawn(more, Streams(3), number)["lr"] == drawn(alone, Streams(3), number)["lr"]
    assert len({drawn(alone, Streams(seed), number)["lr"] for seed in (3, 4) for number in range(5)}) == 10


def test_a_grid_is_gone_through_as_by_nested_loops():
    space = {"a": tune.grid_search([1, 2]), "x": tune.uniform(0, 1), "b": tune.grid_search(["p", "q", "r"])}
    assert grid_size(space) == 6
    cells = [cell(space, number) for number in range(7)]
    assert [(c["a"], c["b"]) for c in cells] == [(a, b) for a in (1, 2) for b in "pqr"] + [(1, "p")]
    assert cell({"x": tune.uniform(0, 1)}, 5) == {}


# --- among settings -------------------------------------------------------------------------------------------------


def test_domains_stand_anywhere_in_settings():
    cfg = PPOConfig(
        lr=tune.uniform(1e-4, 1e-2), gamma=0.9, model=ModelConfig(hidden=(tune.choice([32, 64]), 16), activation="relu")
    )
    values = {"algorithm": cfg, "sampling.num_envs": tune.randint(1, 5), "seed": 3}
    space = domains_in(values)
    assert list(space) == ["algorithm.lr", "algorithm.model.hidden.0", "sampling.num_envs"]
    filled = fill(values, {"algorithm.lr": 0.001, "algorithm.model.hidden.0": 64, "sampling.num_envs": 2})
    model = ModelConfig(hidden=(64, 16), activation="relu")
    assert filled == {"algorithm": PPOConfig(lr=0.001, gamma=0.9, model=model), "sampling.num_envs": 2, "seed": 3}
    assert filled["algorithm"].given == {"lr", "gamma", "model"}


def test_a_nested_configuration_keeps_its_shape():
    config = {"x": tune.uniform(0, 1), "net": [{"size": tune.choice([1, 2])}, (3, tune.randint(0, 2))], "k": {"c": 5}}
    assert list(domains_in(config)) == ["x", "net.0.size", "net.1.1"]
    filled = fill(config, {"x": 0.5, "net.0.size": 2, "net.1.1": 0})
    assert filled == {"x": 0.5, "net": [{"size": 2}, (3, 0)], "k": {"c": 5}}
    assert filled["k"] is config["k"]


def test_the_checks_of_settings_wait_for_a_value():
    undecided = PPOConfig(lr=tune.choice([-1.0, 1e-3]))
    with pytest.raises(ConfigError, match=r"PPOConfig.lr = -1.0: must be a number above 0"):
        fill(undecided, {"lr": -1.0})
    assert fill(undecided, {"lr": 1e-3}).lr == 1e-3


def test_what_is_decided_and_what_is_not_make_the_run_together():
    # A list and a schedule are taken whole by layers, so they are undecided as a whole.
    values = {
        "env.name": "CartPole-v1",
        "algorithm": PPOConfig(gamma=0.9, lr=tune.uniform(0, 1), model=ModelConfig(hidden=(tune.choice([8]), 4))),
        "sampling": {"num_envs": tune.randint(1, 9), "warmup_steps": 7},
        "algorithm.clip": {"start": tune.uniform(0.1, 0.3), "end": 0.0, "steps": 10},
    }
    layers, undecided = split_layers([Layer("code", values)])
    assert list(undecided) == ["algorithm.lr", "algorithm.model.hidden", "algorithm.clip", "sampling.num_envs"]
    params = {
        "algorithm.lr": 0.5, "algorithm.model.hidden.0": 8, "sampling.num_envs": 2, "algorithm.clip.start": 0.25,
    }  # fmt: skip
    assert domains_in(undecided).keys() == params.keys()
    trial = Layer("trial 00003", fill(undecided, params))
    resolved = resolve(RunConfig, [*layers, trial], ALGORITHMS)
    algorithm = resolved.config.algorithm
    assert type(algorithm) is PPOConfig
    assert (algorithm.lr, algorithm.gamma, algorithm.model.hidden) == (0.5, 0.9, (8, 4))
    assert (algorithm.clip.start, algorithm.clip.steps) == (0.25, 10)
    assert (resolved.config.sampling.num_envs, resolved.config.sampling.warmup_steps) == (2, 7)
    assert resolved.explain("algorithm.lr").splitlines()[0] == "algorithm.lr = 0.5  (trial 00003)"


def test_a_single_training_refuses_what_is_undecided():
    for values in (
        {"algorithm.lr": tune.uniform(0, 1)},
        {"algorithm": PPOConfig(model=ModelConfig(hidden=tune.choice([[8], [16]])))},
        {"algorithm.model.hidden": [tune.choice([8, 16]), 8]},
        {"env.config": {"size": tune.choice([1, 2])}},
    ):
        with pytest.raises(ConfigError, match="only tune.run"):
            resolve(RunConfig, [Layer("code", values)], ALGORITHMS)


def test_a_higher_layer_decides_what_a_lower_one_left_open():
    low = Layer("spec.yaml", {"algorithm": {"lr": tune.uniform(0, 1), "gamma": tune.uniform(0, 1), "epochs": 3}})
    layers, undecided = split_layers([low, override_layer(["algorithm.lr=0.25", "algorithm.epochs={randint: [1, 4]}"])])
    assert undecided == {"algorithm.gamma": tune.uniform(0, 1), "algorithm.epochs": tune.randint(1, 4)}
    cfg = resolve(RunConfig, [*layers, Layer("trial", {"algorithm.gamma": 0.5, "algorithm.epochs": 2})], ALGORITHMS)
    assert (cfg.config.algorithm.lr, cfg.config.algorithm.gamma, cfg.config.algorithm.epochs) == (0.25, 0.5, 2)
    lists = Layer("file", {"algorithm.model.hidden": [tune.choice([1]), 2]})
    assert split_layers([lists, Layer("code", {"algorithm": {"model": {"hidden": [3]}}})])[1] == {}
    assert split_layers([lists, Layer("code", {"algorithm.model": ModelConfig(activation="relu")})])[1] != {}


def test_keys_with_dots_are_no_paths_below_the_top():
    fixed, undecided = split({"env.config": {"sizes": {"a.b": tune.choice([1, 2]), "c": 3}}})
    assert fixed == {"env.config": {}}
    assert fill(undecided, {"env.config.sizes.a.b": 2}) == {"env.config.sizes": {"a.b": 2, "c": 3}}
    with pytest.raises(ConfigError, match=r"x.a.b has two domains"):
        domains_in({"x": {"a.b": tune.choice([1]), "a": {"b": tune.choice([2])}}})


def test_functions_see_plain_dicts_of_what_is_decided():
    layers = [
        {"algorithm": {"name": "ppo", "gamma": 0.9, "lr": 1.0}},
        {"algorithm": PPOConfig(lr=tune.uniform(0, 1), model=ModelConfig(hidden=(4, tune.choice([8]))))},
    ]
    config = merged_values(layers)
    assert chosen_values(config, {"algorithm.lr": 0.5}) == {
        "algorithm": {"name": "ppo", "gamma": 0.9, "lr": 0.5, "model": {"hidden": [4, None]}}
    }


# --- files ----------------------------------------------------------------------------------------------------------


def test_a_file_says_domains_as_mappings_of_one_key(tmp_path):
    (tmp_path / "spec.yaml").write_text(
        "algorithm:\n"
        "  lr: {loguniform: [1e-4, 1e-2]}\n"
        "  gamma: {uniform: {low: 0.9, high: 1}}\n"
        "  model: {hidden: {grid_search: [[64, 64], [128, 128]]}, activation: {choice: {values: [relu, tanh]}}}\n"
        "env:\n"
        "  config: {noise: {randn: {}}, size: [{randint: [1, 9]}, 5], area: {sample_from: 'math:isqrt'}}\n"
        "  name: CartPole-v1\n"
    )
    assert domains_in(read_layer(yaml_layer(tmp_path / "spec.yaml")).values) == {
        "algorithm.lr": tune.loguniform(1e-4, 1e-2),
        "algorithm.gamma": tune.uniform(0.9, 1),
        "algorithm.model.hidden": tune.grid_search([[64, 64], [128, 128]]),
        "algorithm.model.activation": tune.choice(["relu", "tanh"]),
        "env.config.noise": tune.randn(),
        "env.config.size.0": tune.randint(1, 9),
        "env.config.area": tune.sample_from(math.isqrt),
    }


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{log_uniform: [1e-4, 1e-2]}", "there is no domain 'log_uniform'; did you mean 'loguniform'?"),
        ("{LogUniform: {low: 1e-4, high: 1e-2}}", "did you mean 'loguniform'?"),
        ("{gridsearch: [1, 2]}", "did you mean 'grid_search'?"),
        ("{lograndit: [1, 5]}", "did you mean 'lograndint'?"),
        ("{loguniform: [1e-2, 1e-4]}", "loguniform: low must be below high, not 0.01 and 0.0001"),
        ("{loguniform: [1e-2]}", "loguniform takes low, high; write {loguniform: [low, high]}"),
        ("{uniform: {low: 0, hihg: 1}}", "uniform has no argument 'hihg'; did you mean 'high'?"),
        ("{choice: []}", "choice: at least one value is required"),
        ("{choice: relu}", "choice: the argument must be a list of values, not 'relu'"),
        ("{sample_from: 'nowhere_at_all:f'}", "there is no module 'nowhere_at_all'"),
    ],
)
def test_a_file_is_told_the_line_and_the_way_out(tmp_path, text, says):
    (tmp_path / "spec.yaml").write_text(f"seed: 1\nalgorithm:\n  lr: {text}\n")
    with pytest.raises(ConfigError) as error:
        read_layer(yaml_layer(tmp_path / "spec.yaml"))
    assert str(error.value).startswith("spec.yaml:3: algorithm.lr = {")
    assert says in str(error.value)


@pytest.mark.parametrize(
    "node", [{"choices": ["a", "b"]}, {"size": [1, 2]}, {"uniform": [0, 1], "x": 1}, {1: [0, 1]}, {}]
)
def test_other_mappings_of_a_file_stay_as_they_are(node):
    assert read_layer(Layer("file", {"env.config": node})).values == {"env.config": node}


# --- the face of the package ----------------------------------------------------------------------------------------


def test_no_file_of_the_package_hides_a_function_of_its_name():
    # Importing rookery.tune.run would make tune.run that file.
    files = {path.stem for path in Path(tune.__file__).parent.glob("*.py")}
    assert not files & set(tune.__all__)
    with pytest.raises(AttributeError, match="no attribute 'unifrom'"):
        tune.unifrom  # noqa: B018
