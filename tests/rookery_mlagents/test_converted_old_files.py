"""Files of ML-Agents 0.13 to 0.18 become files of today: each key by what becomes of it, each mistake by its line."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from rookery.core.errors import ConfigError
from rookery.core.settings.layers import yaml_layer
from rookery_mlagents.files.run_options import read_options
from rookery_mlagents.old.convert import convert, over, text_of
from rookery_mlagents.old.converted_files import converted_files
from rookery_mlagents.old.old_files import (
    KEYS,
    UNREAD,
    is_old,
    kind_of,
    old_file_message,
    read_file,
    read_trainer,
)
from rookery_mlagents.old.old_flags import OLD_FLAGS, read_flags
from rookery_mlagents.old.old_parameters import read_curricula, read_samplers
from rookery_mlagents.verbs.mlagents_convert import convert as command

PPO = """\
default:
  trainer: ppo
  batch_size: 1024
  beta: 5.0e-3
  buffer_size: 10240
  epsilon: 0.2
  hidden_units: 128
  lambd: 0.95
  learning_rate: 3.0e-4
  learning_rate_schedule: linear
  max_steps: 4.0e5
  memory_size: 64
  normalize: false
  num_epoch: 3
  num_layers: 2
  time_horizon: 64
  sequence_length: 32
  summary_freq: 2000
  use_recurrent: false
  vis_encode_type: simple
  reward_signals:
    extrinsic:
      strength: 1.0
      gamma: 0.99
"""

SAC = """\
Ball:
  trainer: sac
  batch_size: 128
  buffer_size: 50000
  buffer_init_steps: 1000
  hidden_units: 64
  init_entcoef: 0.5
  learning_rate: 1e-3
  max_steps: 2e5
  memory_size: 128
  normalize: yes
  num_update: 2
  train_interval: 3
  num_layers: 2
  time_horizon: 64
  sequence_length: 32
  summary_freq: 1000
  tau: 0.005
  use_recurrent: true
  vis_encode_type: nature_cnn
  save_replay_buffer: true
  reward_signals:
    extrinsic: {strength: 1.0, gamma: 0.99}
"""

CURRICULUM = """\
Wall:
  measure: progress
  thresholds: [0.1, 0.3]
  min_lesson_length: 100
  signal_smoothing: true
  parameters:
    low: [0.0, 4.0, 6.0]
    high: [4, 7, 8]
"""

SAMPLERS = """\
resampling-interval: 5000
mass:
  sampler-type: uniform
  min_value: 0.5
  max_value: 10
gravity:
  sampler-type: gaussian
  mean: 9.8
  st_dev: 1e-6
scale:
  sampler-type: multirange_uniform
  intervals: [[7, 10], [15, 20]]
"""


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Files are called as a user calls them, who stands in their folder."""
    monkeypatch.chdir(tmp_path)


def file_of(tmp_path, text, name="trainer_config.yaml"):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text(text, encoding="utf-8")
    return path.relative_to(tmp_path)


def converted(tmp_path, text, **options):
    return convert(read_file(file_of(tmp_path, text)), **options)


def refused(tmp_path, text, **options):
    with pytest.raises(ConfigError) as error:
        converted(tmp_path, text, **options)
    return str(error.value)


# -- behaviours ------------------------------------------------------------------------------------


def test_default_becomes_default_settings_and_a_behaviour_what_differs_from_it(tmp_path):
    found = converted(tmp_path, PPO + "Ball:\n  normalize: true\n  max_steps: 5e6\nTwin: Ball\n").current
    assert found["default_settings"] == {
        "trainer_type": "ppo",
        "hyperparameters": {
            "batch_size": 1024, "beta": 0.005, "buffer_size": 10240, "epsilon": 0.2, "lambd": 0.95,
            "learning_rate": 0.0003, "learning_rate_schedule": "linear", "num_epoch": 3,
        },
        "network_settings": {"hidden_units": 128, "normalize": False, "num_layers": 2, "vis_encode_type": "simple"},
        "reward_signals": {"extrinsic": {"strength": 1.0, "gamma": 0.99}},
        "max_steps": 400000,
        "time_horizon": 64,
        "summary_freq": 2000,
    }  # fmt: skip
    ball = {"trainer_type": "ppo", "network_settings": {"normalize": True}, "max_steps": 5000000}
    assert found["behaviors"] == {"Ball": ball, "Twin": ball}


def test_a_behaviour_with_fewer_reward_signals_than_default_is_written_out_with_all_others(tmp_path):
    text = PPO + "Ball:\n  reward_signals:\n    gail: {strength: 0.1, gamma: 0.9, demo_path: a.demo}\nOther: {}\n"
    done = converted(tmp_path, text)
    assert done.current.keys() == {"behaviors"}
    gail = {"strength": 0.1, "gamma": 0.9, "demo_path": "a.demo", "network_settings": {"hidden_units": 64}}
    assert done.current["behaviors"]["Ball"]["reward_signals"] == {"gail": gail}
    assert done.current["behaviors"]["Other"]["hyperparameters"]["batch_size"] == 1024
    assert any("default is written into each behaviour" in line and "Ball" in line for line in done.changes)


def test_a_behaviour_of_another_trainer_than_default_is_written_out(tmp_path):
    done = converted(tmp_path, PPO + SAC.replace("Ball", "Walker"), version="0.15")
    walker = done.current["behaviors"]["Walker"]
    assert "default_settings" not in done.current
    assert walker["trainer_type"] == "sac"
    assert "beta" not in walker["hyperparameters"]
    assert "Walker: left out, because sac did not read them: beta, epsilon, lambd, num_epoch" in done.changes


def test_sac(tmp_path):
    done = converted(tmp_path, SAC, version="0.15")
    ball = done.current["behaviors"]["Ball"]
    assert ball["hyperparameters"] == {
        "batch_size": 128, "buffer_size": 50000, "buffer_init_steps": 1000, "init_entcoef": 0.5, "learning_rate": 0.001,
        "tau": 0.005, "save_replay_buffer": True, "steps_per_update": 1.5,
    }  # fmt: skip
    assert ball["network_settings"] == {
        "normalize": True,
        "hidden_units": 64,
        "num_layers": 2,
        "vis_encode_type": "nature_cnn",
        "memory": {"sequence_length": 32, "memory_size": 128},
    }


def test_updates_of_sac_count_agents_where_their_number_is_given(tmp_path):
    text = SAC + "    reward_signal_num_update: 4\n"
    hyper = converted(tmp_path, text, version="0.15", agents={"": 12}).current["behaviors"]["Ball"]["hyperparameters"]
    assert (hyper["steps_per_update"], hyper["reward_signal_steps_per_update"]) == (18.0, 9.0)
    assert any("--agents N says how many" in line for line in converted(tmp_path, text, version="0.15").changes)


def test_steps_per_update_of_0_16_stay_as_they_are(tmp_path):
    text = SAC.replace("num_update: 2", "steps_per_update: 10").replace("  train_interval: 3\n", "")
    done = converted(tmp_path, text + "    reward_signal_steps_per_update: 20\n")
    hyper = done.current["behaviors"]["Ball"]["hyperparameters"]
    assert (hyper["steps_per_update"], hyper["reward_signal_steps_per_update"]) == (10, 20)
    assert done.version == "0.16"


@pytest.mark.parametrize(
    ("version", "trainer", "size"),
    [("0.13", "ppo", 32), ("0.14", "sac", 32), ("0.15", "ppo", 64), ("0.16", "sac", 128)],
)
def test_memory_is_the_actors(tmp_path, version, trainer, size):
    text = SAC if trainer == "sac" else PPO.replace("use_recurrent: false", "use_recurrent: true") + "Ball: {}\n"
    current = converted(tmp_path, text, version=version).current
    section = current["behaviors"]["Ball"] if trainer == "sac" else current["default_settings"]
    assert section["network_settings"]["memory"] == {"sequence_length": 32, "memory_size": size}


def test_a_behaviour_without_the_memory_of_default_takes_it_back(tmp_path):
    text = PPO.replace("use_recurrent: false", "use_recurrent: true") + "Ball:\n  use_recurrent: false\n"
    ball = converted(tmp_path, text, version="0.16").current["behaviors"]["Ball"]
    assert ball["network_settings"] == {"memory": None}


def test_steps_of_0_13_are_multiplied_by_agents(tmp_path):
    text = PPO + "Ball:\n  behavioral_cloning: {demo_path: a.demo, strength: 0.5, steps: 100}\nWalker: {}\n"
    found = converted(tmp_path, text, version="0.13", agents={"": 10, "Ball": 3}).current
    assert found["default_settings"]["max_steps"] == 4_000_000
    assert found["behaviors"]["Ball"]["max_steps"] == 1_200_000
    assert found["behaviors"]["Ball"]["summary_freq"] == 6000
    assert found["behaviors"]["Ball"]["behavioral_cloning"]["steps"] == 300
    assert found["behaviors"]["Walker"] == {"trainer_type": "ppo"}
    assert (
        converted(tmp_path, text, version="0.14", agents={"": 10}).current["default_settings"]["max_steps"] == 400_000
    )


def test_without_agents_steps_of_0_13_stay_and_it_is_said(tmp_path):
    done = converted(tmp_path, PPO + "Ball: {}\n", version="0.13")
    assert done.current["default_settings"]["max_steps"] == 400_000
    assert any("--agents N multiplies them" in line for line in done.changes)


def test_schedules_that_stayed_linear_are_written_down_beside_a_constant_learning_rate(tmp_path):
    done = converted(tmp_path, PPO + "Ball:\n  learning_rate_schedule: constant\n").current
    assert done["default_settings"]["hyperparameters"]["beta_schedule"] == "linear"
    assert done["behaviors"]["Ball"]["hyperparameters"] == {"learning_rate_schedule": "constant"}


def test_reward_signals(tmp_path):
    text = PPO + (
        "Ball:\n  reward_signals:\n    extrinsic: {strength: 1.0, gamma: 0.9}\n"
        "    curiosity: {strength: 0.02, gamma: 0.8, encoding_size: 256, learning_rate: 1e-4}\n"
        "    gail: {strength: 0.01, gamma: 0.7, encoding_size: 32, demo_path: a.demo, use_actions: on, use_vail: no}\n"
    )
    assert converted(tmp_path, text).current["behaviors"]["Ball"]["reward_signals"] == {
        "extrinsic": {"gamma": 0.9},
        "curiosity": {
            "strength": 0.02, "gamma": 0.8, "learning_rate": 0.0001, "network_settings": {"hidden_units": 256},
        },
        "gail": {
            "strength": 0.01, "gamma": 0.7, "demo_path": "a.demo", "use_actions": True, "use_vail": False,
            "network_settings": {"hidden_units": 32},
        },
    }  # fmt: skip


def test_rewards_of_a_file_of_before_0_9(tmp_path):
    text = PPO[: PPO.index("  reward_signals")] + "  gamma: 0.9\n  use_curiosity: false\n"
    text += "Ball:\n  gamma: 0.8\n  use_curiosity: true\n  curiosity_strength: 0.02\n  curiosity_enc_size: 256\n"
    done = converted(tmp_path, text)
    assert done.version == "0.13"
    assert done.current["default_settings"]["reward_signals"] == {"extrinsic": {"strength": 1.0, "gamma": 0.9}}
    assert done.current["behaviors"]["Ball"]["reward_signals"] == {
        "extrinsic": {"gamma": 0.8},
        "curiosity": {"strength": 0.02, "gamma": 0.8, "network_settings": {"hidden_units": 256}},
    }


def test_self_play(tmp_path):
    text = (
        PPO + "Ball:\n  self_play: {window: 5, play_against_current_self_ratio: 0.3, save_steps: 7, initial_elo: 900}\n"
    )
    done = converted(tmp_path, text)
    assert done.current["behaviors"]["Ball"]["self_play"] == {
        "window": 5, "play_against_latest_model_ratio": 0.3, "save_steps": 7, "initial_elo": 900, "swap_steps": 20000,
    }  # fmt: skip
    newest = converted(tmp_path, PPO + "Ball:\n  self_play: {save_steps: 7, swap_steps: 8}\n", version="0.16")
    assert newest.current["behaviors"]["Ball"]["self_play"]["team_change"] == 100000


def test_cloning_beside_rewards(tmp_path):
    cloning = "{demo_path: a.demo, strength: 0.5, steps: 10, batch_size: 8, num_epoch: 2, samples_per_update: 64}"
    for key in ("behavioral_cloning", "pretraining"):
        found = converted(tmp_path, f"{PPO}Ball:\n  {key}: {cloning}\n", version="0.16").current["behaviors"]["Ball"]
        assert found["behavioral_cloning"] == {
            "demo_path": "a.demo", "strength": 0.5, "steps": 10, "batch_size": 8, "num_epoch": 2,
            "samples_per_update": 64,
        }  # fmt: skip


OFFLINE = (
    "Ball:\n  trainer: offline_bc\n  batch_size: 64\n  batches_per_epoch: 10\n  demo_path: a.demo\n  max_steps: 5e4\n"
)


def test_offline_bc_becomes_cloning_beside_rewards_and_the_way_without_them_is_said(tmp_path):
    done = converted(tmp_path, OFFLINE)
    ball = done.current["behaviors"]["Ball"]
    assert ball["trainer_type"] == "ppo"
    assert ball["behavioral_cloning"] == {
        "demo_path": "a.demo", "strength": 1.0, "steps": 0, "batch_size": 64, "samples_per_update": 640,
    }  # fmt: skip
    assert any("rookery train --algo bc --replay" in line for line in done.changes)


def test_online_bc_needs_a_demonstration(tmp_path):
    text = OFFLINE.replace("offline_bc", "online_bc").replace("demo_path: a.demo", "brain_to_imitate: Teacher")
    assert (
        converted(tmp_path, text, demo="t.demo").current["behaviors"]["Ball"]["behavioral_cloning"]["demo_path"]
        == "t.demo"
    )
    assert refused(tmp_path, text).startswith("trainer_config.yaml:2: Ball: online_bc imitated the player 'Teacher'")
    assert "--demo FILE" in refused(tmp_path, text)


@pytest.mark.parametrize("key", UNREAD)
def test_keys_that_nobody_read_are_left_out_and_it_is_said(tmp_path, key):
    done = converted(tmp_path, PPO + f"Ball:\n  {key}: 1\n")
    assert done.current["behaviors"] == {"Ball": {"trainer_type": "ppo"}}
    assert any(line.startswith(f"Ball: {key} is left out: {UNREAD[key]}") for line in done.changes)


@pytest.mark.parametrize("key", [key for key in KEYS if KEYS[key].kind != "section"])
def test_every_key_has_an_effect(tmp_path, key):
    def current(value):
        trainer = KEYS[key].trainers[0]
        others = {"train_interval": "num_update: 4", "num_update": "train_interval: 8", "brain_to_imitate": ""}
        lines = {"trainer": trainer, "demo_path": "a.demo", "batch_size": 64, "learning_rate": 0.5}
        if key in ("memory_size", "sequence_length"):
            lines["use_recurrent"] = "true"
        text = "".join(f"  {name}: {one}\n" for name, one in {**lines, key: value}.items())
        return text_of(
            converted(tmp_path, f"Ball:\n{text}  {others.get(key, '')}\n", version=KEYS[key].versions[-1]).current
        )

    values = {"whole": (4, 8), "number": (0.25, 0.75), "flag": ("true", "false"), "text": ("x.demo", "y.demo")}
    one, other = values.get(KEYS[key].kind) or KEYS[key].kind.split("|")[:2]
    if key == "brain_to_imitate":  # only in the message of what needs a demonstration
        assert current(one) == current(other)
    else:
        assert current(one) != current(other)


def test_the_last_of_two_equal_keys_counts_as_it_did_and_it_is_said(tmp_path):
    file = read_trainer(file_of(tmp_path, PPO + "Ball:\n  beta: 1\n  reward_signals: {gail: {}}\n  beta: 2\n"))
    assert file.values["Ball"]["beta"] == 2
    assert file.notes == [
        "trainer_config.yaml:28: Ball.beta stands twice; this one counts, as it did, and not trainer_config.yaml:26"
    ]
    assert file.place("Ball.reward_signals.gail") == "trainer_config.yaml:27"


def test_memory_of_a_trainer_that_cloned_was_all_the_actors(tmp_path):
    ball = converted(tmp_path, OFFLINE + "  use_recurrent: true\n  memory_size: 64\n").current["behaviors"]["Ball"]
    assert ball["network_settings"]["memory"] == {"memory_size": 64}


# -- which release ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("num_update: 1", "0.15"),
        ("steps_per_update: 1", "0.16"),
        ("threaded: true", "0.16"),
        ("self_play: {play_against_current_self_ratio: 0.5}", "0.15"),
        ("self_play: {play_against_latest_model_ratio: 0.5}", "0.16"),
        ("self_play: {team_change: 5}", "0.16"),
        ("pretraining: {demo_path: a.demo}", "0.13"),
        ("reward_signals: {reward_signal_steps_per_update: 5}", "0.16"),
        ("max_steps: 1", "0.16"),
    ],
)
def test_the_release_is_found_by_keys_and_is_the_newest_that_is_possible(tmp_path, line, version):
    trainer = "sac" if "update" in line and "reward" not in line else "ppo"
    assert converted(tmp_path, f"Ball:\n  trainer: {trainer}\n  {line}\n").version == version


def test_the_numbers_that_default_came_with_say_the_release(tmp_path):
    def version(**numbers):
        text = "".join(f"  {key}: {value}\n" for key, value in numbers.items())
        return converted(tmp_path, f"default:\n  trainer: ppo\n{text}").version

    assert version(max_steps="5.0e4", summary_freq=1000) == "0.13"
    assert version(max_steps="5.0e5", summary_freq=10000, memory_size=256) == "0.14"
    assert version(max_steps="5.0e5", summary_freq=10000, memory_size=128) == "0.16"


def test_curricula_and_flags_say_the_release(tmp_path):
    lone = file_of(
        tmp_path, json.dumps(yaml_layer(file_of(tmp_path, CURRICULUM, "c.yaml")).values["Wall"]), "d/Wall.json"
    )
    file = read_file(file_of(tmp_path, PPO))
    assert convert(file, *read_curricula(lone.parent)[:1], each_in_a_file=True).version == "0.13"
    assert convert(file, flags=read_flags(["--num-runs", "2", "--train"])).version == "0.13"
    assert convert(file, flags=read_flags(["--multi-gpu", "--train"])).version == "0.14"


def test_signs_of_two_releases_have_to_be_decided(tmp_path):
    text = SAC.replace("tau", "steps_per_update")
    said = refused(tmp_path, text)
    assert "steps_per_update is of 0.16, and num_update is not" in said
    assert "--version 0.16" in said
    done = converted(tmp_path, text, version="0.16")
    assert "Ball: num_update is left out: 0.16 did not read it" in done.changes


def test_what_was_assumed_is_said(tmp_path):
    (first, *_) = converted(tmp_path, PPO + "Ball: {}\n").changes
    assert first.startswith("taken as a file of 0.16; 0.13, 0.14, 0.15, 0.16 are possible")
    assert "--version 0.13 --agents N" in first


# -- parameters of the environment -----------------------------------------------------------------


def test_a_curriculum_becomes_lessons_of_each_parameter(tmp_path):
    curricula, lone = read_curricula(file_of(tmp_path, CURRICULUM, "wall.yaml"))
    done = converted(tmp_path, PPO + "Wall: {}\n", curricula=curricula)
    criteria = {
        "measure": "progress", "behavior": "Wall", "signal_smoothing": True, "min_lesson_length": 100,
        "require_reset": True,
    }  # fmt: skip
    assert not lone
    assert done.current["environment_parameters"] == {
        name: {
            "curriculum": [
                {"name": "Lesson0", "completion_criteria": {**criteria, "threshold": 0.1}, "value": values[0]},
                {"name": "Lesson1", "completion_criteria": {**criteria, "threshold": 0.3}, "value": values[1]},
                {"name": "Lesson2", "value": values[2]},
            ]
        }
        for name, values in {"low": [0.0, 4.0, 6.0], "high": [4, 7, 8]}.items()
    }


def test_a_curriculum_of_a_behaviour_that_only_default_stands_for_is_told(tmp_path):
    curricula, _ = read_curricula(file_of(tmp_path, CURRICULUM, "c.yaml"))
    changes = converted(tmp_path, PPO + "Walls: {}\n", curricula=curricula).changes
    assert any("no section for the behaviour of this curriculum; did you mean 'Walls'?" in line for line in changes)


def test_json_in_a_directory_or_alone_is_the_curriculum_of_the_behaviour_it_is_called_by(tmp_path):
    together, _ = read_curricula(file_of(tmp_path, CURRICULUM, "wall.yaml"))
    values = dict(yaml_layer(tmp_path / "wall.yaml").values["Wall"])
    path = file_of(tmp_path, json.dumps(values, indent="\t"), "curricula/Wall.json")
    for place in (path, path.parent):
        curricula, lone = read_curricula(place)
        assert lone
        assert (
            convert(read_file(file_of(tmp_path, PPO)), curricula).current["environment_parameters"]
            == (convert(read_file(file_of(tmp_path, PPO)), together).current["environment_parameters"])
        )
    joined = file_of(tmp_path, json.dumps({"Wall": values}), "joined.json")
    assert read_curricula(joined)[1] is False


@pytest.mark.parametrize(("lesson", "names"), [(1, ["Lesson1", "Lesson2"]), (2, 6.0), (9, 6.0)])
def test_a_lesson_to_begin_with_leaves_out_those_before_it(tmp_path, lesson, names):
    curricula, _ = read_curricula(file_of(tmp_path, CURRICULUM, "wall.yaml"))
    low = converted(tmp_path, PPO, curricula=curricula, lesson=lesson).current["environment_parameters"]["low"]
    assert (low if isinstance(low, float) else [one["name"] for one in low["curriculum"]]) == names


def test_samplers(tmp_path):
    samplers = read_samplers(file_of(tmp_path, SAMPLERS, "s.yaml"))
    done = converted(tmp_path, PPO, samplers=samplers)
    assert done.current["environment_parameters"] == {
        "mass": {"sampler_type": "uniform", "sampler_parameters": {"min_value": 0.5, "max_value": 10}},
        "gravity": {"sampler_type": "gaussian", "sampler_parameters": {"mean": 9.8, "st_dev": 1e-6}},
        "scale": {"sampler_type": "multirangeuniform", "sampler_parameters": {"intervals": [[7, 10], [15, 20]]}},
    }
    assert any("resampling-interval 5000 is left out: every episode draws" in line for line in done.changes)


def test_ends_of_intervals_that_go_downwards_change_places(tmp_path):
    text = SAMPLERS.replace("0.5", "20").replace("[7, 10]", "[10, 7]")
    samplers = read_samplers(file_of(tmp_path, text, "s.yaml"))
    assert samplers.samplers["mass"]["sampler_parameters"] == {"min_value": 10, "max_value": 20}
    assert samplers.samplers["scale"]["sampler_parameters"]["intervals"][0] == [7, 10]
    assert len(samplers.changes) == 2


def test_a_parameter_with_a_curriculum_is_not_drawn(tmp_path):
    curricula, _ = read_curricula(file_of(tmp_path, CURRICULUM, "wall.yaml"))
    samplers = read_samplers(file_of(tmp_path, SAMPLERS.replace("mass", "low"), "s.yaml"))
    done = converted(tmp_path, PPO, curricula=curricula, samplers=samplers)
    assert "curriculum" in done.current["environment_parameters"]["low"]
    assert "s.yaml:2: low has a curriculum, which stands; its sampler is left out" in done.changes


def test_files_of_0_17_and_0_18_keep_their_behaviours(tmp_path):
    between = "behaviors: {Wall: {trainer_type: ppo}}\n"
    for name, text in {"curriculum": CURRICULUM, "parameter_randomization": SAMPLERS}.items():
        between += f"{name}:\n" + "".join(f"  {line}\n" for line in text.splitlines())
    found = converted(tmp_path, between).current
    assert list(found) == ["behaviors", "environment_parameters"]
    assert set(found["environment_parameters"]) == {"low", "high", "mass", "gravity", "scale"}


@pytest.mark.parametrize("drawn", [True, False])
def test_flat_behaviours_of_0_17_are_written_anew(tmp_path, drawn):
    inside = {
        "behaviors": PPO + "Ball:\n  batch_size: 32\n",
        **({"parameter_randomization": SAMPLERS} if drawn else {}),
    }
    text = "".join(f"{name}:\n" + "".join(f"  {line}\n" for line in part.splitlines()) for name, part in inside.items())
    found = converted(tmp_path, text + "env_settings: {seed: 7}\n")
    assert set(found.current) - {"environment_parameters"} == {"default_settings", "behaviors", "env_settings"}
    assert found.current["behaviors"]["Ball"]["hyperparameters"]["batch_size"] == 32
    assert ("environment_parameters" in found.current) == drawn
    path = file_of(tmp_path, text_of(found.current), "today.yaml")
    assert read_options(path, {}).behaviors["Ball"].max_steps == 400_000


def test_imitation_of_before_0_6_is_online_bc(tmp_path):
    text = "Student: {trainer: imitation, brain_to_imitate: Teacher, max_steps: 5}\n"
    with pytest.raises(ConfigError, match="online_bc imitated the player 'Teacher'.*--demo FILE"):
        converted(tmp_path, text)
    assert converted(tmp_path, text, demo="a.demo").current["behaviors"]["Student"]["behavioral_cloning"]


def test_cloning_beside_a_memory_is_told_of(tmp_path):
    text = "Hall: {trainer: offline_bc, demo_path: a.demo, use_recurrent: true, memory_size: 64}\n"
    assert any("take network_settings.memory out" in line for line in converted(tmp_path, text).changes)


# -- mistakes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (PPO + "Ball:\n  batch_sise: 3\n", "config.yaml:26: Ball.batch_sise: there is no such key; did you mean"),
        (PPO.replace("beta", "betta") + "Ball: {}\n", "config.yaml:4: default.betta: there is no such key"),
        (PPO + "Ball:\n  max_steps: many\n", "config.yaml:26: Ball.max_steps = 'many': must be a whole number"),
        (PPO + "Ball:\n  num_layers: 2.5\n", "config.yaml:26: Ball.num_layers = 2.5: must be a whole number"),
        (PPO + "Ball:\n  normalize: 3\n", "config.yaml:26: Ball.normalize = 3: must be true or false"),
        (PPO + "Ball:\n  trainer: poo\n", "Ball.trainer = 'poo': must be one of ppo, sac, offline_bc, online_bc"),
        (PPO + "Ball:\n  reward_signals: {curious: {}}\n", "Ball.reward_signals.curious: there is no such key; did"),
        (PPO + "Ball:\n  reward_signals: {gail: {strength: 1}}\n", "Ball.reward_signals.gail: demo_path is missing"),
        (PPO + "Ball:\n  self_play: {windo: 1}\n", "Ball.self_play.windo: there is no such key; did you mean"),
        (PPO + "Ball:\n  behavioral_cloning: {steps: 1}\n", "Ball.behavioral_cloning: demo_path is missing"),
        (PPO + "Ball: 3\n", "config.yaml:25: Ball = 3: must be a section of keys"),
        (PPO + "Ball: Bal\n", "config.yaml:25: Ball = 'Bal': there is no section of that name; did you"),
        (PPO + "A: B\nB: A\n", "these sections name each other"),
        ("Ball:\n  max_steps: 3\n", "config.yaml:1: Ball: trainer is missing"),
        ("trainer: ppo\nmax_steps: 3\n", "config.yaml:1: trainer stands outside of any section"),
        ("behaviors: {Ball: {trainer_type: ppo}}\n", "nothing to convert; run it: rookery mlagents learn "),
        ("default_settings: {trainer_type: ppo}\n", "there is nothing to convert"),
        (CURRICULUM, "this is a curriculum: give it as --curriculum"),
        (SAMPLERS, "this is a sampler file: give it as --sampler"),
        ("", "this is no trainer configuration"),
        ("a: 1\n", "this is no trainer configuration"),
        ("a:\n\tb: 1\n", "config.yaml:2: not YAML"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_trainer_configuration_is_told_with_its_line(tmp_path, text, said):
    assert said in refused(tmp_path, text).replace("trainer_config", "config")


def test_all_mistakes_are_told_at_once(tmp_path):
    assert refused(tmp_path, PPO + "Ball:\n  normalise: 1\n  beta: x\nWalker:\n  a: 1\n").count("\n") == 2


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("[0.0, 4.0, 6.0]", "[0.0, 4.0]"), "c.yaml:7: Wall.parameters.low: has 2 values; 2 thresholds make 3 lessons"),
        (("progress", "rewards"), "c.yaml:2: Wall.measure = 'rewards': must be one of reward, progress; did you mean"),
        (("[0.1, 0.3]", "[0.1, 3]"), "progress is between 0 and 1"),
        (("thresholds", "treshold"), "c.yaml:3: Wall.treshold: there is no such key; did you mean 'thresholds'?"),
        (("  min_lesson_length: 100\n", ""), "c.yaml:1: curriculum of Wall: min_lesson_length is missing"),
        (("[4, 7, 8]", "[4, x, 8]"), "Wall.parameters.high = [4, 'x', 8]: must be a list of numbers"),
    ],
)
def test_a_mistake_in_a_curriculum_is_told_with_its_line(tmp_path, change, said):
    with pytest.raises(ConfigError) as error:
        read_curricula(file_of(tmp_path, CURRICULUM.replace(*change), "c.yaml"))
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"measure": "reward",\n "thresholds": [1],}', "Wall.json:2: not JSON: "),
        ("measure: reward", "Wall.json:1: not JSON: "),
        ("[1]", "Wall.json:1: must be an object"),
        ('{"measure": "reward",\n "measure": "progress"}', "Wall.json:2: not JSON: key 'measure' stands twice"),
        (
            '{"measure": "reward", "thresholds": [1], "min_lesson_length": 1,\n'
            ' "signal_smoothing": true, "parameters": {\n "a": [1]}}',
            "Wall.json:3: parameters.a: has 1 values; 1 thresholds make 2 lessons",
        ),
    ],
)
def test_a_mistake_in_json_is_told_with_its_line(tmp_path, text, said):
    with pytest.raises(ConfigError) as error:
        read_curricula(file_of(tmp_path, text, "Wall.json"))
    assert said in str(error.value)


def test_a_curriculum_of_a_behaviour_that_is_not_there_is_refused(tmp_path):
    curricula, _ = read_curricula(file_of(tmp_path, CURRICULUM, "c.yaml"))
    said = refused(tmp_path, SAC.replace("Ball", "Walls"), curricula=curricula)
    assert said.startswith("c.yaml:1: curriculum of 'Wall': trainer_config.yaml has no such behaviour and no default")
    assert "did you mean 'Walls'?" in said


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("sampler-type: uniform", "sampler-type: unifrom"), "s.yaml:3: mass.sampler-type = 'unifrom': must be one of"),
        (("sampler-type: uniform", "sampler: uniform"), "s.yaml:2: mass: sampler-type is missing"),
        (("min_value", "min_val"), "s.yaml:4: mass.min_val: there is no such key; did you mean 'min_value'?"),
        (("  st_dev: 1e-6\n", ""), "s.yaml:6: gravity: st_dev is missing: gaussian needs mean and st_dev"),
        (("[7, 10]", "[7]"), "must be a list of pairs"),
        (("resampling-interval: 5000", "resampling_interval: 5000"), "did you mean 'resampling-interval'?"),
        (
            ("resampling-interval: 5000", "resampling-interval: 0"),
            "s.yaml:1: resampling-interval = 0: must be 1 or more",
        ),
        (("mean: 9.8", "mean: heavy"), "s.yaml:8: gravity.mean = 'heavy': must be a number"),
    ],
)
def test_a_mistake_in_a_sampler_file_is_told_with_its_line(tmp_path, change, said):
    with pytest.raises(ConfigError) as error:
        read_samplers(file_of(tmp_path, SAMPLERS.replace(*change), "s.yaml"))
    assert said in str(error.value)


# -- what a file is --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (PPO, "trainer"),
        (SAC, "trainer"),
        (CURRICULUM, "curriculum"),
        (SAMPLERS, "sampler"),
        ("behaviors: {}\ncurriculum: {}\n", "between"),
        ("behaviors: {Ball: {trainer: ppo}}\n", "between"),
        ("behaviors: {Ball: {trainer_type: ppo, max_steps: 3}}\n", "current"),
        ("environment_parameters: {a: 3}\n", "current"),
        ("behaviours: {Ball: {trainer_type: ppo, max_steps: 3}}\n", "unknown"),
        ("{}", "unknown"),
    ],
)
def test_what_a_file_is_shows_in_its_keys(tmp_path, text, kind):
    values = read_file(file_of(tmp_path, text)).values
    assert kind_of(values) == kind
    assert is_old(values) == (kind not in ("current", "unknown"))


def test_who_gives_an_old_file_to_learn_is_told_the_command(tmp_path):
    path = Path("my config") / "old.yaml"
    assert old_file_message(path, {"default": {"trainer": "ppo"}}) == (
        "my config/old.yaml:1: this is a trainer configuration of ML-Agents 0.13 to 0.18; convert it: "
        "rookery mlagents convert 'my config/old.yaml' -o 'my config/old.new.yaml'"
    )
    assert "--curriculum" in old_file_message("wall.yaml", yaml_layer(file_of(tmp_path, CURRICULUM)).values)


# -- flags -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OLD_FLAGS)
def test_every_flag_becomes_something_or_is_told(name):
    flag = OLD_FLAGS[name]
    found = read_flags([name, "7"] if flag.takes else [name])
    became = found.today or found.keys or found.files or found.changes
    assert became or name == "--train"
    assert flag.becomes


def test_flags_of_an_old_command():
    words = ["--train", "--env=Ball", "--run-id", "a", "--save-freq", "9", "--load", "--cpu", "--env-args", "--x", "1"]
    found = read_flags(words)
    new = ["--env", "Ball", "--run-id", "a", "--resume", "--torch-device", "cpu", "--env-args", "--x", "1"]
    assert found.today == new
    assert found.keys == {"checkpoint_interval": 9}


def test_how_often_is_saved_counts_agents(tmp_path):
    flags = read_flags(["--save-freq", "100", "--keep-checkpoints", "3", "--train"])
    found = converted(tmp_path, PPO + "Ball: {}\n", flags=flags, agents={"Ball": 5}).current
    assert found["default_settings"]["checkpoint_interval"] == 100
    assert found["default_settings"]["keep_checkpoints"] == 3
    assert found["behaviors"]["Ball"]["checkpoint_interval"] == 500


def test_without_train_nothing_was_learned(tmp_path):
    def warned(version, *words):
        changes = converted(tmp_path, PPO, version=version, flags=read_flags(words)).changes
        return any("did not learn" in line for line in changes)

    assert warned("0.15", "--run-id", "a")
    assert not warned("0.15", "--run-id", "a", "--train")
    assert not warned("0.16", "--run-id", "a")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--trian"], "had no such flag; did you mean '--train'?"),
        (["--run-id"], "--run-id: its value is missing"),
        (["--train=1"], "takes no value"),
        (["--save-freq", "x"], "--save-freq x: must be a whole number"),
    ],
)
def test_a_mistake_in_flags_is_told(words, said):
    with pytest.raises(ConfigError, match=said.replace("?", r"\?")):
        read_flags(words)


# -- the command -----------------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    app = typer.Typer()
    app.command()(command)

    def call(*words):
        return CliRunner().invoke(app, [str(word) for word in words])

    return call


def test_the_command_writes_one_file_and_says_what_changed(run, tmp_path):
    file_of(tmp_path, PPO + "Wall: {}\n", "old.yaml")
    file_of(tmp_path, CURRICULUM, "c.yaml")
    file_of(tmp_path, SAMPLERS, "s.yaml")
    done = run(
        "old.yaml", "--sampler", "s.yaml", "-o", "new.yaml", "--", "--curriculum", "c.yaml", "--run-id", "x", "--train"
    )
    assert done.exit_code == 0
    values = yaml_layer("new.yaml").values
    assert list(values) == ["default_settings", "behaviors", "environment_parameters"]
    assert set(values["environment_parameters"]) == {"low", "high", "mass", "gravity", "scale"}
    assert "written: new.yaml\n- taken as" in done.stdout
    assert done.stdout.endswith("then: rookery mlagents learn new.yaml --run-id x\n")


def test_the_new_name_may_stand_behind_the_old_one(run, tmp_path):
    file_of(tmp_path, PPO, "old.yaml")
    done = run("old.yaml", "new.yaml", "--", "--seed", "3", "--train")
    assert done.stdout.endswith("then: rookery mlagents learn new.yaml --seed 3\n")
    assert (tmp_path / "new.yaml").exists()


def test_a_file_that_is_there_stays_unless_it_is_forced(run, tmp_path):
    file_of(tmp_path, PPO, "old.yaml")
    file_of(tmp_path, "mine", "new.yaml")
    assert "--force" in str(run("old.yaml", "-o", "new.yaml").exception)
    assert (tmp_path / "new.yaml").read_text() == "mine"
    assert run("old.yaml", "-o", "new.yaml", "--force").exit_code == 0
    assert "default_settings" in (tmp_path / "new.yaml").read_text()


def test_without_a_name_the_file_goes_to_standard_output_alone(run, tmp_path):
    file_of(tmp_path, PPO, "old.yaml")
    done = run("old.yaml")
    assert "default_settings" in done.stdout
    assert "taken as" not in done.stdout
    assert "taken as" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--version", "0.12"], "--version 0.12: must be one of 0.13, 0.14, 0.15, 0.16"),
        (["--agents", "many"], "--agents many: must be a number of agents"),
        (["--agents", "Bal=3"], "--agents Bal: no behaviour is called like this; did you mean 'Ball'?"),
        (["--lesson", "1"], "--lesson 1: there are no lessons without --curriculum"),
        (["--curriculum", "nowhere"], "nowhere: there is no such file"),
        (["--curriculum", "."], "there is no .json file in this directory"),
    ],
)
def test_a_mistake_in_the_command_is_told(run, tmp_path, words, said):
    file_of(tmp_path, PPO + "Ball: {}\n", "old.yaml")
    assert said in str(run("old.yaml", *words).exception)


# -- as text ---------------------------------------------------------------------------------------


def test_the_text_means_the_same_to_readers_of_yaml_1_1_and_1_2(tmp_path):
    from ruamel.yaml import YAML

    current = {
        "no": {"yes": "off", "0x1F": "1:20", "3DBall": 1e-05, "a": [1e20, 0.5], "b": "1e5", "c": None, "d": "x: y"}
    }
    path = file_of(tmp_path, text_of(current, "made here"), "t.yaml")
    assert yaml_layer(path).values == current
    old = YAML(typ="safe", pure=True)
    old.version = (1, 1)
    assert old.load(path.read_text()) == current


def test_what_lies_over_defaults_gives_the_whole():
    below, whole = {"a": 1, "b": {"c": 2, "d": 3}, "memory": {"e": 1}}, {"a": 1, "b": {"c": 2, "d": 4}, "f": 5}
    assert over(below, whole) == {"b": {"d": 4}, "memory": None, "f": 5}
    assert over({"a": 1}, {}) is None
    assert over({"a": {"b": 1}}, {"a": {}}) is None


def test_files_by_their_paths(tmp_path):
    old = file_of(tmp_path, PPO + "Ball: {}\n")
    found, words = converted_files(
        old, None, None, lesson=None, version="0.13", agents=["2", "Ball=3"], demo=None, words=["--seed", "4"]
    )
    assert found.current["default_settings"]["max_steps"] == 800_000
    assert found.current["behaviors"]["Ball"]["max_steps"] == 1_200_000
    assert words == ["--seed", "4"]


def test_curricula_and_samplers_are_told_apart(tmp_path):
    curriculum = file_of(tmp_path, "Wall: {measure: progress, thresholds: [0.1]}", "c.yaml")
    sampler = file_of(tmp_path, "mass: {sampler-type: uniform, min_value: 0, max_value: 1}", "s.yaml")
    with pytest.raises(ConfigError, match=r"--sampler c.yaml: this is a curriculum, not a sampler.*as --curriculum"):
        read_samplers(curriculum)
    with pytest.raises(ConfigError, match=r"--curriculum s.yaml: this is a sampler file, not a curr.*as --sampler"):
        read_curricula(sampler)


@pytest.mark.parametrize(
    ("version", "said"), [("0.12", "--version 0.13 takes"), ("0.15.1", "give --version 0.15"), ("0.18", "leave")]
)
def test_other_releases_are_told_what_to_give(tmp_path, version, said):
    assert said in refused(tmp_path, "Ball: {trainer: ppo, batch_size: 3}", version=version)
