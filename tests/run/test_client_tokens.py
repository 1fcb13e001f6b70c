"""Token file of a run's clients: in the folder of the run, also of a copied or foreign run."""

import shutil
from pathlib import Path

import pytest

from hostile import rewrite
from rookery import Trainer
from rookery.core.settings.layers import Layer
from rookery.run.checkpoint.client_tokens import PATH, RUN_DIRECTORY, token_path

SPACES = {"obs": {"box": [2], "low": -5, "high": 5}, "action": {"discrete": 2}}


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A run that clients are to be trained in, before any has come."""
    monkeypatch.delenv("ROOKERY_TOKEN", raising=False)
    (tmp_path / "one").mkdir()
    layers = [
        Layer("command line", {"env.name": "external:0", "env.config.spaces": SPACES, "seed": 3}),
        Layer(RUN_DIRECTORY, {PATH: token_path(tmp_path / "one")}),
    ]
    with Trainer(config=layers, run_dir=tmp_path / "one") as trainer:
        trainer.save()
    return tmp_path / "one"


def last(run):
    return sorted((run / "checkpoints").glob("0*"))[-1]


def listening(run, **keywords):
    """Returns the environment arguments of a resumed run, its token and its address."""
    with Trainer.load(run, resume=True, **keywords) as trainer:
        trainer.save()
        return dict(trainer.config.env.config), trainer.env.token, trainer.env.address


@pytest.mark.regression(
    "foreign code", "A run of external clients keeps its token file in its own folder, also copied or foreign"
)
def test_a_copied_run_uses_the_token_file_of_its_own_folder(run):
    copy = run.with_name("two")
    shutil.copytree(run, copy)
    (copy / "token").write_text("another-token\n")
    config, token, _ = listening(copy)
    assert config["token_file"] == str(copy / "token") and token == "another-token"
    moved = copy.rename(run.with_name("three"))  # the checkpoint that was written there names its own folder, too
    assert listening(moved)[0]["token_file"] == str(moved / "token")


@pytest.mark.regression(
    "foreign code", "A run of external clients keeps its token file in its own folder, also copied or foreign"
)
def test_a_strangers_run_listens_at_loopback_with_a_token_of_its_own(run, capsys):
    theirs = run.with_name("theirs")
    shutil.copytree(run, theirs)
    (theirs / "token").write_text("known-to-others\n")
    said = {"env.config.host": "0.0.0.0", PATH: str(run / "token"), "env.config.token": "known-to-others"}
    rewrite(last(theirs), "config.json", lambda config: config["values"].update(said))
    config, token, address = listening(theirs)
    assert config["token_file"] == str(theirs / "token") and not {"host", "token"} & config.keys()
    assert token == Path(theirs, "token").read_text().strip() != "known-to-others"
    assert address[0] == "127.0.0.1"
    assert "env.config.host = '0.0.0.0' (reaches an address of this machine)" in capsys.readouterr().err
    config, again, _ = listening(theirs)  # it is the user's own from now on
    assert again == token and "host" not in config and "left out" not in capsys.readouterr().err


def test_a_token_file_that_the_user_named_stays_where_it_is(run, tmp_path):
    copy = run.with_name("two")
    shutil.copytree(run, copy)
    elsewhere = str(tmp_path / "elsewhere")
    assert listening(copy, config={PATH: elsewhere})[0]["token_file"] == elsewhere
    assert listening(copy)[0]["token_file"] == elsewhere
