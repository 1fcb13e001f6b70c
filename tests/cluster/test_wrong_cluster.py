"""Messages about a cluster that does not exist, belongs to another user, or has other versions: at once, and by its
name.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from rookery import PPOConfig, Trainer
from rookery.algorithms.names import ALGORITHMS
from rookery.cluster import address
from rookery.core.config import resolve
from rookery.core.errors import ConfigError
from rookery.core.settings.layers import Layer
from rookery.run.ranks.run_workers import hosts_of
from rookery.run.settings import ClusterConfig, RunConfig
from rookery_rllib.base import ray_client

SCRIPT = """
import sys
import ray
from rookery.cluster import ray_hosts
from rookery.core.errors import ConfigError

{change}
try:
    cpus, gpus = map(float, sys.argv[2:])
    hosts = ray_hosts.RayHosts(sys.argv[1], 1, each=1, calls=1, cpus=cpus, gpus=gpus, spread=False, environment={{}},
                               working_directory=None, note=print, cores=1, instead="set it to 0")
    hosts.begin(0, __import__("cloudpickle").dumps(object))
    print("it begins")
except ConfigError as error:
    print(f"refused: {{error}}")
"""
OTHER_RAY = "import ray._private.utils as utils; utils.compute_version_info = lambda: ('1.2.3', '3.11.7')"
OTHER_PYTHON = "import ray._private.utils as utils; utils.compute_version_info = lambda: (ray.__version__, '3.4.5')"
OTHER_ROOKERY = "import rookery; rookery.__version__ = '1.2.3'"


@pytest.fixture(scope="module")
def cluster():
    """The address of a cluster with a token, and that token."""
    pytest.importorskip("ray")
    short, token = Path(tempfile.mkdtemp(dir="/tmp")), secrets.token_hex(32)  # the paths of Ray's sockets have a limit
    where = f"127.0.0.1:{30000 + os.getpid() % 2000}"
    command = [
        str(Path(sys.executable).with_name("ray")), "start", "--head", f"--port={where.rpartition(':')[2]}", "--block",
        "--num-cpus=1", f"--temp-dir={short}", "--include-dashboard=false", "--disable-usage-stats",
    ]  # fmt: skip
    log, variables = short / "head.txt", os.environ | {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token}
    with log.open("w") as file:
        head = subprocess.Popen(command, env=variables, stdout=file, stderr=subprocess.STDOUT, cwd="/")
    try:
        while "This command will now block" not in log.read_text():
            assert head.poll() is None, log.read_text()
            time.sleep(0.1)
        yield where, token
    finally:
        head.terminate()
        head.wait(60)
        shutil.rmtree(short, ignore_errors=True)


def answer(where, change="", cpus=1, gpus=0, **environment):
    """Returns the message of a process that requests a worker on a cluster."""
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(change=change), where, str(cpus), str(gpus)],
        env=os.environ | environment, capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


@pytest.mark.slow
def test_only_the_token_of_a_cluster_is_let_in(cluster):
    where, token = cluster
    assert answer(where, RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=token) == "it begins"
    wrong = answer(where, RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32))
    none = answer(where, RAY_AUTH_MODE="disabled")
    said = f"refused: cluster.ray = {where}: the cluster at {where} wants another token: set RAY_AUTH_MODE and RAY_AUTH"
    assert wrong.startswith(said) and none.startswith(said)
    assert token not in wrong + none


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (OTHER_RAY, ["cluster.ray = 127.0.0.1:", "other versions than this process", "Ray: 1.2.3"]),
        (OTHER_PYTHON, ["cluster.ray = 127.0.0.1:", "other versions than this process", "Python: 3.4.5"]),
        (OTHER_ROOKERY, ["cluster: machine ", ", has rookery 1.2.3 (sources ", "install the same version"]),
    ],
    ids=["ray", "python", "rookery"],
)
def test_other_versions_are_told_with_both_numbers(cluster, change, words):
    import rookery

    where, token = cluster
    said = answer(where, change, RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=token)
    assert said.startswith("refused: ")
    assert all(word in said for word in words), said
    ours = {OTHER_RAY: f"Ray: {__import__('ray').__version__}", OTHER_ROOKERY: f"has rookery {rookery.__version__}"}
    assert ours.get(change, f"Python: {sys.version.split()[0]}") in said


@pytest.mark.slow
def test_more_than_any_machine_has_is_named_with_what_there_is(cluster):
    where, token = cluster
    known = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token}
    assert answer(where, gpus=2, **known) == (
        "refused: cluster.worker_gpus = 2: a worker needs 1 CPU and 2 GPUs on one machine, and the largest of the 1 of "
        "this Ray cluster has 1 CPU"
    )
    assert answer(where, cpus=3, **known) == (
        "refused: cluster.worker_cpus = 3: a worker needs 3 CPUs on one machine, and the largest of the 1 of this Ray "
        "cluster has 1 CPU"
    )


@pytest.mark.parametrize(
    ("module", "settings", "words"),
    [
        ("rookery.cluster.ray_hosts", {"sampling.workers": 2},
         ["sampling.workers = 2 needs Ray, which is not installed here", "sampling.env_processes"]),
        ("rookery.cluster.ray_hosts", {"evaluation.workers": 2, "evaluation.every": 1},
         ["evaluation.workers = 2 needs Ray, which is not installed here", "set evaluation.workers=0"]),
        ("rookery.cluster.ray_ranks", {"cluster.learners": 2, "cluster.ray": "local"},
         ["cluster.learners = 2 on cluster.ray = local needs Ray, which is not installed here", "cluster.ray=auto"]),
    ],
    ids=["playing", "evaluating", "learning"],
)  # fmt: skip
def test_without_ray_the_command_that_installs_it_is_told(monkeypatch, module, settings, words):
    monkeypatch.setitem(sys.modules, module, None)  # importing it raises, as where Ray is not installed
    with pytest.raises(ConfigError) as raised:
        with Trainer("CartPole-v1", PPOConfig(fragment_length=8), config=settings, num_envs=4) as trainer:
            trainer.train_iteration()
    assert all(word in str(raised.value) for word in [*words, "pip install 'rookery-rl[ray]'"]), raised.value


def test_a_script_of_rllib_without_ray_is_told_the_same(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    expected = r"ray\.init\(address='10\.0\.0\.1:6379'\): .* pip install 'rookery-rl\[ray\]'"
    with pytest.raises(ConfigError, match=expected):
        ray_client.join("ray.init", "10.0.0.1:6379", {})


def test_who_takes_a_connection_and_says_nothing_is_no_cluster(monkeypatch):
    monkeypatch.setattr(address, "CONNECT_SECONDS", 0.2)
    monkeypatch.delenv("RAY_USE_TLS", raising=False)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        where = f"127.0.0.1:{silent.getsockname()[1]}"
        assert not address.answers(where)
        monkeypatch.setenv("RAY_USE_TLS", "1")  # no answer there before both sides have proved the token
        assert address.answers(where)
    assert not address.answers(where)


@pytest.mark.slow
def test_a_silent_address_is_named_after_five_seconds():
    pytest.importorskip("ray")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        where = f"127.0.0.1:{silent.getsockname()[1]}"
        said = answer(where)
        by_name = answer("auto", RAY_ADDRESS=where)
    assert said.startswith(f"refused: cluster.ray = {where}: no Ray cluster answers at {where} within 5 seconds; start")
    assert by_name.startswith(f"refused: environment variable RAY_ADDRESS = {where}: no Ray cluster answers at {where}")


@pytest.mark.regression("unclear error", "A misspelt word for the cluster of Ray ends in an error of Ray itself")
def test_a_word_that_is_no_address_is_refused_at_once_with_the_nearest(monkeypatch):
    said = "is not an address of a Ray cluster; did you mean 'local'?; else write HOST:PORT, as in 10.0.0.1:6379"
    with pytest.raises(ConfigError, match="cluster: ray = 'lokal': " + re.escape(said)):
        Trainer("CartPole-v1", PPOConfig(), config={"cluster.ray": "lokal"})
    for good in ("", "auto", "local", "here", "10.0.0.1:6379", "ray://head:10001", "[::1]:6379"):
        assert ClusterConfig(ray=good).ray == good
    connection = pytest.importorskip("rookery.cluster.connection")
    monkeypatch.setenv("RAY_ADDRESS", "lokal")
    with pytest.raises(ConfigError, match=re.escape(f"environment variable RAY_ADDRESS = lokal: {said}")):
        connection.connect(setting="tune.place = ray", instead="")


def test_an_actor_that_never_ran_is_told_in_one_sentence():
    connection = pytest.importorskip("rookery.cluster.connection")
    from ray.exceptions import RayActorError

    removed = "The actor is dead because all references to the actor were removed including lineage ref count."
    never = "The actor never ran - it was cancelled before it started running."
    first = "The actor died unexpectedly before finishing this task."
    told = connection.as_line(RayActorError("1", f"{first}\n\tclass_name: X\n{removed}\n{never}"))
    assert told == never
    assert connection.as_line(RayActorError("1", f"{first}\nIts node is gone.")) == f"{first} Its node is gone."


@pytest.mark.regression("unclear error", "A run that starts Ray on this machine says nothing for up to a minute")
@pytest.mark.parametrize(("console", "lines"), [("plain", ["starting Ray on this machine"]), ("quiet", [])])
def test_a_run_says_that_it_starts_ray(monkeypatch, console, lines):
    connection = pytest.importorskip("rookery.cluster.connection")
    notes = []

    def begin(*arguments):
        assert notes == lines  # before Ray begins
        raise RuntimeError("no Ray today")

    monkeypatch.setattr(connection, "_begin", begin)
    settings = {"cluster.ray": "local", "sampling.workers": 1, "logging.console": console}
    config = resolve(RunConfig, [Layer("code", settings)], ALGORITHMS).config
    with pytest.raises(ConfigError, match="no Ray today"):
        hosts_of(config, 1, "sampling.workers", notes.append)
    assert notes == lines
