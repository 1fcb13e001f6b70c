"""Reach of foreign settings: honest runs are accepted, values that reach beyond the training are refused."""

import json

import pytest

from rookery import ConfigError, Trainer
from rookery.algorithms.names import ALGORITHMS
from rookery.core.config import resolve
from rookery.core.settings.layers import CLASS, Layer
from rookery.core.settings.trust import OBJECT, Trust
from rookery.run import presets
from rookery.run.checkpoint.checkpoint import config_file
from rookery.run.checks.foreign_settings import objections_in
from rookery.run.checks.trusted_code import named_code, without
from rookery.run.lessons.parameters import SAMPLER
from rookery.run.settings import RunConfig


def stored(*layers):
    """Settings as a checkpoint has them."""
    resolved = resolve(RunConfig, [Layer("code", values) for values in layers], ALGORITHMS)
    return json.loads(config_file(resolved, 3))["values"]


def reached(values, *trees):
    return {one.path: one.why for one in objections_in(values, trees)}


@pytest.mark.regression(
    "foreign code", "An honest run of others needs no flag: settings of every algorithm and preset are taken"
)
@pytest.mark.parametrize("name", ALGORITHMS)
def test_defaults_of_an_algorithm_are_taken(name):
    assert reached(stored({"algorithm.name": name, "policies": {"main": {}}, "env.name": "CartPole-v1"})) == {}


@pytest.mark.regression(
    "foreign code", "An honest run of others needs no flag: settings of every algorithm and preset are taken"
)
def test_every_preset_is_taken():
    tables = (presets.ENV_PRESETS, presets.NAMED_PRESETS, presets.SPACE_PRESETS, presets.MEMORY_PRESETS)
    layers = [values for table in tables for values in leaves(table)]
    assert len(layers) > 20
    assert [(values, found) for values in layers if (found := reached(values))] == []


def leaves(table):
    """Yields the layers in a table, however deep."""
    for key, value in table.items():
        if isinstance(value, dict) and all("." in str(path) for path in value):
            yield value
        elif isinstance(value, dict):
            yield from leaves(value)
        else:
            assert not isinstance(key, str) or "." not in key or value is not None


def test_lessons_parameters_and_several_policies_are_taken():
    said = {
        "env": {
            "name": "LineSoccer", "config": {"players": 2},
            "parameters": {"reach": {"sampler": "uniform", "low": 0, "high": 2}},
        },
        "curriculum.speed": {
            "lessons": [{"value": 1, "threshold": 0.9, "min_episodes": 10**6, "measure": "evaluation/return_mean"}, 2]
        },
        "curriculum.mass.widen": {"start": [1, 1], "end": [0, 5]},
        "policies": {"red": {"name": "sac", "critic": {"number": 5}}, "blue": {"frozen": True, "max_decisions": 10**9}},
        "policy_mapping": {"team:red": "red"},
        "teams": {"blue": ["a", "b"]},
        "self_play.red": {"window": 10, "anchors": {"chance": "random"}},
        "stop": {"env_steps": 10**12, "return_mean": 450},
        "algorithm.lr": {"schedule": "linear", "start": 3e-4, "end": 0},
        "checkpoint.keep_last": 10**6,
        "cluster": {"ray": "local", "environment": {}, "working_directory": None},
    }  # fmt: skip
    assert reached(said) == {}


LEADS_OUT = {
    "cluster.environment": {"cluster": {"environment": {"LD_PRELOAD": "theirs/x.so"}}},
    "cluster.environment ": {"cluster.environment.PYTHONPATH": "theirs/x"},
    "policies.a.replay.mix.x": {"policies.a": "dqn", "policies.a.replay.mix": {"x": 1}},
    "policies.a.critic.number": {
        "policies": {"a": {CLASS: {OBJECT: "rookery.algorithms.off_policy.sac:SACConfig"}, "critic": {"number": 10**6}}}
    },
    "algorithm.signals.own.x.num_features": {
        "algorithm.signals.own.x": {"name": "rookery.signals.rnd:RNDConfig", "num_features": 10**9}
    },
    "algorithm.signals.own.x.replay": {
        "algorithm.signals.own": {"x": {"name": "rookery.signals.gail:GAILConfig", "replay": ["x"]}}
    },
    "policies.a.signals.own.x.replay": {
        "algorithm.signals.own.x": {"name": "rookery.signals.gail:GAILConfig"},
        "policies.a.signals.own.x.replay": ["x"],
    },
    "algorithm.model.module_config.columns": {
        "algorithm.model": {"module": "rookery.models.heads:ValueHead", "module_config": {"columns": "x"}}
    },
    "algorithm.signals.rnd.model.module_config.file": {
        "algorithm.signals.rnd.model": {"module": "rookery.models.heads:ValueHead", "module_config": {"file": "x"}}
    },
    "algorithm.model.hidden": {"algorithm.model.hidden": [64] * 33},
    "curriculum.size": {"curriculum.size.widen": {"start": [5, 5], "end": [5, 1e9]}, "env.name": "DeepSea"},
    "env.parameters.gravity": {
        "env": {"name": "CartPole-v1", "parameters": {"gravity": {"sampler": "rookery.envs.check:x", "file": "x"}}}
    },
    "curriculum.file": {"curriculum": {"file": {"lessons": [1, {"value": "theirs/x"}]}}, "env.name": "Ant-v5"},
    "algorithm.fragment_length": {"sampling.num_envs": 65_536, "algorithm.fragment_length": 65_536},
}


@pytest.mark.regression(
    "foreign code", "Own reward signals of foreign policies are judged where only the algorithm names their class"
)
@pytest.mark.parametrize(("path", "values"), LEADS_OUT.items(), ids=LEADS_OUT)
def test_what_leads_out_is_found_however_it_is_written(path, values):
    assert path.strip() in reached(values)


def test_classes_that_the_caller_gives_decide_what_is_judged():
    assert "policies.a.replay.start_from" in reached(
        {"policies.a.replay.start_from": ["x"]}, {"policies": {"a": {"name": "dqn"}}}
    )
    assert reached({"env.config": {"size": 5, "file": "x"}}, {"env": {"name": "CartPole-v1"}}).keys() == {
        "env.config.file"
    }


def test_a_sampler_of_others_is_no_class_of_ours():
    values = {"env.parameters.gravity": {"sampler": "rookery.envs.placeholder_env:PlaceholderEnv"}}
    [named] = named_code(values)
    assert named.kind is SAMPLER and Trust().objection(named)
    assert not Trust(everything=True).objection(named)


def test_a_signal_of_others_is_settings_of_a_signal():
    [named] = named_code({"algorithm.signals.own.x.name": "rookery.core.io.files:remove_directory"})
    assert "not settings of a reward signal" in Trust().objection(named)
    [named] = named_code({"policies.main.signals.own.x.name": "rookery.signals.count:CountConfig"})
    assert not Trust().objection(named)


def test_values_are_left_out_wherever_they_stand():
    values = {"cluster": {"environment": {"A": "x"}, "ray": "local"}, "env.config.host": "::", "env.config.port": 1}
    assert without(values, ["cluster.environment", "env.config.host"]) == {
        "cluster": {"ray": "local"},
        "env.config.port": 1,
    }
    assert without({"a.b.c": 1, "a.bc": 2}, ["a.b"]) == {"a.bc": 2}


def test_an_own_module_takes_numbers_of_others_and_no_texts():
    class Mine:
        pass

    tree = {"algorithm": {"model": {"module": Mine}}}
    values = {"algorithm.model.module_config": {"width": 64, "file": "theirs/x"}}
    assert reached(values, tree).keys() == {"algorithm.model.module_config.file"}


def test_history_of_others_says_no_more_than_was_judged(tmp_path):
    """A path that only the history has would be written into the next checkpoint, with the user's signature."""
    from hostile import rewrite

    with Trainer("CartPole-v1", num_envs=2, run_dir=tmp_path / "run", console="quiet") as trainer:
        trainer.save()
    place = tmp_path / "run" / "checkpoints" / "000000"
    said = {"env.config.file": [["code", "theirs/x"]], "cluster.environment.PYTHONPATH": [["code", "theirs/x"]]}
    rewrite(place, "config.json", lambda config: config["history"].update(said))
    with Trainer.load(tmp_path / "run", resume=True) as trainer:
        trainer.save()
    for file in (tmp_path / "run").rglob("*.json"):
        if place not in file.parents:
            assert "theirs/x" not in file.read_text(), file
    assert "theirs/x" not in (tmp_path / "run" / "config.yaml").read_text()


def test_an_own_run_may_say_anything(tmp_path):
    config = {"cluster.environment": {"A": "b"}, "cluster.working_directory": str(tmp_path)}
    with Trainer("CartPole-v1", num_envs=2, run_dir=tmp_path / "run", console="quiet", config=config) as trainer:
        trainer.save()
    with Trainer.load(tmp_path / "run") as trainer:
        assert trainer.config.cluster.environment == {"A": "b"}
    with pytest.raises(ConfigError):
        Trainer("CartPole-v1", num_envs=-1)


@pytest.mark.regression(
    "foreign code", "Sizes of others are bound together, not only each: networks, and spaces in a file"
)
@pytest.mark.parametrize(
    "values",
    [
        {"algorithm.model.hidden": [8192] * 32},
        {"algorithm.model.hidden": [2048, 2048], "algorithm.critic.number": 1000},
        {"policies": {f"p{number}": {"model": {"hidden": [2048, 2048]}} for number in range(100)}},
        {"algorithm.model.hidden": [2048, 2048], "policies": {f"p{number}": {} for number in range(100)}},
        {"algorithm.model.memory": {"kind": "lstm", "size": 8192, "layers": 1000}},
    ],
    ids=["layers", "critics", "policies", "policies that start from one", "memory"],
)
def test_networks_are_bound_together(values):
    assert any("weights together" in one.why for one in objections_in(values))
    assert not any("weights together" in one.why for one in objections_in({"algorithm.model.hidden": [8192, 8192]}))
