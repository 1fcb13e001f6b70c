"""Settings, layers and their merge: what is accepted, what is refused and in which words, who wins, who is named."""

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from rookery.core.config import Polymorphic, resolve
from rookery.core.errors import ConfigError
from rookery.core.schedules import Exponential, Linear, Piecewise
from rookery.core.settings.fields import (
    Fraction,
    NonNegative,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Scheduled,
    Settings,
    Undecided,
    is_undecided,
)
from rookery.core.settings.layers import Layer, flow, import_object, override_layer, yaml_layer


@dataclass(frozen=True)
class ModelConfig(Settings):
    hidden: tuple[PositiveInt, ...] = (64, 64)
    activation: Literal["tanh", "relu"] = "tanh"
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class PPOConfig(Settings):
    lr: Scheduled[PositiveFloat] = 3e-4
    gamma: Fraction = 0.99
    epochs: PositiveInt = 10
    clip: Scheduled[PositiveFloat] | None = 0.2
    normalize: bool = True
    kl: Annotated[float, Field(gt=0, lt=1)] | None = None
    model: ModelConfig = ModelConfig()


@dataclass(frozen=True)
class SACConfig(Settings):
    lr: Scheduled[PositiveFloat] = 1e-3
    tau: Fraction = 0.005
    model: ModelConfig = ModelConfig(hidden=(256, 256))


@dataclass(frozen=True)
class PolicyEntry(Settings):
    algorithm: Any = None
    frozen: bool = False
    init_from: str | None = None


@dataclass(frozen=True)
class EnvConfig(Settings):
    id: str | Callable[..., Any] | None = None
    config: dict[str, Any] = field(default_factory=dict)
    wrappers: tuple[Callable[..., Any], ...] = ()


@dataclass(frozen=True)
class SamplingConfig(Settings):
    num_envs: PositiveInt = 8
    env_processes: NonNegativeInt = 0
    worker: type[Any] | None = None


@dataclass(frozen=True)
class EvaluationConfig(Settings):
    episodes: PositiveInt = 20
    seconds: NonNegative = 0.0


@dataclass(frozen=True)
class RunConfig(Settings):
    env: EnvConfig = EnvConfig()
    policies: Annotated[dict[str, Any], Polymorphic(inherits="algorithm", entry=PolicyEntry)] = field(
        default_factory=dict
    )
    algorithm: Annotated[Any, Polymorphic("ppo")] = None
    sampling: SamplingConfig = SamplingConfig()
    evaluation: EvaluationConfig | None = None
    stop: dict[str, float] = field(default_factory=dict)
    seed: NonNegativeInt | None = None
    device: str = "cpu"


NAMES = {"ppo": f"{__name__}:PPOConfig", "sac": f"{__name__}:SACConfig"}


def run(*layers):
    return resolve(RunConfig, layers, NAMES)


def problems(*layers):
    with pytest.raises(ConfigError) as caught:
        run(*layers)
    return list(caught.value.problems)


def refused(**values):
    with pytest.raises(ConfigError) as caught:
        PPOConfig(**values)
    return str(caught.value)


# Settings made in code


def test_given_names_exactly_what_the_constructor_got_even_if_it_equals_the_default():
    assert PPOConfig().given == frozenset()
    assert PPOConfig(gamma=0.99, lr=1e-3).given == {"gamma", "lr"}
    assert PPOConfig(1e-3).given == {"lr"}


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda cfg: pickle.loads(pickle.dumps(cfg))])
def test_given_survives_copies(duplicate):
    cfg = PPOConfig(lr=Linear(1e-3, 0), model=ModelConfig(hidden=(8,)))
    twin = duplicate(cfg)
    assert twin == cfg and twin.given == cfg.given and twin.model.given == {"hidden"}
    assert twin.at(1, 2).lr == 5e-4


def test_replace_keeps_what_was_given_and_adds_the_changes():
    changed = PPOConfig(lr=1e-3).replace(gamma=0.9)
    assert changed == PPOConfig(lr=1e-3, gamma=0.9) and changed.given == {"lr", "gamma"}
    with pytest.raises(ConfigError, match=r"PPOConfig.gamma = 2: must be a number from 0 to 1"):
        changed.replace(gamma=2)


def test_a_constructor_reports_all_mistakes_at_once():
    with pytest.raises(ConfigError) as caught:
        PPOConfig(lr=-1, gamma="x", epochs=0, gama=1, model={"hiden": (1,), "hidden": (0,)})
    assert len(caught.value.problems) == 6
    assert "code: PPOConfig.model.hiden = (1,): there is no such setting; did you mean 'hidden'?" in str(caught.value)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"gamma": 1.5}, "code: PPOConfig.gamma = 1.5: must be a number from 0 to 1"),
        ({"gama": 0.9}, "did you mean 'gamma'?"),
        ({"gama": 0.9}, "known here: lr, gamma, epochs"),
        ({"epochs": 3.7}, "epochs = 3.7: must be a whole number of at least 1"),
        ({"epochs": True}, "epochs = True: must be a whole number"),
        ({"epochs": "3"}, "write it without quotes"),
        ({"normalize": "no"}, "normalize = 'no': must be true or false"),
        ({"normalize": 1}, "normalize = 1: must be true or false"),
        ({"lr": "3e-4"}, "lr = '3e-4': must be a number above 0 or a schedule of it; write it without quotes"),
        ({"lr": True}, "lr = True: must be a number above 0"),
        ({"lr": 0}, "must be a number above 0"),
        ({"lr": float("nan")}, "must be a number above 0"),
        ({"lr": float("inf")}, "must be a number above 0"),
        ({"lr": None}, "must be a number above 0"),
        ({"lr": {"start": 1}}, "the schedule lacks end"),
        ({"lr": Linear(1, -1)}, "the schedule reaches -1 but must stay a number of at least 0"),
        ({"lr": {"start": "{x}", "end": 0}}, "start must be a finite number, not '{x}'"),
        ({"kl": 1.0}, "kl = 1.0: must be a number above 0 and below 1 or null"),
        ({"model": 3}, "must be a section of settings (ModelConfig)"),
        ({"model": {"hidden": "64"}}, "model.hidden = '64': must be a list, each a whole number of at least 1"),
        ({"model": {"hidden": {64}}}, "must be a list"),
        ({"model": {"activation": "rely"}}, "must be 'tanh' or 'relu'; did you mean 'relu'?"),
    ],
)
def test_types_are_strict(values, reason):
    assert reason in refused(**values)


def test_conversions_without_loss_are_made():
    cfg = PPOConfig(lr=1, epochs=4.0, model={"hidden": [32, np.int64(16)]})
    assert cfg.lr == 1.0 and isinstance(cfg.lr, float)
    assert cfg.epochs == 4 and isinstance(cfg.epochs, int)
    assert cfg.model == ModelConfig(hidden=(32, 16)) and isinstance(cfg.model.hidden[1], int)


def test_at_resolves_schedules_also_in_nested_settings_and_costs_nothing_without_any():
    @dataclass(frozen=True)
    class Outer(Settings):
        inner: PPOConfig = PPOConfig()
        weight: Scheduled[NonNegative] = 1.0

    plain = Outer()
    assert plain.at(5, 10) is plain
    moving = Outer(inner=PPOConfig(lr={"start": 2.0, "end": 0}), weight=Piecewise(((0, 0), (10, 1))))
    assert moving.at(5, 10) == Outer(inner=PPOConfig(lr=1.0), weight=0.5)
    assert moving.at(5, 10).given == {"inner", "weight"}
    assert moving.open_schedules() == ("inner.lr",)
    assert moving.at(5, None).inner.lr == 2.0


def test_a_schedule_may_end_on_an_open_bound():
    assert PPOConfig(lr=Linear(1e-3, 0)).at(100, 100).lr == 0.0
    assert PPOConfig(clip=Exponential(0.3, 0.1, 10)).at(10, None).clip == pytest.approx(0.1)


def test_an_optional_schedule_is_described_without_the_word_anything():
    @dataclass(frozen=True)
    class Temperature(Settings):
        alpha: Scheduled[NonNegative] | None = None

    for alpha in (None, 0.5, Linear(1, 0)):
        assert Temperature(alpha=alpha).alpha == alpha
    with pytest.raises(ConfigError, match="alpha = -1: must be a number of at least 0 or null or a schedule of it$"):
        Temperature(alpha=-1)


def test_a_new_default_that_a_dataclass_would_ignore_is_refused():
    class Undecorated(PPOConfig):
        lr: float = 1.0

    @dataclass(frozen=True)
    class Untyped(PPOConfig):
        lr = 1.0

    with pytest.raises(ConfigError, match="put @dataclass"):
        Undecorated()
    with pytest.raises(ConfigError, match="Untyped.lr has no type"):
        Untyped()


def test_a_subclass_has_its_own_defaults():
    @dataclass(frozen=True)
    class Bigger(PPOConfig):
        lr: float = 1e-2

    assert Bigger().lr == 1e-2 and Bigger(gamma=1.0).given == {"gamma"}


def test_a_value_error_of_a_class_of_its_own_becomes_a_config_error():
    @dataclass(frozen=True)
    class Batch(Settings):
        size: PositiveInt = 64
        part: PositiveInt = 8

        def __post_init__(self):
            if self.size % self.part:
                raise ValueError(f"size {self.size} is no multiple of part {self.part}")

    with pytest.raises(ConfigError, match="code: Batch: size 10 is no multiple of part 8"):
        Batch(size=10)

    @dataclass(frozen=True)
    class Root(Settings):
        batch: Batch = Batch()

    with pytest.raises(ConfigError, match="command line: batch: size 10 is no multiple"):
        resolve(Root, [override_layer(["batch.size=10"])])


def test_required_and_surplus_values_are_reported():
    @dataclass(frozen=True)
    class Needs(Settings):
        size: PositiveInt

    with pytest.raises(ConfigError, match="code: Needs.size is missing: it must be a whole number of at least 1"):
        Needs()
    with pytest.raises(ConfigError, match="takes at most 1 values, not 2"):
        Needs(1, 2)
    with pytest.raises(ConfigError, match="given twice"):
        Needs(1, size=2)
    with pytest.raises(ConfigError, match="size is missing"):
        resolve(Needs, [])
    assert resolve(Needs, [Layer("code", {"size": 3})]).config == Needs(3)


# Layers


def test_yaml_is_version_1_2(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text("a: 3e-4\nb: on\nc: no\nd: 1_000\ne: [1, 2]\nf: true\n")
    values = yaml_layer(path).values
    assert values["a"] == 3e-4 and values["b"] == "on" and values["c"] == "no"
    assert values["e"] == [1, 2] and values["f"] is True


def test_yaml_keys_know_their_lines(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text("# comment\nalgorithm:\n  lr: 3e-4\n\n  model: {hidden: [8]}\nseed: 1\n")
    assert yaml_layer(path).lines == {
        "algorithm": "run.yaml:2",
        "algorithm.lr": "run.yaml:3",
        "algorithm.model": "run.yaml:5",
        "algorithm.model.hidden": "run.yaml:5",
        "seed": "run.yaml:6",
    }


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: 1\nb: [1, 2\n", r"run.yaml:\d+: not YAML"),
        ("a: 1\na: 2\n", "run.yaml:2: not YAML: found duplicate key"),
        ("a: 1\nb:\tc: 2\n", "run.yaml:2: not YAML"),
        ("- 1\n- 2\n", "run.yaml:1: must be a mapping such as 'seed: 3'"),
        ("a: !!python/object:os.system {}\n", "run.yaml:1: not YAML"),
        ("a: 2020-13-45\n", "run.yaml: not YAML"),
        ("a: &x {b: *x}\n", r"run.yaml:1: \*x: the section or list contains itself"),
        (b"a: \xff\xfe\n", "cannot be read as text"),
    ],
)
def test_a_broken_file_is_refused_with_file_and_line(tmp_path, text, reason):
    path = tmp_path / "run.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigError, match=reason):
        yaml_layer(path)


def test_a_missing_file_is_named_and_an_empty_one_sets_nothing(tmp_path):
    with pytest.raises(ConfigError, match=r"none.yaml: there is no such file"):
        yaml_layer(tmp_path / "none.yaml")
    with pytest.raises(ConfigError, match="cannot be read"):
        yaml_layer(tmp_path)
    (tmp_path / "empty.yaml").write_text("# nothing\n")
    assert yaml_layer(tmp_path / "empty.yaml").values == {}


def test_overrides_are_read_as_yaml():
    layer = override_layer(
        ["a.lr=3e-4", "b=[1, 2]", "c={start: 1, end: 0}", "d=", "e=x=y", "f='1'", "g=my.module:Name"]
    )
    assert layer.source == "command line"
    assert layer.values == {
        "a.lr": 3e-4,
        "b": [1, 2],
        "c": {"start": 1, "end": 0},
        "d": None,
        "e": "x=y",
        "f": "1",
        "g": "my.module:Name",
    }


@pytest.mark.parametrize("override", ["algorithm.lr", "=3", "a..b=3", ".a=3", "a.=3", "", "a=[1", "a=@x", "a={b"])
def test_a_malformed_override_is_refused_with_a_way_out(override):
    with pytest.raises(ConfigError, match="command line: .*(for example algorithm.lr=3e-4|may need quotes)"):
        override_layer([override])


def test_all_malformed_overrides_are_reported():
    with pytest.raises(ConfigError) as caught:
        override_layer(["a", "b=1", "c"])
    assert len(caught.value.problems) == 2


def test_of_two_overrides_of_a_path_the_later_counts():
    assert run(override_layer(["seed=1", "seed=2"])).config.seed == 2
    assert run(override_layer(["algorithm.lr=1", "algorithm={lr: 2, gamma: 0.5}"])).config.algorithm.lr == 2
    both = run(override_layer(["algorithm={lr: 2, gamma: 0.5}", "algorithm.lr=1"])).config.algorithm
    assert (both.lr, both.gamma) == (1, 0.5)


# The merge


def test_without_layers_everything_is_a_default():
    resolved = run()
    assert resolved.config == RunConfig(algorithm=PPOConfig()) and resolved.config.given == frozenset()
    assert resolved.history["algorithm.lr"] == [("default", 3e-4)]
    assert not resolved.given("algorithm.lr") and not resolved.given("algorithm")
    assert resolved.notes == ()


def test_the_last_layer_wins_and_the_history_tells_the_order(tmp_path):
    path = tmp_path / "cartpole.yaml"
    path.write_text("algorithm:\n  lr: 1e-3\n")
    resolved = run(
        Layer("preset discrete", {"algorithm.lr": 2e-4}), yaml_layer(path), override_layer(["algorithm.lr=5e-4"])
    )
    assert resolved.config.algorithm.lr == 5e-4
    assert resolved.history["algorithm.lr"] == [
        ("default", 3e-4),
        ("preset discrete", 2e-4),
        ("cartpole.yaml:2", 1e-3),
        ("command line", 5e-4),
    ]
    assert resolved.explain("algorithm.lr").splitlines() == [
        "algorithm.lr = 0.0005  (command line)",
        "    instead of 0.001  (cartpole.yaml:2)",
        "    instead of 0.0002  (preset discrete)",
        "    instead of 0.0003  (default)",
    ]
    assert resolved.given("algorithm.lr") and resolved.given("algorithm") and not resolved.given("algorithm.gamma")
    assert resolved.config.algorithm.given == {"lr"}


def test_explaining_a_section_explains_each_setting_of_it():
    text = run().explain("sampling")
    assert text.splitlines()[0] == "sampling.num_envs = 8  (default)" and "sampling.env_processes" in text


def test_an_unknown_key_names_file_line_and_the_nearest_key(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text("seed: 1\nalgorithm:\n  gama: 0.9\n")
    (line,) = problems(yaml_layer(path))
    assert line.startswith(
        "run.yaml:3: algorithm.gama = 0.9: there is no such setting; did you mean 'algorithm.gamma'?"
    )
    assert "known here: name, lr, gamma, epochs" in line


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("lr", "algorithm.lr"),
        ("gama", "algorithm.gamma"),
        ("num_envs", "sampling.num_envs"),
        ("algorithm.seed", "seed"),
        ("algorithm.hidden", "algorithm.model.hidden"),
        ("sampling.num_env", "sampling.num_envs"),
        ("algoritm", "algorithm"),
        ("policies.a.hidden", "policies.a.model.hidden"),
        ("policies.a.frozn", "policies.a.frozen"),
    ],
)
def test_a_key_at_the_wrong_level_is_shown_its_place(path, meant):
    (line,) = problems(Layer("code", {path: 1}))
    assert f"code: {path} = 1: there is no such setting; did you mean {meant!r}?" in line


@pytest.mark.parametrize(
    ("layer", "reason"),
    [
        (Layer("code", {"sampling": PPOConfig()}), "must be a section of settings (SamplingConfig)"),
        (Layer("code", {"stop": PPOConfig()}), "must be a mapping"),
        (Layer("code", {"policies": {"team.red": {}}}), "without dots"),
        (Layer("code", {"policies": {3: {}}}), "without dots"),
        (override_layer(["algorithm.name=3"]), "must be a name"),
        (
            override_layer(["algorithm.name=pbo"]),
            "there are ppo, sac; did you mean 'ppo'?; or give the import path of a",
        ),
    ],
)
def test_objects_names_and_ids_of_another_kind_are_refused(layer, reason):
    assert reason in problems(layer)[0]


def test_all_problems_of_all_layers_come_in_one_error(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text("algorithm:\n  lr: -1\n  gamma: 1.5\nsampling:\n  num_envs: many\nsede: 3\n")
    lines = problems(
        yaml_layer(path), override_layer(["algorithm.epochs=3.7", "algorithm.lr=1e-3", "policies.a.tau=1"])
    )
    assert sorted(line.split(":")[0] + ":" + line.split(":")[1].split(" ")[0] for line in lines) == [
        "command line:",
        "command line:",
        "run.yaml:2",
        "run.yaml:3",
        "run.yaml:5",
        "run.yaml:6",
    ]
    assert "run.yaml:2: algorithm.lr = -1: must be a number above 0 or a schedule of it" in lines


def test_a_section_must_be_one_and_an_empty_one_is_fine():
    assert problems(Layer("code", {"sampling": 3})) == [
        "code: sampling = 3: must be a section of settings (SamplingConfig)"
    ]
    assert problems(Layer("code", {"stop": 3, "policies": 4})) == [
        "code: stop = 3: must be a mapping",
        "code: policies = 4: must be a mapping",
    ]
    assert (
        run(Layer("file", {"sampling": None, "algorithm": None, "policies": None, "stop": None})).config == run().config
    )


def test_an_optional_section_is_switched_on_and_off():
    assert run().config.evaluation is None and run().history["evaluation"] == [("default", None)]
    on = Layer("file", {"evaluation.episodes": 5})
    assert run(on).config.evaluation == EvaluationConfig(episodes=5)
    off = run(on, override_layer(["evaluation=null"]))
    assert off.config.evaluation is None and off.explain("evaluation").startswith("evaluation = null  (command line)")
    again = run(on, Layer("code", {"evaluation": None}), Layer("trial", {"evaluation": {}}))
    assert again.config.evaluation == EvaluationConfig() and "evaluation" not in again.history


def test_free_mappings_merge_by_key_at_every_depth():
    low = Layer("preset", {"env.config": {"map": {"size": 3, "kind": "maze"}, "speed": 1}})
    resolved = run(low, override_layer(["env.config.map.size=5", "env.config.names=[a, b]"]))
    assert resolved.config.env.config == {"map": {"size": 5, "kind": "maze"}, "speed": 1, "names": ["a", "b"]}
    assert resolved.history["env.config.map.size"] == [("preset", 3), ("command line", 5)]


def test_a_mapping_with_keys_that_are_no_plain_names_is_one_value():
    low, high = (Layer(f"layer {i}", {"env": {"config": {"a.b": i, "c": i}}}) for i in range(2))
    resolved = run(low, Layer("code", {"env.config.c": 7}), high)
    assert resolved.config.env.config == {"a.b": 1, "c": 1}
    assert resolved.history["env.config"][-1] == ("layer 1", {"a.b": 1, "c": 1})
    (line,) = problems(Layer("file", {"stop": {1: 2.0}}))
    assert line == "file: stop = {1: 2.0}: must be a mapping"


def test_typed_mappings_check_each_value():
    assert run(override_layer(["stop.return_mean=475"])).config.stop == {"return_mean": 475.0}
    assert problems(override_layer(["stop.return_mean=high"])) == [
        "command line: stop.return_mean = 'high': must be a number"
    ]


def test_schedules_come_from_files_and_overrides(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text("algorithm:\n  lr: {start: 1e-3, end: 0}\n  clip: {points: [[0, 0.3], [1e5, 0.1]]}\n")
    cfg = run(yaml_layer(path)).config.algorithm
    assert cfg.lr == Linear(1e-3, 0) and cfg.clip == Piecewise(((0, 0.3), (1e5, 0.1)))
    cfg = run(yaml_layer(path), override_layer(["algorithm.lr=1e-4"])).config.algorithm
    assert cfg.lr == 1e-4


def test_a_settings_object_sets_exactly_what_it_was_given():
    resolved = run(
        Layer("preset", {"algorithm.gamma": 0.9, "algorithm.lr": 1.0, "algorithm.model.activation": "relu"}),
        Layer("code", {"algorithm": PPOConfig(lr=3e-4, model=ModelConfig(hidden=(8,)))}),
    )
    cfg = resolved.config.algorithm
    assert (cfg.lr, cfg.gamma) == (3e-4, 0.9)
    assert cfg.model == ModelConfig(hidden=(8,), activation="relu")
    assert resolved.history["algorithm.lr"][-1] == ("code", 3e-4)
    assert cfg.given == {"lr", "gamma", "model"} and cfg.model.given == {"hidden", "activation"}


def test_an_object_and_a_path_in_one_layer_are_put_together():
    layer = Layer(
        "code", {"algorithm": SACConfig(tau=0.1), "algorithm.lr": 0.5, "sampling": SamplingConfig(env_processes=2)}
    )
    config = run(layer).config
    assert config.algorithm == SACConfig(tau=0.1, lr=0.5) and config.sampling.env_processes == 2


def test_a_subclass_of_a_section_keeps_its_class_and_fields():
    @dataclass(frozen=True)
    class Wide(ModelConfig):
        factor: PositiveInt = 2

    cfg = run(Layer("code", {"algorithm.model": Wide(factor=3)}), override_layer(["algorithm.model.hidden=[4]"])).config
    assert cfg.algorithm.model == Wide(factor=3, hidden=(4,))


# Classes by name


def test_the_name_chooses_the_class():
    resolved = run(override_layer(["algorithm.name=sac", "algorithm.tau=0.1"]))
    assert resolved.config.algorithm == SACConfig(tau=0.1)
    assert resolved.history["algorithm.name"] == [("default", "ppo"), ("command line", "sac")]


def test_a_class_is_also_found_by_its_import_path():
    name = f"{__name__}:SACConfig"
    assert type(run(Layer("code", {"algorithm.name": name})).config.algorithm) is SACConfig
    assert "names no settings class" in problems(Layer("code", {"algorithm.name": "os.path:join"}))[0]


def test_values_meant_for_another_class_are_dropped_with_a_note():
    preset = Layer("preset cartpole", {"algorithm": {"name": "ppo", "lr": 1.0, "clip": 0.1}})
    resolved = run(preset, Layer("code", {"algorithm": SACConfig()}))
    assert resolved.config.algorithm == SACConfig()
    assert resolved.notes == ("preset cartpole: algorithm is for ppo and not used, because code chose sac",)


def test_values_without_a_name_go_to_whatever_class_is_chosen():
    resolved = run(Layer("file", {"algorithm": {"lr": 0.5}}), override_layer(["algorithm.name=sac"]))
    assert resolved.config.algorithm == SACConfig(lr=0.5)
    assert (
        "algorithm.clip" in problems(Layer("file", {"algorithm.clip": 0.5}), override_layer(["algorithm.name=sac"]))[0]
    )


def test_a_chosen_class_may_be_optional_and_start_from_a_default_object():
    @dataclass(frozen=True)
    class Root(Settings):
        teacher: Annotated[Any, Polymorphic("ppo")] | None = None
        student: Annotated[Any, Polymorphic()] = field(default_factory=lambda: SACConfig(tau=0.5))

    assert resolve(Root, [], NAMES).config == Root()
    config = resolve(Root, [override_layer(["teacher.lr=1", "student.lr=2"])], NAMES).config
    assert config == Root(teacher=PPOConfig(lr=1), student=SACConfig(tau=0.5, lr=2))
    assert config.student.given == {"tau", "lr"}
    assert resolve(Root, [override_layer(["student.name=ppo"])], NAMES).config.student == PPOConfig()


def test_a_section_without_any_class_says_that_a_name_is_missing():
    @dataclass(frozen=True)
    class Root(Settings):
        learner: Annotated[Any, Polymorphic()] = None

    with pytest.raises(ConfigError, match="learner.name is missing: it chooses what learner is"):
        resolve(Root, [], NAMES)


# Policies


def test_a_policy_starts_from_the_algorithm_section():
    resolved = run(Layer("file", {"algorithm.gamma": 0.9}), Layer("code", {"policies": {"a": {"lr": 0.5}, "b": None}}))
    a, b = (resolved.config.policies[name] for name in "ab")
    assert a.algorithm == PPOConfig(lr=0.5, gamma=0.9) and b.algorithm == PPOConfig(gamma=0.9)
    assert (a.frozen, a.init_from) == (False, None)
    assert resolved.history["policies.a.gamma"] == [("default", 0.99), ("file as algorithm.gamma", 0.9)]
    assert resolved.given("policies.b.gamma") and not resolved.given("policies.b.lr")
    assert a.algorithm.given == {"lr", "gamma"}


def test_policies_given_as_objects_inherit_what_they_were_not_given():
    layer = Layer("code", {"policies": {"pol1": PPOConfig(lr=1e-3), "pol2": PPOConfig(lr=4e-4)}})
    policies = run(Layer("preset", {"algorithm.epochs": 4}), layer).config.policies
    assert policies["pol1"].algorithm == PPOConfig(lr=1e-3, epochs=4)
    assert policies["pol2"].algorithm == PPOConfig(lr=4e-4, epochs=4)


def test_a_policy_of_another_class_starts_from_its_own_defaults():
    resolved = run(override_layer(["algorithm.lr=0.5", "policies.a.name=sac", "policies.a.tau=0.2"]))
    assert resolved.config.policies["a"].algorithm == SACConfig(tau=0.2)
    assert resolved.history["policies.a.lr"] == [("default", 1e-3)]
    assert resolved.history["policies.a.name"][-1] == ("command line", "sac")


def test_naming_the_same_class_still_inherits():
    policies = run(override_layer(["algorithm.lr=0.5", "policies.a.name=ppo"])).config.policies
    assert policies["a"].algorithm == PPOConfig(lr=0.5)


def test_the_keys_beside_the_settings_are_typed():
    resolved = run(override_layer(["policies.a={frozen: true, init_from: 'run1:main'}"]))
    assert resolved.config.policies["a"] == PolicyEntry(PPOConfig(), frozen=True, init_from="run1:main")
    assert resolved.given("policies.a.frozen")
    assert problems(override_layer(["policies.a.frozen=yes"])) == [
        "command line: policies.a.frozen = 'yes': must be true or false"
    ]


def test_an_entry_object_is_taken_apart():
    entry = PolicyEntry(SACConfig(tau=0.3), frozen=True)
    resolved = run(Layer("code", {"policies": {"a": entry}}), override_layer(["policies.a.lr=0.5"]))
    assert resolved.config.policies["a"] == PolicyEntry(SACConfig(tau=0.3, lr=0.5), frozen=True)
    assert "must be a section of settings" in problems(Layer("code", {"policies": {"a": PolicyEntry(3)}}))[0]


def test_a_policys_own_value_beats_the_algorithms_from_a_higher_layer_and_is_noted():
    resolved = run(
        Layer("file", {"policies.a.lr": 1e-3, "policies.a.model.hidden": [8]}),
        override_layer(["algorithm.lr=3e-4", "algorithm.gamma=0.5"]),
    )
    assert resolved.config.policies["a"].algorithm.lr == 1e-3
    assert resolved.config.policies["a"].algorithm.gamma == 0.5
    assert resolved.notes == ("policies.a.lr = 0.001 (file) wins over algorithm.lr = 0.0003 (command line)",)


def test_a_policys_own_value_from_a_higher_layer_is_not_noted():
    assert run(Layer("file", {"algorithm.lr": 1.0}), override_layer(["policies.a.lr=2.0"])).notes == ()


def test_policies_inherit_nested_settings_field_by_field():
    resolved = run(
        Layer("file", {"algorithm": {"model": {"hidden": [8], "options": {"x": 1, "deep": {"z": 3}}}}}),
        Layer("code", {"policies": {"a": {"model": {"activation": "relu", "options": {"y": 2}}}}}),
    )
    model = resolved.config.policies["a"].algorithm.model
    assert model == ModelConfig(hidden=(8,), activation="relu", options={"x": 1, "deep": {"z": 3}, "y": 2})
    for inner, value in (("options.x", 1), ("options.deep.z", 3)):
        assert resolved.history[f"policies.a.model.{inner}"] == [(f"file as algorithm.model.{inner}", value)]


def test_a_wrong_algorithm_name_does_not_hide_problems_of_policies():
    lines = problems(override_layer(["algorithm.name=x", "policies.a.name=sac", "policies.a.tau=7"]))
    assert len(lines) == 2 and "policies.a.tau = 7: must be a number from 0 to 1" in lines[1]


# Objects by name, and YAML out


def make_env():
    return None


def test_objects_are_imported_where_only_objects_are_allowed():
    path = f"{__name__}:make_env"
    config = run(override_layer(["sampling.worker=decimal:Decimal", f"env.id={path}"])).config
    assert config.sampling.worker.__name__ == "Decimal" and config.env.id == path
    (line,) = problems(override_layer(["sampling.worker=decimal:Decimel"]))
    assert "decimal has no 'Decimel'; did you mean 'Decimal'?" in line


def test_import_errors_say_what_is_missing(tmp_path, monkeypatch):
    (tmp_path / "breaks.py").write_text("1 / 0\n")
    (tmp_path / "needs.py").write_text("import a_module_nobody_has\n")
    monkeypatch.syspath_prepend(tmp_path)
    for text, reason in [
        ("decimal", "must be module:Name"),
        ("decimal:", "must be module:Name"),
        ("no_such_module_here:X", "there is no module 'no_such_module_here'"),
        ("os.nothing:X", "there is no module 'os.nothing'"),
        ("breaks:X", "importing breaks failed: ZeroDivisionError: division by zero"),
        ("needs:X", "it imports 'a_module_nobody_has', which is not installed"),
        ("decimal:Decimal.nothing", "decimal has no 'Decimal.nothing'"),
        (".x:Y", "importing .x failed"),
    ]:
        with pytest.raises(ConfigError, match=reason):
            import_object(text)
    assert import_object("collections:OrderedDict.fromkeys")("a") == {"a": None}


def test_yaml_shows_every_value_with_its_source():
    resolved = run(Layer("preset", {"algorithm.lr": Linear(1e-3, 0)}), override_layer(["policies.a.gamma=0.5"]))
    lines = [" ".join(line.split()) for line in resolved.to_yaml().splitlines()]
    assert "lr: {start: 0.001, end: 0.0} # preset" in lines
    assert "gamma: 0.5 # command line" in lines and "gamma: 0.99 # default" in lines
    assert "lr: {start: 0.001, end: 0.0} # preset as algorithm.lr" in lines
    assert "name: ppo # default" in lines and "evaluation: null # default" in lines


def test_written_yaml_resolves_to_an_equal_config(tmp_path):
    resolved = run(
        Layer(
            "code",
            {
                "env.id": make_env,
                "env.config": {"a": 1e-5, "text": "on: # \n", "none": None, "yes": "yes", "deep": {"x": []}, "e": {}},
                "algorithm": PPOConfig(lr=Exponential(1e-3, 1e-7, 1000), clip=None, model=ModelConfig(hidden=(7,))),
                "policies": {"a": SACConfig(tau=1), "b": PPOConfig(), "true": {"frozen": True}},
                "sampling.worker": dict,
                "stop": {"env_steps": 2e5},
                "seed": 3,
            },
        )
    )
    path = tmp_path / "config.yaml"
    path.write_text(resolved.to_yaml())
    again = run(yaml_layer(path)).config
    assert again.env.id == f"{__name__}:make_env"
    assert again.replace(env=resolved.config.env) == resolved.config
    assert again.env.config == resolved.config.env.config


# Wrong configs, in numbers

WRONG: dict[str, list[Any]] = {
    "algorithm.lr": [-1, 0, "x", True, None, [], {}, {"start": 1}, {"start": 1, "end": -1}, float("nan"), 10**400],
    "algorithm.gamma": [1.5, -0.1, "0.9", False, None, [0.9], {"a": 1}, float("inf"), 1j, object()],
    "algorithm.epochs": [0, -3, 3.7, "3", True, None, (), 1e400, b"1"],
    "algorithm.clip": [0, "none", [], {"points": [[1]]}, -0.5],
    "algorithm.normalize": ["no", "yes", 0, 1, None, 1.0, []],
    "algorithm.model": [3, "x", [1], True, PPOConfig()],
    "algorithm.model.hidden": [3, "64", [0], [64, "x"], {"a": 1}, None, [[1]]],
    "algorithm.model.activation": ["tan", 3, None, ["tanh"]],
    "algorithm.model.options": [3, "x", [1]],
    "algorithm.name": [3, "", "a3c", ["ppo"], {"x": 1}, "nomodule:X", "os:path", True],
    "algorithm": [3, "a3c", [1], True, 0.5],
    "sampling.num_envs": [0, 1.5, "8", -1],
    "sampling.worker": ["x", "os:nothing", 3, "a b:c", ":"],
    "env.wrappers": ["x", [3], 3, {"a": 1}],
    "evaluation": [3, True, "on"],
    "stop": [3, [1], "x", True],
    "stop.env_steps": ["x", None, [], {}, True],
    "seed": [-1, "1", 1.5, [1]],
    "device": [3, None, ["cpu"]],
    "policies": [3, "a", [1]],
    "policies.a": [3, "a3c", [1], True],
    "policies.a.frozen": ["yes", 1, None],
    "policies.a.init_from": [3, ["x"]],
    "policies.a.lr": [-1, "x", None],
    "policies.a.name": ["dqn", 3, []],
    "policies.a.model.hidden": [0, [0]],
    "nothing": [1, None, {}],
    "": [1],
    "algorithm.": [1],
    "a.b.c": [1, {"d": 2}],
}
CASES = [(path, value) for path, values in WRONG.items() for value in values]


def test_there_are_more_than_a_hundred_wrong_configs():
    assert len(CASES) > 100


@pytest.mark.parametrize("at", range(len(CASES)))
def test_a_wrong_value_is_refused_with_its_path_and_the_reason(at):
    path, value = CASES[at]
    lines = problems(Layer("spoiled", {path: value}))
    root = path.split(".")[0]
    assert all(line.startswith(f"spoiled: {root}") for line in lines)
    assert any(
        word in line for line in lines for word in ("must", "no such", "there is no", "schedule", "names no", "has no")
    )


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["lr", "name", "model", "hidden", "a.b", "", "start", "end"]), inner, max_size=3
        )
    ),
    max_leaves=6,
)
some_path = st.sampled_from([*WRONG, "env.config", "env.config.x", "env.id", "policies.a.model", "policies.b.clip"])


def outcome(make):
    """Returns the result of `make`, or the ConfigError it raises; any other exception is a failure."""
    try:
        return make()
    except ConfigError as error:
        return error


@given(st.lists(st.dictionaries(some_path, json_like, max_size=3), max_size=3))
def test_any_layers_resolve_or_fail_with_a_config_error(values):
    resolved = outcome(lambda: run(*(Layer(f"layer {i}", part) for i, part in enumerate(values))))
    if isinstance(resolved, ConfigError):
        assert resolved.problems and all(resolved.problems)
    else:
        assert all(resolved.explain(path) for path in resolved.history)
        assert resolved.to_yaml()


@given(st.lists(st.text(max_size=12) | st.builds("{}={}".format, some_path, st.text(max_size=12)), max_size=3))
def test_any_overrides_resolve_or_fail_with_a_config_error(overrides):
    resolved = outcome(lambda: run(override_layer(overrides)))
    assert isinstance(resolved, ConfigError) or resolved.config


@given(st.dictionaries(st.sampled_from(["lr", "gamma", "epochs", "clip", "model", "gama", "kl"]), json_like))
def test_any_constructor_call_succeeds_or_fails_with_a_config_error(values):
    cfg = outcome(lambda: PPOConfig(**values))
    assert isinstance(cfg, ConfigError) or cfg.given == values.keys()


def test_importing_settings_and_config_is_light():
    code = (
        "import sys, rookery.core.config; "
        "print([m for m in ('torch', 'pydantic', 'ruamel.yaml', 'numpy') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"


# Values on one line


def test_equal_values_of_other_types_are_written_each_in_its_own_way():
    values = [1, True, 1.0, 0, False, 0.0, -0.0, "1", "true", None, "null", [-0.0, 0.0]]
    texts = ["1", "true", "1.0", "0", "false", "0.0", "-0.0", "'1'", "'true'", "null", "'null'", "[-0.0, 0.0]"]
    assert [flow(value) for value in values] == texts
    assert [flow(value) for value in reversed(values)] == texts[::-1]


# Undecided values


def test_settings_take_an_undecided_value_for_any_field_and_a_run_refuses_it():
    later = Undecided()
    for cfg in (
        PPOConfig(lr=later),
        PPOConfig(model=ModelConfig(hidden=(later, 8))),
        PPOConfig(model={"hidden": later}),
    ):
        assert is_undecided(cfg)
        (problem,) = problems(Layer("code", {"algorithm": cfg}))
        assert "only tune.run (rookery tune) tries values; a single training needs one of them" in problem
    assert not is_undecided(PPOConfig(lr=1e-3, model=ModelConfig(hidden=(8,), options={"a": [1]})))
