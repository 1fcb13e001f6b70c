"""ML-Agents' configuration: what is read, merged as ML-Agents merges it, and what is refused in which words."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from rookery.core.errors import ConfigError
from rookery_mlagents.files.run_options import BehaviorOptions, read_options
from rookery_mlagents.files.sections import CuriosityOptions, OwnOptions, POCAOptions, PPOOptions, SACOptions


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Files are called as a user calls them, who stands in their folder."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def read():
    """Reads a configuration from a text."""

    def reading(text, **flags):
        path = Path("ball.yaml")
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_options(path, flags)

    return reading


def refusal(read, text, **flags):
    with pytest.raises(ConfigError) as error:
        read(text, **flags)
    return str(error.value)


# -- what is read ------------------------------------------------------------------------------------------------------


def test_defaults_are_those_of_1_1_0(read):
    options = read("behaviors: {Ball: {}}")
    assert options.behaviors["Ball"] == BehaviorOptions()
    shown = options.as_dict()
    ball = shown["behaviors"]["Ball"]
    assert ball["hyperparameters"] == {
        "batch_size": 1024, "buffer_size": 10240, "learning_rate": 3e-4, "beta": 5e-3, "epsilon": 0.2, "lambd": 0.95,
        "num_epoch": 3, "shared_critic": False, "learning_rate_schedule": "linear", "beta_schedule": "linear",
        "epsilon_schedule": "linear",
    }  # fmt: skip
    assert (ball["max_steps"], ball["time_horizon"], ball["summary_freq"]) == (500000, 64, 50000)
    assert (ball["keep_checkpoints"], ball["checkpoint_interval"]) == (5, 500000)
    assert ball["network_settings"]["hidden_units"] == 128
    assert shown["env_settings"]["base_port"] == 5005
    assert shown["checkpoint_settings"]["run_id"] == "ppo"
    assert options.places.keys() == {"behaviors", "behaviors.Ball"}


def test_sac_has_other_defaults_and_its_signals_learn_as_often_as_it(read):
    hyper = read("behaviors: {B: {trainer_type: sac, hyperparameters: {steps_per_update: 4}}}").behaviors["B"]
    assert isinstance(hyper.hyperparameters, SACOptions)
    assert hyper.hyperparameters.batch_size == 128
    assert hyper.hyperparameters.learning_rate_schedule == "constant"
    assert hyper.hyperparameters.reward_signal_steps_per_update == 4.0


def test_schedules_without_a_word_are_that_of_the_learning_rate(read):
    text = """
behaviors:
  B:
    trainer_type: ppo
    hyperparameters: {learning_rate_schedule: constant, beta_schedule: linear}
"""
    hyper = read(text).behaviors["B"].hyperparameters
    assert (hyper.beta_schedule, hyper.epsilon_schedule) == ("linear", "constant")


@pytest.mark.parametrize(
    ("key", "written", "wanted"),
    [
        ("max_steps", "5.0e5", 500000),
        ("max_steps", "'5e5'", 500000),
        ("max_steps", "500_000", 500000),
        ("threaded", "yes", True),
        ("threaded", "'off'", False),
        ("init_path", "7", "7"),
        ("init_path", "~", None),
    ],
)
def test_values_are_taken_as_ml_agents_takes_them(read, key, written, wanted):
    found = getattr(read(f"behaviors: {{B: {{{key}: {written}}}}}").behaviors["B"], key)
    assert found == wanted
    assert type(found) is type(wanted)


def test_numbers_may_be_texts(read):
    text = "behaviors: {B: {trainer_type: ppo, hyperparameters: {learning_rate: '3e-4', beta: 5.0e-3}}}"
    hyper = read(text).behaviors["B"].hyperparameters
    assert (hyper.learning_rate, hyper.beta) == (3e-4, 5e-3)


def test_team_change_is_five_times_save_steps(read):
    assert read("behaviors: {B: {self_play: {save_steps: 100}}}").behaviors["B"].self_play.team_change == 500
    assert read("behaviors: {B: {self_play: {team_change: 7}}}").behaviors["B"].self_play.team_change == 7


def test_encoding_size_is_the_width_unless_network_settings_are_given(read):
    options = read("behaviors: {B: {reward_signals: {curiosity: {encoding_size: 32}}}}")
    signal = options.behaviors["B"].reward_signals["curiosity"]
    assert isinstance(signal, CuriosityOptions)
    assert signal.network_settings.hidden_units == 32
    assert "encoding_size" in options.notes[0]
    text = "behaviors: {B: {reward_signals: {rnd: {encoding_size: 32, network_settings: {hidden_units: 8}}}}}"
    assert read(text).behaviors["B"].reward_signals["rnd"].network_settings.hidden_units == 8


def test_an_own_algorithm_is_named_by_its_settings(read):
    text = "behaviors: {B: {trainer_type: 'my.module:MyConfig', hyperparameters: {temperature: 2}}}"
    found = read(text).behaviors["B"]
    assert found.trainer_type == "my.module:MyConfig"
    assert found.hyperparameters == OwnOptions({"temperature": 2})


# -- what holds for all ------------------------------------------------------------------------------------------------

COMMON = """
default_settings:
  trainer_type: ppo
  hyperparameters:
    batch_size: 32
    buffer_size: 64
  network_settings:
    hidden_units: 16
    num_layers: 1
  reward_signals:
    extrinsic: {gamma: 0.9}
behaviors:
  A:
    hyperparameters: {batch_size: 8}
    network_settings: {num_layers: 3}
    reward_signals: {rnd: {}}
  B:
    trainer_type: sac
"""


def test_a_behaviour_is_put_over_default_settings_key_by_key(read):
    options = read(COMMON)
    a = options.behaviors["A"]
    assert isinstance(a.hyperparameters, PPOOptions)
    assert (a.hyperparameters.batch_size, a.hyperparameters.buffer_size) == (8, 64)
    assert (a.network_settings.hidden_units, a.network_settings.num_layers) == (16, 3)
    assert options.place_of("A", "hyperparameters.buffer_size") == "ball.yaml:6"
    assert options.place_of("A", "hyperparameters.batch_size") == "ball.yaml:14"


def test_reward_signals_join_those_of_default_settings_and_replace_the_default_without_them(read):
    assert list(read(COMMON).behaviors["A"].reward_signals) == ["extrinsic", "rnd"]
    assert read(COMMON).behaviors["A"].reward_signals["extrinsic"].gamma == 0.9
    assert list(read("behaviors: {B: {reward_signals: {rnd: {}}}}").behaviors["B"].reward_signals) == ["rnd"]
    text = "{default_settings: {max_steps: 9}, behaviors: {B: {reward_signals: {rnd: {}}}}}"
    assert list(read(text).behaviors["B"].reward_signals) == ["extrinsic", "rnd"]


def test_hyperparameters_of_another_trainer_are_left_out(read):
    b = read(COMMON).behaviors["B"]
    assert b.hyperparameters == SACOptions()
    assert b.network_settings.hidden_units == 16


def test_a_behaviour_without_entry_has_default_settings_or_is_refused(read):
    options = read(COMMON)
    assert options.of("Other").hyperparameters == PPOOptions(batch_size=32, buffer_size=64)
    assert options.place_of("Other", "hyperparameters.batch_size") == "ball.yaml:5"
    with pytest.raises(ConfigError, match=r"behaviour 'Bal', .*did you mean 'Ball'.*default_settings"):
        read("behaviors: {Ball: {}}").of("Bal")


def test_without_a_file_every_behaviour_has_defaults_and_a_line_says_so():
    options = read_options(None, {"deterministic": True})
    assert options.of("Anything").hyperparameters == PPOOptions()
    assert options.of("Anything").network_settings.deterministic
    assert "no configuration file" in options.notes[0]
    assert "Anything" in options.with_behaviors(["Anything"]).as_dict()["behaviors"]


def test_aliases_and_merge_keys_count(read):
    text = """
behaviors:
  A: &a
    trainer_type: poca
    max_steps: 7
  B:
    <<: *a
    time_horizon: 3
"""
    b = read(text).behaviors["B"]
    assert isinstance(b.hyperparameters, POCAOptions)
    assert (b.max_steps, b.time_horizon) == (7, 3)


def test_what_configuration_yaml_shows_reads_back_as_the_same(read, tmp_path):
    text = """
default_settings: {max_steps: 9}
behaviors:
  A: {trainer_type: sac, network_settings: {memory: {}}, reward_signals: {curiosity: {encoding_size: 7}}}
  B: {trainer_type: poca, self_play: {save_steps: 3}, behavioral_cloning: {demo_path: x.demo}}
  C: {trainer_type: 'my.module:MyConfig', hyperparameters: {temperature: 2}}
environment_parameters:
  mass: {sampler_type: gaussian, sampler_parameters: {seed: 3}}
  wall: {curriculum: [{name: a, value: 1, completion_criteria: {behavior: A}}, {name: b, value: 2}]}
"""
    first = read(text, seed=3, env="game", env_args=["a", "b"])
    shown = tmp_path / "configuration.yaml"
    shown.write_text(json.dumps(first.as_dict()))
    second = read_options(shown, {})
    assert second.as_dict() == first.as_dict()
    assert second.behaviors == first.behaviors


# -- flags -------------------------------------------------------------------------------------------------------------


def test_flags_beat_the_file(read):
    text = "{behaviors: {B: {}}, env_settings: {seed: 1, num_envs: 1}, checkpoint_settings: {run_id: a}}"
    options = read(text, seed=5, run_id="b", env="game", num_envs=3, env_args=["--x", "1"], time_scale=None)
    assert (options.env_settings.seed, options.env_settings.num_envs) == (5, 3)
    assert options.env_settings.env_args == ("--x", "1")
    assert options.checkpoint_settings.run_id == "b"
    assert options.places["env_settings.seed"] == "--seed"
    assert options.engine_settings.time_scale == 20.0


def test_deterministic_is_of_all_behaviours(read):
    options = read(COMMON, deterministic=True)
    assert all(options.of(name).network_settings.deterministic for name in ("A", "B", "Other"))
    assert options.of("A").network_settings.num_layers == 3


@pytest.mark.parametrize(
    ("text", "flags", "resume", "start"),
    [
        ("{resume: true, initialize_from: x}", {}, True, None),
        ("{resume: true}", {"initialize_from": "x"}, False, "x"),
        ("{initialize_from: x}", {"resume": True}, True, None),
        ("{}", {"initialize_from": "x", "resume": True}, True, None),
    ],
)
def test_of_resume_and_initialize_from_one_counts(read, text, flags, resume, start, tmp_path):
    written = f"{{behaviors: {{B: {{}}}}, checkpoint_settings: {text}}}"
    flags = {"results_dir": str(tmp_path / "results"), **flags}
    before = read(written, **flags)
    assert before.checkpoint_settings.initialize_from == "x"  # a run without a checkpoint begins anew
    (tmp_path / "results" / "ppo" / "checkpoints" / "000001").mkdir(parents=True)
    options = read(written, **flags)
    assert options.checkpoint_settings.resume is resume
    assert options.checkpoint_settings.initialize_from == start


def test_dead_flags_are_told(read):
    options = read("behaviors: {B: {}}", train=True, load=True, torch=True)
    assert len(options.notes) == 3
    assert "--no-such" in refusal(read, "behaviors: {B: {}}", no_such=1)


# -- parameters of the environment -------------------------------------------------------------------------------------


def test_parameters_are_numbers_distributions_and_lessons(read):
    text = """
behaviors: {B: {}}
environment_parameters:
  mass: 3
  gravity:
    sampler_type: uniform
    sampler_parameters: {max_value: 12}
  wall:
    curriculum:
      - name: Low
        completion_criteria: {behavior: B, threshold: 0.1, measure: progress}
        value: 1.5
      - name: High
        value: {sampler_type: multirangeuniform, sampler_parameters: {intervals: [[1, 2], [3, 4.5]]}}
"""
    found = read(text).as_dict()["environment_parameters"]
    assert found["mass"]["curriculum"][0]["value"] == {
        "sampler_type": "constant",
        "sampler_parameters": {"seed": -1, "value": 3.0},
    }
    uniform = {"seed": -1, "min_value": 0.0, "max_value": 12.0}
    assert found["gravity"]["curriculum"][0]["value"]["sampler_parameters"] == uniform
    low, high = found["wall"]["curriculum"]
    assert low["completion_criteria"]["signal_smoothing"] is True
    assert high["value"]["sampler_parameters"]["intervals"] == [[1.0, 2.0], [3.0, 4.5]]
    assert high["completion_criteria"] is None


# -- refusals ----------------------------------------------------------------------------------------------------------

CONVERT = r"ML-Agents 0.13 to 0.18.*: rookery mlagents convert .*ball\.yaml"
NO_SUCH_BEHAVIOR = (
    "{behaviors: {Ball: {}}, environment_parameters: {m: {curriculum: [{name: a, value: 1, completion_criteria: "
    "{behavior: Bal}}, {name: b, value: 2}]}}}"
)
WRONG = {
    "behavior: {}": "ball.yaml:1: behavior: there is no such key in a configuration; did you mean 'behaviors'",
    "behaviors:\n  B:\n    trainer_typ: ppo": "ball.yaml:3: behaviors.B.trainer_typ: .*did you mean 'trainer_type'",
    "behaviors: {B: {trainer_type: pppo}}": "no such trainer; did you mean 'ppo'.*my.module:MyConfig",
    "behaviors: {B: {trainer_type: offline_bc}}": "removed in 0.13.*behavioral_cloning",
    "behaviors: {B: {hyperparameters: {beta: 1}}}": "no trainer_type",
    "behaviors: {B: {trainer_type: ppo, hyperparameters: {batchsize: 1}}}": "did you mean 'batch_size'",
    "behaviors: {B: {trainer_type: ppo, hyperparameters: {tau: 1}}}": "tau = 1: is a key of sac",
    "behaviors: {B: {trainer_type: sac, hyperparameters: {beta: 1}}}": "beta = 1: is a key of ppo",
    "behaviors: {B: {trainer_type: poca, hyperparameters: {shared_critic: true}}}": "critic of the group",
    "behaviors: {B: {gamma: 0.9}}": "today it is reward_signals.extrinsic.gamma",
    "behaviors: {B: {num_layers: 3}}": "it belongs into network_settings",
    "behaviors: {B: {max_steps: -1}}": "behaviors.B.max_steps = -1: must be a whole number of at least 1",
    "behaviors: {B: {max_steps: many}}": "must be a whole number",
    "behaviors: {B: {threaded: 3}}": "must be true or false",
    "behaviors: {B: 3}": "must be a section of keys",
    "behaviors: {B: {network_settings: {vis_encode_type: natur_cnn}}}": "did you mean 'nature_cnn'",
    "behaviors: {B: {network_settings: {memory: {memory_size: 3}}}}": "memory_size must be even",
    "behaviors: {B: {network_settings: {memory: {sequence_lenth: 3}}}}": "did you mean 'sequence_length'",
    "behaviors: {B: {network_settings: {memory: {sequence_length: 2000}}}}": "longer than batch_size 1024",
    "behaviors: {B: {reward_signals: {curiousity: {}}}}": "no such reward signal; did you mean 'curiosity'",
    "behaviors: {B: {reward_signals: {extrinsic: {gamma: 2}}}}": "must be a number from 0 to 1",
    "behaviors: {B: {reward_signals: {gail: {}}}}": "demo_path is missing",
    "behaviors: {B: {behavioral_cloning: {steps: 3}}}": "demo_path is missing",
    "behaviors: {B: {self_play: {play_against_current_self_ratio: 0.5}}}": "play_against_latest_model_ratio",
    "{behaviors: {B: {}}, env_settings: {sed: 3}}": "env_settings.sed: .*did you mean 'seed'",
    "{behaviors: {B: {}}, env_settings: {num_envs: 2}}": "must be 1 where no environment is named",
    "{behaviors: {B: {}}, engine_settings: {widht: 3}}": "did you mean 'width'",
    "{behaviors: {B: {}}, checkpoint_settings: {run_idd: x}}": "did you mean 'run_id'",
    "{behaviors: {B: {}}, torch_settings: {devise: x}}": "did you mean 'device'",
    "{behaviors: {B: {}}, debug: maybe}": "debug = 'maybe': must be true or false",
    "{behaviors: {B: {}}, parameter_randomization: {}}": "today it is environment_parameters",
    "{behaviors: {B: {}}, environment_parameters: {m: heavy}}": "must be a number, a distribution",
    "{behaviors: {B: {}}, environment_parameters: {m: {sampler_type: unifrm, sampler_parameters: {}}}}": (
        "did you mean 'uniform'"
    ),
    "{behaviors: {B: {}}, environment_parameters: {m: {sampler_type: uniform, sampler_parameters: {min_val: 1}}}}": (
        "did you mean 'min_value'"
    ),
    "{behaviors: {B: {}}, environment_parameters: {m: {curriculum: [{name: a, value: 1}, {name: b, value: 2}]}}}": (
        "completion_criteria is missing"
    ),
    "behaviors:\n  B:\n    max_steps: 1\n    max_steps: 2": (
        "ball.yaml:4: behaviors.B.max_steps: the key stands twice, first in ball.yaml:3"
    ),
    "behaviors:\n\tB: {}": "ball.yaml:2: not YAML: a tab stands where YAML wants spaces",
    "behaviors: {B: {": "ball.yaml:1: not YAML",
    "- a": "must be a mapping of sections",
    "behaviors: {B: {trainer_type: PPO}}": "did you mean 'ppo'",
    "behaviors:\n  B: {trainer_type: [ppo]}\n": r"trainer_type = \['ppo'\]: there is no such trainer",
    "behaviors: {B: {trainer_type: ppo, hyperparameters: [1, 2]}}": r"hyperparameters = \[1, 2\]: must be a section of",
    "behaviors: {B: {network_settings: {memory: None}}}": "memory = 'None': is a text in YAML.*write null",
    "behaviors: {B: {init_path: None}}": "init_path = 'None': is a text in YAML",
    "behaviors: {B: {self_play: None}}": "self_play = 'None': is a text in YAML",
    "behaviors: {B: {<<: 3}}": "must be a section to start from",
    "behaviors:\n\u00a0 B: {}": "ball.yaml:2: B: a space of another kind",
    "behaviors: " + "{a: " * 700 + "1" + "}" * 700: "nested too deeply",
    "{behaviors: {B: {}}, environment_parameters: {m: nan}}": "m = nan: must be a number",
    "{behaviors: {B: {}}, environment_parameters: {m: {sampler_type: multirangeuniform, sampler_parameters: "
    "{intervals: [[0, inf]]}}}}": r"must be a list of \[low, high\]",
    "{behaviors: {B: {}}, environment_parameters: {m: {curriculum: [{name: a, value: 1, completion_criteria: "
    "{behavior: B, measure: Ello}}, {name: b, value: 2}]}}}": "measure = 'Ello'",
    NO_SUCH_BEHAVIOR: "did you mean 'Ball'",
    # files of older releases
    "default:\n  trainer: ppo\n  batch_size: 1\n3DBall:\n  normalize: true": f"a trainer configuration of {CONVERT}",
    "Ball:\n  hidden_units: 3\n  lambd: 1": f"a trainer configuration of {CONVERT}",
    "resampling-interval: 5000\nmass:\n  sampler-type: uniform": f"a sampler file of {CONVERT}",
    "Wall:\n  measure: progress\n  thresholds: [0.1]": f"a curriculum of {CONVERT}",
    "behaviors:\n  Ball:\n    trainer: ppo\n    batch_size: 64\nparameter_randomization: {}": (
        f"^ball.yaml:3: behaviors have the flat keys of {CONVERT}"
    ),
    # no YAML
    "behaviors: {}\n".encode("utf-16"): "is no text in UTF-8",
    "behaviors:\n  B\n    a: 1\n": "ball.yaml:2: not YAML: a colon is missing in 'B'.*column 3",
    "behaviors:\n  B:\n    a:1\n    b: 2\n": "ball.yaml:3: not YAML: a space is missing after the colon",
    "behaviors:\n  B:\n    a: 1\n   b: 2\n": "ball.yaml:4: not YAML: 'b: 2' stands 3 spaces from the left",
    "behaviors:\n  B:\n    a: 1\n      b: 2\n": "ball.yaml:4: not YAML: 'b: 2' stands further right than 'a: 1'",
    "a: {b: 1, c: 2\nd: 3\n": "ball.yaml:2: not YAML: expected a comma or }.*line 1, column 4 is not closed",
    "a: 'x\n": "ball.yaml:1: not YAML: a quote opens here and is never closed",
    "a: b: c\n": "ball.yaml:1: not YAML: a second colon after 'b'",
    "a:\n\t- 1\n": "ball.yaml:2: not YAML: a tab stands",
    "a: @x\n": "ball.yaml:1: not YAML: a value cannot begin with @: put it into quotes",
    "a: \x01\n": "ball.yaml:1: not YAML: '.x01' is no character of a text",
}


@pytest.mark.parametrize("text", WRONG)
def test_mistakes_are_refused_with_place_and_remedy(read, text):
    said = refusal(read, text)
    assert re.search(WRONG[text], said), said
    assert said.startswith("ball.yaml:")


def test_criteria_may_be_of_any_behaviour_beside_default_settings(read):
    assert read(NO_SUCH_BEHAVIOR.replace("{behaviors", "{default_settings: {max_steps: 3}, behaviors", 1))


def test_all_mistakes_of_a_file_are_told_at_once(read):
    said = refusal(read, "behaviors:\n  B:\n    max_stepz: 1\n    thread: 3\nenv_setting: {}")
    assert [line.split(":")[1] for line in said.splitlines()] == ["3", "4", "5"]


def test_lessons_may_have_the_form_that_their_upgrade_tool_wrote(read):
    lessons = "[{Lesson0: {completion_criteria: {behavior: B}, value: 1.5}}, {Lesson1: {value: 2}}]"
    options = read(f"{{behaviors: {{B: {{}}}}, environment_parameters: {{wall: {{curriculum: {lessons}}}}}}}")
    assert [lesson.name for lesson in options.environment_parameters["wall"].curriculum] == ["Lesson0", "Lesson1"]
    assert "`- name: Lesson0`" in options.notes[0]


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("framework: pytorch", "ball.yaml:3: behaviors.B.framework does nothing"),
        ("output_path: default", "ball.yaml:3: behaviors.B.output_path does nothing"),
        ("reward_signals: {}", "names no signal"),
    ],
)
def test_keys_without_an_effect_are_told_of(read, text, note):
    assert note in "\n".join(read(f"behaviors:\n  B:\n    {text}\n").notes)


@pytest.mark.parametrize(("path", "said"), [("none.yaml", r"none\.yaml: there is no such file"), (".", "is a folder")])
def test_a_path_that_is_no_file_is_refused(path, said):
    with pytest.raises(ConfigError, match=said):
        read_options(Path(path), {})


def test_files_are_called_by_their_path(tmp_path):
    (tmp_path / "configs").mkdir()
    Path("configs/ball.yaml").write_text("behaviors:\n  B:\n    max_step: 3\n")
    with pytest.raises(ConfigError, match=r"^configs/ball.yaml:3: "):
        read_options("configs/ball.yaml", {})


def test_hyperparameters_of_an_unknown_trainer_are_not_judged(read):
    said = refusal(read, "behaviors: {B: {trainer_type: dreamer, hyperparameters: {imagined_steps: 9, beta: x}}}")
    assert said.splitlines() == [line for line in said.splitlines() if "there is no such trainer" in line]


def test_what_is_wrong_with_demonstrations_is_said_once(read):
    said = refusal(read, "behaviors: {B: {reward_signals: {gail: {demo_path: [a]}}, behavioral_cloning: None}}")
    assert len(said.splitlines()) == 2
    assert "missing" not in said


def test_keys_of_a_section_are_listed_once(read):
    said = refusal(read, "behaviors: {B: {zzz: 3}}")
    assert said.count("self_play") == said.count("trainer_type") == 1
