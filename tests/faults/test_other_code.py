"""A node whose copy of this library has another line, or another version: refused by workers, learners and trials."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import rookery
from rookery import PPOConfig, Trainer, tune
from rookery.core.errors import ConfigError

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.slow

from nodes_of_ray import Nodes  # noqa: E402

from rookery.cluster import same_code  # noqa: E402

PPO = PPOConfig(fragment_length=16, minibatch_size=32, epochs=1)


def counted(config):
    """A trial."""
    return 1.0


def play(folder):
    with Trainer("CartPole-v1", PPO, num_envs=2, sampling={"workers": 1}) as trainer:
        trainer.train_iteration()


def learn(folder):
    address = ray.get_runtime_context().gcs_address
    with Trainer("CartPole-v1", PPO, num_envs=2, cluster={"learners": 2, "ray": address}) as trainer:
        trainer.train_iteration()


def try_settings(folder):
    config = {"x": tune.uniform(0, 1)}
    tune.run(trainable=counted, config=config, metric="score", place="ray", folder=folder / "tried", console="quiet")


def copied(folder):
    """A copy of the package in a folder, which processes with this `PYTHONPATH` import."""
    shutil.copytree(Path(rookery.__file__).parent, folder / "rookery")
    return folder / "rookery"


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """A copy of the package with another line, which the only node with a core has."""
    package = copied(tmp_path_factory.mktemp("other"))
    losses = package / "core" / "ops.py"
    losses.write_text(losses.read_text() + "\nOTHER = True\n")
    nodes = Nodes(0)
    nodes.add(num_cpus=2, env_vars={"PYTHONPATH": str(package.parent)})
    yield package
    nodes.close()


@pytest.mark.regression(
    "wrong result", "trials of `tune` on Ray ran on a node with other code of Rookery without a word"
)
@pytest.mark.parametrize("use", [play, learn, try_settings])
def test_a_node_with_other_code_is_refused_with_both_machines_and_hashes(other, use, tmp_path):
    with pytest.raises(ConfigError) as raised:
        use(tmp_path)
    own, machine = same_code.own_code(), os.uname().nodename
    words = [f"machine {machine} has rookery {rookery.__version__} (sources ", f" in {other}, and this machine, ",
             f"has {own} in {own.folder}: install the same version, from the same sources"]  # fmt: skip
    assert all(word in str(raised.value) for word in words), raised.value
    assert str(raised.value).count(own.sources) == 1
    assert not list(tmp_path.rglob(".visible-*"))


def test_another_version_is_refused_and_files_that_changed_meanwhile_are_named_as_such():
    there = same_code.code_here()
    assert same_code.checked(there) == same_code.own_code()
    without_kernels = same_code.Code(*there)._replace(compiled="")
    assert same_code.checked(without_kernels) == without_kernels  # as where a wheel is installed
    with pytest.raises(ConfigError, match=r"has rookery 9\.9 .*: install the same version"):
        same_code.checked(without_kernels._replace(version="9.9", machine="other"))
    with pytest.raises(ConfigError, match="start again, since files were changed"):
        same_code.checked(without_kernels._replace(sources="00000000"))
