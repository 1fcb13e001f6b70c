"""Settings that have another name in earlier versions: read with a note, refused beside the new name, kept in stored
runs.
"""

import warnings
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pytest

from rookery.core.config import Polymorphic, current_history, current_path, resolve
from rookery.core.errors import ConfigError
from rookery.core.settings.fields import FormerName, FormerValue, PositiveInt, Settings, from_stored
from rookery.core.settings.layers import Layer, override_layer, yaml_layer
from rookery.core.settings.reach import Reaches, of_settings

MEANINGS = "write rollout_size or minibatch_size"


@dataclass(frozen=True)
class Sampling(Settings):
    env_processes: Annotated[int, FormerName("helpers")] = 0
    num_envs: int = 8


@dataclass(frozen=True)
class OnPolicy(Settings):
    rollout_size: Annotated[PositiveInt | None, FormerName("batch_size", "minibatch_size", MEANINGS)] = None


@dataclass(frozen=True)
class A2C(OnPolicy):
    rollout_size: PositiveInt | None = 500


@dataclass(frozen=True)
class PPO(OnPolicy):
    minibatch_size: int = 64


@dataclass(frozen=True)
class Entry(Settings):
    algorithm: Annotated[OnPolicy, Polymorphic()] = field(default_factory=PPO)
    frozen: bool = False


NAMES = {"ppo": f"{__name__}:PPO", "a2c": f"{__name__}:A2C"}


@dataclass(frozen=True)
class Run(Settings):
    sampling: Sampling = field(default_factory=Sampling)
    algorithm: Annotated[OnPolicy, Polymorphic("ppo")] = field(default_factory=PPO)
    policies: Annotated[dict[str, Any], Polymorphic(inherits="algorithm", entry=Entry)] = field(default_factory=dict)


def run(*layers):
    return resolve(Run, layers, NAMES)


def test_a_constructor_reads_a_former_name_and_warns():
    with pytest.warns(FutureWarning, match=r"Sampling\.helpers is now called env_processes"):
        cfg = Sampling(helpers=2)
    assert cfg.env_processes == cfg.helpers == 2
    assert cfg.given == {"env_processes"}
    with pytest.warns(FutureWarning):
        assert cfg.replace(helpers=3).env_processes == 3
    with pytest.warns(FutureWarning, match=r"Run\.sampling\.helpers"):
        assert Run(sampling={"helpers": 4}).sampling.env_processes == 4


def test_the_warning_names_the_line_of_the_caller():
    with pytest.warns(FutureWarning) as caught:
        Sampling(helpers=2)
    assert caught[0].filename == __file__


def test_today_s_names_warn_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Sampling(env_processes=1).replace(num_envs=2).env_processes == 1
    assert not run(Layer("code", {"sampling.env_processes": 2})).notes
    with pytest.raises(AttributeError, match="no attribute 'helper'"):
        _ = Sampling().helper


def test_a_file_and_the_command_line_are_read_with_a_note_that_names_place_and_name(tmp_path):
    (tmp_path / "run.yaml").write_text("sampling:\n  num_envs: 4\n  helpers: 3\n")
    found = run(yaml_layer(tmp_path / "run.yaml"))
    assert found.config.sampling.env_processes == 3
    assert found.history["sampling.env_processes"] == [("default", 0), ("run.yaml:3", 3)]
    assert found.notes == ("run.yaml:3: sampling.helpers is now called env_processes",)
    higher = run(yaml_layer(tmp_path / "run.yaml"), override_layer(["sampling.helpers=1"]))
    assert higher.config.sampling.env_processes == 1


def test_both_names_at_once_are_an_error_that_names_both():
    with pytest.raises(ConfigError, match="helpers is the former name of env_processes: give env_processes alone"):
        Sampling(helpers=2, env_processes=2)
    with pytest.raises(ConfigError, match="code: sampling: helpers is the former name of env_processes"):
        run(Layer("code", {"sampling": {"helpers": 2, "env_processes": 2}}))


def test_a_name_with_two_meanings_is_refused_in_new_settings_where_the_class_has_both():
    with pytest.raises(ConfigError, match=f"batch_size = 64: {MEANINGS}"):
        PPO(batch_size=64)
    with pytest.raises(ConfigError, match=f"code: algorithm: batch_size = 64: {MEANINGS}"):
        run(Layer("code", {"algorithm.batch_size": 64}))
    with pytest.raises(ConfigError, match=f"policies.main: batch_size = 64: {MEANINGS}"):
        run(Layer("code", {"policies.main.batch_size": 64}))
    with pytest.warns(FutureWarning):
        assert A2C(batch_size=64).rollout_size == 64
    found = run(Layer("code", {"algorithm": {"name": "a2c", "batch_size": 64}}))
    assert found.config.algorithm.rollout_size == 64
    assert found.notes == ("code: algorithm.batch_size is now called rollout_size",)


def test_a_stored_run_may_use_every_former_name_and_says_nothing():
    values = {"algorithm.batch_size": 64, "policies.main.batch_size": 32, "sampling.helpers": 1}
    found = run(Layer("run", values, stored=True))
    assert found.config.algorithm.rollout_size == 64
    assert found.config.policies["main"].algorithm.rollout_size == 32
    assert not found.notes
    assert not any(path.endswith(("batch_size", "helpers")) for path in found.history if "mini" not in path)


def test_paths_of_a_stored_run_become_those_of_today():
    config = run(Layer("code", {"policies.main": {}})).config
    today = {
        "sampling.helpers": "sampling.env_processes",
        "algorithm.batch_size": "algorithm.rollout_size",
        "policies.main.batch_size": "policies.main.rollout_size",
        "policies.main.frozen": "policies.main.frozen",
        "policies.other.batch_size": "policies.other.batch_size",
        "stop.minutes": "stop.minutes",
    }
    assert {path: current_path(config, path) for path in today} == today


def test_a_derived_class_that_declares_a_former_name_is_refused():
    @dataclass(frozen=True)
    class Own(OnPolicy):
        batch_size: int = 100

    with pytest.raises(ConfigError, match=r"Own\.batch_size is now called rollout_size"):
        Own()


def test_a_foreign_value_is_judged_under_a_former_name_too():
    @dataclass(frozen=True)
    class Reaching(Settings):
        place: Annotated[str, Reaches("a path"), FormerName("folder")] = ""

    for name in ("place", "folder"):
        (objection,) = of_settings(Reaching, {name: "/etc"}, "part")
        assert (objection.path, objection.value) == (f"part.{name}", "/etc")


def test_settings_of_a_stored_policy_are_read_in_silence():
    @dataclass(frozen=True)
    class Outer(Settings):
        inner: Sampling = field(default_factory=Sampling)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert from_stored(Outer, {"inner": {"helpers": 3}}).inner.env_processes == 3
        assert from_stored(PPO, {"batch_size": 64}).rollout_size == 64


# --- former values ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Net(Settings):
    output: Annotated[Literal["features", "params"], FormerName("gives"), FormerValue("outputs", "params")] = "features"


@dataclass(frozen=True)
class Whole(Settings):
    net: Net = field(default_factory=Net)


def test_a_constructor_reads_a_former_value_and_warns():
    with pytest.warns(FutureWarning, match=r"Net\.output = outputs is now called params"):
        assert Net(output="outputs").output == "params"
    with pytest.warns(FutureWarning) as caught:
        assert Net().replace(gives="outputs").output == "params"
    said = ["Net.gives is now called output", "Net.gives = outputs is now called params"]
    assert [str(one.message) for one in caught] == said
    with pytest.warns(FutureWarning, match=r"Whole\.net\.output = outputs"):
        assert Whole(net={"output": "outputs"}).net.output == "params"


def test_a_former_value_of_a_file_is_read_with_a_note_and_of_a_stored_run_in_silence(tmp_path):
    (tmp_path / "run.yaml").write_text("net:\n  output: outputs\n")
    found = resolve(Whole, [yaml_layer(tmp_path / "run.yaml")], {})
    assert found.config.net.output == "params"
    assert found.history["net.output"] == [("default", "features"), ("run.yaml:2", "params")]
    assert found.notes == ("run.yaml:2: net.output = outputs is now called params",)
    stored = resolve(Whole, [Layer("run", {"net.gives": "outputs"}, stored=True)], {})
    assert (stored.config.net.output, stored.notes) == ("params", ())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert from_stored(Whole, {"net": {"output": "outputs"}}).net.output == "params"
        assert Net(output="params").output == "params"


def test_a_stored_history_has_the_names_and_values_of_today():
    stored = {"net.gives": [("default", "features"), ("code", "outputs")], "other": [("code", "outputs")]}
    today = {"net.output": [("default", "features"), ("code", "params")], "other": [("code", "outputs")]}
    assert current_history(Whole(), stored) == today


def test_a_former_value_of_a_foreign_file_is_no_objection():
    assert not list(of_settings(Net, {"gives": "outputs"}, "net"))
    assert list(of_settings(Net, {"output": "other"}, "net"))
