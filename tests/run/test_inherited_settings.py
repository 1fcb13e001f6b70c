"""Every policy inherits the section `algorithm`, key by key, unless its own entry differs."""

import importlib.util
import json
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from itertools import accumulate, product
from pathlib import Path
from typing import Any, ClassVar, get_args

import pytest
import torch
from typer.testing import CliRunner

from rookery import DQNConfig, PPOConfig, Trainer
from rookery.algorithms.names import ALGORITHMS
from rookery.cli.main import app
from rookery.core.config import polymorphic, resolve
from rookery.core.settings.fields import (
    alternatives,
    alternatives_in,
    bare,
    check,
    default_of,
    fields_of,
    hints_of,
    settings_class,
)
from rookery.core.settings.layers import Layer, flow, import_object, override_layer
from rookery.models.build import ModelConfig
from rookery.run.checkpoint.earlier_settings import kept_defaults
from rookery.run.prepare import code_values, layers_of
from rookery.run.settings import RunConfig
from rookery.signals.count import CountConfig
from rookery.signals.rewards import SignalsConfig
from rookery.signals.rnd import RNDConfig
from rookery.signals.signal import SignalConfig
from selection import slow_repeats


@dataclass(frozen=True)
class NestedSignalConfig(SignalConfig):
    """Settings of a signal with each kind of field that settings may have."""

    signal: ClassVar[str] = "rookery.signals.count:Count"

    width: int = 3
    words: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    model: ModelConfig = field(default_factory=ModelConfig)
    critic: ModelConfig | None = None


RND_THEN = RNDConfig(model=RNDConfig().model.replace(normalize_obs=False))
"""What a stored run had by default before it could be left open whether observations are normalized."""
OWN = {"seen": CountConfig, "distilled": RNDConfig, "nested": NestedSignalConfig}
NAMES = {name: f"{cls.__module__}:{cls.__qualname__}" for name, cls in OWN.items()}
# a path is absolute, so that it stays as it is given
CANDIDATES = (True, False, 1, 2, 3, 0.5, 0.25, 1.5, "other", ["/other"], [7], [0.25, 0.5], {"/other": 0.5})


def other_value(hint, default):
    """A value that a setting can have and that is not its default."""
    words = [word for part in alternatives(hint) for word in get_args(bare(part)) if isinstance(word, str)]
    for value in (*words, *CANDIDATES):
        read, wrong = check(hint, value)
        if not wrong and read != default:
            return value
    raise AssertionError(f"no other value for {hint}")


def other_values(cls):
    """All settings of a class, as a tree, none with its default; of two alternatives the first."""
    tree = {}
    for name, one in fields_of(cls).items():
        hint, section = hints_of(cls)[name], settings_class(hints_of(cls)[name])
        if section is not None:
            tree[name] = other_values(section)
        elif polymorphic(hint):
            tree[name] = {own: {"name": NAMES[own], **other_values(OWN[own])} for own in OWN}
        elif alternatives_in(cls).get(name) not in tree:
            tree[name] = other_value(hint, default_of(one))
    return tree


def made(cls, tree):
    """Settings objects of such a tree, also in it."""
    values = {}
    for name, value in tree.items():
        section = settings_class(hints_of(cls)[name])
        if polymorphic(hints_of(cls)[name]):
            value = {own: made(OWN[own], {key: one[key] for key in one if key != "name"}) for own, one in value.items()}
        values[name] = made(section, value) if section else value
    return cls(**values)


def leaves(tree, path):
    """Settings by path; free mappings are one value."""
    for key, value in tree.items():
        here = f"{path}.{key}"
        if isinstance(value, Mapping) and "/other" not in value:
            yield from leaves(value, here)
        elif key != "name":
            yield here, value


def layers_in(way, name, tree, folder):
    """Layers of settings of an algorithm, given in one of the ways in which users give them."""
    if way == "object":
        return [Layer("code", code_values(None, made(import_object(ALGORITHMS[name]), tree), None, None, None, {}))]
    whole = {"name": name, **tree}
    if way == "mapping":
        return layers_of({"algorithm": whole})
    names = {f"algorithm.signals.own.{own}.name": NAMES[own] for own in tree.get("signals", {}).get("own", {})}
    paths = {"algorithm.name": name, **names, **dict(leaves(tree, "algorithm"))}
    if way == "paths":
        return layers_of(paths)
    if way == "file":
        (folder / "run.yaml").write_text(json.dumps({"algorithm": whole}, indent=1), encoding="utf-8")
        return layers_of(folder / "run.yaml")
    return [override_layer(f"{path}={flow(value)}" for path, value in paths.items())]


def value_at(settings, path):
    """The value of a setting in objects and mappings of these."""
    return reduce(lambda at, key: at[key] if isinstance(at, Mapping) else getattr(at, key), path.split("."), settings)


WAYS = ("object", "mapping", "paths", "file", "command line")


@pytest.mark.regression(
    "setting dropped",
    "Policies get every setting of the algorithm, those of own reward signals too, however it is given",
)
@pytest.mark.parametrize(("name", "way"), slow_repeats(product(ALGORITHMS, WAYS)))
def test_every_setting_of_an_algorithm_reaches_each_policy(name, way, tmp_path):
    tree = other_values(import_object(ALGORITHMS[name]))
    said = {path.removeprefix("."): value for path, value in leaves(tree, "")}
    otherwise = {path: 0.125 for path in ("lr", "signals.own.seen.gamma") if path in said}
    others = {f"policies.other.{path}": value for path, value in otherwise.items()} or {"policies.other": None}
    entries = {"policies.same": None, **others}
    resolved = resolve(RunConfig, [*layers_in(way, name, tree, tmp_path), Layer("entries", entries)], ALGORITHMS)
    config, history = resolved.config, resolved.history
    assert len(said) > 30
    below = {path: [path] for path in history}  # what there is at a path and under it
    for known in history:
        for parent in accumulate(known.split(".")[:-1], "{}.{}".format):
            below.setdefault(parent, []).append(known)
    for path, policy in product(said, ("same", "other")):
        where, found = f"policies.{policy}.{path}", value_at(config.policies[policy].algorithm, path)
        if policy == "other" and path in otherwise:
            assert found == otherwise[path] and history[where][-1] == ("entries", otherwise[path])
            continue
        assert found == value_at(config.algorithm, path)
        assert (list(found) if isinstance(found, tuple) else found) == said[path]
        for known in below.get(where, ()):
            above = known.replace(f"policies.{policy}", "algorithm", 1)
            source, value = history[above][-1]
            assert source != "default" and history[known][-1] == (f"{source} as {above}", value)
            assert known in resolved.inherited
    assert config.policies["same"].algorithm == config.algorithm


# --- what trains ------------------------------------------------------------------------------------------------------

SEEN = {"name": NAMES["seen"], "gamma": 0.5, "strength": 0.1}
TRAINED = {
    "ppo": PPOConfig(fragment_length=16, minibatch_size=32, epochs=1, model={"hidden": (8,)}),
    "dqn": DQNConfig(learning_starts=16, batch_size=16, model={"hidden": (8,)}),
}


def trained(algorithm, config=None):
    """The settings of the signal that a learner has, and its weights after some iterations."""
    config = {"algorithm.signals.extrinsic.strength": 0.01, **(config or {})}
    with Trainer("CartPole-v1", algorithm, num_envs=2, env_processes=0, seed=3, config=config) as trainer:
        trainer.train({"env_steps": 256})
        learner = trainer.learners["main"]
        return learner.signals.others["seen"].cfg, torch.cat([one.flatten() for one in learner.policy.parameters()])


@pytest.mark.regression("setting dropped", "Own reward signals learn with the settings that the algorithm gives them")
@pytest.mark.parametrize("name", TRAINED)
def test_the_signal_of_a_learner_has_the_settings_of_the_algorithm(name):
    cfg, signal = TRAINED[name], {key: value for key, value in SEEN.items() if key != "name"}
    with_object = cfg.replace(signals=SignalsConfig(own={"seen": CountConfig(**signal)}))
    found = [
        trained(cfg, config={"policies.main.signals.own.seen": SEEN}),
        trained(with_object),
        trained(cfg.replace(signals={"own": {"seen": SEEN}})),
        trained(cfg, config={"algorithm.signals.own.seen": SEEN}),
    ]
    for settings, weights in found:
        assert settings == CountConfig(**signal) and torch.equal(weights, found[0][1])
    settings, weights = trained(cfg, config={"algorithm.signals.own.seen.name": SEEN["name"]})
    assert settings == CountConfig() and not torch.equal(weights, found[0][1]), "they matter"


@pytest.mark.regression("setting dropped", "Own reward signals learn with the settings that the algorithm gives them")
def test_the_command_line_sets_an_own_signal(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = [
        "train",
        "CartPole-v1",
        "--run-dir",
        ".",
        "--run-id",
        "run",
        "--stop",
        "env_steps=64",
        "--evaluate",
        "0",
        "--quiet",
    ]
    words += ["sampling.num_envs=2", "sampling.env_processes=0"]
    words += [f"algorithm.signals.own.seen.{key}={value}" for key, value in SEEN.items()]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    with Trainer.load("run") as trainer:
        assert trainer.learners["main"].signals.others["seen"].cfg == CountConfig(gamma=0.5, strength=0.1)
        assert trainer.resolved.history["policies.main.signals.own.seen.gamma"] == [
            ("default", 0.99), ("command line as algorithm.signals.own.seen.gamma", 0.5)
        ]  # fmt: skip


@pytest.mark.regression("setting dropped", "Own reward signals learn with the settings that the algorithm gives them")
def test_the_signal_of_the_documentation_has_its_settings():
    file = Path(__file__).parents[2] / "examples" / "own_signal.py"
    spec = importlib.util.spec_from_file_location("own_signal", file)
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "own_signal", module)
        spec.loader.exec_module(module)
        own = {"ellipsoid": module.EllipsoidConfig(gamma=0.95)}
        with Trainer("KeyDoor", PPOConfig(signals={"own": own}), num_envs=2, env_processes=0, seed=0) as trainer:
            assert trainer.learners["main"].signals.others["ellipsoid"].cfg.gamma == 0.95


# --- what a policy has alone ------------------------------------------------------------------------------------------


def test_a_signal_of_another_class_takes_nothing_of_the_algorithms():
    other = {"name": NAMES["distilled"], "strength": 3.0}
    values = {"algorithm.signals.own.seen": SEEN, "policies.main.signals.own.seen": other}
    resolved = resolve(RunConfig, [Layer("code", values)], ALGORITHMS)
    assert resolved.config.policies["main"].algorithm.signals.own == {"seen": RNDConfig(strength=3.0)}
    assert resolved.config.algorithm.signals.own == {"seen": CountConfig(gamma=0.5, strength=0.1)}
    assert "policies.main.signals.own.seen.gamma" not in resolved.inherited
    assert "policies.main.signals.combine" in resolved.inherited


@pytest.mark.regression(
    "setting dropped", "A signal that a policy switches on with its defaults is there after a resume"
)
@pytest.mark.parametrize("name", TRAINED)
def test_a_section_that_a_policy_switches_on_is_stored(name, tmp_path):
    config = {"policies.main.signals.rnd": {}}
    with Trainer("CartPole-v1", TRAINED[name], num_envs=2, env_processes=0, seed=3, config=config) as trainer:
        trainer.train({"env_steps": 64})
        trainer.save(tmp_path / "saved")
    with Trainer.load(tmp_path / "saved") as trainer:
        assert trainer.config.policies["main"].algorithm.signals.rnd == RNDConfig()
        assert trainer.config.algorithm.signals.rnd is None


@pytest.mark.regression("setting dropped", "An own reward signal is switched off by null, for all policies or for one")
@pytest.mark.parametrize("section", ["algorithm", "policies.main"])
def test_null_switches_an_own_signal_off(section, tmp_path):
    layers = [{"algorithm.signals.own.seen": SEEN}, override_layer([f"{section}.signals.own.seen=null"])]
    with Trainer("CartPole-v1", TRAINED["ppo"], num_envs=2, env_processes=0, seed=3, config=layers) as trainer:
        assert list(trainer.learners["main"].signals.others) == []
        assert bool(trainer.config.algorithm.signals.others) == (section != "algorithm")
        trainer.save(tmp_path / "saved")
    with Trainer.load(tmp_path / "saved") as again:
        assert again.config == trainer.config


@dataclass(frozen=True)
class CalmModelConfig(ModelConfig):
    """Settings of a network with another default."""

    obs_clip: float = 5.0


@pytest.mark.regression("setting dropped", "Defaults of a policy's own class of settings are there after a resume")
def test_a_section_of_another_class_is_stored_with_its_defaults(tmp_path):
    config = {"policies.main.model": CalmModelConfig()}
    with Trainer("CartPole-v1", TRAINED["ppo"], num_envs=2, env_processes=0, seed=3, config=config) as trainer:
        trainer.save(tmp_path / "saved")
    with Trainer.load(tmp_path / "saved") as again:
        assert again.config.policies["main"].algorithm.model.obs_clip == 5.0
        assert again.config.algorithm.model.obs_clip == 10.0


# --- runs that were stored before -------------------------------------------------------------------------------------

STORED = Path(__file__).parents[1] / "golden" / "checkpoints"
WAS = {"gamma": 0.99, "strength": 1.0}
"""What the policy of the stored run has learned with; its section `algorithm` says 0.5 and 2."""


def signals_of(trainer):
    return trainer.config.policies["main"].algorithm.signals


@pytest.mark.regression(
    "setting dropped", "A run stored before policies took settings of own signals keeps its numbers, and says so"
)
def test_a_run_that_was_stored_before_keeps_what_it_learned_with(tmp_path, capsys):
    shutil.copytree(STORED / "own-signal", tmp_path / "run")
    for iterations in (6, 8):
        with Trainer.load(tmp_path / "run", resume=True) as trainer:
            assert signals_of(trainer) == SignalsConfig(own={"seen": CountConfig(**WAS)}, rnd=RND_THEN)
            assert trainer.config.algorithm.signals.own == {"seen": CountConfig(gamma=0.5, strength=2.0)}
            assert trainer.learners["main"].signals.others["seen"].cfg == CountConfig(**WAS)
            assert trainer.resolved.history["policies.main.signals.own.seen.gamma"] == [("default", 0.99)]
            trainer.train({"iterations": iterations})
    said = capsys.readouterr().err
    told = "policies.main.signals.own.seen.strength = 1.0, policies.main.signals.own.seen.gamma = 0.99"
    assert said.count("keeps the values it has learned with") == said.count(told) == 1, "the first resume stores them"
    assert "rnd" not in said


def test_other_stored_runs_keep_nothing():
    files = [path for path in STORED.rglob("config.json") if "own-signal" not in path.parts]
    assert len(files) > 10
    for path in files:
        history = json.loads(path.read_text(encoding="utf-8"))["history"]
        assert kept_defaults(history) == {}, path


def test_a_run_of_before_without_a_checkpoint_begins_as_it_did(tmp_path, capsys):
    shutil.copytree(STORED / "own-signal", tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    words = ["resume", str(tmp_path / "run"), "--stop", "iterations=1", "--evaluate", "0"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    with Trainer.load(tmp_path / "run") as trainer:
        assert signals_of(trainer) == SignalsConfig(own={"seen": CountConfig(**WAS)}, rnd=RND_THEN)
    assert "policies.main.signals.own.seen.gamma = 0.99" in result.output + capsys.readouterr().err


@pytest.mark.parametrize("way", ["object", "command line"])
def test_a_run_that_is_stored_now_keeps_nothing(way, tmp_path):
    layers = layers_in(way, "ppo", {"signals": {"own": {"seen": {"gamma": 0.5}}}}, tmp_path)
    with Trainer("CartPole-v1", config=layers, num_envs=2, env_processes=0, seed=3) as trainer:
        trainer.save(tmp_path / "saved")
    with Trainer.load(tmp_path / "saved") as again:
        assert signals_of(again) == signals_of(trainer) and signals_of(again).own["seen"].gamma == 0.5
        assert again.resolved.history == trainer.resolved.history
    history = json.loads((tmp_path / "saved" / "config.json").read_text(encoding="utf-8"))["history"]
    assert kept_defaults(history) == {}
