"""Waits for other processes go through one function, which keeps deadlines and lets signals be acted on."""

from __future__ import annotations

import ast
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from rookery.core.packages import OWN
from rookery.core.process.interrupt import Interrupt, Interrupted
from rookery.core.process.waits import exit_code_of, wait_until

SOURCE = Path(__file__).parents[2] / "src" / "rookery"

ONE_PLACE = {"core/process/waits.py", "cluster/ray_waits.py"}

EXEMPT = {
    "rookery_mlagents/link/player_guard.py": "a guard, which ends with its player",
    "rookery_mlagents/testing/recorder.py": "an external client: it stands between a trainer and a player, for tests",
    "envs/native/c_env.py": "threads of this process",
    "rookery_rllib/base/ray_core.py": "a thread of this process",
}


def blocking_calls(tree: ast.Module) -> list[int]:
    """Lines that wait for Ray, for a child process or for a future, without `wait_until`."""
    nodes = list(ast.walk(tree))
    calls = [node for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
    modules = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    pairs = {
        (str(node.module), alias.name) for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    modules |= {module for module, _ in pairs} | {f"{module}.{name}" for module, name in pairs}
    has_children = "subprocess" in modules or any(name.endswith("start_child") for name in modules)
    has_futures = "concurrent.futures" in modules or any(call.func.attr == "submit" for call in calls)
    found = [node.lineno for node in nodes if isinstance(node, ast.ImportFrom)
             and any((str(node.module), alias.name) in {("ray", "get"), ("ray", "wait"), ("concurrent.futures", "wait"),
                     ("concurrent.futures", "as_completed")} for alias in node.names)]  # fmt: skip
    waiting = {"get", "wait", "communicate", "result", "exception"}
    for call in (call for call in calls if call.func.attr in waiting):
        name, of = call.func.attr, ast.unparse(call.func.value)
        of_ray = of == "ray" and name in ("get", "wait")
        of_child = has_children and of != "self" and name in ("wait", "communicate") and len(call.args) < 2
        of_future = has_futures and (name in ("result", "exception") or (of, name) == ("futures", "wait"))
        if of_ray or of_child or of_future:
            found.append(call.lineno)
    return found


def test_waits_on_other_processes_go_through_one_function():
    found = {}
    for path in sorted(path for package in OWN for path in (SOURCE.parent / package).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if re.search(r"subprocess|start_child|submit|futures|\bray\b", text):  # others import none of them
            if lines := blocking_calls(ast.parse(text)):
                found[path.relative_to(SOURCE.parent).as_posix().removeprefix("rookery/")] = lines
    assert found.keys() == ONE_PLACE | EXEMPT.keys(), found


@pytest.mark.parametrize(
    "code",
    [
        "import ray\nray.get(ref)",
        "import ray\nray.wait([ref], timeout=1)",
        "from ray import get",
        "import subprocess\nsubprocess.Popen(['ls']).wait()",
        "from rookery.core.process.child_process import start_child\nprocess.wait(2.0)",
        "import subprocess\nprocess.communicate()",
        "from concurrent.futures import ThreadPoolExecutor\nfuture.result()",
        "pool.submit(function).result(timeout=3)",
    ],
)
def test_such_waits_are_found(code):
    assert blocking_calls(ast.parse(code))


def test_a_wait_returns_what_is_found_and_ends_when_its_time_is_over():
    asked = []
    assert wait_until(lambda seconds: asked.append(seconds) or (len(asked) == 3 and "here") or None) == "here"
    assert max(asked) <= 0.5
    began = time.monotonic()
    assert wait_until(lambda seconds: time.sleep(seconds), 0.1) is None
    assert 0.1 <= time.monotonic() - began < 2.0
    assert wait_until(lambda seconds: "at once", 0.0) == "at once"


def test_what_a_check_raises_ends_a_wait_after_the_first_signal():
    interrupt = Interrupt()
    with interrupt.watching():
        threading.Timer(0.1, lambda: signal.raise_signal(signal.SIGINT)).start()
        with pytest.raises(Interrupted):
            wait_until(lambda seconds: time.sleep(seconds), 20.0, interrupt.check)


def test_a_child_process_is_waited_for():
    child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read(); sys.exit(3)"], stdin=subprocess.PIPE)
    assert exit_code_of(child, 0.05) is None
    child.stdin.close()
    assert exit_code_of(child) == 3
