"""A Ray cluster that a run starts on this machine leaves nothing behind, and touches nothing of others."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from rookery import PPOConfig, Trainer

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.slow

PROGRAM = """
import sys
from rookery import PPOConfig, Trainer
print("begun", flush=True)
ppo, cluster = PPOConfig(fragment_length=16), {"ray": "local"}
trainer = Trainer("CartPole-v1", ppo, num_envs=2, sampling={"workers": 1}, cluster=cluster)
trainer.train_iteration()
"""  # which does not close it


@pytest.fixture
def temporary():
    """A temporary folder of Ray with another user's session; the paths of its sockets have a limit."""
    place = Path(tempfile.mkdtemp(dir="/tmp"))
    (place / "ray" / "session_other").mkdir(parents=True)
    yield place
    shutil.rmtree(place, ignore_errors=True)


@pytest.mark.regression("exhausted memory or time", "`--ray local` left a `session_*` folder in the temporary folder")
@pytest.mark.parametrize("end", ["at its goal", "by Ctrl-C", "without a close"])
def test_the_folder_of_a_cluster_that_was_begun_here_is_removed(end, temporary):
    run = temporary / "run"
    goal = f"env_steps={10**9 if end == 'by Ctrl-C' else 500}"
    command = [sys.executable, "-m", "rookery", "train", "CartPole-v1", "--num-envs", "2", "--workers", "1",
               "--ray", "local", "--stop", goal, "--run-dir", str(run), "sampling.iteration_steps=200"]  # fmt: skip
    if end == "without a close":
        command = [sys.executable, "-c", PROGRAM]
    variables = os.environ | {"RAY_TMPDIR": str(temporary), "RAY_ADDRESS": ""}
    log = temporary / "said.txt"
    with log.open("w") as file:
        program = subprocess.Popen(command, env=variables, stdout=file, stderr=subprocess.STDOUT)
    try:
        if end == "by Ctrl-C":
            until = time.monotonic() + 100
            while not list(run.glob("*/metrics.jsonl")):
                assert time.monotonic() < until and program.poll() is None
                time.sleep(0.1)
            program.send_signal(signal.SIGINT)
        assert program.wait(100) == (130 if end == "by Ctrl-C" else 0), log.read_text()
    finally:
        program.kill()
    assert sorted(path.name for path in (temporary / "ray").iterdir()) == ["session_other"]


@pytest.mark.regression(
    "foreign code", "a trainer that was closed after its program had joined another Ray cluster disturbed that one"
)
@pytest.mark.parametrize("more", [{"sampling.workers": 1}, {"cluster.learners": 2}], ids=["worker", "learner"])
def test_a_trainer_leaves_a_cluster_alone_that_its_program_has_joined_since(more, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "")
    ppo = PPOConfig(fragment_length=16, minibatch_size=32, epochs=1)
    trainer = Trainer("CartPole-v1", ppo, num_envs=2, config={"cluster.ray": "local", **more})
    trainer.train_iteration()
    ray.shutdown()
    ray.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    try:
        trainer.close()
        assert ray.is_initialized()
    finally:
        ray.shutdown()
