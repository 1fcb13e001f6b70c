"""The packages where Windows lacks what POSIX has, as far as `simulated_windows` shows it; names of files there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path, PureWindowsPath

import pytest

from rookery.core.io.file_names import as_file_name, name_refusal, splits

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src"

POSIX_ONLY = re.compile(
    r"^(import|from) (fcntl|termios|tty|pty|resource|pwd|grp|posix)\b|^from (os|signal|select) import "
    r".*\b(fork|killpg|setsid|sched_getaffinity|memfd_create|SIGHUP|SIGKILL|SIGUSR1|poll)\b",
    re.MULTILINE,
)

CHOSEN = [
    "core/test_config.py", "core/test_cpu.py", "core/test_files.py", "core/test_seeding.py", "core/test_signing.py",
    "core/test_waits.py", "envs/test_make.py", "envs/test_serial.py", "run/test_checkpoint.py",
    "run/test_paths.py", "run/test_trainer.py",
]  # fmt: skip

POSIX = ("kill", "fail", "pipes", "crash", "disk_before", "does_not_fit", "emptied", "unsigned", "nothing_is_signed")
"""Parts of names of chosen tests that replace functions of POSIX, or expect messages of it."""

IMPORTS = """
import importlib, pkgutil
needed = set()
for name in simulated_windows.PACKAGES:
    for module in pkgutil.walk_packages(importlib.import_module(name).__path__, f"{name}."):
        if not module.name.endswith("__main__"):
            try:
                importlib.import_module(module.name)
            except ModuleNotFoundError as missing:
                needed.add(missing.name)
print(*sorted(needed & simulated_windows.ABSENT), sum(name.startswith("rookery") for name in sys.modules))
"""

TRAINING = """
import pytest
from rookery import PPOConfig, Trainer
from rookery.core.errors import EnvError, RookeryError
from rookery.tune import run

settings = {"seed": 1, "sampling.num_envs": 4}
alone = {**settings, "env.implementation": "serial"}
with Trainer("CartPole-v1", PPOConfig(), config=alone, run_dir="run") as trainer:
    trainer.train_iteration()
    trainer.save()
    with pytest.raises(RookeryError, match="made before in this process is writing here"):
        Trainer.load("run", resume=True)
with Trainer.load("run", resume=True) as trainer:
    assert trainer.train_iteration().iteration == 2
threads = {**settings, "sampling.env_processes": 1, "env.implementation": "threads"}
with Trainer("CartPole-v1", PPOConfig(), config=threads) as trainer:
    trainer.train_iteration()
processes = {**threads, "env.implementation": "processes"}
with pytest.raises(EnvError, match="env.implementation=threads, or sampling.env_processes=0"):
    Trainer("CartPole-v1", PPOConfig(), config=processes)
with pytest.raises(RookeryError, match="cluster.learners=1"):
    Trainer("CartPole-v1", PPOConfig(), config={**alone, "cluster.learners": 2}).train_iteration()
print("trained")
"""


def as_on_windows(code, folder):
    """Runs code in a process where Windows is simulated; returns what it prints."""
    begin = f"import sys; sys.path.insert(0, {str(TESTS)!r}); import simulated_windows; simulated_windows.install()"
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "XDG_CONFIG_HOME": str(folder / "home")}
    result = subprocess.run(
        [sys.executable, "-c", f"{begin}\n{code}"], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_modules_of_posix_are_imported_only_where_they_are_used():
    found = {
        str(path.relative_to(SOURCE)): match[0]
        for path in SOURCE.rglob("*.py")
        for match in POSIX_ONLY.finditer(path.read_text(encoding="utf-8"))
    }
    assert not found


@pytest.mark.slow
def test_all_modules_can_be_imported_without_those_of_posix(tmp_path):
    *absent, number = as_on_windows(IMPORTS, tmp_path).split()
    assert not absent and int(number) > 700


@pytest.mark.slow
def test_a_run_trains_is_stored_locked_and_resumed_without_posix(tmp_path):
    assert as_on_windows(TRAINING, tmp_path).endswith("trained\n")


@pytest.mark.slow
def test_chosen_tests_pass_without_posix():
    leave_out = " and ".join(f"not {part}" for part in POSIX)
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-m", "not slow", "-k", leave_out, *CHOSEN],
        cwd=TESTS,
        env={**os.environ, "PYTHONPATH": f"{SOURCE}{os.pathsep}{TESTS}", "PYTEST_PLUGINS": "simulated_windows"},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-1000:]


@pytest.mark.parametrize("name", ["con", "CON", "Aux.txt", "com1", "nul.tar.gz", "a:b", "a\\b", "a?", "run.", "run "])
def test_a_name_that_windows_refuses_is_refused_there_only(name):
    assert name_refusal(name, windows=True) and not name_refusal(name, windows=False)


@pytest.mark.parametrize("name", ["CartPole-v1-ppo-s3", "console", "con_1", "com", "a.b", "x+y"])
def test_other_names_are_taken_everywhere(name):
    assert not name_refusal(name, windows=True) and not name_refusal(name, windows=False)
    assert PureWindowsPath(name).name == name and not PureWindowsPath(name).is_reserved()


@pytest.mark.parametrize("text", ["Walker?team=0", "a/b", "a\\b", "a:b", 'quote"', "tab\t"])
def test_any_text_becomes_a_name_of_a_file_on_windows(text):
    name = as_file_name(text, windows=True)
    assert not name_refusal(name, windows=True) and PureWindowsPath("C:/runs", name).parent == PureWindowsPath(
        "C:/runs"
    )


def test_the_colon_of_a_drive_does_not_begin_the_name_of_a_policy():
    path = r"C:\runs\x"
    assert splits(path, windows=True) == []
    assert splits(rf"{path}:walker", windows=True) == [(path, "walker")]
    assert splits("D:/runs/x:a:b", windows=True) == [("D:/runs/x:a", "b"), ("D:/runs/x", "a:b")]
    assert splits("runs/x:walker", windows=True) == splits("runs/x:walker", windows=False) == [("runs/x", "walker")]
    assert PureWindowsPath(splits(rf"{path}:walker", windows=True)[0][0]).drive == "C:"
