"""Scripts whose trainers have workers on a Ray cluster of two nodes; translations are in test_cluster_workers.py."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

pytest.importorskip("ray")
pytestmark = pytest.mark.slow

SCRIPT = """
import os
import sys

import numpy as np
import ray
from ray import tune
from ray.rllib.agents.callbacks import DefaultCallbacks
from ray.rllib.agents.impala import ImpalaTrainer
from ray.rllib.agents.ppo import PPOTrainer
from ray.rllib.examples.env.simple_corridor import SimpleCorridor


class Mine(SimpleCorridor):
    def __init__(self, config):
        super().__init__(config)
        self.worker = config.worker_index


class Measuring(DefaultCallbacks):
    def on_episode_end(self, *, worker, base_env, policies, episode, env_index, **others):
        envs = base_env.get_unwrapped()
        assert all(env.worker == worker.worker_index for env in envs) and len(envs) == 2
        episode.custom_metrics["process"] = os.getpid()
        episode.custom_metrics["worker"] = worker.worker_index
        episode.custom_metrics["variable"] = int(os.environ.get("OF_WORKERS", 0))


SMALL = {
    "env": Mine, "env_config": {"corridor_length": 3}, "num_workers": 2, "num_envs_per_worker": 2, "seed": 1,
    "rollout_fragment_length": 20, "train_batch_size": 80, "model": {"fcnet_hiddens": [8]}, "num_cpus_per_worker": 1,
}
PPO = {**SMALL, "sgd_minibatch_size": 40, "num_sgd_iter": 1, "lr": 1e-2}


def weights(iterations=2, **more):
    trainer = PPOTrainer(config={**PPO, **more})
    for _ in range(iterations):
        result = trainer.train()
    found = trainer.get_weights()["default_policy"]
    trainer.stop()
    return found, result, trainer.rookery.config


if __name__ == "__main__":
    here, alone, config = weights()
    assert config.sampling.workers == 0
    ray.init(address=sys.argv[1])
    there, result, config = weights(placement_strategy="SPREAD")
    assert (config.sampling.workers, config.cluster.placement) == (2, "spread") and sys.argv[1] == config.cluster.ray
    assert all(np.array_equal(there[name], here[name]) for name in here)
    assert result["episode_reward_mean"] == alone["episode_reward_mean"]
    _, result, _ = weights(callbacks=Measuring, extra_python_environs_for_worker={"OF_WORKERS": 7})
    told = result["custom_metrics"]
    assert (told["worker_min"], told["worker_max"], told["variable_mean"]) == (1, 2, 7)
    assert os.getpid() not in (told["process_min"], told["process_max"]) and told["process_min"] < told["process_max"]
    _, result, _ = weights(1, num_workers=0, evaluation_num_workers=2, evaluation_interval=1, evaluation_num_episodes=3)
    assert result["evaluation"]["episodes_this_iter"] == 3
    trainer = ImpalaTrainer(config={**SMALL, "min_iter_time_s": 0})
    for _ in range(3):
        result = trainer.train()
    assert trainer.rookery.config.sampling.asynchronous and result["timesteps_total"] >= 240
    trainer.stop()
    config = {**PPO, "num_workers": 1, "callbacks": Measuring, "lr": tune.grid_search([1e-3, 1e-4])}
    analysis = tune.run("PPO", config=config, stop={"training_iteration": 2}, verbose=0)
    for trial in analysis.trials:
        assert trial.status == "TERMINATED"
        processes = {trial.last_result["custom_metrics"]["process_mean"], trial.last_result["pid"], os.getpid()}
        assert len(processes) == 3
    print("all of it")
"""


def until_blocking(process, log):
    while "This command will now block" not in log.read_text():
        assert process.poll() is None, log.read_text()
        time.sleep(0.2)


@pytest.fixture(scope="module")
def cluster():
    """The environment of scripts, and the addresses of a cluster of two nodes for them."""
    short = Path(tempfile.mkdtemp(dir="/tmp"))  # Ray's sockets lie there, whose paths have a limit
    variables = os.environ | {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_ADDRESS": "",
                              "RAY_worker_niceness": "0"}  # fmt: skip
    port = 20000 + os.getpid() % 9000
    ray = str(Path(sys.executable).with_name("ray"))
    alike = ["--block", "--num-cpus=2", "--disable-usage-stats", "--node-ip-address=127.0.0.1"]
    commands = [
        [ray, "start", "--head", f"--port={port}", f"--ray-client-server-port={port + 10001}", f"--temp-dir={short}",
         "--include-dashboard=false", *alike],
        [ray, "start", f"--address=127.0.0.1:{port}", *alike],
    ]  # fmt: skip
    nodes = []
    try:
        for number, command in enumerate(commands):
            log = short / f"{number}.txt"
            with log.open("w") as file:
                nodes.append(subprocess.Popen(command, env=variables, stdout=file, stderr=subprocess.STDOUT, cwd="/"))
            until_blocking(nodes[-1], log)
        yield variables, (f"127.0.0.1:{port}", f"ray://127.0.0.1:{port + 10001}")
    finally:
        for node in reversed(nodes):
            node.terminate()
            node.wait(60)
        shutil.rmtree(short, ignore_errors=True)


@pytest.mark.parametrize("way", [0, 1], ids=["member", "client"])
def test_trainers_of_a_script_have_their_workers_on_the_cluster(cluster, tmp_path, way):
    variables, addresses = cluster
    (tmp_path / "script.py").write_text(SCRIPT)
    run = subprocess.run(
        [sys.executable, "-m", "rookery_rllib", "run", str(tmp_path / "script.py"), addresses[way]],
        env=variables | {"TUNE_RESULT_DIR": str(tmp_path / "results")}, capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert run.stdout.endswith("all of it\n")
    assert "IMPALA learns from rollouts of cluster workers" in run.stderr
