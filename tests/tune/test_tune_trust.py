"""Tests of foreign experiments: their code never runs, wherever they name it; own experiments resume without a flag."""

from __future__ import annotations

import json
import sys
from urllib.parse import quote

import pytest

from hostile import MODULE, plant, watch
from rookery import ConfigError, tune
from rookery.cli.main import main
from rookery.core.io.files import FileError, write_directory
from rookery.core.settings.layers import Layer
from rookery.run.checkpoint.own_files import refuse_links_of_trials
from rookery.tune.job import Start
from rookery.tune.jobs.trainable import CONTENT, unpack_files
from rookery.tune.jobs.training_job import TrainingJob
from rookery.tune.journal import FILE, VERSION, ExperimentState, read
from rookery.tune.trust import check_params
from small_envs import OWN

CALL = f"{MODULE}:call"
THING = f"{MODULE}:Thing"

TRAINING = {"env": {"name": "CartPole-v1"}, "algorithm": {"name": "ppo"}}
SECTION = {"metric": "return_mean", "mode": "max", "scope": "last", "num_samples": 1, "points": [],
           "search": {"name": "random"}, "scheduler": {"name": "fifo", "time": "iteration"}}  # fmt: skip

PLACES = {
    "a trainable": {"spec.trainable": CALL},
    "a trainable that is compiled": {"spec.trainable": "os:system"},
    "a trainable behind a module of ours": {"spec.trainable": "rookery.core.io.files:os.system"},
    "an environment": {"spec.config.env.name": CALL},
    "an environment that is a module": {"spec.config.env.name": MODULE},
    "environments to choose from": {"spec.config.env.name": {"choice": ["CartPole-v1", MODULE]}},
    "a wrapper": {"spec.config.env.wrappers": [CALL]},
    "settings of the algorithm": {"spec.config.algorithm.name": THING},
    "a model": {"spec.config.algorithm.model": {"module": {"grid_search": [None, CALL]}}},
    "a function that computes": {"spec.config.algorithm.lr": {"sample_from": CALL}},
    "a function of ours that computes": {"spec.config.algorithm.lr": {"sample_from": "rookery.core.io.files:clean"}},
    "a search": {"tune.search.name": THING},
    "a scheduler": {"tune.scheduler.name": THING},
    "a scheduler in the place of a search": {"tune.search.name": "rookery.tune.schedulers.pbt:PBTConfig"},
    "a function that explores": {"tune.scheduler": {"name": "pbt", "explore": CALL}},
    "a mutation": {"tune.scheduler": {"name": "pbt", "mutations": {"algorithm.lr": {"sample_from": CALL}}}},
    "a search that is nothing but a name": {"tune.search": "hostile_package/inner:Thing"},
    "a section among the settings": {"spec.config.tune": {"search": {"name": THING}}},
    "a point": {"tune.points": [{"algorithm.model.module": CALL}]},
}


def journal_of_others(folder, changes=(), *records):
    """Writes the journal of a foreign experiment; `changes` are dotted paths of its first record."""
    spec = {"trainable": None, "preset": "none", "config": TRAINING, "stop": None, "in_code": []}
    first = {"kind": "experiment", "version": VERSION, "title": "theirs", "seed": 0, "trial_seed": 0, "space": {},
             "job": {}, "tune": SECTION, "spec": spec}  # fmt: skip
    first = json.loads(json.dumps(first))
    for path, value in dict(changes).items():
        *above, last = path.split(".")
        node = first
        for key in above:
            node = node[key]
        node[last] = value
    folder.mkdir()
    (folder / FILE).write_text("".join(f"{json.dumps(record)}\n" for record in (first, *records)))


def rookery(monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["rookery", *map(str, words)])
    monkeypatch.setattr(sys, "path", list(sys.path))
    try:
        main()
    except SystemExit as error:
        return error.code or 0
    return 0


@pytest.mark.parametrize("changes", PLACES.values(), ids=PLACES)
def test_nothing_of_an_experiment_of_others_runs(changes, tmp_path, monkeypatch, capsys):
    mark = plant(tmp_path, monkeypatch)
    journal_of_others(tmp_path / "theirs", changes)
    assert rookery(monkeypatch, "tune", "resume", tmp_path / "theirs") == 2
    err = capsys.readouterr().err
    assert f"{tmp_path / 'theirs' / FILE}: " in err and "reading this would run" in err
    assert "--trust-code (in code: trust_code=True)" in err
    assert not mark.exists()


REACHED = {
    "variables of processes": {"spec.config.cluster": {"environment": {"PYTHONPATH": "theirs/x"}}},
    "a cluster": {"spec.config.cluster": {"ray": "10.0.0.1:6379"}},
    "data to imitate": {"spec.config.algorithm.imitation": {"replay": ["theirs/x"]}},
    "weights to begin with": {"spec.config.policies": {"main": {"init_from": "theirs/x"}}},
    "weights to choose from": {"spec.config.policies": {"main": {"init_from": {"choice": [None, "theirs/x"]}}}},
    "a robot": {"spec.config.env": {"name": "Ant-v5", "config": {"xml_file": "theirs/x.xml"}}},
    "copies": {"spec.config.sampling": {"num_envs": {"lograndint": [1, 10**9]}}},
    "widths": {"spec.config.algorithm.model": {"hidden": {"grid_search": [[64], [10**9]]}}},
    "workers": {"tune.max_concurrent": 10**6},
    "samples": {"tune.num_samples": 10**12},
    "a mutation": {"tune.scheduler": {"name": "pbt", "mutations": {"sampling.num_envs": {"choice": [8, 10**9]}}}},
    "bounds": {"tune.scheduler": {"name": "pb2", "bounds": {"algorithm.batch_size": [1, 10**12]}}},
    "a point": {"tune.points": [{"cluster.working_directory": "/"}]},
    "a keyword that is no setting": {"tune.force": True},
    "a keyword that stands for code": {"tune.stop": "os:system"},
}


@pytest.mark.regression("foreign code", "No field of an experiment of others starts, opens or listens at anything")
@pytest.mark.parametrize("changes", REACHED.values(), ids=REACHED)
def test_nothing_that_an_experiment_of_others_says_is_reached(changes, tmp_path, monkeypatch, capsys):
    journal_of_others(tmp_path / "theirs", changes)
    seen = watch("theirs/x")
    assert rookery(monkeypatch, "tune", "resume", tmp_path / "theirs") == 2
    assert seen == []
    watch(None)
    err = capsys.readouterr().err
    assert "not written by you on this machine" in err and "--trust-code (in code: trust_code=True)" in err


def test_later_records_reach_nothing_that_the_first_does_not(tmp_path):
    journal_of_others(tmp_path / "theirs", {"spec.config.sampling": {"num_envs": {"lograndint": [1, 10**9]}}})
    now = read(tmp_path / "theirs")[0]

    def check(params):
        check_params(tmp_path / "theirs", [{"kind": "trial", "params": params}], now)

    check({"sampling.num_envs": 10**8})  # which the search has drawn
    for params in ({"evaluation.num_envs": 10**8}, {"cluster.environment": {"PYTHONPATH": "x"}}):
        with pytest.raises(ConfigError, match="not written by you on this machine"):
            check(params)


def test_nothing_of_others_runs_where_an_experiment_is_shown(tmp_path, monkeypatch, capsys):
    mark = plant(tmp_path, monkeypatch)
    places = {path: value for changes in PLACES.values() for path, value in changes.items()}
    foreign = {path: value for path, value in places.items() if path.startswith(("spec.", "tune.points"))}
    journal_of_others(tmp_path / "theirs", foreign)
    assert rookery(monkeypatch, "tune", "show", tmp_path / "theirs") == 0
    assert "theirs" in capsys.readouterr().out
    assert not mark.exists()


def test_a_trainable_has_to_be_a_class_with_step_or_a_function_also_where_it_is_trusted(tmp_path):
    journal_of_others(tmp_path / "theirs", {"spec.trainable": "subprocess:Popen"})
    with pytest.raises(ConfigError, match="subprocess:Popen: is a class, not a class with step, or a function"):
        tune.resume(tmp_path / "theirs", trust_code=True)


def test_own_experiments_go_on_without_a_word_and_those_of_others_with_one(tmp_path, monkeypatch):
    place = tmp_path / "mine"
    config = {"env.name": OWN, "algorithm.fragment_length": 8, "algorithm.epochs": 1, "sampling.num_envs": 2,
              "algorithm.lr": tune.uniform(1e-4, 1e-3), "stop.iterations": 1, "logging.tensorboard": False}  # fmt: skip
    tune.run(config=config, folder=place, place="here", seed=3, console="quiet")
    assert len(tune.resume(place, num_samples=2)) == 2
    trial = tune.Analysis(place)["00000"]
    trial.load().close()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "another-machine"))
    with pytest.raises(ConfigError, match=f"env.name = {OWN}: reading this would run"):
        tune.resume(place, num_samples=3)
    with pytest.raises(ConfigError, match="reading this would run"):
        trial.load()
    assert len(tune.resume(place, trust_code=True)) == 2
    trial.load(trust_code=True).close()
    lr = {"algorithm.lr": config.pop("algorithm.lr").low}
    job = TrainingJob([Layer("code", config)], {"algorithm.lr": tune.uniform(1e-4, 1e-3)}, "none")
    work = job.start(Start("00000", lr, trial.seed, trial.folder))  # a node has another key, or none
    assert work.iteration == 1
    work.close()
    job.layers = [Layer("code", {**config, "env.name": "CartPole-v1"})]
    with pytest.raises(ConfigError, match="reading this would run"):
        job.start(Start("00000", lr, trial.seed, trial.folder))


def test_parameters_name_no_code_that_the_experiment_does_not(tmp_path, monkeypatch):
    mark = plant(tmp_path, monkeypatch)
    spec = {"trainable": None, "config": TRAINING}
    module = "algorithm.model.module"
    now = {"space": {module: {"choice": [None, "mine:Net"]}}, "spec": spec, "tune": SECTION}
    good = [{"kind": "trial", "params": {module: "mine:Net"}}, {"kind": "result", "actions": {"00000": "stop"}}]
    check_params(tmp_path, good, now)
    clone = {"kind": "result", "actions": {"00000": {"donor": "00001", "params": {module: CALL}}}}
    for bad in ({"kind": "trial", "params": {module: CALL}}, clone, {"kind": "trial", "params": {"env.name": MODULE}}):
        with pytest.raises(ConfigError, match="reading this would run"):
            check_params(tmp_path, [*good, bad], now)
    assert not mark.exists()


@pytest.mark.parametrize("folder", ["../elsewhere", "/tmp", "trials/../../elsewhere"])
def test_the_folder_of_a_trial_lies_in_its_experiment(folder, tmp_path):
    trial = {"kind": "trial", "trial": "00000", "number": 0, "params": {}, "seed": 0, "folder": folder}
    journal_of_others(tmp_path / "theirs", (), trial)
    with pytest.raises(FileError, match=f"{FILE}:2: the record does not follow .* lies outside of the experiment"):
        ExperimentState.of(tmp_path / "theirs", read(tmp_path / "theirs"))


@pytest.mark.parametrize("name", ["../../gone-astray", "/tmp/gone-astray"])
def test_files_of_a_checkpoint_stay_in_its_folder(name, tmp_path):
    write_directory(tmp_path / "000001", {quote(f"{CONTENT}{name}", safe=""): b"x"}, {})
    with pytest.raises(FileError, match="the manifest names a file outside"):
        unpack_files(tmp_path / "000001", tmp_path)
    assert not (tmp_path / "gone-astray").exists()


@pytest.mark.regression("foreign code", "A run of others writes to nothing that links in its folder lead to")
@pytest.mark.parametrize("name", ["journal.jsonl", "trials", "trials/00000", "trials/00000/log.txt"])
def test_links_in_an_experiment_are_refused(name, tmp_path):
    other, place = tmp_path / "other", tmp_path / "theirs" / name
    other.mkdir()
    place.parent.mkdir(parents=True)
    place.symlink_to(other)
    with pytest.raises(FileError, match=f"{name}: is a link to {other}"):
        refuse_links_of_trials(tmp_path / "theirs")


@pytest.mark.regression("foreign code", "Long values of others are compared to their ends with what is the user's own")
def test_long_values_are_compared_whole(tmp_path):
    spec = {"trainable": None, "config": TRAINING}
    mine = f"runs/{'x' * 90}"
    init_from = "policies.main.init_from"
    now = {
        "space": {init_from: {"choice": [f"{mine}/mine"]}},
        "spec": {**spec, "config": {**TRAINING, init_from: {"choice": [f"{mine}/mine"]}}},
        "tune": SECTION,
    }
    check_params(tmp_path, [{"kind": "trial", "params": {init_from: f"{mine}/mine"}}], now)
    with pytest.raises(ConfigError, match="reaches a path"):
        check_params(tmp_path, [{"kind": "trial", "params": {init_from: f"{mine}/other"}}], now)
