"""Learners that torchrun starts: the weights of those that one command starts, a stop and a start, what is refused."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys

import pytest

from rookery.policies.export import read_policy

pytestmark = pytest.mark.slow


def command(*words, ranks=0):
    """Runs the command line, of so many ranks by torchrun; returns what it printed and its exit status."""
    start = [sys.executable]
    if ranks:
        start += ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    given = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    found = subprocess.run(
        [*start, "-m", "rookery", *words], capture_output=True, text=True, timeout=120, check=False,
        env={**given, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    return found.stdout + found.stderr, found.returncode


def weights(run):
    found = hashlib.sha256()
    for value in read_policy(run).state_dict().values():
        found.update(value.numpy().tobytes())
    return found.hexdigest()


def test_learners_of_torchrun_come_to_the_weights_of_learners_of_one_command(tmp_path):
    words = ["cluster.learners=2", "--seed", "5", "--run-dir", str(tmp_path), "--plain", "--num-envs", "4"]
    said, status = command("train", "CartPole-v1", *words, "--run-id", "one", "--stop", "iterations=4")
    assert status == 0, said
    said, status = command("train", "CartPole-v1", *words, "--run-id", "two", "--stop", "iterations=2", ranks=2)
    assert status == 0, said
    assert said.count("stopped: iterations") == 1  # rank 0 speaks for all
    assert weights(tmp_path / "two") != weights(tmp_path / "one")
    said, status = command("resume", str(tmp_path / "two"), "--stop", "iterations=4", ranks=2)
    assert status == 0, said
    assert weights(tmp_path / "two") == weights(tmp_path / "one")


def test_other_numbers_of_learners_than_torchrun_has_started_are_refused(tmp_path):
    said, status = command("train", "CartPole-v1", "cluster.learners=3", "--run-dir", str(tmp_path), ranks=2)
    assert status != 0
    assert "cluster.learners = 3" in said
    assert "torchrun has started 2 processes, each a learner; write cluster.learners=2" in " ".join(said.split())
