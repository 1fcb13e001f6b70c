"""Relative paths refer to the starting folder of a run, also after `os.chdir`; those of stored runs too."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path
from typing import get_origin

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from cli.commands import command
from hostile import rewrite
from rookery import Callback, ConfigError, IQLConfig, PPOConfig, Trainer, import_replay, tune
from rookery.algorithms.names import ALGORITHMS
from rookery.core.config import resolve
from rookery.core.io.files import FileError
from rookery.core.settings.fields import alternatives, bare, fields_of, hints_of, settings_class
from rookery.core.settings.layers import Layer, import_object
from rookery.core.settings.path_settings import holds_paths
from rookery.core.settings.starting_folder import module_paths, started_in, starting_folder
from rookery.run.checkpoint.path_folders import as_typed, folders_in, resolve_run
from rookery.run.settings import RunConfig

TINY = {"fragment_length": 8, "epochs": 1, "minibatch_size": 8, "model": {"hidden": (4,)}}
SPLIT = pytest.mark.regression("data lost", "A run with a relative folder writes all files there after a chdir")
ELSEWHERE = pytest.mark.regression("unclear error", "A run with relative paths resumes from another folder")
FOREIGN = pytest.mark.regression(
    "foreign code", "A foreign run cannot choose the folder where its relative paths begin"
)


class Roaming(gymnasium.Env):
    """Reads a relative file when it is made, and changes the working directory at a moment."""

    observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = spaces.Discrete(2)
    metadata = {"render_modes": ["rgb_array"]}

    def __init__(self, table="table.txt", away="", when="step", render_mode=None):
        self.row = np.asarray([float(word) for word in Path(table).read_text().split()], np.float32)
        self.away, self.when, self.render_mode = away, when, render_mode
        self.go("make")

    def go(self, moment):
        if moment == self.when and self.away:
            os.chdir(self.away)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.go("reset")
        self.steps = 0
        return self.row, {}

    def step(self, action):
        self.go("step")
        self.steps += 1
        return self.row, float(action), self.steps > 5, False, {}

    def render(self):
        return np.full((8, 8, 3), 9, np.uint8)


class Leaves(Callback):
    def __init__(self, away):
        self.away = away

    def on_iteration(self, trainer, result):
        os.chdir(self.away)


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """A folder to start in, which is the working directory, and an empty one."""
    start, away = tmp_path / "start", tmp_path / "away"
    start.mkdir()
    away.mkdir()
    (start / "table.txt").write_text("0.25 0.75")
    monkeypatch.chdir(start)
    return start, away


def roaming(**config):
    more = {"evaluation.every": 1, "evaluation.episodes": 1, "checkpoint.every": 1, "env.config": config}
    return {"env": Roaming, "algorithm": PPOConfig(**TINY), "num_envs": 2, "seed": 1, "config": more}


def check_whole(start, away, iterations, lives=1):
    run = start / "runs" / "x"
    assert len((run / "metrics.jsonl").read_text().splitlines()) == iterations
    assert (run / "checkpoints" / f"{iterations:06d}").is_dir()
    assert len(list(run.glob("events.out.*"))) == lives
    assert not list(away.iterdir())


@SPLIT
@pytest.mark.parametrize("who", ["make", "reset", "step", "callback", "between iterations", "before training"])
def test_a_run_is_whole_whoever_changes_the_working_directory(folders, who):
    start, away = folders
    env = {"away": str(away), "when": who} if who in ("make", "reset", "step") else {}
    callbacks = [Leaves(away)] if who == "callback" else []
    with Trainer(**roaming(**env), run_dir="runs/x", callbacks=callbacks) as trainer:
        if who == "before training":
            os.chdir(away)
        for result in trainer.results({"iterations": 2}):
            if who == "between iterations" and not result.stop_reason:
                os.chdir(away)
        assert trainer.evaluate(1).return_mean >= 0
    check_whole(start, away, 2)
    os.chdir(start)
    with Trainer.load("runs/x", env=Roaming, resume=True) as trainer:
        os.chdir(away)
        trainer.train({"iterations": 3})
    check_whole(start, away, 3, lives=2)


@SPLIT
@pytest.mark.filterwarnings("ignore:.*was killed by SIGKILL")
@pytest.mark.parametrize("implementation", [pytest.param("processes", marks=pytest.mark.slow), "threads"])
def test_copies_of_helpers_are_made_again_where_the_run_was_started(folders, implementation):
    start, away = folders
    told = roaming()
    told["config"] |= {"env.implementation": implementation, "sampling.env_processes": 1}
    with Trainer(**told, run_dir="runs/x") as trainer:
        os.chdir(away)
        trainer.train_iteration()
        if implementation == "processes":
            (helper,) = trainer.env._helpers
            assert os.readlink(f"/proc/{helper._process.pid}/cwd") == str(start)
            os.kill(helper._process.pid, signal.SIGKILL)
        trainer.train({"iterations": 2})
    check_whole(start, away, 2)


@SPLIT
def test_workers_are_made_where_the_run_was_started(folders):
    start, away = folders
    told = roaming()
    told["config"] |= {"sampling.workers": 2, "evaluation.workers": 1, "cluster.ray": "here"}
    with Trainer(**told, run_dir="runs/x") as trainer:
        os.chdir(away)
        trainer.train_iteration()  # begins the workers that evaluate
        trainer._pool.hosts.lose(0)
        trainer.train({"iterations": 2})
    check_whole(start, away, 2)


@SPLIT
@pytest.mark.slow
def test_learners_on_this_machine_begin_where_the_run_was_started(folders):
    start, away = folders
    told = roaming(away=str(away), when="make")
    told["config"] |= {"cluster.learners": 2}
    with Trainer(**told, run_dir="runs/x") as trainer:
        trainer.train({"iterations": 2})
    check_whole(start, away, 2)


@SPLIT
@pytest.mark.parametrize("place", ["here", pytest.param("processes", marks=pytest.mark.slow)])
def test_trials_of_an_experiment_are_whole_and_begin_where_it_was_started(folders, place):
    start, away = folders
    told = {**roaming(away=str(away)), "stop": {"iterations": 2}}
    told["config"] |= {"algorithm.lr": tune.grid_search([1e-3, 1e-4])}
    found = tune.run(**told, folder="exp", place=place, max_concurrent=1)
    assert os.getcwd() == str(away if place == "here" else start)
    assert [trial.rows[-1]["iteration"] for trial in found.trials] == [2, 2]
    assert not list(away.iterdir())
    assert len(list((start / "exp" / "trials").iterdir())) == 2


# --- stored paths -----------------------------------------------------------------------------------------------------


def data_in(folder, reward=0.0):
    """Ten episodes of a constant reward."""
    ends = np.tile(np.arange(20) == 19, 10)
    arrays = {"obs": np.zeros((200, 2), np.float32), "actions": np.zeros((200, 1), np.float32)}
    np.savez(f"{folder}.npz", **arrays, rewards=np.full(200, reward, np.float32), truncated=ends)
    made_of = {"observation_space": spaces.Box(-9, 9, (2,)), "action_space": spaces.Box(-1, 1, (1,))}
    import_replay(f"{folder}.npz", folder, **made_of)


def mixed():
    return IQLConfig(model={"hidden": (4,)}, batch_size=8, replay={"start_from": ("data",), "mix": {"more": 0.5}})


def reward_mixed_in(trainer):
    (other,) = trainer.replays["main"].buffer.others
    return float(other.reward[0])


@pytest.fixture
def stored(folders):
    """A run with a mixture of relative data, and the folders."""
    start, away = folders
    data_in("data")
    data_in("more", reward=1.0)
    with Trainer(None, mixed(), seed=0, run_dir="runs/x") as trainer:
        trainer.learn(2)
        assert reward_mixed_in(trainer) == 1.0
    return start, away


@ELSEWHERE
def test_a_run_resumes_from_another_folder_with_paths_as_they_were_typed(stored):
    start, away = stored
    os.chdir(away)
    with Trainer.load("../start/runs/x", resume=True) as trainer:
        assert reward_mixed_in(trainer) == 1.0
        trainer.learn(2)
        written = json.loads((trainer.save() / "config.json").read_text())
    assert written["values"]["algorithm.replay.mix.more"] == 0.5
    assert written["folders"]["algorithm.replay.mix.more"] == str(start)
    shutil.move("../start/more", "more")  # where the path is not there any more, the working directory is looked at
    with Trainer.load("../start/runs/x") as trainer:
        assert reward_mixed_in(trainer) == 1.0
        (note,) = (note for note in trainer._notes if "is not in" in note)
        moved = trainer.resolved.folders["algorithm.replay.mix.more"]
    assert note == (
        f"algorithm.replay.mix.more = more: is not in {start}, where the run was started; {away}/more is used"
    )
    assert moved == str(away)


@ELSEWHERE
def test_what_a_resumed_run_is_given_begins_in_the_working_directory(folders):
    start, away = folders
    mix = "algorithm.replay.mix"
    before = Layer("stored", {"algorithm.name": "dqn", f"{mix}.more": 0.5}, stored_folders={f"{mix}.more": "/other"})
    resolved = resolve(RunConfig, [before, Layer("code", {mix: {"data": 0.2}})], ALGORITHMS)
    assert resolved.config.algorithm.replay.mix == {"/other/more": 0.5, f"{start}/data": 0.2}
    assert {path: folder for path, folder in resolved.folders.items() if path.startswith(mix)} == {
        f"{mix}.more": "/other",
        f"{mix}.data": str(start),
    }


@FOREIGN
def test_a_foreign_run_has_no_say_in_where_its_paths_begin(stored):
    start, away = stored
    os.chdir(away)
    checkpoint = next((start / "runs" / "x" / "checkpoints").glob("0*"))
    for signed in (True, False):  # the signature of another content is worth nothing
        rewrite(checkpoint, "config.json", lambda config: config["values"].update(seed=1), signed=signed)
        with pytest.raises(ConfigError, match=r"reaches a path.*does not have your signature"):
            Trainer.load(checkpoint)
        with pytest.raises(FileError, match="^more: there is no such run"):
            Trainer.load(checkpoint, trust_code=True)
    shutil.copytree(start / "more", "more")
    with Trainer.load(checkpoint, trust_code=True) as trainer:
        assert reward_mixed_in(trainer) == 1.0
        assert trainer.resolved.folders["algorithm.replay.mix.more"] == str(away)


@FOREIGN
def test_the_comment_of_a_foreign_run_is_not_read(stored):
    start, _ = stored
    file = start / "runs" / "x" / "config.yaml"
    assert folders_in(file)["algorithm.replay.start_from"] == str(start)
    file.write_text(file.read_text().replace(str(start), "/victim"))
    assert folders_in(file) == {}


def test_a_run_without_folders_begins_in_the_working_directory(stored):
    start, _ = stored
    checkpoint = next((start / "runs" / "x" / "checkpoints").glob("0*"))
    rewrite(checkpoint, "config.json", lambda config: config.pop("folders"))
    with Trainer.load("runs/x", trust_code=True) as trainer:
        assert reward_mixed_in(trainer) == 1.0


@ELSEWHERE
@pytest.mark.parametrize("is_own", [True, False])
def test_an_experiment_resumes_from_another_folder_if_it_is_own(folders, is_own):
    start, away = folders
    with Trainer("CartPole-v1", PPOConfig(**TINY), num_envs=2, run_dir="runs/first") as trainer:
        trainer.train({"iterations": 1})
    told = {"policies.main.init_from": "runs/first", "algorithm.lr": tune.grid_search([1e-3, 1e-4])}
    settings = {"algorithm": PPOConfig(**TINY), "num_envs": 2, "seed": 1, "stop": {"iterations": 1}}
    tune.run("CartPole-v1", **settings, config=told, folder="exp", place="here")
    journal = start / "exp" / "journal.jsonl"
    first = json.loads(journal.read_text().splitlines()[0])
    if not is_own:
        first["signature"] = "0" * 64
    journal.write_text(f"{json.dumps(first)}\n")  # as if it had been killed before any trial had begun
    shutil.rmtree("exp/trials")
    os.chdir(away)
    if not is_own:
        with pytest.raises(FileError, match="^runs/first: there is no such run"):
            tune.resume(start / "exp", trust_code=True)
        return
    found = tune.resume(start / "exp")
    assert len(found.trials) == 2
    assert not any(trial.error for trial in found.trials)


@ELSEWHERE
def test_a_run_that_was_killed_at_its_start_begins_anew_from_another_folder(folders):
    start, away = folders
    with Trainer("CartPole-v1", PPOConfig(**TINY), num_envs=2, run_dir="runs/first") as trainer:
        trainer.train({"iterations": 1})
    more = {"policies.main.init_from": "runs/first", "stop.iterations": 1}
    Trainer("CartPole-v1", PPOConfig(**TINY), num_envs=2, config=more, run_dir="runs/x").close()
    assert command(away, "resume", "../start/runs/x", "--evaluate", "0", "--quiet")[0] == 0
    assert len((start / "runs" / "x" / "metrics.jsonl").read_text().splitlines()) == 1


@SPLIT
def test_commands_write_where_they_were_given_whatever_the_environment_does(folders):
    start, away = folders
    settings = [
        f"env.config.away={away}",
        "env.config.when=make",
        "algorithm.fragment_length=8",
        "env.config.table=table.txt",
    ]
    words = ["train", f"{__name__}:Roaming", *settings, "--run-id", "x", "--stop", "iterations=1", "--quiet"]
    assert command(start, *words, "--evaluate", "1", "--preset", "none")[0] == 0
    code, out, _ = command(start, "record", "runs/x", "-o", "film.gif", "--episodes", "1")
    assert code == 0
    assert "film.gif" in out
    assert (start / "film.gif").is_file()
    code, _, error = command(start, "resume", "runs/x", "--stop", "iterations=2", "--evaluate", "1", "--quiet")
    assert (code, error) == (0, "")
    check_whole(start, away, 2, lives=2)
    assert (start / "runs" / "x" / "result.json").is_file()


def test_paths_of_environments_begin_where_the_run_was_started_and_go_to_ray_as_typed(folders):
    start, away = folders
    (start / "my_env.c").write_text("")
    values = {"env.name": "my_env.c", "env.config.weight": 2}
    os.chdir(away)
    layer = Layer("stored", values, stored_folders={"env.name": str(start)})
    resolved = resolve_run([layer])
    assert resolved.config.env.name == str(start / "my_env.c")
    assert as_typed(resolved).env.name == resolved.history["env.name"][-1][1] == "my_env.c"
    values = {"env.name": "external:9900", "env.config.token_file": "token", "env.config.token": "a"}
    layer = Layer("stored", values, stored_folders=dict.fromkeys(values, str(start)))
    resolved = resolve_run([layer])
    assert resolved.config.env.config == {"token_file": str(start / "token"), "token": "a"}
    assert as_typed(resolved).env.config == {"token_file": "token", "token": "a"}


# --- settings ---------------------------------------------------------------------------------------------------------


def paths_in(cls, above):
    """The path of every setting that its type marks as a path, with a relative value, in a class and its sections."""
    for name, hint in hints_of(cls).items():
        if name not in fields_of(cls):
            continue
        inner = settings_class(hint)
        if inner is not None:
            yield from paths_in(inner, f"{above}{name}.")
        else:
            yield from ((f"{above}{name}", value) for value in values_of(hint))


def values_of(hint):
    if not holds_paths(hint):
        return
    kinds = [get_origin(bare(part)) for part in alternatives(hint)]
    yield {"data": 0.5} if dict in kinds else ("data",) if tuple in kinds else "data"


@SPLIT
@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_setting_that_is_a_path_is_absolute_and_stays_as_typed_in_the_history(name):
    cls = import_object(ALGORITHMS[name])
    wanted = {f"algorithm.{path}": value for path, value in paths_in(cls, "")}
    layer = Layer("a file", {"algorithm.name": name, **wanted}, folder="/start")
    resolved = resolve(RunConfig, [layer], ALGORITHMS)
    for path, value in wanted.items():
        found = resolved.config
        for key in path.split("."):
            found = getattr(found, key)
        assert "/start/data" in ([found] if isinstance(found, str) else list(found)), path
        typed = {known: given[-1][1] for known, given in resolved.history.items() if known.startswith(path)}
        assert typed in ({path: value}, {f"{path}.data": 0.5})
        assert {resolved.folders[known] for known in typed} == {"/start"}


def test_settings_of_policies_and_of_the_cluster_are_absolute_too():
    values = {"policies.a.init_from": "runs/x:main", "cluster.working_directory": "code"}
    config = resolve(RunConfig, [Layer("a file", values, folder="/start")], ALGORITHMS).config
    assert config.policies["a"].init_from == "/start/runs/x:main"
    assert config.cluster.working_directory == "/start/code"
    values = {"cluster.working_directory": "s3://bucket/code.zip"}
    assert (
        resolve(RunConfig, [Layer("a file", values)], ALGORITHMS).config.cluster.working_directory
        == values["cluster.working_directory"]
    )


def test_a_starting_folder_holds_only_meanwhile(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    inner = tmp_path / "inner"
    inner.mkdir()
    with started_in(str(inner)):
        assert os.getcwd() == starting_folder() == str(inner)
        assert module_paths(["", "lib", "/lib"]) == [str(inner), str(inner / "lib"), "/lib"]
    assert os.getcwd() == starting_folder() == str(tmp_path)
    with started_in(str(inner)):
        os.chdir("/")  # code of others may go where it likes, and stays there
    assert os.getcwd() == "/"
    os.chdir(inner)
    inner.rmdir()
    assert starting_folder() == ""
    with started_in(str(tmp_path / "none")):
        assert starting_folder() == ""
