"""Commands run in an empty folder, and runs for those commands that look at one."""

from __future__ import annotations

import shutil
import sys

import pytest

from rookery.cli.main import main

TINY = ["algorithm.fragment_length=8", "algorithm.epochs=1", "sampling.num_envs=2", "--preset", "none"]


@pytest.fixture
def rookery(tmp_path, monkeypatch, capsys):
    """Runs a command in an empty folder; gives its exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["rookery", *map(str, words)])
        monkeypatch.setattr(sys, "path", list(sys.path))
        try:
            main()
            code = 0
        except SystemExit as error:
            code = error.code or 0
        return code, *capsys.readouterr()

    return run


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
    pairs = [
        "policies.pol1.lr=3e-4",
        "policies.pol2.lr=4e-4",
        "policy_mapping.agent1=pol1",
        "policy_mapping.agent2=pol2",
    ]
    ends = [*TINY, "--evaluate", "0", "--quiet", "--run-dir", str(folder)]
    argv, path = sys.argv, list(sys.path)
    for words in (
        [
            "CartPole-v1",
            "--run-id",
            "cart",
            "--seed",
            "3",
            "--stop",
            "env_steps=640",
            "checkpoint.every=10",
            "algorithm.gamma=0.9",
        ],
        ["MultiAgentArena", "--run-id", "arena", "--seed", "1", "--stop", "env_steps=64", *pairs],
    ):
        sys.argv = ["rookery", "train", *words, *ends]
        try:
            main()
        except SystemExit as error:
            assert not error.code
    sys.argv, sys.path[:] = argv, path
    return folder


@pytest.fixture
def runs(finished_runs, tmp_path, rookery):
    """The two runs, copied into the folder that commands run in."""
    for name in ("cart", "arena"):
        shutil.copytree(finished_runs / name, tmp_path / "runs" / name)
    return tmp_path / "runs"
