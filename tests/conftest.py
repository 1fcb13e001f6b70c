"""Every test runs torch on one thread: with two, small networks are many times slower beside a second test process.

And none measures how many helpers would be worth it, unless it says so: what the machine does besides decides nothing.
``make test`` leaves out what is marked slow, and tries few examples where Hypothesis draws them; ``make test-all`` runs
all, with many.
"""

import gc
import os
import signal
import subprocess
import sys

import pytest
import torch
from hypothesis import HealthCheck, settings

import selection
import warm_children
from rookery.cli.main import main
from rookery.core.native import FOLDER, SWITCH, best_build, candidates
from rookery.core.process import child_process
from rookery.envs import choice
from rookery.envs.native import variants
from selection import slow_except

torch.set_num_threads(1)

# What a shell, nohup, a service or a CI system leaves to its programs decides nothing either. SIGHUP alone stays
# ignored where it is, so that tests under nohup outlive their terminal; the tests of it set it themselves.
signal.pthread_sigmask(signal.SIG_SETMASK, ())
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, signal.SIGUSR1):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
os.umask(0o022)
for name in (
    "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS", "FORCE_COLOR", "GITHUB_ACTIONS", "LINES", "MASTER_ADDR", "MASTER_PORT",
    "NO_COLOR", "PY_COLORS", "RANK", "RAY_ADDRESS", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "WORLD_SIZE",
):  # fmt: skip
    os.environ.pop(name, None)

UNHURRIED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("thorough", max_examples=300, **UNHURRIED)
settings.register_profile("quick", max_examples=20, **UNHURRIED)
settings.load_profile("quick")

BUILDS = [name for name in candidates() if (FOLDER / f"{name}.so").exists()]
"""Of the kernels, those that this processor can run, the best first."""


def pytest_configure(config):
    selection.WITHOUT_SLOW = config.option.markexpr == "not slow"


def pytest_collection():
    gc.disable()  # what is collected stays


def pytest_collection_finish():
    gc.freeze()  # and is not looked through again and again while tests run
    gc.set_threshold(7_000, 10, 10)  # ten times as seldom as usual: much is made and dropped here, in little memory
    gc.enable()


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


@pytest.fixture(autouse=True)
def _one_core(monkeypatch):
    monkeypatch.setattr(choice, "usable_cores", lambda: 1)


@pytest.fixture(params=slow_except(*BUILDS[:1], of=BUILDS) or [None])
def kernels(request, monkeypatch):
    """The best build that this processor can run, as the one that runs; for ``make test-all`` each of them in turn."""
    if request.param is None:
        pytest.skip("no kernels here")
    monkeypatch.setenv(SWITCH, request.param)
    best_build.cache_clear()
    yield best_build()
    monkeypatch.undo()
    best_build.cache_clear()


@pytest.fixture
def no_twins_in_c(monkeypatch, tmp_path):
    """Environments run in Python, as where nothing was compiled."""
    monkeypatch.setattr(variants, "LIBRARY", tmp_path / "variants.so")
    variants.native_unavailable_reason.cache_clear()
    yield
    monkeypatch.undo()
    variants.native_unavailable_reason.cache_clear()


@pytest.fixture(autouse=True, scope="session")
def _own_key(tmp_path_factory):
    """Signs the files that tests write with a key of their own, not with the user's; compiled files have a folder of
    their own, too.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True, scope="session")
def _no_waiting_for_disks():
    """No test cuts the power: files are written and not waited for, in this process; an open one it must be."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: os.fstat(descriptor) and None)
        yield


@pytest.fixture(autouse=True, scope="session")
def _warm_children():
    """Processes that the library starts are forked from one that has imported what they need (`warm_children.py`)."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(child_process, "subprocess", warm_children.LIKE_SUBPROCESS)
        yield
    warm_children.close()


@pytest.fixture
def fresh_children(monkeypatch):
    """They are fresh interpreters, as they are for users."""
    monkeypatch.setattr(child_process, "subprocess", subprocess)
