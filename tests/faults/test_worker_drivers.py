"""A run with workers on two Ray nodes whose driver is killed: its workers end with it, and its results are equal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rookery import Trainer
from rookery.core.io.files import FOLDER, checkpoint_number, list_checkpoints

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.slow

from nodes_of_ray import Nodes, eventually, is_alive  # noqa: E402

ITERATIONS, STRIDE = 300, 40
KILLS = 3 if "ROOKERY_FAULTS" in os.environ else 1
SETTINGS = [
    "sampling.num_envs=4", "sampling.workers=2", "algorithm.fragment_length=64", "algorithm.epochs=2",
    "checkpoint.every=2", "logging.tensorboard=false",
]  # fmt: skip


@pytest.fixture(scope="module")
def nodes():
    made = Nodes()
    made.add()
    eventually(lambda: sum(node["Alive"] for node in ray.nodes()) == 2)
    yield made
    made.close()
    eventually(lambda: not any(map(is_alive, made.begun)))


def rookery(*words):
    """A process of the command line, and of a session of its own."""
    command = [sys.executable, "-m", "rookery", *map(str, words)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )


def finished(process):
    out = process.communicate(timeout=120)[0]
    assert process.returncode == 0, out
    return out


def workers_on(nodes):
    """Processes of workers that a cluster has."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            if parent in nodes.begun and b"HostActor" in (path / "cmdline").read_bytes():
                found.append(int(path.name))
        except OSError:  # it has just ended
            continue
    return found


def weights_of(folder):
    with Trainer.load(folder, cluster={"ray": "here"}) as trainer:
        policy = trainer.policies["main"]
        assert trainer.iteration == ITERATIONS
        return b"".join(tensor.detach().numpy().tobytes() for tensor in [*policy.parameters(), *policy.buffers()])


def test_a_driver_that_is_killed_takes_its_workers_along_and_its_run_goes_on(nodes, tmp_path, measured):
    address = nodes.cluster.address
    begin = ["train", "CartPole-v1", "--seed", 5, "--ray", address, "--evaluate", 0, "--preset", "none",
             "--stop", f"iterations={ITERATIONS}", "--run-dir", tmp_path, *SETTINGS]  # fmt: skip
    finished(rookery(*begin, "--run-id", "undisturbed"))
    folder = tmp_path / "killed"
    driver = rookery(*begin, "--run-id", "killed")
    for number in range(1, KILLS + 1):
        eventually(lambda wanted=number * STRIDE: last(folder) >= wanted)
        workers = workers_on(nodes)
        assert len(workers) == 2
        os.kill(driver.pid, signal.SIGKILL)
        driver.communicate(timeout=60)
        assert last(folder) < ITERATIONS
        eventually(lambda: not workers_on(nodes))
        eventually(lambda those=workers: not any(map(is_alive, those)))
        driver = rookery("resume", folder, "--ray", address, "--evaluate", 0)
    finished(driver)
    assert weights_of(folder) == weights_of(tmp_path / "undisturbed")
    measured("kill -9 of the driver of workers on two Ray nodes", KILLS, "workers gone with it; the same weights")


def last(folder):
    """The iteration of the last checkpoint."""
    numbers = [checkpoint_number(path.name) for path in list_checkpoints(folder / FOLDER)]
    return max((number[0] for number in numbers if number), default=0)
