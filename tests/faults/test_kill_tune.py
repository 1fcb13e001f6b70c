"""An experiment whose runner or whose trials are killed: nothing finished is done again, nothing is lost, and what is
suggested and decided is what an undisturbed experiment suggests and decides.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from killable import amount
from test_kill import SEED

from rookery.tune.journal import ExperimentState, read

SCRIPT = Path(__file__).with_name("tunable.py")
pytestmark = pytest.mark.slow  # tests/tune/test_runner.py kills each kind at each record, in its own process

KINDS = ("random", "optuna", "asha", "hyperband", "pbt") if "ROOKERY_FAULTS" in os.environ else ("random", "pbt")
"""What is killed."""


def start(folder, kind, workers):
    folder.mkdir(exist_ok=True)
    command = [sys.executable, str(SCRIPT), "here", kind, workers]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def records(folder):
    """Returns the records of the journal; none if it does not exist yet."""
    return read(folder / "here") if (folder / "here" / "journal.jsonl").exists() else []


def wait_for_work(process, folder, more_than):
    """Waits until the journal has grown."""
    deadline = time.monotonic() + 60
    while process.poll() is None and len(records(folder)) <= more_than:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def children(pid):
    found = []
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                if (place / "stat").read_text().rsplit(")", 1)[1].split()[1] == str(pid):
                    found.append(int(place.name))
            except OSError:  # it has ended meanwhile
                continue
    return found


def wait_until_gone(pids):
    """Workers die with their runner."""
    deadline = time.monotonic() + 10
    while alive := [pid for pid in pids if command_of(pid)]:
        assert time.monotonic() < deadline, alive
        time.sleep(0.02)


def command_of(pid):
    """Returns the command line of a process; empty if it has ended, also without `wait`."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def outcome(folder):
    """Returns the results that do not depend on the clock: suggestions, and status and reports of each trial."""
    history = ExperimentState.of(folder / "here", records(folder))
    return {
        trial.name: (
            trial.params,
            trial.status.value,
            trial.reason,
            trial.parents,
            [row["score"] for row in trial.rows],
        )
        for trial in history.trials.values()
    }


def assert_nothing_twice(folder):
    """Asserts that each trial ends once, each iteration is reported once, and no trial works after its end."""
    ended, reported = [], {}
    for record in records(folder):
        name = record.get("trial")
        if record["kind"] == "end":
            ended.append(name)
        elif record["kind"] == "result":
            assert name not in ended
            assert record["iteration"] == reported.get(name, 0) + 1
            reported[name] = record["iteration"]
    assert len(ended) == len(set(ended))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """Results of each kind without a disturbance."""
    known = {}

    def of(kind):
        if kind not in known:
            folder = tmp_path_factory.mktemp(kind)
            process = start(folder, kind, "here")
            _, error = process.communicate(timeout=120)
            assert process.returncode == 0, error
            known[kind] = outcome(folder)
        return known[kind]

    return of


@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_runner_goes_on_where_it_was(tmp_path, undisturbed, measured, kind):
    pytest.importorskip("optuna") if kind == "optuna" else None
    rng, kills = random.Random(f"{SEED}-{kind}"), amount(1, 20)
    for _ in range(kills):
        before = len(records(tmp_path))
        process = start(tmp_path, kind, "here")
        wait_for_work(process, tmp_path, before)
        time.sleep(rng.uniform(0, 2.0 / kills))
        process.send_signal(signal.SIGKILL)
        process.communicate()
    process = start(tmp_path, kind, "here")
    _, error = process.communicate(timeout=120)
    assert process.returncode == 0, error
    assert outcome(tmp_path) == undisturbed(kind)
    assert_nothing_twice(tmp_path)
    measured(f"tune, {kind}: kill -9 of the runner", kills, "suggestions, decisions and rows equal, nothing twice")


@pytest.mark.parametrize("kind", ["random", "pbt"])
def test_killed_trials_and_runners_change_nothing(tmp_path, undisturbed, measured, kind):
    rng, kills = random.Random(f"{SEED}-{kind}-both"), amount(2, 20)
    for number in range(kills):
        before = len(records(tmp_path))
        process = start(tmp_path, kind, "processes")
        wait_for_work(process, tmp_path, before + 3)
        time.sleep(rng.uniform(0, 1.0 / kills))
        trials = children(process.pid)
        if number % 2 or not trials:
            process.send_signal(signal.SIGKILL)
        else:
            os.kill(rng.choice(trials), signal.SIGKILL)
            time.sleep(0.2)
            process.send_signal(signal.SIGKILL)
        process.communicate()
        wait_until_gone(trials)
    process = start(tmp_path, kind, "processes")
    _, error = process.communicate(timeout=120)
    assert process.returncode == 0, error
    assert outcome(tmp_path) == undisturbed(kind)
    assert_nothing_twice(tmp_path)
    measured(
        f"tune, {kind}: kill -9 of trials and runner", kills, "suggestions, decisions and rows equal, nothing twice"
    )
