"""Spaces, mutations, points and journals that name a setting by its former name."""

import json

import pytest

from rookery import A2CConfig, tune
from rookery.core.errors import ConfigError
from rookery.tune.journal import read
from rookery.tune.schedulers.pb2 import PB2Config
from rookery.tune.schedulers.pbt import PBTConfig

TINY = {"sampling.num_envs": 2, "sampling.warmup_steps": 0, "algorithm.model.hidden": [4]}
STOP = {"iterations": 2}
FORMER, PRESENT = "algorithm.batch_size", "algorithm.rollout_size"


@pytest.fixture
def tried(tmp_path):
    """Runs a small experiment in a folder, and returns its journal."""

    def run(config, **settings):
        given = {"algorithm": A2CConfig(), "stop": STOP, "seed": 3, "place": "here", "console": "quiet"} | settings
        tune.run("CartPole-v1", config=[TINY | config], folder=tmp_path / "x", **given)
        return read(tmp_path / "x")

    return run


def params_of(records):
    return [record["params"] for record in records if record["kind"] == "trial"]


def test_a_domain_under_a_former_name_is_that_of_the_setting(tried, tmp_path):
    records = tried({FORMER: tune.choice([16, 32])}, num_samples=2)
    assert list(records[0]["space"]) == [PRESENT]
    assert [list(params) for params in params_of(records)] == [[PRESENT], [PRESENT]]
    rows = (tmp_path / "x" / "trials").glob("*/provenance.json")
    assert {json.loads(row.read_text())[PRESENT][-1][1] for row in rows} <= {"16", "32"}


def test_a_value_under_the_name_of_today_replaces_a_domain_of_a_lower_layer_under_the_former_name(tmp_path):
    layers = [TINY, {"sampling.helpers": tune.grid_search([0, 1])}, {"sampling.env_processes": 0}]
    tune.run("CartPole-v1", config=layers, stop=STOP, folder=tmp_path / "x", place="here", console="quiet")
    assert not read(tmp_path / "x")[0]["space"]


def test_a_note_names_the_former_name_once(tried, capsys):
    tried({FORMER: tune.choice([16, 32]), "sampling.helpers": 0}, num_samples=2, console="plain")
    text = "".join(capsys.readouterr())
    assert text.count("algorithm.batch_size is now called rollout_size") == 1
    assert text.count("sampling.helpers is now called env_processes") == 1


@pytest.mark.parametrize(("named", "mutated"), [(FORMER, PRESENT), (PRESENT, FORMER), (FORMER, FORMER)])
@pytest.mark.parametrize("kind", ["list", "domains", "bounds"])
def test_mutations_and_bounds_name_a_setting_of_the_space_by_either_name(tried, named, mutated, kind):
    schedulers = {
        "list": lambda: PBTConfig(mutations=[mutated], interval=1),
        "domains": lambda: PBTConfig(mutations={mutated: tune.randint(8, 33)}, interval=1),
        "bounds": lambda: PB2Config(bounds={mutated: (8, 32)}, interval=1),
    }
    records = tried({named: tune.randint(8, 33)}, num_samples=2, scheduler=schedulers[kind]())
    actions = [action for record in records for action in record.get("actions", {}).values()]
    clones = [action["params"] for action in actions if isinstance(action, dict)]
    assert clones
    assert all(list(params) == [PRESENT] for params in clones)


def test_a_setting_that_is_fixed_is_fixed_under_its_former_name(tried):
    pbt = PBTConfig(mutations=["sampling.lane_group"], interval=1)
    with pytest.raises(ConfigError, match=r"sampling\.inference_batch_envs cannot change in a running training"):
        tried({"sampling.lane_group": tune.choice([1, 2])}, num_samples=2, scheduler=pbt)


def test_points_name_settings_by_their_former_names(tried):
    records = tried({PRESENT: tune.randint(8, 33)}, num_samples=1, points=[{FORMER: 24}])
    assert params_of(records) == [{PRESENT: 24}]


@pytest.fixture
def journal(tried, tmp_path, monkeypatch):
    """The journal of an experiment with former names, as an earlier version wrote it, and that of its whole length."""
    monkeypatch.setattr("rookery.tune.jobs.training_job.TrainingJob.names", lambda *args: str)
    config = {FORMER: tune.randint(8, 33), "sampling.helpers": 0}
    whole = params_of(tried(config, num_samples=4))
    tried(config, num_samples=2, force=True)
    monkeypatch.undo()
    return whole


@pytest.mark.parametrize("names", [(FORMER, "sampling.helpers"), (PRESENT, "sampling.env_processes")])
def test_a_stored_journal_goes_with_a_script_of_either_name_and_keeps_its_own(journal, tried, names):
    domain, fixed = names
    records = tried({domain: tune.randint(8, 33), fixed: 0}, num_samples=4, resume=True)
    assert params_of(records) == journal
    assert list(journal[0]) == [FORMER]


def test_a_stored_journal_is_resumed_from_its_folder(journal, tmp_path):
    tune.resume(tmp_path / "x", num_samples=4)
    assert params_of(read(tmp_path / "x")) == journal
