"""Threads that keep the program running are named, and it ends nevertheless; it ends cleanly with its terminal."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from commands import TINY

from rookery.core.io.files import list_checkpoints

WAITING = """
import sys, threading, time
from multiprocessing import get_context
from rookery.cli.terminal.ending import end_in_time

def view():
    while True:
        time.sleep(0.01)

if sys.argv[1] == "thread":
    threading.Thread(target=view, name="viewer").start()
if sys.argv[1] == "process":
    get_context("fork").Process(target=view, name="server").start()
end_in_time(3, 0.02, 0.05)
sys.exit(3)
"""


@pytest.mark.parametrize(
    ("left", "told"), [("thread", "thread 'viewer' in view ("), ("process", "process 'server' (number "), ("", "")]
)
def test_what_was_left_running_is_named_and_ended(left, told, tmp_path):
    script = tmp_path / "waiting.py"
    script.write_text(WAITING)
    done = subprocess.run([sys.executable, script, left], capture_output=True, text=True, timeout=20)
    assert done.returncode == 3
    assert told in done.stderr
    assert ("waiting.py:6); the" in done.stderr or "waiting.py:6). End" in done.stderr) == (left == "thread")
    assert ("the program exits in 0.05 seconds" in done.stderr) == bool(left)


@pytest.mark.slow
@pytest.mark.parametrize("style", ["--plain", "--evaluate=0"])  # the second at a terminal: the live panel
def test_a_terminal_that_closes_costs_nothing(style, tmp_path):
    words = ["train", "CartPole-v1", "--run-id", "cart", "--seed", "3", *TINY, "--stop", "seconds=60", style]
    child, terminal = os.forkpty()
    if child == 0:
        os.chdir(tmp_path)
        os.environ["TERM"] = "xterm"
        os.execv(sys.executable, [sys.executable, "-m", "rookery", *words])
    seen = b""
    while b"iteration 1" not in seen:
        seen += os.read(terminal, 10_000)
    os.close(terminal)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 129
    folder = tmp_path / "runs" / "cart"
    rows = (folder / "metrics.jsonl").read_text().splitlines()
    assert int(list_checkpoints(folder / "checkpoints")[-1].name) == len(rows)
    assert (folder / "timers.json").exists()
