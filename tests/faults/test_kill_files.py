"""Killed between any two file operations of its start or of a checkpoint, a run loses nothing and can resume.

A kill happens in a fork of this process, before one operation: opening a file to write, writing, flushing, renaming,
linking, removing, making or removing a folder.
"""

from __future__ import annotations

import json
import os
import shutil
import sys

import pytest
from killable import make

from fs_kills import in_child, kills
from rookery import Trainer, tune
from rookery.cli.main import main
from rookery.core.io.files import last_good, list_checkpoints

TINY = ["--preset", "none", "--evaluate", "0", "--quiet", "algorithm.fragment_length=8", "algorithm.epochs=1",
        "sampling.num_envs=2", "sampling.env_processes=0", "algorithm.model.hidden=[8]"]  # fmt: skip
TRAIN = ["train", "CartPole-v1", "--seed", "3", "--stop", "iterations=2", "checkpoint.every=1", "--run-id", "x", *TINY]

EVERY = max(1, 6 - int(os.environ.get("ROOKERY_FAULTS", "0")) // 6)
"""``make test-faults`` kills before every operation, ``make test-all`` before every fifth."""


MANY = range(0, 1000, EVERY)
"""More than there are operations: a case ends where nothing is left to be killed."""

ONE_OR_MANY = pytest.mark.parametrize(
    "which", [pytest.param([5], id="one"), pytest.param(MANY, id="many", marks=pytest.mark.slow)]
)


def rows_of(folder):
    path = folder / "metrics.jsonl"
    return [json.loads(line)["iteration"] for line in path.read_text().splitlines()] if path.exists() else []


def cli(folder, *words):
    """Runs a command in a folder, in this process."""
    os.chdir(folder)
    sys.argv = ["rookery", *words]
    sys.path = list(sys.path)
    main()


def everything(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module", autouse=True)
def warm():
    """Loads what the forks need, and leaves no thread that a fork would lack."""
    make(None).close()


@pytest.mark.regression(
    "data lost", "A start that was killed before its first row can be repeated with the same command"
)
@ONE_OR_MANY
def test_killed_before_any_file_operation_a_command_can_be_given_again_or_resumed(tmp_path, which, measured):
    folder, counts = tmp_path / "place", {"again": 0, "resumed": 0}
    for number, killed in kills(folder, lambda: None, lambda: cli(folder, *TRAIN), which):
        if not killed:
            break
        run = folder / "runs" / "x"
        had = {number: list_checkpoints(run / "checkpoints")} if run.is_dir() else {}
        is_begun = bool(rows_of_whole(run) or had.get(number))
        code = in_child(lambda: cli(folder, *TRAIN))
        assert code == (2 if is_begun else 0), f"operation {number}"
        if is_begun:
            assert in_child(lambda: cli(folder, "resume", "x", "--evaluate", "0", "--quiet")) == 0, (
                f"operation {number}"
            )
        counts["resumed" if is_begun else "again"] += 1
        assert rows_of(run) == [1, 2], f"operation {number}"
        assert {"config.yaml", "provenance.json", "command.txt", "versions.json"} <= set(os.listdir(run))
        assert last_good(run / "checkpoints") == list_checkpoints(run / "checkpoints")[-1]
        assert {path.name for path in run.parent.iterdir()} <= {"x", "x.killed-at-start"}
        assert not list(run.rglob(".tmp-*")), f"operation {number}"
    total = sum(counts.values())
    if which is MANY:
        assert total > 100 // EVERY and min(counts.values()) > 10 // EVERY
        outcome = f"{counts['again']} made again by the same command, {counts['resumed']} resumed; none refused by both"
        measured("kill -9 before each file operation of rookery train (start, 2 checkpoints, end)", total, outcome)


def rows_of_whole(run):
    try:
        return rows_of(run)
    except ValueError:
        return []


@pytest.mark.regression(
    "data lost", "A start that was killed before its first row can be repeated with the same command"
)
@pytest.mark.slow
def test_killed_while_a_run_is_replaced_what_its_user_put_there_stays_and_force_works_again(tmp_path, measured):
    whole = tmp_path / "whole"
    with make(whole) as trainer:
        trainer.train({"iterations": 2})
    (whole / "notes").write_text("mine")
    (whole / "checkpoints" / "mine").mkdir()
    folder, total = tmp_path / "place", 0
    run = folder / "run"

    def replace():
        make(run, force=True).close()

    for number, killed in kills(folder, lambda: shutil.copytree(whole, run), replace, MANY):
        total += killed
        assert (run / "notes").read_text() == "mine" and (run / "checkpoints" / "mine").is_dir()
        assert in_child(replace) == 0, f"operation {number}"
        assert list_checkpoints(run / "checkpoints") == [] and rows_of(run) == []
        assert (run / "notes").read_text() == "mine" and (run / "checkpoints" / "mine").is_dir()
    assert total > 30 // EVERY
    outcome = "replaced by the same start again; what its user put there stays"
    measured("kill -9 before each file operation of a replaced run", total, outcome)


@pytest.mark.regression("data lost", "Rows are on disk before the checkpoint that counts them, and a gap is reported")
@pytest.mark.slow
def test_killed_before_any_file_operation_of_a_checkpoint_the_last_one_is_whole_and_its_rows_are_there(
    tmp_path, measured
):
    whole = tmp_path / "whole"
    with make(whole, config={"logging.tensorboard": False}) as trainer:
        trainer.train({"iterations": 3})
    folder, total, seen = tmp_path / "place", 0, set()
    run = folder / "run"

    def go_on():
        with Trainer.load(run, resume=True) as trainer:
            trainer.train({"iterations": 5})

    for number, killed in kills(folder, lambda: shutil.copytree(whole, run), go_on, MANY):
        total += killed
        found = list_checkpoints(run / "checkpoints")
        assert last_good(run / "checkpoints") == found[-1], f"operation {number}"
        seen.add(found[-1].name)
        iteration = int(found[-1].name[:6])
        assert [row for row in rows_of_whole(run) if row <= iteration] == list(range(1, iteration + 1))
        assert in_child(go_on) == 0, f"operation {number}"
        assert rows_of(run) == [1, 2, 3, 4, 5] and not list(run.rglob(".tmp-*"))
    assert total > 60 // EVERY and {"000003", "000004"} <= seen
    outcome = "the last checkpoint whole, with all its rows; resumed"
    measured("kill -9 before each file operation of a resume and two checkpoints", total, outcome)


def climb(config):
    for step in range(2):
        tune.report(config["x"] * step)


@pytest.mark.regression(
    "data lost", "A start that was killed before its first row can be repeated with the same command"
)
@pytest.mark.slow
def test_killed_before_any_file_operation_an_experiment_can_be_begun_again_or_gone_on_with(tmp_path, measured):
    folder, counts = tmp_path / "place", {"again": 0, "resumed": 0}
    place = folder / "lr"

    def begin(**arguments):
        tried = {"x": tune.grid_search([1.0, 2.0])}
        settings = {"seed": 1, "place": "here", "folder": place, "console": "quiet"}
        found = tune.run(trainable=climb, config=tried, **settings, **arguments)
        assert [trial.status for trial in found.trials] == ["TERMINATED"] * 2

    for number, killed in kills(folder, lambda: None, begin, MANY):
        if not killed:
            break
        reported = any(map(rows_of_whole, (place / "trials").glob("*")))
        counts["resumed" if reported else "again"] += 1
        assert in_child(begin) == (1 if reported else 0), f"operation {number}"
        if reported:
            assert in_child(lambda: begin(resume=True)) == 0, f"operation {number}"
        assert {path.name for path in folder.iterdir()} <= {"lr", "lr.killed-at-start"}
        for trial in (place / "trials").iterdir():
            assert rows_of(trial) == [1, 2, 3][: len(rows_of(trial))] and len(rows_of(trial)) >= 2
    total = sum(counts.values())
    assert total > 30 // EVERY and min(counts.values()) > 5 // EVERY
    outcome = f"{counts['again']} begun again by the same call, {counts['resumed']} resumed"
    measured("kill -9 before each file operation of an experiment of two trials", total, outcome)
