"""Every key of ML-Agents' configuration, by its effect on the settings of a run, or by the reason for having none."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from gymnasium import spaces

from rookery.algorithms.names import ALGORITHMS
from rookery.algorithms.off_policy.sac import SACConfig
from rookery.core.config import DEFAULT, resolve
from rookery.core.errors import ConfigError
from rookery.core.schedules import DECISIONS, Linear
from rookery.core.settings.fields import Settings, fields_of
from rookery.core.spaces.arrays import action_spec, obs_spec
from rookery.envs.base import Kind
from rookery.extend import Algorithm, AlgorithmConfig, ModelConfig
from rookery.run.settings import RunConfig
from rookery_mlagents.files.behaviors import BehaviorSpaces, match_behaviors
from rookery_mlagents.files.reading_behaviors import SIGNALS, TRAINERS, playing_trainers
from rookery_mlagents.files.reading_parameters import SAMPLERS
from rookery_mlagents.files.run_options import read_options
from rookery_mlagents.files.sections import (
    BehaviorOptions,
    CheckpointOptions,
    CriteriaOptions,
    EngineOptions,
    EnvOptions,
    SelfPlayOptions,
    TorchOptions,
)
from rookery_mlagents.keys import BEHAVIOR_ROWS, PARAMETER_KEYS, ROWS, KeyStatus
from rookery_mlagents.learn.learn import iteration_steps
from rookery_mlagents.learn.translate import layers_of, notes_of

NUMBERS = spaces.Box(-1, 1, (3,), np.float32)
PICTURE = spaces.Box(0, 255, (40, 40, 3), np.uint8)
GOAL = spaces.Dict({"see": NUMBERS, "goal": spaces.Box(0, 1, (2,), np.float32)})
CHOICE = spaces.Discrete(3)


def behaviour(obs=NUMBERS, actions=CHOICE, agents=("agent",)):
    action = action_spec(actions)
    return BehaviorSpaces(obs_spec(obs, action.space), action, agents)


@pytest.fixture
def translate(tmp_path, monkeypatch):
    """Returns the layers of a configuration."""
    monkeypatch.chdir(tmp_path)

    def made(text, behaviors=None, **flags):
        path = Path("ball.yaml")
        path.write_text(text)
        Path("expert.demo").touch()
        return layers_of(read_options(path, flags), behaviors or {"B": behaviour()})

    return made


def values_of(layers):
    """The settings by path, and where each comes from."""
    found = {}
    for layer in layers:
        for path, value in layer.values.items():
            found[path] = value, layer.where(path)
    return found


def ppo(text):
    return f"behaviors: {{B: {{trainer_type: ppo, hyperparameters: {text}}}}}"


def sac(text):
    return f"behaviors: {{B: {{trainer_type: sac, hyperparameters: {text}}}}}"


def dqn(text):
    return f"behaviors: {{B: {{trainer_type: dqn, hyperparameters: {text}}}}}"


def a2c(text):
    return f"behaviors: {{B: {{trainer_type: a2c, hyperparameters: {text}}}}}"


def own(text):
    return f"behaviors: {{B: {text}}}"


def run(text):
    return f"{{behaviors: {{B: {{}}}}, {text}}}"


def network(text):
    return own(f"{{network_settings: {text}}}")


def signals(text):
    return own(f"{{reward_signals: {text}}}")


P, M, S = "policies.B.", "policies.B.model.", "policies.B.signals."
STEPS = 500_000

EFFECTS = [
    ("trainer_type", own("{trainer_type: poca}"), {f"{P}name": "poca"}),
    ("max_steps", own("{max_steps: 7e3}"), {f"{P}max_decisions": 7000, "stop.finished_share": 1.0}),
    ("time_horizon", own("{time_horizon: 5}"), {f"{P}fragment_length": 5}),
    ("threaded", own("{threaded: true}"), {"sampling.staleness": 1}),
    ("threaded", own("{threaded: true, trainer_type: poca}"), {"sampling.staleness": 0}),
    ("keep_checkpoints", own("{keep_checkpoints: 9}"), {"checkpoint.keep_last": 9}),
    ("init_path", own("{init_path: runs/x}"), {f"{P}init_from": "runs/x"}),
    ("hyperparameters.buffer_size", ppo("{buffer_size: 99}"), {f"{P}rollout_size": 99}),
    ("hyperparameters.batch_size", ppo("{batch_size: 33}"), {f"{P}minibatch_size": 33}),
    ("hyperparameters.learning_rate", ppo("{learning_rate: 1e-3}"), {f"{P}lr": Linear(1e-3, 1e-10, STEPS, DECISIONS)}),
    ("hyperparameters.learning_rate_schedule", ppo("{learning_rate_schedule: constant}"), {f"{P}lr": 3e-4}),
    ("hyperparameters.beta", ppo("{beta: 0.5}"), {f"{P}entropy_coef": Linear(0.5, 1e-5, STEPS, DECISIONS)}),
    ("hyperparameters.beta_schedule", ppo("{beta_schedule: constant}"), {f"{P}entropy_coef": 5e-3}),
    ("hyperparameters.epsilon", ppo("{epsilon: 0.3}"), {f"{P}clip": Linear(0.3, 0.1, STEPS, DECISIONS)}),
    ("hyperparameters.epsilon_schedule", ppo("{epsilon_schedule: constant}"), {f"{P}clip": 0.2}),
    ("hyperparameters.lambd", ppo("{lambd: 0.8}"), {f"{P}gae_lambda": 0.8}),
    ("hyperparameters.num_epoch", ppo("{num_epoch: 8}"), {f"{P}epochs": 8}),
    ("hyperparameters.shared_critic", ppo("{shared_critic: true}"), {f"{M}shared_trunk": True}),
    ("hyperparameters.buffer_size", sac("{buffer_size: 99}"), {f"{P}replay.capacity": 99}),
    ("hyperparameters.batch_size", sac("{batch_size: 33}"), {f"{P}batch_size": 33, f"{P}learning_starts": 33}),
    ("hyperparameters.learning_rate", sac("{learning_rate: 1e-3}"), {f"{P}lr": 1e-3}),
    (
        "hyperparameters.learning_rate_schedule",
        sac("{learning_rate_schedule: linear}"),
        {f"{P}lr": Linear(3e-4, 1e-10, STEPS, DECISIONS)},
    ),
    ("hyperparameters.buffer_init_steps", sac("{buffer_init_steps: 999}"), {f"{P}learning_starts": 999}),
    ("hyperparameters.steps_per_update", sac("{steps_per_update: 10}"), {f"{P}updates_per_step": 0.1}),
    (
        "hyperparameters.reward_signal_steps_per_update",
        "behaviors: {B: {trainer_type: sac, hyperparameters: {steps_per_update: 2, reward_signal_steps_per_update: 8}, "
        "reward_signals: {extrinsic: {}, rnd: {}}}}",
        {f"{S}rnd.updates_per_step": 0.25},
    ),
    ("hyperparameters.tau", sac("{tau: 0.1}"), {f"{P}tau": 0.1}),
    ("hyperparameters.init_entcoef", sac("{init_entcoef: 0.5}"), {f"{P}alpha_init": 0.5}),
    ("hyperparameters.save_replay_buffer", sac("{save_replay_buffer: true}"), {f"{P}replay.save": True}),
    ("hyperparameters.batch_size", a2c("{batch_size: 33}"), {f"{P}rollout_size": 33, f"{P}fragment_length": 33}),
    ("hyperparameters.beta", a2c("{beta: 0.5}"), {f"{P}entropy_coef": Linear(0.5, 1e-5, STEPS, DECISIONS)}),
    ("hyperparameters.beta_schedule", a2c("{beta_schedule: constant}"), {
        f"{P}entropy_coef": 5e-3, f"{P}lr": Linear(3e-4, 1e-10, STEPS, DECISIONS)
    }),
    ("hyperparameters.lambd", a2c("{lambd: 0.8}"), {f"{P}gae_lambda": 0.8, f"{P}normalize_advantage": True}),
    ("hyperparameters.shared_critic", a2c("{shared_critic: true}"), {f"{M}shared_trunk": True}),
    ("hyperparameters.exploration_initial_eps", dqn("{exploration_initial_eps: 0.9}"), {
        f"{P}exploration.epsilon": Linear(0.9, 0.05, 20_000, DECISIONS)
    }),
    ("hyperparameters.exploration_final_eps", dqn("{exploration_final_eps: 0.01}"), {
        f"{P}exploration.epsilon": Linear(0.1, 0.01, 20_000, DECISIONS)
    }),
    ("hyperparameters.exploration_schedule", dqn("{exploration_schedule: constant}"), {f"{P}exploration.epsilon": 0.1}),
    ("hyperparameters.tau", dqn("{tau: 0.1}"), {f"{P}target.tau": 0.1, f"{P}target.kind": "soft"}),
    ("hyperparameters.steps_per_update", dqn("{steps_per_update: 4}"), {
        f"{P}updates_per_step": 0.25, f"{P}learning_starts": 128, f"{P}batch_size": 128, f"{P}replay.capacity": 50_000
    }),
    ("network_settings.hidden_units", network("{hidden_units: 9}"), {f"{M}hidden": (9, 9), f"{M}activation": "silu"}),
    ("network_settings.num_layers", network("{num_layers: 3}"), {f"{M}hidden": (128, 128, 128)}),
    ("network_settings.normalize", network("{normalize: true}"), {f"{M}normalize_obs": True, f"{M}obs_clip": 5.0}),
    (
        "network_settings.memory",
        network("{memory: {}}"),
        {f"{M}memory.kind": "lstm", f"{M}memory.size": 64, f"{P}value_coef": 0.02},
    ),
    ("network_settings.memory.memory_size", network("{memory: {memory_size: 20}}"), {f"{M}memory.size": 10}),
    (
        "network_settings.memory.sequence_length",
        network("{memory: {sequence_length: 60}}"),
        {f"{M}memory.sequence_length": 60, f"{P}minibatch_size": 1020},
    ),
    ("network_settings.deterministic", network("{deterministic: true}"), {"evaluation.deterministic": True}),
    ("reward_signals.extrinsic.gamma", signals("{extrinsic: {gamma: 0.5}}"), {f"{P}gamma": 0.5}),
    (
        "reward_signals.extrinsic.strength",
        signals("{extrinsic: {strength: 3}, rnd: {}}"),
        {f"{S}extrinsic.strength": 3.0, f"{S}combine": "mean", f"{P}value_coef": 0.25},
    ),
    *[
        (f"reward_signals.{name}.{key}", signals(f"{{extrinsic: {{}}, {name}: {{{demo}{section}}}}}"), effect)
        for name, demo in (("curiosity", ""), ("rnd", ""), ("gail", "demo_path: expert.demo, "))
        for key, section, effect in (
            ("strength", "strength: 0.5", {f"{S}{name}.strength": 0.5}),
            ("gamma", "gamma: 0.5", {f"{S}{name}.gamma": 0.5}),
            ("learning_rate", "learning_rate: 0.5", {f"{S}{name}.lr": 0.5, f"{S}{name}.scale": False}),
            (
                "network_settings.hidden_units",
                "network_settings: {hidden_units: 9}",
                {f"{S}{name}.model.hidden": (9, 9), f"{S}{name}.epochs": 3, f"{S}{name}.minibatches": 10},
            ),
            (
                "network_settings.num_layers",
                "network_settings: {num_layers: 1}",
                {f"{S}{name}.model.hidden": (128,), f"{S}{name}.model.activation": "silu"},
            ),
        )
    ],
    ("reward_signals.curiosity.strength", signals("{curiosity: {strength: 0.1}}"), {f"{S}curiosity.largest": 10.0}),
    (
        "reward_signals.gail.demo_path",
        signals("{gail: {demo_path: expert.demo}}"),
        {f"{S}gail.replay": ("expert.demo",), f"{S}extrinsic.strength": 0.0, f"{S}gail.penalty": 10.0},
    ),
    (
        "reward_signals.gail.use_vail",
        signals("{gail: {demo_path: expert.demo, use_vail: true}}"),
        {f"{S}gail.bottleneck": 128},
    ),
    (
        "reward_signals.gail.use_actions",
        signals("{gail: {demo_path: expert.demo, use_actions: true}}"),
        {f"{S}gail.use_actions": True},
    ),
    *[
        (f"behavioral_cloning.{key}", own(f"{{behavioral_cloning: {{demo_path: expert.demo, {text}}}}}"), effect)
        for key, text, effect in (
            ("demo_path", "", {f"{P}imitation.replay": ("expert.demo",)}),
            ("steps", "steps: 99", {f"{P}imitation.strength": Linear(1.0, 0.0, 99, DECISIONS)}),
            ("strength", "strength: 0.5", {f"{P}imitation.strength": 0.5}),
            ("samples_per_update", "samples_per_update: 64", {f"{P}imitation.samples_per_epoch": 64}),
            ("num_epoch", "num_epoch: 7", {f"{P}imitation.epochs": 7}),
            ("num_epoch", "", {f"{P}imitation.epochs": 3}),
            ("batch_size", "batch_size: 7", {f"{P}imitation.batch_size": 7}),
            ("batch_size", "", {f"{P}imitation.batch_size": 1024}),
        )
    ],
    *[
        (f"self_play.{key}", own(f"{{self_play: {{{key}: {value}}}}}"), {f"self_play.B.{path}": value})
        for key, value, path in (
            ("save_steps", 99, "snapshot_every"),
            ("team_change", 98, "team_change_every"),
            ("swap_steps", 97, "swap_every"),
            ("window", 96, "window"),
            ("play_against_latest_model_ratio", 0.25, "latest_ratio"),
            ("initial_elo", 900.0, "initial_rating"),
        )
    ],
    ("env_settings.num_envs", run("env_settings: {env_path: x, num_envs: 3}"), {"sampling.num_envs": 3}),
    ("env_settings.num_areas", run("env_settings: {num_areas: 4, env_path: Cart}"), {"sampling.num_envs": 4}),
    ("env_settings.num_areas", run("env_settings: {num_areas: 4}"), {"sampling.num_envs": 1}),
    ("env_settings.seed", run("env_settings: {seed: 7}"), {"seed": 7}),
    ("env_settings.timeout_wait", run("env_settings: {timeout_wait: 9}"), {"sampling.step_timeout_seconds": 9.0}),
    ("env_settings.max_lifetime_restarts", run("env_settings: {max_lifetime_restarts: 2}"), {
        "sampling.max_restarts": 2
    }),
    ("torch_settings.device", run("torch_settings: {device: 'cuda:0'}"), {"device": "cuda"}),
    ("environment_parameters", run("environment_parameters: {mass: 3}"), {"env.parameters.mass": 3.0}),
]  # fmt: skip
"""Key, configuration, and what it makes of settings."""


@pytest.mark.parametrize(
    ("key", "text", "effect"), EFFECTS, ids=[f"{number}-{key}" for number, (key, *_) in enumerate(EFFECTS)]
)
def test_a_key_does_what_it_says(translate, monkeypatch, tmp_path, key, text, effect):
    monkeypatch.chdir(tmp_path)
    found = values_of(translate(text))
    assert {path: found[path][0] for path in effect} == effect
    for path, value in effect.items():  # and it is a value of ours
        assert resolve(RunConfig, [*translate(text)], ALGORITHMS).history[path][-1][0] == found[path][1], value


def test_pictures_get_the_network_that_is_named(translate):
    for theirs, ours in (
        ("nature_cnn", "nature_leaky"),
        ("resnet", "resnet"),
        ("match3", "match3"),
        ("simple", "simple"),
    ):
        text = f"""
behaviors:
  B:
    network_settings: {{vis_encode_type: {theirs}}}
    reward_signals:
      rnd: {{network_settings: {{vis_encode_type: {theirs}}}}}
      curiosity: {{network_settings: {{vis_encode_type: {theirs}}}}}
"""
        found = values_of(translate(text, {"B": behaviour(PICTURE)}))
        assert found[f"{M}cnn"] == (ours, "ball.yaml:4 network_settings.vis_encode_type")
        assert found[f"{M}cnn_features"][0] == found[f"{S}rnd.model.cnn_features"][0] == 128
        assert found[f"{S}rnd.model.cnn"][0] == found[f"{S}curiosity.model.cnn"][0] == ours
    assert f"{M}cnn" not in values_of(translate("behaviors: {B: {}}"))


@pytest.mark.parametrize(
    ("encoder", "smallest"), [("simple", 20), ("nature_cnn", 36), ("resnet", 15), ("match3", 5), ("fully_connected", 3)]
)
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_a_picture_too_small_for_a_network_is_refused_with_its_sensor(translate, encoder, smallest, dtype):
    def seen(side):
        camera = spaces.Box(0, 1, (side, 40, 1), dtype)
        return {"B": behaviour(spaces.Dict({"camera": camera, "speed": NUMBERS}))}

    text = network(f"{{vis_encode_type: {encoder}}}")
    assert values_of(translate(text, seen(smallest)))[f"{M}cnn_features"][0] == 128
    if smallest > 3:
        told = f"ball.yaml:1: B: network_settings.vis_encode_type: {encoder} needs images of at least {smallest} pixels"
        with pytest.raises(ConfigError, match=rf"{told} a side, and sensor 'camera' shows {smallest - 1} x 40: use "):
            translate(text, seen(smallest - 1))
    signal = signals(f"{{rnd: {{network_settings: {{vis_encode_type: {encoder}}}}}}}")
    if smallest > 20:  # the policy's own is simple
        with pytest.raises(ConfigError, match="reward_signals.rnd.network_settings.vis_encode_type"):
            translate(signal, seen(smallest - 1))


def test_goals_are_the_parts_that_are_called_so(translate):
    for kind in ("hyper", "none"):
        text = network(f"{{goal_conditioning_type: {kind}}}")
        found = values_of(translate(text, {"B": behaviour(GOAL)}))
        assert found[f"{M}goals"][0] == ("goal",)
        assert found[f"{M}goal_conditioning"][0] == kind
    assert f"{M}goals" not in values_of(translate(network("{goal_conditioning_type: hyper}")))


def test_initialize_from_takes_the_behaviours_of_another_run_of_ours(translate, tmp_path):
    (tmp_path / "results" / "first" / "checkpoints").mkdir(parents=True)
    found = values_of(translate("behaviors: {B: {}}", results_dir=str(tmp_path / "results"), initialize_from="first"))
    assert found[f"{P}init_from"] == (f"{tmp_path}/results/first:B", "--initialize-from")


# -- completeness ------------------------------------------------------------------------------------------------------


def keys_in(section, above=""):
    """The keys of a section, those of sections in it with a dot."""
    import typing

    hints = typing.get_type_hints(section)
    for one in fields(section):
        inner = [part for part in (hints[one.name], *typing.get_args(hints[one.name])) if is_dataclass(part)]
        yield f"{above}{one.name}"
        for part in inner:
            yield from keys_in(part, f"{above}{one.name}.")


def all_keys():
    plain = [key for key in keys_in(BehaviorOptions) if not key.startswith(("hyperparameters", "reward_signals"))]
    for hyper in TRAINERS.values():
        plain += [f"hyperparameters.{key}" for key in keys_in(hyper)]
    for name, signal in SIGNALS.items():
        plain += [f"reward_signals.{name}.{key}" for key in keys_in(signal)]
    plain += [f"self_play.{key}" for key in keys_in(SelfPlayOptions)]
    sections = {"env": EnvOptions, "engine": EngineOptions, "checkpoint": CheckpointOptions, "torch": TorchOptions}
    plain += [f"{name}_settings.{key}" for name, section in sections.items() for key in keys_in(section)]
    return [*plain, "environment_parameters", "debug"]


def test_the_table_has_every_key_and_no_other():
    known = {row.key for row in ROWS}
    sections = {key.rpartition(".")[0] for key in all_keys()}
    lacking = [
        key
        for key in all_keys()
        if key not in known and key not in sections and not any(key.startswith(f"{row}.") for row in known)
    ]
    assert not lacking
    assert not [key for key in known if key not in all_keys()]


def test_every_key_that_decides_something_is_tried_above():
    tried = {key for key, *_ in EFFECTS} | {
        "network_settings.vis_encode_type",
        "network_settings.goal_conditioning_type",
        "checkpoint_settings.initialize_from",
        *(f"reward_signals.{name}.network_settings.vis_encode_type" for name in ("rnd", "curiosity", "gail")),
    }
    decided = {row.key for row in ROWS if row.status in (KeyStatus.SET, KeyStatus.TRANSLATED)}
    assert decided <= tried


@pytest.mark.parametrize("row", [row for row in ROWS if row.status is KeyStatus.IGNORED], ids=lambda row: row.key)
def test_a_key_that_does_nothing_is_told_of_and_changes_nothing(tmp_path, monkeypatch, row):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "expert.demo").touch()
    value = {"time_horizon": 5, "load_model": True, "train_model": False, "memory": None, "base_port": 6000,
             "gamma": 0.5, "goal_conditioning_type": "none", "network_settings": {"hidden_units": 9},
             "time_scale": 2.0}.get(
        row.key.rpartition(".")[2], True if False in row.fine or "no_graphics" in row.key else 7)  # fmt: skip
    if row.fine and value in row.fine:
        return  # whatever it may be is fine
    tree = value
    for part in reversed(row.key.split(".")):
        tree = {part: tree}
    if "gail" in str(tree):
        tree["reward_signals"]["gail"]["demo_path"] = "expert.demo"
    trainer = row.only[0] if row.only else "ppo"
    in_behaviour = row in BEHAVIOR_ROWS
    made = {"behaviors": {"B": {"trainer_type": trainer, **(tree if in_behaviour else {})}}}
    import json

    (tmp_path / "c.yaml").write_text(json.dumps(made | ({} if in_behaviour else tree)))
    options = read_options("c.yaml", {})
    told = notes_of(options, {"B": behaviour()})
    assert any(line.startswith(f"c.yaml:1: {row.key} does nothing here") for line in told), told


@pytest.mark.parametrize(
    ("actions", "discrete"),
    [
        (spaces.Box(-1, 1, (2,)), False),
        (spaces.Discrete(3), True),
        (spaces.MultiDiscrete([2, 3]), True),
        (spaces.Dict(laser=spaces.Discrete(2), move=spaces.Box(-1, 1, (3,))), False),
    ],
    ids=["numbers", "choice", "branches", "hybrid"],
)
def test_sac_learns_whatever_agents_of_theirs_do(tmp_path, actions, discrete):
    (tmp_path / "c.yaml").write_text(own("{trainer_type: sac}"))
    layers = layers_of(read_options(tmp_path / "c.yaml", {}), {"B": behaviour(actions=actions)})
    assert "policies.B.discrete" not in {path for layer in layers for path in layer.values}
    assert SACConfig().for_actions(behaviour(actions=actions).actions).discrete is discrete


def test_demonstrations_that_are_not_there_are_refused_for_behaviours_that_are(tmp_path):
    config = tmp_path / "ball.yaml"
    for name in ("expert.demo", "expert.txt"):
        (tmp_path / name).touch()
    (tmp_path / "none").mkdir()

    def layers(demo):
        config.write_text(
            f"""
behaviors:
  B:
    behavioral_cloning: {{demo_path: {demo}}}
  Other:
    reward_signals: {{gail: {{demo_path: no.demo}}}}
"""
        )
        return layers_of(read_options(config, {}), {"B": behaviour()})

    assert layers("expert.demo")  # it is beside the file
    for demo, why in (("no.demo", "there is no such file"), ("expert.txt", r"ends in \.demo"), ("none", "is empty")):
        with pytest.raises(ConfigError, match=f"ball.yaml:4: B: behavioral_cloning.demo_path = .*{why}"):
            layers(demo)


# -- where values come from --------------------------------------------------------------------------------------------


def test_each_value_names_the_line_of_the_file_that_decided_it(translate):
    text = """
behaviors:
  B:
    trainer_type: ppo
    hyperparameters:
      learning_rate: 1e-3
    self_play:
      window: 3
    reward_signals:
      extrinsic: {}
      curiosity:
        strength: 0.02
"""
    layers = translate(text, seed=3)
    resolved = resolve(RunConfig, layers, ALGORITHMS)
    sources = {path: history[-1][0] for path, history in resolved.history.items()}
    assert sources[f"{P}lr"] == "ball.yaml:6 hyperparameters.learning_rate"
    assert sources["self_play.B.window"] == "ball.yaml:8 self_play.window"
    assert sources["self_play.B.swap_every"] == "ML-Agents' default of self_play.swap_steps"
    assert sources[f"{S}curiosity.strength"] == "ball.yaml:12 reward_signals.curiosity.strength"
    assert sources[f"{S}curiosity.lr"] == "ML-Agents' default of reward_signals.curiosity.learning_rate"
    assert sources[f"{P}normalize_advantage"] == "as ML-Agents 1.1.0"
    assert sources["seed"] == "--seed"


def test_lessons_are_ours_with_the_line_of_the_parameter(translate):
    text = """
behaviors: {B: {max_steps: 1000}}
environment_parameters:
  wall:
    curriculum:
      - name: Low
        value: 1
        completion_criteria: {behavior: B, measure: progress, threshold: 0.25, require_reset: true}
      - name: Middle
        value: {sampler_type: gaussian, sampler_parameters: {mean: 2, st_dev: 0.5, seed: 9}}
        completion_criteria: {behavior: B, threshold: 0.8, min_lesson_length: 50, signal_smoothing: false}
      - name: High
        value: {sampler_type: multirangeuniform, sampler_parameters: {intervals: [[3, 4], [5, 6]]}}
  mass: {sampler_type: uniform, sampler_parameters: {min_value: 1, max_value: 2}}
"""
    layers = translate(text)
    found = values_of(layers)
    assert found["env.parameters.mass"][0] == {"sampler": "uniform", "low": 1.0, "high": 2.0}
    assert found["env.parameters.mass"][1] == "ball.yaml:14 environment_parameters.mass"
    assert layers[-1].where("curriculum.wall.lessons") == "ball.yaml:4 environment_parameters.wall"
    course = resolve(RunConfig, layers, ALGORITHMS).config.curriculum["wall"]
    low, middle, high = course.plans()
    assert (low.measure, low.threshold, low.min_episodes) == ("policies/B/decisions", 250.0, 0)
    assert (low.require_reset, middle.require_reset, high.require_reset) == (False, True, False)
    assert (middle.measure, middle.of_policy, middle.threshold) == ("return", "B", 0.8)
    assert (middle.min_episodes, middle.smoothing) == (50, False)
    assert middle.value == {"sampler": "normal", "mean": 2.0, "std": 0.5, "seed": 9}
    assert high.value == {"sampler": "intervals", "intervals": [(3.0, 4.0), (5.0, 6.0)]}


# -- algorithms of one's own -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GuessConfig(AlgorithmConfig):
    """Settings of a user's own algorithm."""

    algorithm: ClassVar[str] = f"{__name__}:Guess"

    lr: float = 0.1
    """Learning rate."""
    temperature: float = 1.0
    """A number."""
    fragment_length: int = 8
    """Decisions in a row."""
    model: ModelConfig = ModelConfig()
    """The networks."""


class Guess(Algorithm[GuessConfig]):
    """An algorithm that is never run."""


def test_an_own_algorithm_gets_its_settings_and_what_else_was_given(translate):
    text = f"""
behaviors:
  B:
    trainer_type: {__name__}:GuessConfig
    hyperparameters: {{temperature: 2.5}}
    network_settings: {{hidden_units: 9}}
    time_horizon: 5
    max_steps: 99
"""
    resolved = resolve(RunConfig, translate(text), ALGORITHMS)
    entry = resolved.config.policies["B"]
    assert type(entry.algorithm).__name__ == "GuessConfig"
    assert entry.algorithm.temperature == 2.5
    assert entry.algorithm.lr == 0.1
    assert entry.algorithm.fragment_length == 5
    assert entry.algorithm.model.hidden == (9, 9)
    assert entry.max_decisions == 99
    assert resolved.history[f"{P}temperature"][-1][0] == "ball.yaml:5 hyperparameters.temperature"


def test_dqn_has_the_values_of_unitys_plugin_whatever_the_defaults_of_dqn_are(translate):
    resolved = resolve(RunConfig, translate(dqn("{}")), ALGORITHMS)
    decided = {path for path, given in resolved.history.items() if given[-1][0] != DEFAULT}
    known = paths_of(resolved.config.policies["B"].algorithm)
    left = {path for path in known if not {P + path, P + path.partition(".")[0]} & decided}
    of_other_kinds = ("model.", "signals.", "values.", "target.every", "exploration.", "replay.")
    assert not [path for path in left if not path.startswith(of_other_kinds)]
    assert not left & {"exploration.kind", "exploration.epsilon", "exploration.per_env_epsilon", "replay.kind"}
    assert not left & {"replay.capacity", "replay.save", "replay.burn_in", "values.kind", "values.rescale"}
    assert not left & {"model.hidden", "model.activation", "model.layer_norm", "model.normalize_obs"}


def paths_of(settings, above=""):
    """The paths of all values of settings."""
    for name, value in ((name, getattr(settings, name)) for name in fields_of(type(settings))):
        yield from paths_of(value, f"{above}{name}.") if isinstance(value, Settings) else [f"{above}{name}"]


@pytest.mark.parametrize("name", [name for name in playing_trainers() if name not in TRAINERS])
def test_every_algorithm_that_learns_from_play_is_a_trainer_with_its_own_settings(translate, name):
    own_key = "lr" if "lr" in fields_of(ALGORITHMS.load(name)) else "prior_precision"  # bandits have no learning rate
    text = f"{{trainer_type: {name}, hyperparameters: {{{own_key}: 0.125}}, max_steps: 99, summary_freq: 10}}"
    resolved = resolve(RunConfig, translate(own(text), env="Cart"), ALGORITHMS)
    entry = resolved.config.policies["B"]
    assert type(entry.algorithm) is ALGORITHMS.load(name)
    assert getattr(entry.algorithm, own_key) == 0.125 and entry.max_decisions == 99
    assert resolved.config.teams == ({"B": ("agent",)} if entry.algorithm.capabilities.needs_team else {})


@pytest.mark.parametrize(
    ("measure", "ours"), [("Elo", "self_play/B/rating"), ("group_reward", "group_return"), ("reward", "return")]
)
def test_lessons_end_by_ratings_and_rewards_of_groups_too(translate, measure, ours):
    text = f"""
behaviors: {{B: {{self_play: {{}}}}}}
environment_parameters:
  m:
    curriculum:
      - {{name: a, value: 1, completion_criteria: {{behavior: B, measure: {measure}, threshold: 7}}}}
      - {{name: b, value: 2}}
"""
    first = values_of(translate(text))["curriculum.m"][0]["lessons"][0]
    assert (first["measure"], first["threshold"], first["of_policy"]) == (ours, 7.0, "B")


def guess(text, name="GuessConfig"):
    return own(f"{{trainer_type: '{__name__}:{name}', {text}}}")


REFUSED = [
    (own("{trainer_type: sac}"), "use ppo, which takes any actions"),
    (own("{network_settings: {memory: {}}, behavioral_cloning: {demo_path: expert.demo}}"), "cannot be cloned row by"),
    (run("torch_settings: {device: cudo}"), "did you mean 'cuda'"),
    ("{default_settings: {}, env_settings: {env_path: Cart}, environment_parameters: {m: {curriculum: [{name: a, "
     "value: 1, completion_criteria: {behavior: BB}}, {name: b, value: 2}]}}}", "no such behaviour; did you mean 'B'"),
    ("{behaviors: {B: {}}, environment_parameters: {m: {curriculum: [{name: a, value: 1, "
     "completion_criteria: {behavior: B, measure: Elo}}, {name: b, value: 2}]}}}", "B has no section self_play"),
    ("{env_settings: {env_path: Cart}, behaviors: {B: {}, Other: {}}, environment_parameters: {m: {curriculum: [{"
     "name: a, value: 1, "
     "completion_criteria: {behavior: Other}}, {name: b, value: 2}]}}}", "environment has no such behaviour; it has B"),
    (own("{trainer_type: td3, hyperparameters: {learning_rate: 1}}"), "TD3Config has no such setting"),
    (own("{trainer_type: cql}"), "cql learns from stored data.*rookery train --algo cql"),
    (own("{trainer_type: tdd3}"), "did you mean 'td3'"),
    (a2c("{num_epoch: 2}"), "each decision is learned from once"),
    (dqn("{init_entcoef: 1}"), "is a key of sac, and trainer_type is dqn"),
    (guess("hyperparameters: {temprature: 1}"), "no such setting; did you mean 'temperature'"),
    (guess("reward_signals: {extrinsic: {gamma: 0.5}}"), "GuessConfig has no setting 'gamma'"),
    (guess("reward_signals: {extrinsic: {strength: 0.5}}"), "GuessConfig has no setting 'signals'"),
    (guess("", "GuesConfig"), "has no 'GuesConfig'; did you mean"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "why"), REFUSED)
def test_what_cannot_be_is_refused_with_its_reason(translate, text, why):
    actions = spaces.MultiBinary(3) if "sac" in text else CHOICE
    with pytest.raises(ConfigError, match=why) as error:
        translate(text, {"B": behaviour(actions=actions)})
    assert str(error.value).startswith("ball.yaml:1")


@pytest.mark.parametrize(
    ("said", "steps"),
    [
        ("{trainer_type: ppo, hyperparameters: {buffer_size: 2000}}", None),
        ("{trainer_type: ppo, hyperparameters: {buffer_size: 2000}, summary_freq: 500}", 500),
        ("{trainer_type: ppo, hyperparameters: {buffer_size: 2000}, checkpoint_interval: 400}", 400),
        ("{trainer_type: ppo, summary_freq: 500, checkpoint_interval: 400}", 400),
        ("{trainer_type: ppo, summary_freq: 300, checkpoint_interval: 400}", 300),
        ("{trainer_type: sac, max_steps: 2000, keep_checkpoints: 10, even_checkpoints: true}", 200),
    ],
)
def test_an_iteration_is_not_longer_than_from_one_summary_or_checkpoint_to_the_next(tmp_path, said, steps):
    path = tmp_path / "ball.yaml"
    path.write_text(f"behaviors: {{B: {said}, Other: {{}}}}")
    found = iteration_steps(read_options(path, {}), {"B": behaviour(), "Other": behaviour()})
    assert found == ({} if steps is None else {"sampling.iteration_steps": steps})


# -- behaviours and agents ---------------------------------------------------------------------------------------------


def kind(*agents, obs=NUMBERS):
    action = action_spec(CHOICE)
    return Kind(agents, obs_spec(obs, action.space), action)


@pytest.fixture
def match(tmp_path):
    def matched(text, *kinds, groups=None, env=""):
        path = tmp_path / "ball.yaml"
        path.write_text(text)
        found = match_behaviors(read_options(path, {}), kinds, groups, env)
        return {name: spaces.agents for name, spaces in found.items()}

    return matched


def test_one_behaviour_has_all_agents_of_the_only_kind(match):
    assert match("behaviors: {3DBall: {}}", kind("agent")) == {"3DBall": ("agent",)}
    assert match("behaviors: {B: {}}", kind("a", "b")) == {"B": ("a", "b")}
    assert match("behaviors: {Soccer: {}}", kind("a", "b"), groups={"blue": ["a"], "red": ["b"]}) == {
        "Soccer": ("a", "b")
    }


def test_of_several_behaviours_the_one_counts_that_is_called_like_the_environment(match):
    text = "behaviors: {Match3VectorObs: {}, Match3VisualObs: {}, Other: {}, Match: {}}"
    assert list(match(text, kind("agent"), env="Match3")) == ["Match3VectorObs"]
    assert list(match(text, kind("agent"), env="other")) == ["Other"]
    with pytest.raises(ConfigError, match="called like it, its group or the environment"):
        match(text, kind("agent"), env="Basic")
    with pytest.raises(ConfigError, match="names no behaviour"):
        match("debug: true", kind("agent"))


def test_agents_belong_to_the_behaviour_that_is_called_like_them_or_their_group(match):
    text = "behaviors: {Goalie: {}, Striker: {}, Idle: {}}"
    two = kind("striker_0", "striker_1"), kind("goalie", obs=PICTURE)
    assert match(text, *two) == {"Goalie": ("goalie",), "Striker": ("striker_0", "striker_1")}
    assert match(text, kind("a", "b", "c"), groups={"Striker": ["a", "b"], "goalie 1": ["c"]}) == {
        "Goalie": ("c",),
        "Striker": ("a", "b"),
    }
    assert match(text, kind("Striker?team=0", "Striker?team=1")) == {"Striker": ("Striker?team=0", "Striker?team=1")}


def test_with_default_settings_every_sort_of_agent_is_a_behaviour(match):
    text = "{default_settings: {max_steps: 9}, behaviors: {Goalie: {}}}"
    found = match(text, kind("striker_0", "striker_1", "goalie_0"))
    assert found == {"Goalie": ("goalie_0",), "striker": ("striker_0", "striker_1")}


def test_agents_without_a_behaviour_are_refused(match):
    with pytest.raises(ConfigError, match=r"agent 'agent', and no behaviour .*Small, Big.*default_settings"):
        match("behaviors: {Small: {}, Big: {}}", kind("agent"))
    with pytest.raises(ConfigError, match="cannot be of one behaviour"):
        match("behaviors: {a: {}}", kind("a_0"), kind("a_1", obs=PICTURE))
    with pytest.raises(ConfigError, match="without dots"):
        match("behaviors: {a.b: {}}", kind("agent"))


def test_behaviours_that_the_environment_lacks_are_told_of(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = Path("ball.yaml")
    path.write_text("behaviors:\n  B: {}\n  Bee: {}")
    told = notes_of(read_options(path, {"env": "CartPole-v1"}), {"B": behaviour()})
    assert told == ["ball.yaml:3: behaviors.Bee: the environment has no such behaviour; it has B"]
    late = "ball.yaml:3: behaviors.Bee: the game does not have this behaviour at the start; it has B"
    assert notes_of(read_options(path, {}), {"B": behaviour()}) == [f"{late}; it is trained when it appears"]
    path.write_text("behaviors:\n  B: {}\n  Bee: {trainer_type: sac, behavioral_cloning: {demo_path: x.demo}}")
    (said,) = notes_of(read_options(path, {}), {"B": behaviour()})
    assert said.endswith("when it appears, if its agents see and do what is in its demonstrations, or the same as B")


def test_entries_of_one_file_are_no_misspellings_of_each_other(tmp_path):
    lesson = "environment_parameters: {wall: {curriculum: [{name: low, value: 1, completion_criteria: {behavior: NAME"
    rest = ", measure: progress, threshold: 0.5}}, {name: high, value: 2}]}}\n"

    def told(entries, name):
        (path := tmp_path / "wall.yaml").write_text(f"behaviors: {entries}\n{lesson.replace('NAME', name)}{rest}")
        return notes_of(read_options(path, {}), {"SmallWallJump": behaviour()})

    both = told("{SmallWallJump: {}, BigWallJump: {}}", "BigWallJump")
    assert len(both) == 2 and not any("did you mean" in line for line in both)
    (entry, lesson_note) = told("{SmalWallJump: {}}\ndefault_settings: {}", "SmalWallJump")
    assert all("did you mean 'SmallWallJump'?" in line for line in (entry, lesson_note))


def test_what_changes_nothing_is_allowed_to_an_own_algorithm(translate):
    layers = translate(guess("reward_signals: {extrinsic: {strength: 1.0}}, network_settings: {memory: null}"))
    assert not hasattr(resolve(RunConfig, layers, ALGORITHMS).config.policies["B"].algorithm, "signals")


def test_a_buffer_above_max_steps_is_told_of_once(tmp_path):
    def told(steps):
        text = f"behaviors: {{B: {{trainer_type: ppo, hyperparameters: {{buffer_size: 256}}, max_steps: {steps}}}}}"
        (tmp_path / "c.yaml").write_text(text)
        return [one for one in notes_of(read_options(tmp_path / "c.yaml", {}), {"B": behaviour()}) if "buffer" in one]

    (line,) = told(255)
    assert "c.yaml:1: B: max_steps = 255 is less than buffer_size = 256" in line
    assert told(256) == []


def test_keys_inside_parameters_are_those_that_are_read():
    last = {key.rpartition(".")[2] for key, of, _ in PARAMETER_KEYS if of != "required"}
    read = {name for keys in SAMPLERS.values() for name in keys} | {one.name for one in fields(CriteriaOptions)}
    assert last == read | {"completion_criteria"} | ({"behavior"} & read)
