"""A token is used and never written: not by a run, its checkpoints or its messages; a resumed run needs it again."""

import pickle
import sys
import threading

import pytest
from typer.testing import CliRunner

from rookery import PPOConfig, Trainer
from rookery.cli.main import app
from rookery.core.config import resolve
from rookery.core.errors import ConfigError, RookeryError
from rookery.core.settings.layers import Layer
from rookery.core.settings.secrets import NOT_STORED, Secret, hidden, without_secrets
from rookery.envs.external.client import Client, EpisodeLost, TrainingOver
from rookery.run.settings import RunConfig

TOKEN = "kept-from-everybody-4711"
SPACES = {"obs": {"box": [2]}, "action": {"discrete": 2}}


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch):
    monkeypatch.delenv("ROOKERY_TOKEN", raising=False)


def play(address, token):
    try:
        with Client(address, token, timeout=60, quiet=True) as client:
            while True:
                try:
                    episode = client.start_episode()
                    for _ in range(5):
                        client.get_action(episode, [0.0, 0.5])
                        client.log_returns(episode, 1.0)
                    client.end_episode(episode, [0.0, 0.5])
                except EpisodeLost:
                    continue
    except TrainingOver:
        pass


def trained(trainer, token=TOKEN):
    """Runs a client until two iterations are over; returns the closed trainer."""
    player = threading.Thread(target=play, args=("{}:{}".format(*trainer.env.address), token))
    player.start()
    try:
        for _ in range(2):
            trainer.train_iteration()
        trainer.save()
    finally:
        trainer.close()
        player.join(60)


def files_with(folder, text):
    return [str(file) for file in folder.rglob("*") if file.is_file() and text.encode() in file.read_bytes()]


def test_a_run_writes_no_token_anywhere_and_asks_for_it_again(tmp_path, monkeypatch, capfd):
    run = tmp_path / "run"
    line = ["rookery", "train", "external:0", f"env.config.token={TOKEN}", f"env.config={{token: {TOKEN}}}"]
    monkeypatch.setattr(sys, "argv", line)
    config = {"env.config": {"spaces": SPACES, "token": TOKEN}, "logging.tensorboard": True}
    algorithm = PPOConfig(fragment_length=8, minibatch_size=8, epochs=1)
    trainer = Trainer("external:0", algorithm, config=[config], num_envs=1, seed=0, run_dir=run)
    assert trainer.env.token == TOKEN
    assert TOKEN not in repr(trainer.config) + trainer.resolved.to_yaml() + trainer.resolved.explain("env.config.token")
    trained(trainer)
    written = {file.name for file in run.rglob("*") if file.is_file()}
    assert {"config.yaml", "provenance.json", "command.txt", "metrics.jsonl"} <= written
    assert (run / "command.txt").read_text().count(NOT_STORED) == 2
    assert files_with(run, TOKEN) == []
    result = CliRunner().invoke(app, ["explain", str(run), "env.config"])
    assert NOT_STORED in result.output and TOKEN not in result.output
    said = capfd.readouterr()
    assert TOKEN not in said.out + said.err

    with pytest.raises(RookeryError, match=r"env.config.token is a secret.* ROOKERY_TOKEN, or env.config.token_file"):
        Trainer.load(run, resume=True)
    file = tmp_path / "file"
    file.write_text("another-token\n")
    trainer = Trainer.load(run, resume=True, config=[{"env.config.token_file": str(file)}])
    assert trainer.env.token == "another-token"
    trainer.close()
    monkeypatch.setenv("ROOKERY_TOKEN", TOKEN)
    trainer = Trainer.load(run, resume=True)
    assert trainer.env.token == TOKEN
    trained(trainer)
    assert files_with(run, TOKEN) == []


def test_secrets_are_used_and_not_shown():
    secret = hidden("token", TOKEN)
    assert secret == TOKEN and secret.encode() == TOKEN.encode() and pickle.loads(pickle.dumps(secret)) == TOKEN
    assert {repr(secret), str(secret), f"{secret}", repr({"a": [secret]})[7:-2]} == {NOT_STORED}
    assert isinstance(pickle.loads(pickle.dumps(secret)), Secret)
    assert hidden("token", 12345678) == "12345678" and hidden("lr", "x") == "x" and hidden("token", None) is None
    assert without_secrets(f"a={TOKEN}x", [secret]) == f"a={NOT_STORED}x"


def test_mistakes_beside_a_token_do_not_show_it():
    layers = [Layer("code", {"env.config": {"token": TOKEN}, "env.confg": {"token": TOKEN}, "seed": {"token": TOKEN}})]
    with pytest.raises(ConfigError) as wrong:
        resolve(RunConfig, layers)
    assert "env.confg" in str(wrong.value) and TOKEN not in str(wrong.value)


def test_another_secret_is_asked_for_by_its_name():
    with pytest.raises(RookeryError, match="env.config.password is a secret, which a run does not store"):
        Trainer("CartPole-v1", config=[{"env.config.password": NOT_STORED}])
