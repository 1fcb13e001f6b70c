"""The converter's output is read as a file of today, with the meaning that the old file had."""

from pathlib import Path

import pytest

from rookery.core.errors import ConfigError
from rookery_mlagents.files.run_options import read_options
from rookery_mlagents.old import convert as converter
from rookery_mlagents.old.convert import converted_files, text_of

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

    def read(*beside):
        files = [tmp_path / name for name in ("old.yaml", "curriculum.yaml", "sampler.yaml")]
        for file, text in zip(files, (OLD, *beside), strict=False):
            file.write_text(text)
        found, _ = converted_files(*files[: 1 + len(beside)])
        (tmp_path / "new.yaml").write_text(text_of(found.current))
        return read_options(tmp_path / "new.yaml", {})

    return read


MEANT = {
    "Flat.hyperparameters": {
        "batch_size": 512, "buffer_size": 4096, "learning_rate": 1e-3, "num_epoch": 4, "beta": 0.01, "epsilon": 0.3,
        "lambd": 0.9, "learning_rate_schedule": "constant", "beta_schedule": "linear", "epsilon_schedule": "linear",
    },
    "Flat": {"max_steps": 500_000, "time_horizon": 32, "summary_freq": 10_000},
    "Flat.network_settings": {
        "hidden_units": 32, "num_layers": 1, "normalize": True, "vis_encode_type": "resnet", "memory": None,
    },
    "Flat.reward_signals.extrinsic": {"strength": 2.0, "gamma": 0.9},
    "Curious.hyperparameters": {"learning_rate_schedule": "linear"},
    "Curious.network_settings.memory": {"sequence_length": 16, "memory_size": 64},
    "Curious.reward_signals.curiosity.network_settings": {"hidden_units": 16},
    "Rival.self_play": {
        "window": 5, "save_steps": 3000, "team_change": 9000, "swap_steps": 20_000,
        "play_against_latest_model_ratio": 0.2,
    },
}  # fmt: skip


def test_behaviours_mean_what_they_meant(options):
    found = options().behaviors
    assert found["Curious"].reward_signals.keys() == {"extrinsic", "curiosity"}
    for path, keys in MEANT.items():
        part = found
        for name in path.split("."):
            part = part[name] if isinstance(part, dict) else getattr(part, name)
        assert {key: getattr(part, key) for key in keys} == keys


def test_what_differs_from_default_settings_means_the_same_as_behaviours_written_out(options, monkeypatch):
    short = options()
    monkeypatch.setattr(converter, "_difference", lambda default, behavior: None)
    whole = options()
    assert (short.default_settings is None, whole.default_settings is None) == (False, True)
    assert short.behaviors == whole.behaviors


def test_parameters_mean_what_they_meant(options):
    found = options(CURRICULUM, SAMPLERS).environment_parameters
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
