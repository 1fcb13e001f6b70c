"""Commands run in an empty folder, and runs for those commands that look at one."""

from __future__ import annotations

import shutil

import pytest
from commands import TINY, train_into


@pytest.fixture
def trained(rookery):
    """The same for a CartPole training of 64 steps with seed 3."""
    return lambda *words: rookery(
        "train", "CartPole-v1", "--seed", 3, "--stop", "env_steps=64", *TINY, "--evaluate", 0, *words
    )


@pytest.fixture(scope="session")
def finished_runs(tmp_path_factory):
    """A folder with two runs: cart (one policy) and arena (two policies)."""
    folder = tmp_path_factory.mktemp("finished")
    cart = "CartPole-v1 --run-id cart --seed 3 --stop env_steps=640 algorithm.gamma=0.9 checkpoint.every=10"
    arena = "MultiAgentArena --run-id arena --seed 1 --stop env_steps=256 policies.pol1.lr=3e-4 policies.pol2.lr=4e-4"
    arena += " policy_mapping.agent1=pol1 policy_mapping.agent2=pol2"
    return train_into(folder, *([*words.split(), *TINY, "--evaluate", "0"] for words in (cart, arena)))


@pytest.fixture
def runs(finished_runs, tmp_path, rookery):
    """The two runs, copied into the folder that commands run in."""
    for name in ("cart", "arena"):
        shutil.copytree(finished_runs / name, tmp_path / "runs" / name)
    return tmp_path / "runs"
