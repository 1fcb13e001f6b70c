"""Files of ML-Agents 0.13 to 0.18 become files of today: each key by what becomes of it, each mistake by its line."""

import json
import shlex
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from rookery.core.settings.layers import yaml_layer
from rookery_mlagents.files.run_options import read_options
from rookery_mlagents.old.convert import converted_files, over, text_of
from rookery_mlagents.old.old_files import is_old, kind_of, old_file_message, read_file
from rookery_mlagents.old.old_flags import OLD_FLAGS, read_flags
from rookery_mlagents.old.old_keys import KEYS, UNREAD
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

BALLS = PPO + "Ball: {}\n"
RECURRENT = PPO.replace("use_recurrent: false", "use_recurrent: true")
STEPS_OF_016 = SAC.replace("num_update: 2", "steps_per_update: 10").replace("  train_interval: 3\n", "")
TWO_RELEASES = SAC.replace("tau", "steps_per_update")
BEFORE_09 = PPO[: PPO.index("  reward_signals")] + "  gamma: 0.9\n  use_curiosity: false\n"
OFFLINE = (
    "Ball:\n  trainer: offline_bc\n  batch_size: 64\n  batches_per_epoch: 10\n  demo_path: a.demo\n  max_steps: 5e4\n"
)
ONLINE = OFFLINE.replace("offline_bc", "online_bc").replace("demo_path: a.demo", "brain_to_imitate: Teacher")
IMITATION = "Student: {trainer: imitation, brain_to_imitate: Teacher, max_steps: 5}\n"
CLONING = {
    "demo_path": "a.demo", "strength": 0.5, "steps": 10, "batch_size": 8, "num_epoch": 2, "samples_per_update": 64,
}  # fmt: skip


def below(**sections):
    """Returns a file with texts as its sections, as 0.17 had them."""
    inside = {name: "".join(f"  {line}\n" for line in text.splitlines()) for name, text in sections.items()}
    return "".join(f"{name}:\n{text}" for name, text in inside.items())


BETWEEN = "behaviors: {Wall: {trainer_type: ppo}}\n" + below(curriculum=CURRICULUM, parameter_randomization=SAMPLERS)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Files are called as a user calls them, who stands in their folder."""
    monkeypatch.chdir(tmp_path)


def written(name, text):
    path = Path(name)
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text(text, encoding="utf-8")
    return path


def converted(text, curriculum=None, sampler=None, **options):
    curriculum, sampler = curriculum and written("c.yaml", curriculum), sampler and written("s.yaml", sampler)
    return converted_files(written("trainer_config.yaml", text), curriculum, sampler, **options)[0]


@pytest.fixture
def run():
    app = typer.Typer()
    app.command()(command)

    def call(*words):
        return CliRunner().invoke(app, [str(word) for word in words])

    return call


# -- what becomes of a file --------------------------------------------------------------------------------------------

ABSENT = object()
"""What a path leads to that is not there."""


def at(tree, path):
    for key in path.split("."):
        tree = tree[int(key)] if isinstance(tree, list) else tree.get(key, ABSENT)
        if tree is ABSENT:
            break
    return tree


BALL, HYPER, LOW = "behaviors.Ball.", "behaviors.Ball.hyperparameters.", "environment_parameters.low"
MEMORY, LENGTH = "default_settings.network_settings.memory", {"sequence_length": 32}
CRITERIA = {
    "measure": "progress", "behavior": "Wall", "signal_smoothing": True, "min_lesson_length": 100,
    "require_reset": True,
}  # fmt: skip


def case(text, expected, *said, **options):
    """A trainer configuration, what stands at paths of the new file, texts among what changed, and options."""
    return text, expected, said, options


CONVERTED = {
    "default becomes default_settings, and a behaviour what differs from it": case(
        PPO + "Ball:\n  normalize: true\n  max_steps: 5e6\nTwin: Ball\n", {
            "default_settings": {
                "trainer_type": "ppo",
                "hyperparameters": {
                    "batch_size": 1024, "beta": 0.005, "buffer_size": 10240, "epsilon": 0.2, "lambd": 0.95,
                    "learning_rate": 0.0003, "learning_rate_schedule": "linear", "num_epoch": 3,
                },
                "network_settings": {
                    "hidden_units": 128, "normalize": False, "num_layers": 2, "vis_encode_type": "simple",
                },
                "reward_signals": {"extrinsic": {"strength": 1.0, "gamma": 0.99}},
                "max_steps": 400000, "time_horizon": 64, "summary_freq": 2000,
            },
            "behaviors": dict.fromkeys(["Ball", "Twin"], {
                "trainer_type": "ppo", "network_settings": {"normalize": True}, "max_steps": 5000000,
            }),
        },
    ),
    "with fewer reward signals than default, a behaviour is written out, and all others": case(
        PPO + "Ball:\n  reward_signals:\n    gail: {strength: 0.1, gamma: 1, demo_path: a.demo}\nOther: {}\n", {
            "keys": ["behaviors"],
            BALL + "reward_signals": {
                "gail": {"strength": 0.1, "gamma": 1, "demo_path": "a.demo", "network_settings": {"hidden_units": 64}},
            },
            "behaviors.Other.hyperparameters.batch_size": 1024,
        },
        "default is written into each behaviour and not as default_settings, because Ball had less",
    ),
    "a behaviour of another trainer than default is written out": case(
        PPO + SAC.replace("Ball", "Walker"), {
            "default_settings": ABSENT, "behaviors.Walker.trainer_type": "sac",
            "behaviors.Walker.hyperparameters.beta": ABSENT,
        },
        "\nWalker: left out, because sac did not read them: beta, epsilon, lambd, num_epoch\n", version="0.15",
    ),
    "SAC": case(
        SAC, {
            BALL + "hyperparameters": {
                "batch_size": 128, "buffer_size": 50000, "buffer_init_steps": 1000, "init_entcoef": 0.5,
                "learning_rate": 0.001, "tau": 0.005, "save_replay_buffer": True, "steps_per_update": 1.5,
            },
            BALL + "network_settings": {
                "normalize": True, "hidden_units": 64, "num_layers": 2, "vis_encode_type": "nature_cnn",
                "memory": {"sequence_length": 32, "memory_size": 128},
            },
        },
        version="0.15",
    ),
    "updates of SAC count agents": case(
        SAC + "    reward_signal_num_update: 4\n",
        {HYPER + "steps_per_update": 18.0, HYPER + "reward_signal_steps_per_update": 9.0},
        version="0.15", agents=["12"],
    ),
    "updates of SAC, without a number of agents": case(
        SAC + "    reward_signal_num_update: 4\n", {}, "--agents N says how many", version="0.15",
    ),
    "steps_per_update of 0.16 stay as they are": case(
        STEPS_OF_016 + "    reward_signal_steps_per_update: 20\n",
        {"version": "0.16", HYPER + "steps_per_update": 10, HYPER + "reward_signal_steps_per_update": 20},
    ),
    "memory of 0.13 is the actor's": case(RECURRENT, {MEMORY: {**LENGTH, "memory_size": 32}}, version="0.13"),
    "memory of 0.14 is the actor's": case(
        SAC, {BALL + "network_settings.memory": {**LENGTH, "memory_size": 32}}, version="0.14",
    ),
    "memory of 0.15 stays": case(RECURRENT, {MEMORY: {**LENGTH, "memory_size": 64}}, version="0.15"),
    "memory of 0.16 stays": case(
        SAC, {BALL + "network_settings.memory": {**LENGTH, "memory_size": 128}}, version="0.16",
    ),
    "memory of a trainer that cloned was all the actor's": case(
        OFFLINE + "  use_recurrent: true\n  memory_size: 64\n",
        {BALL + "network_settings.memory": {"memory_size": 64}},
    ),
    "a behaviour without the memory of default takes it back": case(
        RECURRENT + "Ball:\n  use_recurrent: false\n", {BALL + "network_settings": {"memory": None}}, version="0.16",
    ),
    "steps of 0.13 are multiplied by agents": case(
        PPO + "Ball:\n  behavioral_cloning: {demo_path: a.demo, strength: 0.5, steps: 100}\nWalker: {}\n", {
            "default_settings.max_steps": 4_000_000, BALL + "max_steps": 1_200_000, BALL + "summary_freq": 6000,
            BALL + "behavioral_cloning.steps": 300, "behaviors.Walker": {"trainer_type": "ppo"},
        },
        version="0.13", agents=["10", "Ball=3"],
    ),
    "steps of 0.14 are not": case(PPO, {"default_settings.max_steps": 400_000}, version="0.14", agents=["10"]),
    "without a number of agents, steps of 0.13 stay": case(
        PPO, {"default_settings.max_steps": 400_000}, "--agents N multiplies them", version="0.13",
    ),
    "schedules that stayed linear are written down beside a constant learning rate": case(
        PPO + "Ball:\n  learning_rate_schedule: constant\n", {
            "default_settings.hyperparameters.beta_schedule": "linear",
            BALL + "hyperparameters": {"learning_rate_schedule": "constant"},
        },
    ),
    "reward signals": case(
        PPO + "Ball:\n  reward_signals:\n    extrinsic: {strength: 1.0, gamma: 0.9}\n"
        "    curiosity: {strength: 0.02, gamma: 0.8, encoding_size: 256, learning_rate: 1e-4}\n    gail:\n"
        "      {strength: 0.01, gamma: 0.7, encoding_size: 32, demo_path: a.demo, use_actions: on, use_vail: no}\n",
        {
            BALL + "reward_signals": {
                "extrinsic": {"gamma": 0.9},
                "curiosity": {
                    "strength": 0.02, "gamma": 0.8, "learning_rate": 0.0001, "network_settings": {"hidden_units": 256},
                },
                "gail": {
                    "strength": 0.01, "gamma": 0.7, "demo_path": "a.demo", "use_actions": True, "use_vail": False,
                    "network_settings": {"hidden_units": 32},
                },
            },
        },
    ),
    "rewards of a file of before 0.9": case(
        BEFORE_09 + "Ball: {gamma: 0.8, use_curiosity: true, curiosity_strength: 0.02, curiosity_enc_size: 256}\n", {
            "version": "0.13", "default_settings.reward_signals": {"extrinsic": {"strength": 1.0, "gamma": 0.9}},
            BALL + "reward_signals": {
                "extrinsic": {"gamma": 0.8},
                "curiosity": {"strength": 0.02, "gamma": 0.8, "network_settings": {"hidden_units": 256}},
            },
        },
    ),
    "self-play of 0.15": case(
        PPO + "Ball:\n  self_play: {window: 5, play_against_current_self_ratio: 0.3, save_steps: 7, initial_elo: 9}\n",
        {
            BALL + "self_play": {
                "window": 5, "play_against_latest_model_ratio": 0.3, "save_steps": 7, "initial_elo": 9,
                "swap_steps": 20000,
            },
        },
    ),
    "self-play of 0.16": case(
        PPO + "Ball:\n  self_play: {save_steps: 7, swap_steps: 8}\n", {BALL + "self_play.team_change": 100000},
        version="0.16",
    ),
    "cloning beside rewards": case(
        PPO + f"Ball:\n  behavioral_cloning: {json.dumps(CLONING)}\n", {BALL + "behavioral_cloning": CLONING},
        version="0.16",
    ),
    "cloning beside rewards, as it was called before": case(
        PPO + f"Ball:\n  pretraining: {json.dumps(CLONING)}\n", {BALL + "behavioral_cloning": CLONING},
        version="0.16",
    ),
    "offline_bc becomes cloning beside rewards, and a line names the way without them": case(
        OFFLINE, {
            BALL + "trainer_type": "ppo",
            BALL + "behavioral_cloning": {
                "demo_path": "a.demo", "strength": 1.0, "steps": 0, "batch_size": 64, "samples_per_update": 640,
            },
        },
        "rookery train --algo bc --replay",
    ),
    "online_bc with a demonstration": case(ONLINE, {BALL + "behavioral_cloning.demo_path": "t.demo"}, demo="t.demo"),
    "imitation of before 0.6 is online_bc": case(
        IMITATION, {"behaviors.Student.behavioral_cloning.demo_path": "t.demo"}, demo="t.demo",
    ),
    "cloning beside a memory": case(
        "Hall: {trainer: offline_bc, demo_path: a.demo, use_recurrent: true, memory_size: 64}\n", {},
        "take network_settings.memory out",
    ),
    "the last of two equal keys counts, as it did": case(
        PPO + "Ball:\n  beta: 1\n  epsilon: 0.5\n  beta: 2\n", {HYPER + "beta": 2},
        "\ntrainer_config.yaml:28: Ball.beta stands twice; this one counts, as it did, and not trainer_config.yaml:26",
    ),
    "what was assumed": case(
        PPO, {"version": "0.16"},
        "\ntaken as a file of 0.16; 0.13, 0.14, 0.15, 0.16 are possible: nothing in it says more. In 0.13",
        "--version 0.13 --agents N",
    ),
    "keys of two releases, where one is given": case(
        TWO_RELEASES, {}, "\nBall: num_update is left out: 0.16 did not read it\n", version="0.16",
    ),
    "flags of 0.13": case(PPO, {"version": "0.13"}, words=["--num-runs", "2", "--train"]),
    "flags of 0.14": case(PPO, {"version": "0.14"}, words=["--multi-gpu", "--train"]),
    "--save-freq counted steps of an environment": case(
        PPO + "Ball: {}\n", {
            "default_settings.checkpoint_interval": 100, "default_settings.keep_checkpoints": 3,
            BALL + "checkpoint_interval": 500,
        },
        words=["--save-freq", "100", "--keep-checkpoints", "3", "--train"], agents=["Ball=5"],
    ),
    "a curriculum becomes lessons of each parameter": case(
        PPO + "Wall: {}\n", {
            "environment_parameters": {
                name: {
                    "curriculum": [
                        {"name": "Lesson0", "completion_criteria": {**CRITERIA, "threshold": 0.1}, "value": values[0]},
                        {"name": "Lesson1", "completion_criteria": {**CRITERIA, "threshold": 0.3}, "value": values[1]},
                        {"name": "Lesson2", "value": values[2]},
                    ]
                }
                for name, values in {"low": [0.0, 4.0, 6.0], "high": [4, 7, 8]}.items()
            },
        },
        curriculum=CURRICULUM,
    ),
    "a curriculum of a behaviour that only default stands for": case(
        PPO + "Walls: {}\n", {}, "no section for the behaviour of this curriculum; did you mean 'Walls'?",
        curriculum=CURRICULUM,
    ),
    "a lesson to begin with leaves out those before it": case(
        PPO, {LOW + ".curriculum.0.name": "Lesson1", LOW + ".curriculum.1.name": "Lesson2"},
        curriculum=CURRICULUM, lesson=1,
    ),
    "the last lesson leaves a number": case(PPO, {LOW: 6.0}, curriculum=CURRICULUM, lesson=2),
    "so does a lesson behind it": case(PPO, {LOW: 6.0}, curriculum=CURRICULUM, lesson=9),
    "samplers": case(
        PPO, {
            "environment_parameters": {
                "mass": {"sampler_type": "uniform", "sampler_parameters": {"min_value": 0.5, "max_value": 10}},
                "gravity": {"sampler_type": "gaussian", "sampler_parameters": {"mean": 9.8, "st_dev": 1e-6}},
                "scale": {
                    "sampler_type": "multirangeuniform", "sampler_parameters": {"intervals": [[7, 10], [15, 20]]},
                },
            },
        },
        "resampling-interval 5000 is left out: every episode draws", sampler=SAMPLERS,
    ),
    "ends of intervals that go downwards change places": case(
        PPO, {
            "environment_parameters.mass.sampler_parameters": {"min_value": 10, "max_value": 20},
            "environment_parameters.scale.sampler_parameters.intervals": [[7, 10], [15, 20]],
        },
        "s.yaml:2: mass: min_value was above max_value", "s.yaml:12: scale.intervals: [10, 7] goes downwards",
        sampler=SAMPLERS.replace("0.5", "20").replace("[7, 10]", "[10, 7]"),
    ),
    "a parameter with a curriculum is not drawn": case(
        PPO, {LOW + ".sampler_type": ABSENT, LOW + ".curriculum.2.name": "Lesson2"},
        "\ns.yaml:2: low has a curriculum, which stands; its sampler is left out\n",
        curriculum=CURRICULUM, sampler=SAMPLERS.replace("mass", "low"),
    ),
    "files of 0.17 and 0.18 keep their behaviours": case(
        BETWEEN, {
            "keys": ["behaviors", "environment_parameters"], "behaviors": {"Wall": {"trainer_type": "ppo"}},
            LOW + ".curriculum.2.value": 6.0, "environment_parameters.high.curriculum.2.value": 8,
            "environment_parameters.mass.sampler_type": "uniform",
            "environment_parameters.gravity.sampler_type": "gaussian",
            "environment_parameters.scale.sampler_type": "multirangeuniform",
        },
    ),
    "flat behaviours of 0.17 are written anew": case(
        below(behaviors=PPO + "Ball:\n  batch_size: 32\n") + "env_settings: {seed: 7}\n",
        {"keys": ["default_settings", "behaviors", "env_settings"], HYPER + "batch_size": 32},
    ),
    "flat behaviours of 0.17 beside samplers": case(
        below(behaviors=PPO + "Ball:\n  batch_size: 32\n", parameter_randomization=SAMPLERS),
        {"keys": ["default_settings", "behaviors", "environment_parameters"], HYPER + "batch_size": 32},
    ),
    **{
        f"the release that {sign} shows": case(f"Ball: {{trainer: {trainer}, {sign}}}\n", {"version": version})
        for trainer, sign, version in (
            ("sac", "num_update: 1", "0.15"),
            ("sac", "steps_per_update: 1", "0.16"),
            ("ppo", "threaded: true", "0.16"),
            ("ppo", "self_play: {play_against_current_self_ratio: 0.5}", "0.15"),
            ("ppo", "self_play: {play_against_latest_model_ratio: 0.5}", "0.16"),
            ("ppo", "self_play: {team_change: 5}", "0.16"),
            ("ppo", "pretraining: {demo_path: a.demo}", "0.13"),
            ("ppo", "reward_signals: {reward_signal_steps_per_update: 5}", "0.16"),
            ("ppo", "max_steps: 1", "0.16"),
        )
    },
    **{
        f"the release whose default had {had}": case(f"default: {{trainer: ppo, {had}}}\n", {"version": version})
        for had, version in (
            ("max_steps: 5.0e4, summary_freq: 1000", "0.13"),
            ("max_steps: 5.0e5, summary_freq: 10000, memory_size: 256", "0.14"),
            ("max_steps: 5.0e5, summary_freq: 10000, memory_size: 128", "0.16"),
        )
    },
}  # fmt: skip
"""What becomes of a file, by the claim."""


@pytest.mark.parametrize(("text", "expected", "said", "options"), CONVERTED.values(), ids=CONVERTED)
def test_a_file_becomes_one_of_today(text, expected, said, options):
    found = converted(text, **options)
    tree = {**found.current, "version": found.version, "keys": list(found.current)}
    assert {path: at(tree, path) for path in expected} == expected
    changes = "\n".join(["", *found.changes, ""])
    assert [one for one in said if one not in changes] == []


@pytest.mark.parametrize("key", UNREAD)
def test_keys_that_no_release_read_are_left_out_with_a_line(key):
    done = converted(PPO + f"Ball:\n  {key}: 1\n")
    assert done.current["behaviors"] == {"Ball": {"trainer_type": "ppo"}}
    assert any(line.startswith(f"Ball: {key} is left out: {UNREAD[key]}") for line in done.changes)


@pytest.mark.parametrize("key", [key for key in KEYS if KEYS[key].kind != "section"])
def test_every_key_has_an_effect(key):
    def current(value):
        trainer = KEYS[key].trainers[0]
        others = {"train_interval": "num_update: 4", "num_update": "train_interval: 8", "brain_to_imitate": ""}
        lines = {"trainer": trainer, "demo_path": "a.demo", "batch_size": 64, "learning_rate": 0.5}
        if key in ("memory_size", "sequence_length"):
            lines["use_recurrent"] = "true"
        text = "".join(f"  {name}: {one}\n" for name, one in {**lines, key: value}.items())
        return text_of(converted(f"Ball:\n{text}  {others.get(key, '')}\n", version=KEYS[key].versions[-1]).current)

    values = {"whole": (4, 8), "number": (0.25, 0.75), "flag": ("true", "false"), "text": ("x.demo", "y.demo")}
    one, other = values.get(KEYS[key].kind) or KEYS[key].kind.split("|")[:2]
    if key == "brain_to_imitate":  # only in the message of what needs a demonstration
        assert current(one) == current(other)
    else:
        assert current(one) != current(other)


def test_json_in_a_directory_or_alone_is_the_curriculum_of_the_behaviour_it_is_called_by():
    together = converted(PPO, curriculum=CURRICULUM)
    values = yaml_layer("c.yaml").values["Wall"]
    alone = written("curricula/Wall.json", json.dumps(values, indent="\t"))
    joined = written("all.json", json.dumps({"Wall": values}))
    for place, version in ((alone, "0.13"), (alone.parent, "0.13"), (joined, "0.16")):
        found, _ = converted_files(Path("trainer_config.yaml"), place)
        assert found.current == together.current
        assert found.version == version


def test_flat_behaviours_of_0_17_mean_what_they_meant():
    written("today.yaml", text_of(converted(below(behaviors=PPO + "Ball:\n  batch_size: 32\n")).current))
    assert read_options("today.yaml", {}).behaviors["Ball"].max_steps == 400_000


@pytest.mark.parametrize(
    ("version", "words", "warned"), [("0.15", [], True), ("0.15", ["--train"], False), ("0.16", [], False)]
)
def test_without_train_nothing_was_learned(version, words, warned):
    changes = converted(PPO, version=version, words=["--run-id", "a", *words]).changes
    assert any("did not learn" in line for line in changes) == warned


# -- mistakes ----------------------------------------------------------------------------------------------------------

REFUSED = [
    ("", PPO + "Ball:\n  batch_sise: 3\n", "old.yaml:26: Ball.batch_sise: there is no such key; did you mean"),
    ("", PPO.replace("beta", "betta") + "Ball: {}\n", "old.yaml:4: default.betta: there is no such key"),
    ("", PPO + "Ball:\n  max_steps: many\n", "old.yaml:26: Ball.max_steps = 'many': must be a whole number"),
    ("", PPO + "Ball:\n  num_layers: 2.5\n", "old.yaml:26: Ball.num_layers = 2.5: must be a whole number"),
    ("", PPO + "Ball:\n  normalize: 3\n", "old.yaml:26: Ball.normalize = 3: must be true or false"),
    ("", PPO + "Ball:\n  trainer: poo\n", "Ball.trainer = 'poo': must be one of ppo, sac, offline_bc, online_bc"),
    ("", PPO + "Ball:\n  reward_signals: {curious: {}}\n", "Ball.reward_signals.curious: there is no such key; did"),
    ("", PPO + "Ball:\n  reward_signals: {gail: {strength: 1}}\n", "Ball.reward_signals.gail: demo_path is missing"),
    ("", PPO + "Ball:\n  self_play: {windo: 1}\n", "Ball.self_play.windo: there is no such key; did you mean"),
    ("", PPO + "Ball:\n  behavioral_cloning: {steps: 1}\n", "Ball.behavioral_cloning: demo_path is missing"),
    ("", PPO + "Ball: 3\n", "old.yaml:25: Ball = 3: must be a section of keys"),
    ("", PPO + "Ball: Bal\n", "old.yaml:25: Ball = 'Bal': there is no section of that name; did you"),
    ("", PPO + "A: B\nB: A\n", "these sections name each other"),
    ("", PPO + "Ball:\n  beta: 1\n  reward_signals: {gail: {}}\n  beta: 2\n", "old.yaml:27: Ball.reward_signals.gail"),
    ("", "Ball:\n  max_steps: 3\n", "old.yaml:1: Ball: trainer is missing"),
    ("", "trainer: ppo\nmax_steps: 3\n", "old.yaml:1: trainer stands outside of any section"),
    ("", "behaviors: {Ball: {trainer_type: ppo}}\n", "nothing to convert; run it: rookery mlagents learn "),
    ("", "default_settings: {trainer_type: ppo}\n", "there is nothing to convert"),
    ("", CURRICULUM, "this is a curriculum: give it as --curriculum"),
    ("", SAMPLERS, "this is a sampler file: give it as --sampler"),
    ("", "", "this is no trainer configuration"),
    ("", "a: 1\n", "this is no trainer configuration"),
    ("", "a:\n\tb: 1\n", "old.yaml:2: not YAML"),
    ("", TWO_RELEASES, "steps_per_update is of 0.16, and num_update is not: give the release, "),
    ("", TWO_RELEASES, "for example --version 0.16"),
    ("", ONLINE, "old.yaml:2: Ball: online_bc imitated the player 'Teacher', which no trainer does today: record a"),
    ("", ONLINE, "--demo FILE"),
    ("", IMITATION, "online_bc imitated the player 'Teacher'"),
    ("--version 0.12", BALLS, "--version 0.12: must be one of 0.13, 0.14, 0.15, 0.16; files of older releases are not"),
    ("--version 0.12", BALLS, "--version 0.13 takes"),
    ("--version 0.15.1", BALLS, "give --version 0.15"),
    ("--version 0.18", BALLS, "leave --version out"),
    ("--agents many", BALLS, "--agents many: must be a number of agents"),
    ("--agents Bal=3", BALLS, "--agents Bal: no behaviour is called like this; did you mean 'Ball'?"),
    ("--lesson 1", BALLS, "--lesson 1: there are no lessons without --curriculum"),
    ("--curriculum nowhere", BALLS, "nowhere: there is no such file"),
    ("--curriculum .", BALLS, "there is no .json file in this directory"),
    ("--curriculum c.yaml", SAC.replace("Ball", "Walls"),
     "c.yaml:1: curriculum of 'Wall': old.yaml has no such behaviour and no default; did you mean 'Walls'?"),
    ("--sampler c.yaml", BALLS, "--sampler c.yaml: this is a curriculum, not a sampler file: give it as --curriculum"),
    ("--curriculum s.yaml", BALLS, "s.yaml: this is a sampler file, not a curriculum: give it as --sampler"),
    ("-- --trian", BALLS, "had no such flag; did you mean '--train'?"),
    ("-- --run-id", BALLS, "--run-id: its value is missing"),
    ("-- --train=1", BALLS, "takes no value"),
    ("-- --save-freq x", BALLS, "--save-freq x: must be a whole number"),
]  # fmt: skip
"""Words of the command, the trainer configuration, and a part of the message."""


REFUSED_BESIDE = [
    (CURRICULUM.replace("[0.0, 4.0, 6.0]", "[0.0, 4.0]"),
     "c.yaml:7: Wall.parameters.low: has 2 values; 2 thresholds make 3 lessons"),
    (CURRICULUM.replace("progress", "rewards"),
     "c.yaml:2: Wall.measure = 'rewards': must be one of reward, progress; did you mean"),
    (CURRICULUM.replace("[0.1, 0.3]", "[0.1, 3]"), "progress is between 0 and 1"),
    (CURRICULUM.replace("thresholds", "treshold"),
     "c.yaml:3: Wall.treshold: there is no such key; did you mean 'thresholds'?"),
    (CURRICULUM.replace("  min_lesson_length: 100\n", ""),
     "c.yaml:1: curriculum of Wall: min_lesson_length is missing"),
    (CURRICULUM.replace("[4, 7, 8]", "[4, x, 8]"), "Wall.parameters.high = [4, 'x', 8]: must be a list of numbers"),
    ('{"measure": "reward",\n "thresholds": [1],}', "Wall.json:2: not JSON: "),
    ("[1]", "Wall.json:1: must be an object"),
    ('{"measure": "reward",\n "measure": "progress"}', "Wall.json:2: not JSON: key 'measure' stands twice"),
    ('{"measure": "reward", "thresholds": [1], "min_lesson_length": 1,\n "signal_smoothing": true, "parameters": {\n '
     '"a": [1]}}', "Wall.json:3: parameters.a: has 1 values; 1 thresholds make 2 lessons"),
    ("measure: reward", "Wall.json:1: not JSON: "),
    (SAMPLERS.replace("sampler-type: uniform", "sampler-type: unifrom"),
     "s.yaml:3: mass.sampler-type = 'unifrom': must be one of"),
    (SAMPLERS.replace("sampler-type: uniform", "sampler: uniform"), "s.yaml:2: mass: sampler-type is missing"),
    (SAMPLERS.replace("min_value", "min_val"),
     "s.yaml:4: mass.min_val: there is no such key; did you mean 'min_value'?"),
    (SAMPLERS.replace("  st_dev: 1e-6\n", ""), "s.yaml:6: gravity: st_dev is missing: gaussian needs mean and st_dev"),
    (SAMPLERS.replace("[7, 10]", "[7]"), "s.yaml:12: scale.intervals = [[7], [15, 20]]: must be a list of pairs"),
    (SAMPLERS.replace("resampling-interval: 5000", "resampling_interval: 5000"),
     "s.yaml:1: resampling_interval: there is no such key; did you mean 'resampling-interval'?"),
    (SAMPLERS.replace("resampling-interval: 5000", "resampling-interval: 0"),
     "s.yaml:1: resampling-interval = 0: must be 1 or more"),
    (SAMPLERS.replace("mean: 9.8", "mean: heavy"), "s.yaml:8: gravity.mean = 'heavy': must be a number"),
]  # fmt: skip
"""A curriculum or sampler file, called as its message calls it, and a part of the message."""


@pytest.mark.parametrize(("words", "text", "said"), REFUSED)
def test_a_mistake_is_told_with_its_line(run, words, text, said):
    for name, content in {"old.yaml": text, "c.yaml": CURRICULUM, "s.yaml": SAMPLERS}.items():
        written(name, content)
    assert said in str(run("old.yaml", *shlex.split(words)).exception)


@pytest.mark.parametrize(("text", "said"), REFUSED_BESIDE)
def test_a_mistake_beside_a_trainer_configuration_is_told_with_its_line(run, text, said):
    name = next((one for one in ("c.yaml", "Wall.json", "s.yaml") if said.startswith(one)), "c.yaml")
    written("old.yaml", PPO)
    written(name, text)
    assert said in str(run("old.yaml", "--sampler" if name == "s.yaml" else "--curriculum", name).exception)


def test_all_mistakes_are_told_at_once(run):
    written("old.yaml", PPO + "Ball:\n  normalise: 1\n  beta: x\nWalker:\n  a: 1\n")
    assert str(run("old.yaml").exception).count("\n") == 2


# -- what a file is ----------------------------------------------------------------------------------------------------


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
def test_what_a_file_is_shows_in_its_keys(text, kind):
    values = read_file(written("a.yaml", text)).values
    assert kind_of(values) == kind
    assert is_old(values) == (kind not in ("current", "unknown"))


def test_who_gives_an_old_file_to_learn_is_told_the_command():
    path = Path("my config") / "old.yaml"
    assert old_file_message(path, {"default": {"trainer": "ppo"}}) == (
        "my config/old.yaml:1: this is a trainer configuration of ML-Agents 0.13 to 0.18; convert it: "
        "rookery mlagents convert 'my config/old.yaml' -o 'my config/old.new.yaml'"
    )
    assert "--curriculum" in old_file_message("wall.yaml", yaml_layer(written("c.yaml", CURRICULUM)).values)


# -- flags -------------------------------------------------------------------------------------------------------------


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


# -- the command -------------------------------------------------------------------------------------------------------


def test_the_command_writes_one_file_and_says_what_changed(run):
    written("old.yaml", PPO + "Wall: {}\n")
    written("c.yaml", CURRICULUM)
    written("s.yaml", SAMPLERS)
    done = run(
        "old.yaml", "--sampler", "s.yaml", "-o", "new.yaml", "--", "--curriculum", "c.yaml", "--run-id", "x", "--train"
    )
    assert done.exit_code == 0
    values = yaml_layer("new.yaml").values
    assert list(values) == ["default_settings", "behaviors", "environment_parameters"]
    assert set(values["environment_parameters"]) == {"low", "high", "mass", "gravity", "scale"}
    assert "written: new.yaml\n- taken as" in done.stdout
    assert done.stdout.endswith("then: rookery mlagents learn new.yaml --run-id x\n")


def test_the_new_name_may_stand_behind_the_old_one(run):
    written("old.yaml", PPO)
    done = run("old.yaml", "new.yaml", "--", "--seed", "3", "--train")
    assert done.stdout.endswith("then: rookery mlagents learn new.yaml --seed 3\n")
    assert Path("new.yaml").exists()


def test_a_file_that_is_there_stays_unless_it_is_forced(run):
    written("old.yaml", PPO)
    written("new.yaml", "mine")
    assert "--force" in str(run("old.yaml", "-o", "new.yaml").exception)
    assert Path("new.yaml").read_text() == "mine"
    assert run("old.yaml", "-o", "new.yaml", "--force").exit_code == 0
    assert "default_settings" in Path("new.yaml").read_text()


def test_without_a_name_the_file_goes_to_standard_output_alone(run):
    written("old.yaml", PPO)
    done = run("old.yaml")
    assert "default_settings" in done.stdout
    assert "taken as" not in done.stdout
    assert "taken as" in done.stderr


# -- as text -----------------------------------------------------------------------------------------------------------


def test_the_text_means_the_same_to_readers_of_yaml_1_1_and_1_2():
    from ruamel.yaml import YAML

    current = {
        "no": {"yes": "off", "0x1F": "1:20", "3DBall": 1e-05, "a": [1e20, 0.5], "b": "1e5", "c": None, "d": "x: y"}
    }
    path = written("t.yaml", text_of(current, "made here"))
    assert yaml_layer(path).values == current
    old = YAML(typ="safe", pure=True)
    old.version = (1, 1)
    assert old.load(path.read_text()) == current


def test_what_lies_over_defaults_gives_the_whole():
    below, whole = {"a": 1, "b": {"c": 2, "d": 3}, "memory": {"e": 1}}, {"a": 1, "b": {"c": 2, "d": 4}, "f": 5}
    assert over(below, whole) == {"b": {"d": 4}, "memory": None, "f": 5}
    assert over({"a": 1}, {}) is None
    assert over({"a": {"b": 1}}, {"a": {}}) is None
