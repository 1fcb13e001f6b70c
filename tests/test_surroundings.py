"""Tests pass whatever their process inherits: signals that are ignored, no terminal, no HOME, another umask, colors."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

FILES = (
    "core/test_interrupt.py",
    "core/test_signing.py",
    "report/test_experiment_table.py",
    "serving/test_serve_command.py",
)
"""Tests of what depends on these things most."""


def inherited():
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    os.umask(0o077)


@pytest.mark.slow
@pytest.mark.regression(
    "unclear error", "Tests pass under nohup, without a terminal or HOME, and whatever else they inherit"
)
def test_what_a_process_inherits_fails_no_test():
    environment = {name: value for name, value in os.environ.items() if name not in ("HOME", "TERM", "LANG")}
    environment |= {"FORCE_COLOR": "1", "COLUMNS": "40", "LC_ALL": "C", "GITHUB_ACTIONS": "true", "RANK": "1"}
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow"]
    done = subprocess.run(
        [*words, *(str(ROOT / "tests" / file) for file in FILES)], cwd=ROOT, env=environment, preexec_fn=inherited,
        start_new_session=True, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]
