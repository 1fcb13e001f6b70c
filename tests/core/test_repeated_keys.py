"""A setting that a file or a mapping gives twice, by a dotted key and in a section, is refused with both places."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from rookery import DQNConfig, PPOConfig, Trainer, tune
from rookery.algorithms.names import ALGORITHMS
from rookery.cli.main import app
from rookery.core.config import resolve
from rookery.core.errors import ConfigError
from rookery.core.settings.layers import Layer, nested, override_layer, yaml_layer
from rookery.core.settings.repeated_keys import refuse_repeated
from rookery.run import presets
from rookery.run.settings import EnvConfig, RunConfig

TWICE = """env: {name: CartPole-v1}
algorithm:
  name: ppo
  lr: 3e-4
  model: {hidden: [8]}
  signals: {rnd: null}
policies:
  main: {epochs: 2}
algorithm.lr: 1e-3
algorithm.signals.rnd.lr: 1e-4
algorithm.name: dqn
algorithm.model: {hidden: [9], activation: relu}
policies.main.epochs: 3
seed: 3
"""
LINES = """run.yaml:9: algorithm.lr = 0.001: run.yaml:4 sets algorithm.lr = 0.0003; leave one of them out
run.yaml:10: algorithm.signals.rnd.lr = 0.0001: run.yaml:6 sets algorithm.signals.rnd = None; leave one of them out
run.yaml:11: algorithm.name = 'dqn': run.yaml:3 sets algorithm.name = 'ppo'; leave one of them out
run.yaml:12: algorithm.model.hidden = [9]: run.yaml:5 sets algorithm.model.hidden = [8]; leave one of them out
run.yaml:13: policies.main.epochs = 3: run.yaml:8 sets policies.main.epochs = 2; leave one of them out"""

REFUSED = {
    "section first": ({"algorithm": {"lr": 1.0}, "algorithm.lr": 2.0}, "algorithm.lr"),
    "section last": ({"algorithm.lr": 2.0, "algorithm": {"lr": 1.0}}, "algorithm.lr"),
    "equal values": ({"algorithm.lr": 1.0, "algorithm": {"lr": 1.0}}, "algorithm.lr"),
    "two dotted keys": ({"algorithm.model": {"hidden": [8]}, "algorithm.model.hidden": [9]}, "algorithm.model.hidden"),
    "an object": ({"algorithm": PPOConfig(lr=1.0), "algorithm.lr": 2.0}, "algorithm.lr"),
    "a class and a name": ({"algorithm": PPOConfig(), "algorithm.name": "dqn"}, "algorithm.name"),
    "a name and a name": ({"algorithm": "ppo", "algorithm.name": "dqn"}, "algorithm.name"),
    "null over values": ({"algorithm.signals.rnd.lr": 1.0, "algorithm": {"signals": {"rnd": None}}}, "signals.rnd"),
    "null over an empty section": ({"algorithm.signals": {"rnd": {}}, "algorithm.signals.rnd": None}, "signals.rnd"),
    "a value over values": ({"policies.a": {"lr": 1.0}, "policies": {"a": 3}}, "policies.a"),
    "an environment": ({"env": EnvConfig(name="CartPole-v1"), "env.name": "Acrobot-v1"}, "env.name"),
}

TAKEN = {
    "other settings of a section": {"algorithm": {"lr": 1.0}, "algorithm.gamma": 0.5},
    "an object and a path": {"algorithm": PPOConfig(lr=1.0), "algorithm.gamma": 0.5},
    "a name last": {"algorithm.gamma": 0.5, "algorithm.lr": 1.0, "algorithm": "ppo"},
    "a name in a section": {"policies.a": "ppo", "policies": {"a": {"gamma": 0.5, "lr": 1.0}}},
    "a class and a path": {"algorithm": PPOConfig, "algorithm.gamma": 0.5, "algorithm.lr": 1.0},
    "free mappings": {"env.config": {"a": 1}, "env": {"config": {"b": 2}}},
    "an environment's arguments": {"env": EnvConfig(config={"a": 1}), "env.config.b": 2},
}


@pytest.mark.regression("setting dropped", "A file that sets something by a dotted key and in a section is refused")
@pytest.mark.parametrize("command", ["train", "bench", "tune", "resume"])
def test_a_file_that_sets_something_twice_is_refused_with_both_lines(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.yaml").write_text(TWICE, encoding="utf-8")
    words = [command, "run.yaml"]
    if command == "resume":
        with Trainer("CartPole-v1", num_envs=1, env_processes=0, seed=0, run_dir="run") as trainer:
            trainer.save()
        words = [command, "run", "run.yaml"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code != 0
    assert LINES in str(result.exception)


@pytest.mark.regression("setting dropped", "A file that sets something by a dotted key and in a section is refused")
def test_json_and_every_way_in_code_are_refused(tmp_path):
    path = tmp_path / "run.json"
    path.write_text(json.dumps({"algorithm": {"lr": 1.0}, "algorithm.lr": 2.0}, indent=1), encoding="utf-8")
    said = r"run.json:5: algorithm.lr = 2.0: run.json:3 sets algorithm.lr = 1.0"
    for config in (path, [{}, path]):
        with pytest.raises(ConfigError, match=said):
            Trainer("CartPole-v1", config=config)
    twice = {"algorithm": {"lr": 1.0}, "algorithm.lr": 2.0}
    said = "code, key 'algorithm.lr': algorithm.lr = 2.0: code, key 'algorithm' sets algorithm.lr = 1.0"
    with pytest.raises(ConfigError, match=said):
        Trainer("CartPole-v1", config=twice)
    with pytest.raises(ConfigError, match=said):
        tune.run("CartPole-v1", config=twice, folder=tmp_path / "tune")
    with pytest.raises(ConfigError, match="has two domains|sets algorithm.lr"):
        tune.run("CartPole-v1", config={"algorithm": {"lr": tune.uniform(1e-4, 1e-3)}, "algorithm.lr": 2.0})


@pytest.mark.regression("setting dropped", "Two arguments of Trainer that set the same thing are refused")
def test_keywords_that_set_the_same_thing_are_refused():
    with pytest.raises(ConfigError, match="code, num_envs=: sampling.num_envs = 3: code, sampling= sets .* = 2; leave"):
        Trainer("CartPole-v1", sampling={"num_envs": 2}, num_envs=3)
    with pytest.raises(
        ConfigError, match=r"code, algorithm=: .*hidden = \(8,\): code, model= sets .* = \(16,\); leave"
    ):
        Trainer("CartPole-v1", PPOConfig(model={"hidden": (8,)}), model={"hidden": (16,)})
    with Trainer("CartPole-v1", DQNConfig(model={"hidden": (8,)}), model={"activation": "relu"}) as trainer:
        assert trainer.config.algorithm.model.hidden == (8,) and trainer.config.algorithm.model.activation == "relu"


@pytest.mark.parametrize(("values", "path"), REFUSED.values(), ids=REFUSED)
def test_what_one_source_gives_twice_is_refused(values, path):
    with pytest.raises(ConfigError, match=rf"code, key .*: .*{path}.* = .*: code, key .* sets .* = .*; leave one"):
        refuse_repeated(values, "code")


@pytest.mark.parametrize("values", TAKEN.values(), ids=TAKEN)
def test_what_can_be_put_together_is_taken_whole(values):
    refuse_repeated(values, "code")
    config = resolve(RunConfig, [Layer("code", values)], ALGORITHMS).config
    algorithm = config.policies["a"].algorithm if config.policies else config.algorithm
    assert config.env.config in ({}, {"a": 1, "b": 2})
    assert "env" in config.given or {"lr", "gamma"} & algorithm.given


@pytest.mark.regression("setting dropped", "A name of an algorithm on the command line keeps settings before it")
def test_of_two_words_of_a_command_line_the_later_counts_and_a_name_drops_nothing():
    both = resolve(RunConfig, [override_layer(["algorithm.lr=1.0", "algorithm={lr: 2.0}"])], ALGORITHMS).config
    assert both.algorithm.lr == 2.0
    named = resolve(RunConfig, [override_layer(["algorithm.lr=0.5", "algorithm=dqn"])], ALGORITHMS).config
    assert named.algorithm == DQNConfig(lr=0.5)


def test_no_preset_sets_something_twice():
    found = []

    def look(table):
        for part in table.values():
            if isinstance(part, dict):
                refuse_repeated(part, "preset")
                found.append(part)
                look(part)

    for table in (presets.ENV_PRESETS, presets.NAMED_PRESETS, presets.SPACE_PRESETS, presets.MEMORY_PRESETS):
        look(table)
    assert len(found) > 20


KEYS = st.sampled_from(["a", "b", "a.b", "a.b.c", "b.a"])
TREES = st.recursive(
    st.integers(0, 9) | st.none(), lambda part: st.dictionaries(st.sampled_from("abc"), part), max_leaves=5
)


@settings(max_examples=100)
@given(st.dictionaries(KEYS, TREES))
def test_of_what_is_taken_the_order_of_keys_changes_nothing(values):
    reverse = dict(reversed(values.items()))
    try:
        refuse_repeated(values, "code")
    except ConfigError:
        with pytest.raises(ConfigError):
            refuse_repeated(reverse, "code")
    else:
        assert nested(values) == nested(reverse)


def test_keys_of_one_path_each_know_their_line(tmp_path):
    (tmp_path / "run.yaml").write_text("algorithm:\n  lr: 1\nalgorithm.gamma: 0.5\n", encoding="utf-8")
    lines = yaml_layer(tmp_path / "run.yaml").lines
    assert lines == {"algorithm": "run.yaml:1", "algorithm.lr": "run.yaml:2", "algorithm.gamma": "run.yaml:3"}
