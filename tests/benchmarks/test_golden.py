"""``make golden`` compares runs of two commits: its list leaves nothing out, and it notices the last bit."""

from __future__ import annotations

import copy
import importlib
import json
import sys
from pathlib import Path

import pytest
import torch

from rookery import Trainer
from rookery.algorithms.names import ALGORITHMS

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def golden(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield importlib.import_module("golden")
    for name in ("golden", "golden_runs"):
        sys.modules.pop(name, None)


@pytest.fixture
def played(golden, tmp_path):
    """A trainer that has made one of the runs, and its folder."""
    run = golden.RUNS["dqn"]
    with Trainer(config={**golden.COMMON, **run.settings}, run_dir=tmp_path / "run") as trainer:
        golden.train(trainer, run, run.iterations)
        yield trainer, tmp_path / "run"


def test_the_list_covers_every_algorithm_and_every_way_to_play(golden):
    runs = golden.RUNS.values()
    policies = [policy for run in runs for policy in run.settings.get("policies", {}).values()]
    named = {run.settings.get("algorithm.name") for run in runs} | {policy.get("name") for policy in policies}
    assert ALGORITHMS.keys() - named == set()
    settings = {(path, str(value)) for run in runs for path, value in run.settings.items()}
    assert {("algorithm.model.memory.kind", kind) for kind in ("lstm", "gru", "scan", "attention")} <= settings
    assert {("sampling.env_processes", "2"), ("sampling.workers", "2"), ("cluster.learners", "2")} <= settings
    assert {path for path, _ in settings} >= {"teams", "policy_mapping", "self_play.main", "algorithm.replay.kind"}
    assert sum(run.resumed for run in runs) >= 5
    assert len(runs) >= 90


def test_times_are_no_part_of_rows(golden, played):
    trainer, folder = played
    columns = golden.outcome(trainer, folder)["rows"]
    assert {"env_steps", "return_mean", "policies/main/loss"} <= columns.keys()
    assert not [name for name in columns if "seconds" in name or "time" in name]


def test_a_changed_bit_of_a_weight_a_moment_or_a_row_is_noticed(golden, played):
    trainer, folder = played
    before = golden.outcome(trainer, folder)
    assert golden.differences(before, golden.outcome(trainer, folder)) == []
    with torch.no_grad():
        next(trainer.policies["main"].parameters()).view(-1).view(torch.int32)[0] ^= 1
    assert golden.differences(before, golden.outcome(trainer, folder)) == ["policies", "learners"]
    before = golden.outcome(trainer, folder)
    trainer.learners["main"].optimizer.mean[0] += 1
    assert golden.differences(before, golden.outcome(trainer, folder)) == ["optimizers"]
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    rows[1]["return_mean"] += 1e-9
    rows[2]["time/seconds"] += 1
    before = golden.outcome(trainer, folder)
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert golden.differences(before, golden.outcome(trainer, folder)) == ["rows: return_mean"]


def test_a_run_that_fails_in_a_tree_differs(golden):
    well = {"policies": "a", "learners": "b", "optimizers": "c", "rows": {}}
    assert golden.differences(well, {"error": "ConfigError: no"}) == ["new fails: ConfigError: no"]
    assert golden.differences({"error": "x"}, copy.deepcopy(well)) == ["old fails: x"]
