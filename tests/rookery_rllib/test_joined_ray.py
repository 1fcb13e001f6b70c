"""Scripts that join a Ray cluster: what they call, and what they define, works in its processes."""

from __future__ import annotations

import os
import re
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

HELPER = """
import os
import ray

class Thing:
    def __init__(self, value):
        self.value = value

    def batch(self):
        from ray.rllib.policy.sample_batch import SampleBatch
        return SampleBatch({"obs": [self.value]})

def process():
    return os.getpid()
"""

SCRIPT = """
import os
import sys

import ray
from ray import tune
from ray.rllib.agents.ppo import PPOTorchPolicy
from ray.rllib.evaluation import RolloutWorker
from ray.rllib.examples.env.simple_corridor import SimpleCorridor

import helper


class Mine:
    def __init__(self, value):
        self.value = value


@ray.remote
def away(value, thing):
    import ray.rllib.agents.dqn as dqn

    assert dqn.DQNTrainer.__name__ == "DQNTrainer" and ray.is_initialized()
    return helper.process(), Mine(value), thing.batch()["obs"][0]


@ray.remote
def factorial(number):
    return 1 if number < 2 else number * ray.get(factorial.remote(number - 1))


@ray.remote
def fails():
    raise KeyError("mine")


@ray.remote
class Store:
    def __init__(self):
        self.values = []

    def add(self, value):
        self.values.append(value)
        return len(self.values)

    @ray.method(num_returns=2)
    def ends(self):
        return self.values[0], self.values[-1]


class Asking(SimpleCorridor):
    def __init__(self, config):
        super().__init__(config)
        self.store = ray.get_actor("store")

    def reset(self):
        ray.get(self.store.add.remote(os.getpid()))
        return super().reset()


if __name__ == "__main__":
    ray.init(address=sys.argv[1])
    assert ray.cluster_resources()["CPU"] == 3
    process, mine, value = ray.get(away.remote(ray.put(3), helper.Thing(4)))
    assert process != os.getpid() and type(mine) is Mine and (mine.value, value) == (3, 4)
    assert ray.get(factorial.remote(3)) == 6
    try:
        ray.get(fails.remote())
    except KeyError as error:
        assert isinstance(error, ray.exceptions.RayTaskError) and "fails raised" in str(error)
    store = Store.options(name="store", num_cpus=0).remote()
    refs = [store.add.remote(number) for number in range(3)]
    ready, rest = ray.wait(refs, num_returns=3)
    assert not rest and isinstance(ready[0], ray.ObjectRef) and ray.get(refs) == [1, 2, 3]
    assert ray.get(store.ends.remote()) == [0, 2] and isinstance(store, ray.actor.ActorHandle)
    worker = RolloutWorker.as_remote().remote(
        env_creator=SimpleCorridor, policy_spec=PPOTorchPolicy, rollout_fragment_length=20
    )
    assert ray.get(worker.sample.remote()).count == 20
    ray.kill(worker)
    config = {"env": Asking, "num_workers": 0, "train_batch_size": 50, "lr": tune.grid_search([1e-3, 1e-4])}
    analysis = tune.run("PG", config=config, stop={"training_iteration": 1}, verbose=0)
    assert {trial.status for trial in analysis.trials} == {"TERMINATED"}
    assert os.getpid() not in {trial.last_result["pid"] for trial in analysis.trials}
    assert ray.get(store.add.remote(0)) > 5
    ray.shutdown()
    assert not ray.is_initialized()
    print("all of it")
"""


@pytest.fixture(scope="module")
def cluster():
    """The environment of scripts, and the addresses of a cluster for them."""
    short = Path(tempfile.mkdtemp(dir="/tmp"))  # Ray's sockets lie there, whose paths have a limit
    variables = os.environ | {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_ADDRESS": ""}
    port = 20000 + os.getpid() % 10000
    command = [
        str(Path(sys.executable).with_name("ray")), "start", "--head", f"--port={port}", "--block", "--num-cpus=3",
        f"--ray-client-server-port={port + 10001}", f"--temp-dir={short}", "--include-dashboard=false",
        "--disable-usage-stats",
    ]  # fmt: skip
    log = short / "head.txt"
    with log.open("w") as file:
        head = subprocess.Popen(command, env=variables, stdout=file, stderr=subprocess.STDOUT, cwd="/")
    try:
        while "This command will now block" not in log.read_text():
            assert head.poll() is None, log.read_text()
            time.sleep(0.2)
        yield variables, (f"127.0.0.1:{port}", f"ray://127.0.0.1:{port + 10001}")
    finally:
        head.terminate()
        head.wait(60)
        shutil.rmtree(short, ignore_errors=True)


@pytest.mark.parametrize("way", [0, 1], ids=["member", "client"])
def test_a_script_runs_on_a_cluster(cluster, tmp_path, way):
    variables, addresses = cluster
    (tmp_path / "helper.py").write_text(HELPER)
    (tmp_path / "script.py").write_text(SCRIPT)
    run = subprocess.run(
        [sys.executable, "-m", "rookery_rllib", "run", str(tmp_path / "script.py"), addresses[way]],
        env=variables | {"TUNE_RESULT_DIR": str(tmp_path / "results")}, capture_output=True, text=True, timeout=180,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert run.stdout.endswith("all of it\n")
    assert re.search(r"^ray: .* run on the Ray cluster at", run.stdout, re.M)


def test_nobody_at_an_address_is_told_at_once(tmp_path):
    (tmp_path / "script.py").write_text("import ray\nray.init(address='127.0.0.1:1')\n")
    run = subprocess.run(
        [sys.executable, "-m", "rookery_rllib", "run", str(tmp_path / "script.py")],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert "ray.init(address='127.0.0.1:1'): no cluster was joined" in run.stderr
