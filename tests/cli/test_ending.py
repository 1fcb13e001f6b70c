"""Who keeps the program from ending is named, and the program ends nevertheless."""

from __future__ import annotations

import subprocess
import sys

import pytest

WAITING = """
import sys, threading, time
from multiprocessing import get_context
from rookery.cli.ending import end_in_time

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
    assert ("the program ends in 0.05 seconds" in done.stderr) == bool(left)
