"""Workers on a Ray of this machine: the cases that all workers share, and what only Ray has to bear."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
from worker_cases import CASES, checkpoints, event_of, job, rows, sleeping, start, step

from rookery import PPOConfig, tune
from rookery.core.errors import ConfigError
from rookery.core.settings.layers import Layer
from rookery.tune.executor import Failed, Order, Stepped, Stopped
from rookery.tune.executors.in_process import InProcessExecutor
from rookery.tune.job import reset_folder
from rookery.tune.jobs.trainable import TrainableJob
from rookery.tune.jobs.training_job import TrainingJob
from rookery.tune.spec import split_layers

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.slow

from rookery.cluster import shared_disk  # noqa: E402
from rookery.tune.executors import ray_cluster  # noqa: E402  (needs Ray)
from rookery.tune.executors.ray_cluster import RayExecutor, Resources, connect  # noqa: E402


@pytest.fixture(scope="module")
def two_cores():
    """A Ray with two cores, whatever else runs on this machine."""
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield
    ray.shutdown()


@pytest.fixture
def make(two_cores):
    """Makes workers."""
    made = []

    def workers(job, cpus=1.0, gpus=0.0, max_concurrent=None):
        made.append(RayExecutor(job, cpus, gpus, max_concurrent))
        return made[-1]

    yield workers
    for each in made:
        each.close()


@pytest.fixture
def busy(two_cores):
    """Reserves this number of cores until it is released."""
    taken = []

    class Idler:
        def is_there(self):
            return True

    def take(cores):
        taken.append(ray.remote(num_cpus=cores)(Idler).remote())
        ray.get(taken[-1].is_there.remote())
        return lambda: ray.kill(taken[-1])

    yield take
    for each in taken:
        ray.kill(each)


def waiting():
    """Trials that take a while for each iteration."""
    return TrainableJob(sleeping, {"seconds": tune.uniform(0, 99)}, {}, 0)


def noted(workers, words):
    """The note with some words, as soon as there is one."""
    until = time.monotonic() + 30
    while not (found := [note for note in workers.notes if words in note]):
        assert time.monotonic() < until, workers.notes
        assert workers.wait(0.1) is None
    return found[0]


def parents():
    """The parent of each live process."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = path.read_text().rpartition(")")[2].split()[:2]
        except OSError:  # it has just ended
            continue
        if state != "Z":
            found[int(path.parent.name)] = int(parent)
    return found


def begun_by(pid):
    """Live processes that a process has begun, and those that they have."""
    found, above = {pid}, parents()
    while more := {child for child, parent in above.items() if parent in found} - found:
        found |= more
    return found - {pid}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_ray_agrees_with_other_workers(case, make, tmp_path):
    case(make, tmp_path)


def training():
    """Small trainings."""
    settings = {
        "env.name": "CartPole-v1",
        "algorithm": PPOConfig(fragment_length=512, epochs=2, minibatch_size=512, model={"hidden": (16,)}),
        "algorithm.lr": tune.uniform(1e-4, 1e-2),
        "sampling.num_envs": 4,
        "stop": {"iterations": 9},
        "logging.tensorboard": False,
    }
    return TrainingJob(*split_layers([Layer("code", settings)]), "none")


def trained(workers, folder):
    """The rows of a training but for its seconds; the workers are closed then."""
    workers.begin(start(folder, **{"algorithm.lr": 1e-3}))
    for known in range(3):
        assert isinstance(step(workers, known=known), Stepped)
    workers.close()
    return [{name: value for name, value in row.items() if not name.startswith("time/")} for row in rows(folder)]


def test_a_training_on_ray_is_the_same_as_in_this_process(make, tmp_path):
    expected = trained(InProcessExecutor(training(), 1.0, 0.0, None), tmp_path / "here")
    assert len(expected) == 3
    assert trained(make(training()), tmp_path / "ray") == expected


def test_a_training_stops_in_the_middle_of_an_iteration_and_goes_on_as_if_nothing_had_been(make, tmp_path):
    expected = trained(make(training()), tmp_path / "whole")
    workers, stopped = make(training()), tmp_path / "stopped"
    workers.begin(start(stopped, **{"algorithm.lr": 1e-3}))
    workers.order("00000", Order(0))
    while not (stopped / "00000" / "config.yaml").exists():
        assert workers.wait(0.01) is None
    workers.interrupt()
    assert event_of(workers) == Stopped("00000")
    workers.end("00000", save=False)
    workers.close()
    assert trained(make(training()), stopped) == expected


@pytest.mark.regression(
    "exhausted memory or time", "a trial on Ray took about two milliseconds for each report, whatever it did"
)
def test_iterations_that_follow_in_any_case_are_done_without_asking_and_told_again_after_a_stop(make, tmp_path):
    def ordered(known):
        workers.order("00000", Order(known, ahead=True))
        return event_of(workers)

    workers = make(job({"count": 30.0}))
    workers.begin(start(tmp_path, by=1))
    assert ordered(0).row["count"] == 1
    done = len(rows(tmp_path))
    assert done > 1
    assert [ordered(known).row["count"] for known in range(1, 5)] == [2, 3, 4, 5]
    workers.end("00000", save=True)
    assert checkpoints(tmp_path) == [len(rows(tmp_path))]
    workers.begin(start(tmp_path, by=1))
    told = [ordered(known) for known in range(5, 30)]  # of some of them, the rows were there
    assert [event.row["count"] for event in told] == list(range(6, 31))
    assert [bool(event.reason) for event in told] == [False] * 24 + [True]
    assert [row["count"] for row in rows(tmp_path)] == list(range(1, 31))
    workers.end("00000", save=False)


def test_a_trial_stops_between_two_iterations_that_nobody_asked_about(make, tmp_path):
    workers = make(TrainableJob(Paced, {"seconds": tune.uniform(0, 9)}, {}, 0))
    workers.begin(start(tmp_path, seconds=0.03))
    workers.order("00000", Order(0, ahead=True))
    while not (tmp_path / "00000" / "metrics.jsonl").exists():
        assert workers.wait(0.005) is None
    workers.interrupt()
    assert event_of(workers).row["iteration"] == 1
    workers.end("00000", save=True)
    assert checkpoints(tmp_path) == [len(rows(tmp_path))] and len(rows(tmp_path)) < 5


class Paced:
    """Takes a while for each iteration."""

    def setup(self, config):
        self.config = config

    def step(self):
        time.sleep(self.config["seconds"])
        return {"score": 0.0}

    def save_checkpoint(self, folder):
        (folder / "nothing").write_text("")

    def load_checkpoint(self, folder):
        pass


# --- how many trials, and with what ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "node", "times"),
    [
        (Resources(1, 0), Resources(4, 0), 4),
        (Resources(1.5, 0), Resources(4, 0), 2),
        (Resources(0.1, 0), Resources(0.3, 0), 3),
        (Resources(1, 1), Resources(8, 2), 2),
        (Resources(1, 0.25), Resources(8, 1), 4),
        (Resources(1, 1), Resources(8, 0), 0),
        (Resources(4, 0), Resources(2, 0), 0),
    ],
)
def test_a_node_has_as_many_places_as_its_scarcest_resource_allows(asked, node, times):
    assert asked.times_in(node) == times


def test_a_trial_that_no_node_can_hold_gets_what_the_largest_has():
    small, large, with_gpu = Resources(2, 0), Resources(8, 0), Resources(4, 1)
    assert Resources(4, 0).within_largest([small, large]) == Resources(4, 0)
    assert Resources(16, 0).within_largest([small, large]) == Resources(8, 0)
    assert Resources(16, 2).within_largest([small, large, with_gpu]) == Resources(4, 1)  # GPUs come first
    assert Resources(2, 1).within_largest([small, large]) == Resources(2, 0)
    assert Resources(2, 0).within_largest([]) == Resources(2, 0)


def test_more_cores_than_any_node_has_means_all_of_one_node_and_a_note(make, tmp_path):
    workers = make(job(), cpus=16)
    assert workers.notes == ["tune: 16 CPUs a trial, and no node of the Ray cluster has that: trials get 2 CPUs"]
    assert workers.free == 1
    workers.begin(start(tmp_path))
    assert isinstance(step(workers), Stepped)
    assert workers.free == 0


def test_trials_run_side_by_side_each_with_its_own_process(make, tmp_path):
    workers = make(waiting())
    assert workers.free == 2
    for name in ("00000", "00001"):
        workers.begin(start(tmp_path, name, seconds=0.3))
        workers.order(name, Order(0))
    assert workers.free == 0
    events = [event_of(workers), event_of(workers)]
    assert {event.trial for event in events} == {"00000", "00001"}
    assert len({event.row["process"] for event in events}) == 2


def test_no_more_places_than_trials_may_run(make):
    assert make(job(), max_concurrent=1).free == 1


def test_a_trial_sees_the_cores_it_was_given(make, tmp_path):
    workers = make(TrainableJob(cores_seen, {"x": tune.uniform(0, 1)}, {}, 0))
    workers.begin(start(tmp_path, x=0.5))
    assert step(workers).row["cores"] == 1


def cores_seen(config):
    """Reports how many cores threads and helpers are chosen by, on a machine that may have more."""
    from rookery.core.process.cpu import usable_cores

    tune.report({"cores": usable_cores()})


# --- places that come late, or never ---------------------------------------------------------------------------------


def test_a_trial_that_finds_no_room_says_what_is_missing_and_begins_when_there_is_room(
    make, busy, tmp_path, monkeypatch
):
    monkeypatch.setattr(ray_cluster, "LATE_SECONDS", 0.3)
    give_back = busy(2)
    workers = make(job())
    workers.begin(start(tmp_path))
    workers.order("00000", Order(0))
    note = noted(workers, "00000 waits")
    assert "it needs 1 CPU on one node, and the Ray cluster has 0 CPUs free of 2 CPUs in all" in note
    assert workers.free == 0
    give_back()
    assert isinstance(event_of(workers), Stepped)


def test_a_trial_that_finds_no_room_takes_the_next_free_place(make, busy, tmp_path, monkeypatch):
    monkeypatch.setattr(ray_cluster, "LATE_SECONDS", 0.3)
    busy(1)
    workers = make(job())
    for name in ("00000", "00001"):
        workers.begin(start(tmp_path, name))
        workers.order(name, Order(0))
    first = event_of(workers)
    (late,) = {"00000", "00001"} - {first.trial}
    noted(workers, f"{late} waits")
    workers.end(first.trial, save=False)
    assert workers.free == 0  # it is for the one that waits
    assert event_of(workers).trial == late


def test_a_trial_without_a_place_stops_at_once(make, busy, tmp_path):
    busy(2)
    workers = make(job())
    workers.begin(start(tmp_path))
    workers.order("00000", Order(0))
    assert workers.wait(0.1) is None
    workers.interrupt()
    assert workers.wait(5.0) == Stopped("00000")
    workers.end("00000", save=False)


# --- what goes wrong --------------------------------------------------------------------------------------------------


def test_a_trial_whose_process_dies_is_lost_and_goes_on_in_a_new_one(make, tmp_path):
    workers = make(job(die_at=3))
    workers.begin(start(tmp_path, by=1))
    first = step(workers)
    assert isinstance(step(workers, known=1, save_at=("count", 2)), Stepped)
    lost = step(workers, known=2)
    assert isinstance(lost, Failed) and lost.lost
    assert lost.problem.startswith("its worker on Ray is gone: The actor died")
    workers.end("00000", save=False)
    assert workers.free == 2
    workers.begin(start(tmp_path, by=-1))
    event = step(workers, known=2)
    assert (event.row["iteration"], event.row["count"]) == (3, 1)
    assert event.row["process"] != first.row["process"]


@pytest.mark.regression(
    "unclear error",
    "a trial on Ray that began in the folder of a worker's probe removed it: the experiment ended, as if the node did "
    "not see the folder",
)
def test_a_trial_that_empties_its_folder_does_not_hide_the_folder_from_a_worker_that_comes(make, tmp_path):
    workers = make(job())
    workers.begin(start(tmp_path))
    reset_folder(tmp_path / "00000")  # what another worker did that took the trial over meanwhile
    assert isinstance(step(workers), Stepped)
    assert [path.name for path in tmp_path.iterdir()] == ["00000"]


def test_a_node_that_does_not_see_the_folder_is_told_of(make, tmp_path, monkeypatch):
    monkeypatch.setattr(shared_disk, "VISIBLE_SECONDS", 0.1)
    workers = make(job())
    first = start(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_text", lambda *arguments, **keywords: 0)  # a file that stays on another disk
        workers.begin(first)
    workers.order("00000", Order(0))
    with pytest.raises(ConfigError, match="has to be on a disk that all nodes of the cluster share"):
        event_of(workers)


def test_a_log_that_cannot_be_written_fails_the_trial(make, tmp_path):
    workers = make(job())
    first = start(tmp_path)
    (first.folder / "log.txt").mkdir()
    workers.begin(first)
    event = step(workers)
    assert isinstance(event, Failed) and not event.lost
    assert event.problem.startswith("IsADirectoryError")


def test_a_job_that_cannot_be_pickled_is_refused(make):
    with pytest.raises(ConfigError, match=r"pickling them raised .*use tune\.place=here"):
        make(job(lock=threading.Lock()))


def test_nobody_at_ray_address_is_told_at_once(monkeypatch):
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    with pytest.raises(ConfigError, match=r"RAY_ADDRESS = 127\.0\.0\.1:1: no Ray cluster answers at 127"):
        connect(setting="tune.place = ray", instead="place=processes needs no Ray")


# --- in a process of its own ------------------------------------------------------------------------------------------


def python(script, **environment):
    """Returns the output of a script."""
    run = subprocess.run(
        [sys.executable, "-c", script], env=os.environ | environment, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_a_ray_that_was_begun_here_ends_with_the_workers_and_leaves_signals_alone(tmp_path):
    """Also where a cluster that was killed has left its address behind."""
    short = Path(tempfile.mkdtemp(dir="/tmp"))  # Ray's sockets lie there, whose paths have a limit
    (short / "ray").mkdir()
    (short / "ray" / "ray_current_cluster").write_text("127.0.0.1:1")
    script = f"""
import os, signal, sys, time
sys.path.insert(0, {str(Path(__file__).parent)!r})
from pathlib import Path
import ray
from test_ray_cluster import RayExecutor, begun_by, job, parents, start, step
before = signal.getsignal(signal.SIGTERM)
workers = RayExecutor(job(), 1, 0, 1)
workers.begin(start(Path({str(tmp_path)!r})))
step(workers)
assert signal.getsignal(signal.SIGTERM) is before
begun = begun_by(os.getpid())
assert begun and ray.is_initialized()
workers.close()
assert not ray.is_initialized()
until = time.monotonic() + 20
while begun & parents().keys():
    assert time.monotonic() < until
    time.sleep(0.1)
print("nothing left")
"""
    try:
        assert python(script, RAY_ADDRESS="", RAY_TMPDIR=str(short)).endswith("nothing left\n")
    finally:
        shutil.rmtree(short, ignore_errors=True)


def test_without_ray_an_error_says_how_to_get_it(tmp_path):
    script = f"""
import sys
sys.modules["ray"] = None
from rookery import tune
try:
    tune.run(trainable=print, config={{"x": 1}}, metric="x", place="ray", folder={str(tmp_path / "x")!r})
except Exception as error:
    print(type(error).__name__, error)
"""
    said = python(script)
    assert said.startswith("ConfigError")
    assert "pip install 'rookery-rl[ray]'" in said


def test_nobody_else_loads_ray():
    assert (
        python("import sys, rookery.tune.experiment, rookery.tune.executors.processes; print('ray' in sys.modules)")
        == "False\n"
    )
