"""Configurations of ML-Agents as runs: what the engine makes of the settings that keys are translated to."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from recorded import keep, poles
from rookery import Trainer
from rookery.core.errors import ConfigError
from rookery.envs.groups import groups_of
from rookery.envs.make import make_env
from rookery.replay.recording import recording_of
from rookery.replay.segments import find_replay
from rookery_mlagents.files.behaviors import match_behaviors
from rookery_mlagents.files.demo_replay import write_unity
from rookery_mlagents.files.run_options import read_options
from rookery_mlagents.learn.demonstrations import import_demonstrations
from rookery_mlagents.learn.translate import layers_of


class Line(gymnasium.Env):
    """A line of 20 places: from the 10th, the 17th pays 1 and the 7th 0.1, and each step costs 0.01."""

    observation_space = spaces.Box(0, 1, (20,), np.float32)
    action_space = spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 10
        return np.eye(20, dtype=np.float32)[self.place], {}

    def step(self, action):
        self.place = int(np.clip(self.place + int(action) - 1, 0, 19))
        earned = {7: 0.1, 17: 1.0}.get(self.place, 0.0)
        return np.eye(20, dtype=np.float32)[self.place], earned - 0.01, earned > 0, False, {}


def started(path, env, env_config=None, **flags):
    """A trainer of a configuration."""
    options = read_options(path, {"env": "env", **flags})
    made = make_env(env, env_config or {}, (), 1, "auto")
    behaviors = match_behaviors(options, made.kinds, groups_of(made))
    made.close()
    replays = import_demonstrations(options, behaviors, path.parent / "demonstrations")
    return Trainer(env, env_config=env_config or {}, config=layers_of(options, behaviors, replays))


@pytest.fixture
def config(tmp_path):
    def written(text):
        path = tmp_path / "config.yaml"
        path.write_text(text)
        return path

    return written


BASIC = """
behaviors:
  Basic:
    trainer_type: ppo
    hyperparameters: {{batch_size: 32, buffer_size: 256, learning_rate: {rate}, beta: 0.005, lambd: 0.95}}
    network_settings: {{hidden_units: 20, num_layers: 1}}
    reward_signals: {{extrinsic: {{gamma: 0.9, strength: 1.0}}}}
    max_steps: {steps}
    time_horizon: 3
"""


def test_a_line_is_solved_within_20_000_decisions_and_not_without_learning(config):
    with started(config(BASIC.format(rate=0.0003, steps=500_000)), Line, seed=1, num_areas=4) as trainer:
        assert trainer.train(stop={"return_mean": 0.9, "env_steps": 20_000}).return_mean >= 0.9
    with started(config(BASIC.format(rate=1e-12, steps=4000)), Line, seed=1, num_areas=4) as trainer:
        last = trainer.train()
        assert last.stop_reason == "finished_share 1 reached 1"
        assert last.return_mean < 0.5
        assert 4000 <= last.policies["Basic"].decisions < 4300


def test_demonstrations_of_unity_are_imitated(config, tmp_path):
    stored = find_replay(poles(tmp_path / "poles", 4))
    write_unity(recording_of(stored), tmp_path / "expert.demo", "Pole?team=0")
    text = """
behaviors:
  Pole:
    trainer_type: ppo
    hyperparameters: {batch_size: 64, buffer_size: 128}
    behavioral_cloning: {demo_path: expert.demo, strength: 0.5, steps: 1000, samples_per_update: 640}
    reward_signals: {gail: {demo_path: expert.demo, strength: 0.1}}
"""
    with started(config(text), "CartPole-v1", seed=3) as trainer:
        learner = trainer.learners["Pole"]
        assert len(learner.imitation.demonstrations) == len(stored)
        trainer.train_iteration()
        assert float(learner.imitation.optimizer.steps) == 3 * 10
        assert learner.signals.columns(0.9)[0].strength == 0.0
        assert trainer._last_learning["Pole"]["imitation_strength"] == pytest.approx(0.5 * (1 - 128 / 1000))


def test_demonstrations_of_one_name_stay_apart(config, tmp_path):
    for folder, episodes in (("d1", 4), ("d2", 2)):
        (tmp_path / folder).mkdir()
        stored = find_replay(poles(tmp_path / f"poles-{folder}", episodes))
        write_unity(recording_of(stored), tmp_path / folder / "Ball.demo", "Pole")
    text = """
behaviors:
  Pole:
    behavioral_cloning: {demo_path: d1/Ball.demo}
    reward_signals: {gail: {demo_path: d2/Ball.demo}}
"""
    with started(config(text), "CartPole-v1", seed=3) as trainer:
        cloned, rewarded = trainer.config.policies["Pole"].algorithm, trainer.config.policies["Pole"].algorithm.signals
        sizes = [len(find_replay(one)) for one in (*cloned.imitation.replay, *rewarded.gail.replay)]
    assert sizes == [len(find_replay(tmp_path / f"poles-{folder}")) for folder in ("d1", "d2")]


def test_demonstrations_of_one_path_are_read_for_each_behaviour(config, tmp_path):
    write_unity(recording_of(find_replay(poles(tmp_path / "poles", 2))), tmp_path / "expert.demo", "Pole")
    one = "{behavioral_cloning: {demo_path: expert.demo}}"
    made = make_env("CartPole-v1", {}, (), 1, "auto")
    (seen,) = match_behaviors(read_options(config("behaviors: {Pole: {}}"), {}), made.kinds, groups_of(made)).values()
    made.close()
    behaviors = {"Pole": seen, "Other": seen}
    options = read_options(config(f"behaviors: {{Pole: {one}, Other: {one}}}"), {})
    replays = import_demonstrations(options, behaviors, tmp_path / "demonstrations")
    assert list(replays) == [("Pole", "expert.demo"), ("Other", "expert.demo")]
    values = {path: value for layer in layers_of(options, behaviors, replays) for path, value in layer.values.items()}
    for name in behaviors:
        assert values[f"policies.{name}.imitation.replay"] == (replays[name, "expert.demo"],)


def test_demonstrations_of_other_spaces_are_refused_where_they_were_asked_for(config, tmp_path):
    seen = np.zeros((3, 2), np.float32)
    one = {"obs": seen, "action": np.zeros(2), "reward": np.zeros(2)}
    other = keep(tmp_path / "other", spaces.Box(-1, 1, (2,), np.float32), spaces.Discrete(2), [one])
    write_unity(recording_of(find_replay(other)), tmp_path / "expert.demo", "Pole")
    path = config("behaviors:\n  Pole:\n    behavioral_cloning: {demo_path: expert.demo}")
    with pytest.raises(
        ConfigError, match=r"config.yaml:3: Pole: behavioral_cloning.demo_path = 'expert.demo': .*wanted"
    ):
        started(path, "CartPole-v1")


SMALL = "trainer_type: {trainer}, hyperparameters: {{batch_size: 64, buffer_size: 256{more}}}, max_steps: 512"
PLAYED = {
    "memory-and-curiosity": (
        "CueCorridor",
        "{ppo, network_settings: {memory: {sequence_length: 16, memory_size: 32}}, "
        "reward_signals: {extrinsic: {}, curiosity: {strength: 0.02}}}",
    ),
    "threaded-rnd": ("KeyDoor", "{ppo, threaded: true, reward_signals: {extrinsic: {}, rnd: {strength: 0.01}}}"),
    "group": ("CarryTogether", "{poca}"),
    "group-that-remembers": (
        "CarryTogether",
        "{poca, network_settings: {memory: {sequence_length: 16, memory_size: 32}}}",
    ),
    "self-play": ("LineSoccer", "{poca, self_play: {save_steps: 200, swap_steps: 100}}"),
    "entities": ("Sorter", "{ppo}"),
    "sac": ("Pendulum-v1", "{sac, network_settings: {normalize: true, hidden_units: 16}}"),
}


@pytest.mark.parametrize("name", PLAYED)
def test_what_is_translated_plays_and_learns_to_its_last_decision(config, name):
    env, text = PLAYED[name]
    for trainer in ("ppo", "poca", "sac"):
        more = ", steps_per_update: 10" if trainer == "sac" else ""
        text = text.replace(f"{{{trainer}", "{" + SMALL.format(trainer=trainer, more=more))
    with started(config(f"behaviors: {{Some: {text}}}"), env, seed=1) as trainer:
        last = trainer.train()
        assert last.stop_reason == "finished_share 1 reached 1"
        assert 512 <= last.policies["Some"].decisions < 800


def test_lessons_move_by_the_decisions_and_returns_of_a_behaviour(config):
    text = f"""
behaviors: {{Some: {{{SMALL.format(trainer="ppo", more="")}}}}}
environment_parameters:
  wall_height:
    curriculum:
      - {{name: a, value: 0, completion_criteria: {{behavior: Some, measure: progress, threshold: 0.5}}}}
      - {{name: b, value: 2, completion_criteria: {{behavior: Some, threshold: -9, min_lesson_length: 1}}}}
      - {{name: c, value: {{sampler_type: uniform, sampler_parameters: {{min_value: 3, max_value: 4}}}}}}
"""
    with started(config(text), "WallCurriculum", seed=1) as trainer:
        assert trainer.train_iteration().lessons["wall_height"].lesson == 2  # 256 of 512 decisions are over
        assert trainer.train().lessons["wall_height"].lesson == 3


def test_a_parameter_that_the_environment_lacks_is_refused_with_its_line(config):
    path = config("behaviors: {Some: {}}\nenvironment_parameters: {wall_heigth: 3}")
    with pytest.raises(ConfigError, match=r"config.yaml:2 environment_parameters.wall_heigth: .*mean 'wall_height'"):
        started(path, "WallCurriculum")


def test_a_horizon_beyond_the_buffer_takes_no_memory(config):
    text = BASIC.format(rate=0.0003, steps=500_000).replace("time_horizon: 3", "time_horizon: 1.0e26")
    with started(config(text), Line, seed=1) as trainer:
        assert trainer.config.policies["Basic"].algorithm.fragment_length == 256
        assert trainer.train_iteration().policies["Basic"].decisions >= 256
