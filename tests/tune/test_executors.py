"""Workers in this process and in others: the cases they share, and what only processes have to bear."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worker_cases import CASES, WAIT_SECONDS, Counting, event_of, job, rows, sleeping, start, step

from rookery import tune
from rookery.cluster.allotments import deal
from rookery.core.errors import ConfigError
from rookery.core.process import heartbeats
from rookery.tune.executor import Failed, Order, Stepped
from rookery.tune.executors.in_process import InProcessExecutor
from rookery.tune.executors.processes import ProcessExecutor
from rookery.tune.jobs.trainable import TrainableJob
from selection import slow_except


@pytest.fixture
def make(request):
    """Makes workers of the kind that the test is for; processes, if it does not say."""
    made = []

    def workers(job, cpus=0.5, **arguments):
        cls = getattr(request, "param", ProcessExecutor)
        made.append(cls(job, cpus, arguments.get("gpus", 0.0), arguments.get("max_concurrent")))
        return made[-1]

    yield workers
    for each in made:
        each.close()


@pytest.mark.parametrize("make", [InProcessExecutor], indirect=True, ids=["here"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_workers_agree(case, make, tmp_path):
    case(make, tmp_path)


@pytest.mark.parametrize("make", [ProcessExecutor], indirect=True, ids=["processes"])
@pytest.mark.parametrize("case", slow_except(*CASES[::2], of=CASES), ids=lambda case: case.__name__)
def test_workers_in_processes_agree_with_them(case, make, tmp_path):
    case(make, tmp_path)


def is_there(pid):
    """Returns whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until_gone(pids):
    until = time.monotonic() + WAIT_SECONDS
    while any(map(is_there, pids)):
        assert time.monotonic() < until, "a process is left"
        time.sleep(0.02)


# --- losing a process -----------------------------------------------------------------------------------------------


def test_a_process_that_ends_in_a_trial_is_told_as_lost_with_the_end_of_its_log(make, tmp_path):
    workers = make(job(die_at=2))
    workers.begin(start(tmp_path, by=1))
    process = step(workers).row["process"]
    event = step(workers, known=1)
    assert isinstance(event, Failed)
    assert event.lost
    assert event.problem == f"the process {process} of trial 00000 ended by itself with exit code 7"
    assert event.traceback.endswith("set up with 1\nabout to die")
    workers.end("00000", save=True)
    workers.begin(start(tmp_path, "00001", by=1))
    event = step(workers, "00001")
    assert isinstance(event, Stepped)
    assert event.row["process"] != process


@pytest.mark.parametrize("at_work", [True, False])
def test_a_killed_process_is_told_as_lost_whether_it_was_at_work_or_not(make, tmp_path, at_work):
    workers = make(TrainableJob(sleeping, {"seconds": tune.uniform(0, 100)}, {}, 0))
    workers.begin(start(tmp_path, seconds=0))
    process = step(workers).row["process"]
    if at_work:
        workers.order("00000", Order(1))
    os.kill(process, signal.SIGKILL)
    if not at_work:
        wait_until_gone([process])
        workers.order("00000", Order(1))
    events = [event_of(workers)]
    while isinstance(events[-1], Stepped):  # those it had finished
        workers.order("00000", Order(1))
        events.append(event_of(workers))
    assert events[-1].lost
    assert "was killed by SIGKILL" in events[-1].problem
    assert workers.wait(0.0) is None


@pytest.mark.slow
@pytest.mark.regression("no end", "a trial whose process was frozen was waited for without end")
def test_a_frozen_process_is_told_as_lost_and_ended(make, tmp_path, monkeypatch):
    monkeypatch.setattr(heartbeats, "SILENT_SECONDS", 2.0)
    workers = make(TrainableJob(sleeping, {"seconds": tune.uniform(0, 100)}, {}, 0))
    workers.begin(start(tmp_path, seconds=60))
    workers.order("00000", Order(0))
    (process,) = (worker.process.pid for worker in workers._workers if worker.busy)
    assert all(workers.wait(0.2) is None for _ in range(20))  # it is at work, and shows that it is alive
    os.kill(process, signal.SIGSTOP)
    event = event_of(workers)
    assert event.lost
    assert event.problem.endswith("is frozen: it has sent no heartbeat for 2 seconds")
    wait_until_gone([process])


def test_a_trial_goes_on_in_a_new_process_from_its_last_checkpoint(make, tmp_path):
    workers = make(job(die_at=5))
    workers.begin(start(tmp_path, by=2))
    step(workers, save_at=("count", 2))
    step(workers, known=1)  # of this there is a row and no checkpoint
    assert step(workers, known=2).lost
    workers.end("00000", save=False)
    workers.begin(start(tmp_path, by=1))
    assert [step(workers, known=2).row["count"] for _ in range(2)] == [3, 4]
    assert [row["count"] for row in rows(tmp_path)] == [2, 3, 4]


# --- sharing --------------------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(cores=st.integers(1, 16), cpus=st.sampled_from([0.1, 0.25, 0.3, 0.5, 1, 1.5, 2, 2.5, 3, 5]))
def test_shares_never_ask_for_more_cores_than_there_are(cores, cpus):
    shares, notes = deal(list(range(10, 10 + cores)), cpus, [], 0.0, None)
    if cpus > cores:
        assert [share.cores for share in shares] == [tuple(range(10, 10 + cores))]
        assert f"there are {cores} cores here" in notes[0]
        return
    assert not notes
    assert len(shares) == int(cores / cpus + 1e-9)
    for core in range(cores):
        used = [
            min((place + 1) * cpus, core + 1) - max(place * cpus, core)
            for place, share in enumerate(shares)
            if core + 10 in share.cores
        ]
        assert sum(used) <= 1 + 1e-9
        assert all(part > 0 for part in used)


def test_whole_cores_are_shared_by_nobody():
    shares, _ = deal([0, 1, 2, 3, 4], 2, [], 0.0, None)
    assert [share.cores for share in shares] == [(0, 1), (2, 3)]


def test_gpus_are_dealt_like_cores():
    shares, notes = deal([0, 1, 2, 3], 1, ["4", "7"], 0.5, None)
    assert [share.gpus for share in shares] == [("4",), ("4",), ("7",), ("7",)]
    shares, notes = deal([0, 1, 2, 3], 1, ["4", "7"], 1, None)
    assert [share.gpus for share in shares] == [("4",), ("7",)]
    assert not notes
    shares, notes = deal([0, 1], 1, [], 1, None)
    assert [share.gpus for share in shares] == [None, None]
    assert notes == ["tune.gpus = 1: there are none here: trials run without"]


def test_more_trials_at_a_time_than_there_is_room_for_is_noted():
    shares, notes = deal([0, 1], 1, [], 0.0, 8)
    assert len(shares) == 2
    assert notes == ["tune.max_concurrent = 8: there is room for 2 at a time, by tune.cpus and tune.gpus"]
    assert len(deal([0, 1, 2], 1, [], 0.0, 2)[0]) == 2


def surroundings(config):
    """Returns the cores and GPUs that a trial sees."""
    cores = ",".join(map(str, sorted(os.sched_getaffinity(0))))
    return {"cores": cores, "threads": os.environ["OMP_NUM_THREADS"], "gpus": os.environ.get("CUDA_VISIBLE_DEVICES")}


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no affinity")
def test_a_trial_sees_its_own_cores_and_gpus_only(make, tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    cores = sorted(os.sched_getaffinity(0))
    workers = make(TrainableJob(surroundings, {}, {}, 0), cpus=1, gpus=1, max_concurrent=2)
    names = ["00000", "00001"][: workers.free]
    for name in names:
        workers.begin(start(tmp_path, name))
        workers.order(name, Order(0))
    seen = {event.trial: event.row for event in (event_of(workers) for _ in names)}
    for place, name in enumerate(names):
        assert (seen[name]["cores"], seen[name]["threads"]) == (str(cores[place]), "1")
        assert seen[name]["gpus"] == "35"[place]


def test_one_process_does_one_trial_after_the_other(make, tmp_path):
    workers = make(job())
    processes = set()
    for number in range(5):
        workers.begin(start(tmp_path, str(number), by=1))
        processes.add(step(workers, str(number)).row["process"])
        workers.end(str(number), save=False)
    assert len(processes) == 1


def test_a_fast_trial_does_not_keep_the_news_of_a_slow_one_waiting(make, tmp_path):
    workers = make(job(), max_concurrent=2)
    for name in "ab":
        workers.begin(start(tmp_path, name, by=1))
        workers.order(name, Order(0))
    until = time.monotonic() + WAIT_SECONDS
    while {name: (tmp_path / name / "metrics.jsonl").exists() for name in "ab"} != {"a": True, "b": True}:
        assert time.monotonic() < until
    time.sleep(0.05)  # both have answered
    seen = []
    for _ in range(2):
        event = event_of(workers)
        seen.append(event.trial)
        workers.order(event.trial, Order(1))
        time.sleep(0.05)
    assert sorted(seen) == ["a", "b"]


# --- nothing is left ------------------------------------------------------------------------------------------------


def with_a_child(config):
    """Starts a process of its own, and says which."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
    tune.report({"process": os.getpid(), "child": child.pid})
    time.sleep(1000)


def test_close_ends_processes_at_work_and_what_they_started(make, tmp_path):
    workers = make(TrainableJob(with_a_child, {}, {}, 0))
    workers.begin(start(tmp_path))
    row = step(workers).row
    workers.order("00000", Order(1))
    workers.close()
    wait_until_gone([row["process"], row["child"]])


DRIVER = """
import os, signal, sys
sys.path[:] = eval(sys.argv[2])
from pathlib import Path
from rookery import tune
from rookery.tune.executors.processes import ProcessExecutor
from rookery.tune.jobs.trainable import TrainableJob
from rookery.tune.executor import Order
from worker_cases import sleeping, start, step

workers = ProcessExecutor(TrainableJob(sleeping, {"seconds": tune.uniform(0, 100)}, {}, 0), 0.5, 0.0, 2)
workers.begin(start(Path(sys.argv[1]), "0", seconds=0))
workers.begin(start(Path(sys.argv[1]), "1", seconds=0))
print(*(step(workers, name).row["process"] for name in "01"), flush=True)
workers.order("0", Order(1))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_no_process_is_left_when_the_driver_is_killed(tmp_path):
    run = subprocess.run(
        [sys.executable, "-c", DRIVER, str(tmp_path), repr(sys.path)],
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
    )
    assert run.returncode == -signal.SIGKILL, run.stderr
    pids = [int(pid) for pid in run.stdout.split()]
    assert len(pids) == 2
    wait_until_gone(pids)


def test_a_job_that_cannot_be_sent_is_refused(make):
    with pytest.raises(ConfigError, match=r"cannot be sent.*cannot pickle '_thread.lock'.*tune.place=here"):
        make(TrainableJob(surroundings, {"lock": threading.Lock()}, {}, 0))


def test_a_class_of_a_script_is_sent_along(make, tmp_path):
    class Local(Counting):
        def step(self):
            return {"count": -1.0}

    workers = make(TrainableJob(Local, {"by": tune.uniform(0, 9)}, {}, 0))
    workers.begin(start(tmp_path, by=1))
    assert step(workers).row["count"] == -1


def test_here_too_says_that_there_are_no_gpus(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert InProcessExecutor(job(), 1.0, 1.0, None).notes == [
        "tune.gpus = 1: this machine has no GPU; trials run without"
    ]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert InProcessExecutor(job(), 1.0, 1.0, None).notes == []
