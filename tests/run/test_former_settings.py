"""Settings of runs under their former names: in files, on the command line, in stored runs, in `rookery explain`."""

import json

import pytest
import torch
from typer.testing import CliRunner

from rookery import ModelConfig, PPOConfig, Trainer
from rookery.algorithms.names import ALGORITHMS
from rookery.cli.main import app
from rookery.core.config import resolve
from rookery.core.errors import ConfigError
from rookery.core.io.files import read_directory, write_directory
from rookery.core.settings.layers import override_layer, yaml_layer
from rookery.run.settings import RunConfig

FORMER = {
    "sampling.helpers": ("sampling.env_processes", 1),
    "sampling.lane_group": ("sampling.inference_batch_envs", 2),
    "sampling.in_flight": ("sampling.max_requests_in_flight", 3),
    "sampling.max_lag": ("sampling.max_policy_lag", 4),
    "algorithm.model.memory.frames": ("algorithm.model.memory.frame_stack", 2),
}


class Both(torch.nn.Module):
    """Gives logits and values."""

    def __init__(self, obs_space, action_space, num_outputs):
        super().__init__()
        self.logits, self.values = torch.nn.Linear(4, num_outputs), torch.nn.Linear(4, 1)

    def forward(self, obs):
        return self.logits(obs), self.values(obs).squeeze(1)


def settled(*layers):
    return resolve(RunConfig, layers, ALGORITHMS)


def value_at(config, path):
    for name in path.split("."):
        config = getattr(config, name)
    return config


@pytest.mark.parametrize("former", FORMER)
def test_a_former_name_is_read_from_a_file_and_from_the_command_line_with_a_note(former, tmp_path):
    path, value = FORMER[former]
    *sections, name = former.split(".")
    lines = [f"{'  ' * depth}{section}:" for depth, section in enumerate(sections)]
    (tmp_path / "run.yaml").write_text("\n".join([*lines, f"{'  ' * len(sections)}{name}: {value}\n"]))
    note = f"{former} is now called {path.rpartition('.')[2]}"
    for layer in (yaml_layer(tmp_path / "run.yaml"), override_layer([f"{former}={value}"])):
        found = settled(layer)
        assert value_at(found.config, path) == value
        assert len(found.notes) == 1
        assert found.notes[0].endswith(note)
        with pytest.raises(ConfigError, match=f"{name} is the former name of"):
            settled(override_layer([f"{former}={value}", f"{path}={value}"]))


def as_stored(text):
    """Returns the JSON of a history with former names and values."""
    for former, (path, _) in {**FORMER, "algorithm.model.gives": ("algorithm.model.output", None)}.items():
        for section in ("algorithm", "policies.main"):
            text = text.replace(f'"{path.replace("algorithm", section)}"', f'"{former.replace("algorithm", section)}"')
    return text.replace('"action_params"', '"outputs"')


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """A run whose files have former names and values."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    model = ModelConfig(module=Both, output="action_params")
    config = PPOConfig(model=model, fragment_length=16, minibatch_size=16, epochs=1)
    sampling = {"num_envs": 2, "inference_batch_envs": 2}
    with Trainer(
        "CartPole-v1", config, policies={"main": {"frozen": False}}, seed=1, run_dir=tmp_path / "old", **sampling
    ) as trainer:
        trainer.train(stop={"iterations": 1})
    provenance, (place,) = tmp_path / "old" / "provenance.json", tmp_path.glob("old/checkpoints/*")
    provenance.write_text(as_stored(provenance.read_text()))
    files, facts = read_directory(place)
    files["config.json"] = as_stored(files["config.json"].decode()).encode()
    rest = {name: fact for name, fact in facts.items() if name not in ("files", "sha256", "signature")}
    write_directory(place, files, rest, replace=True)
    return tmp_path / "old"


def test_a_run_stored_with_former_names_and_values_is_resumed_and_stored_with_those_of_today(stored):
    words = f"resume {stored} --trust-code stop.iterations=2 logging.console=quiet"
    result = CliRunner().invoke(app, words.split())
    assert result.exit_code == 0, result.output
    assert "is now called" not in result.output
    given = json.loads((stored / "provenance.json").read_text())
    assert given["sampling.inference_batch_envs"][-1][1] == "2"
    assert given["algorithm.model.output"][-1][1] == given["policies.main.model.output"][-1][1] == "action_params"
    assert not any(path.endswith((".lane_group", ".gives")) for path in given)


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("sampling.lane_group", "sampling.lane_group = 2  (code)"),
        ("sampling.inference_batch_envs", "sampling.inference_batch_envs = 2  (code)"),
        ("algorithm.model.gives", "algorithm.model.gives = outputs  (code)"),
        ("policies.main.model.output", "policies.main.model.output = action_params  (code as algorithm.model.output)"),
        ("algorithm.model.memory.frame_stack", "algorithm.model.memory.frame_stack = 1  (default)"),
    ],
)
def test_a_setting_of_a_stored_run_is_explained_under_its_former_name_and_that_of_today(stored, path, line):
    result = CliRunner().invoke(app, ["explain", str(stored), path, "--trust-code"])
    assert result.exit_code == 0, result.output
    assert result.output.splitlines()[0] == line


def test_a_setting_of_a_new_run_is_explained_under_its_former_name(tmp_path):
    with Trainer("CartPole-v1", num_envs=2, seed=1, run_dir=tmp_path / "new") as trainer:
        trainer.train(stop={"iterations": 1})
    result = CliRunner().invoke(app, ["explain", str(tmp_path / "new"), "sampling.in_flight"])
    assert result.output == "sampling.max_requests_in_flight = 2  (default)\n"
    result = CliRunner().invoke(app, ["explain", str(tmp_path / "new"), "sampling.flights"])
    assert "sampling.flights: there is no such setting" in str(result.exception or result.output)
