"""What the converter writes is read as a file of today, with the meaning that the old file had."""

from pathlib import Path

import pytest

from rookery.core.errors import ConfigError
from rookery_mlagents.files.run_options import read_options
from rookery_mlagents.old import convert as converter
from rookery_mlagents.old.convert import convert, text_of
from rookery_mlagents.old.old_files import read_file
from rookery_mlagents.old.old_parameters import read_curricula, read_samplers

OLD = """\
default:
  trainer: ppo
  batch_size: 512
  beta: 1.0e-2
  buffer_size: 4096
  epsilon: 0.3
  hidden_units: 32
  lambd: 0.9
  learning_rate: 1.0e-3
  learning_rate_schedule: constant
  max_steps: 5.0e5
  memory_size: 64
  normalize: true
  num_epoch: 4
  num_layers: 1
  time_horizon: 32
  sequence_length: 16
  summary_freq: 10000
  use_recurrent: true
  vis_encode_type: resnet
  reward_signals:
    extrinsic: {strength: 2.0, gamma: 0.9}
Flat:
  use_recurrent: false
Curious:
  learning_rate_schedule: linear
  reward_signals:
    extrinsic: {strength: 1.0, gamma: 0.8}
    curiosity: {strength: 0.1, gamma: 0.7, encoding_size: 16}
Rival:
  self_play: {window: 5, save_steps: 3000, team_change: 9000, play_against_latest_model_ratio: 0.2}
"""

CURRICULUM = """\
Flat:
  measure: reward
  thresholds: [1e-5]
  min_lesson_length: 7
  signal_smoothing: false
  parameters: {size: [1, 2.5]}
"""

SAMPLERS = """\
resampling-interval: 10
wind: {sampler-type: multirange_uniform, intervals: [[-1, 0], [1e-5, 2]]}
"""


@pytest.fixture
def options(tmp_path):
    """Options that a converted file has."""

    def read(text=OLD, name="new.yaml", **extra):
        (tmp_path / "old.yaml").write_text(text)
        current = convert(read_file(tmp_path / "old.yaml"), **extra).current
        (tmp_path / name).write_text(text_of(current))
        return read_options(tmp_path / name, {})

    return read


def test_behaviours_mean_what_they_meant(options):
    found = options().behaviors
    flat, curious, rival = found["Flat"], found["Curious"], found["Rival"]
    hyper = flat.hyperparameters
    assert (hyper.batch_size, hyper.buffer_size, hyper.learning_rate, hyper.num_epoch) == (512, 4096, 1e-3, 4)
    assert (hyper.beta, hyper.epsilon, hyper.lambd) == (0.01, 0.3, 0.9)
    assert (hyper.learning_rate_schedule, hyper.beta_schedule, hyper.epsilon_schedule) == (
        "constant",
        "linear",
        "linear",
    )
    assert (flat.max_steps, flat.time_horizon, flat.summary_freq) == (500_000, 32, 10_000)
    network = flat.network_settings
    assert (network.hidden_units, network.num_layers, network.normalize) == (32, 1, True)
    assert (network.vis_encode_type, network.memory) == ("resnet", None)
    assert curious.hyperparameters.learning_rate_schedule == "linear"
    assert (curious.network_settings.memory.sequence_length, curious.network_settings.memory.memory_size) == (16, 64)
    assert curious.reward_signals.keys() == {"extrinsic", "curiosity"}
    assert curious.reward_signals["curiosity"].network_settings.hidden_units == 16
    assert (flat.reward_signals["extrinsic"].strength, flat.reward_signals["extrinsic"].gamma) == (2.0, 0.9)
    game = rival.self_play
    assert (game.window, game.save_steps, game.team_change, game.swap_steps) == (5, 3000, 9000, 20_000)
    assert game.play_against_latest_model_ratio == 0.2


def test_what_differs_from_default_settings_means_the_same_as_behaviours_written_out(options, monkeypatch):
    short = options()
    monkeypatch.setattr(converter, "_over_default", lambda default, behavior: None)
    whole = options(name="whole.yaml")
    assert (short.default_settings is None, whole.default_settings is None) == (False, True)
    assert short.behaviors == whole.behaviors


def test_parameters_mean_what_they_meant(options, tmp_path):
    (tmp_path / "c.yaml").write_text(CURRICULUM)
    (tmp_path / "s.yaml").write_text(SAMPLERS)
    curricula, _ = read_curricula(tmp_path / "c.yaml")
    found = options(curricula=curricula, samplers=read_samplers(tmp_path / "s.yaml")).environment_parameters
    first, last = found["size"].curriculum
    assert (first.value.sampler_parameters["value"], last.value.sampler_parameters["value"]) == (1, 2.5)
    criteria = first.completion_criteria
    assert (criteria.behavior, criteria.measure, criteria.threshold) == ("Flat", "reward", 1e-5)
    assert (criteria.min_lesson_length, criteria.signal_smoothing, criteria.require_reset) == (7, False, True)
    (wind,) = found["wind"].curriculum
    assert wind.value.sampler_type == "multirangeuniform"
    assert [list(one) for one in wind.value.sampler_parameters["intervals"]] == [[-1, 0], [1e-5, 2]]


def test_an_old_file_is_refused_with_the_command_that_converts_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("old.yaml").write_text(OLD)
    with pytest.raises(ConfigError, match=r"old.yaml:1: .*: rookery mlagents convert old.yaml -o old.new.yaml"):
        read_options("old.yaml", {})
