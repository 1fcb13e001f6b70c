"""Cases that every executor must pass, with their trials; `test_executors.py` and others run them.

A case takes `make`, which makes workers of a job, and a folder. Everything here is found by import in other processes.
"""

from __future__ import annotations

import json
import os
import sys
import time

from rookery import tune
from rookery.core.io.files import list_checkpoints
from rookery.tune.executor import Failed, Order, Stepped, Stopped
from rookery.tune.job import Start
from rookery.tune.jobs.trainable import TrainableJob

WAIT_SECONDS = 60.0
"""Seconds after which a case gives up; never how long anything should take."""


class Counting:
    """Counts, keeps what it has counted, and prints."""

    def setup(self, config):
        self.config, self.count = config, 0
        print(f"set up with {config['by']}", flush=True)

    def step(self):
        self.count += self.config["by"]
        if self.count >= self.config.get("raise_at", 1e9):
            raise ValueError(f"counted to {self.count}")
        if self.count >= self.config.get("die_at", 1e9):
            print("about to die", flush=True)
            os._exit(7)
        return {"count": self.count, "process": os.getpid()}

    def save_checkpoint(self, folder):
        (folder / "count").write_text(str(self.count))

    def load_checkpoint(self, folder):
        self.count = int((folder / "count").read_text())


def job(stop=None, **config):
    """Trials that count; by as much as the parameter `by` says."""
    return TrainableJob(Counting, {"by": tune.uniform(0, 9), **config}, stop or {}, 0)


def sleeping(config):
    """Reports after a while, for ever."""
    while True:
        time.sleep(config["seconds"])
        tune.report({"process": os.getpid()})


def start(folder, name="00000", **params):
    """A new trial; its folder is made as the runner makes it."""
    place = folder / name
    place.mkdir(parents=True, exist_ok=True)
    return Start(name, params or {"by": 1}, 11, place)


def event_of(workers):
    """The next event."""
    until = time.monotonic() + WAIT_SECONDS
    while (event := workers.wait(0.2)) is None:
        assert time.monotonic() < until, "no event came"
    return event


def step(workers, name="00000", known=0, save_at=None):
    """Returns the event of an order while no other trial runs."""
    workers.order(name, Order(known, save_at))
    return event_of(workers)


def rows(folder, name="00000"):
    """Returns the rows that a trial has written."""
    return [json.loads(line) for line in (folder / name / "metrics.jsonl").read_text().splitlines()]


def checkpoints(folder, name="00000"):
    """Iterations of which there is a checkpoint."""
    place = folder / name / "checkpoints"
    return [int(path.name) for path in list_checkpoints(place)]


# --- the cases ------------------------------------------------------------------------------------------------------


def a_trial_does_an_iteration_for_each_order_and_frees_its_place(make, folder):
    workers = make(job())
    places = workers.free
    workers.begin(start(folder, by=2))
    assert workers.free == places - 1
    events = [step(workers, known=known) for known in range(3)]
    assert [event.row["count"] for event in events] == [2, 4, 6]
    assert all(isinstance(event, Stepped) and not event.reason for event in events)
    assert [row["iteration"] for row in rows(folder)] == [1, 2, 3]
    workers.end("00000", save=False)
    assert workers.free == places
    assert checkpoints(folder) == []


def a_trial_goes_on_from_what_end_saved_with_other_parameters(make, folder):
    workers = make(job())
    workers.begin(start(folder, by=2))
    step(workers)
    workers.end("00000", save=True)
    assert checkpoints(folder) == [1]
    workers.begin(start(folder, by=5))
    event = step(workers, known=1)
    assert (event.row["iteration"], event.row["count"]) == (2, 7)
    workers.end("00000", save=False)


def a_criterion_ends_a_trial_with_a_checkpoint(make, folder):
    workers = make(job(stop={"count": 4}))
    workers.begin(start(folder, by=2))
    assert step(workers).reason == ""
    assert step(workers, known=1).reason == "count 4 reached 4"
    assert checkpoints(folder) == [2]
    workers.end("00000", save=True)
    assert checkpoints(folder) == [2]


def a_row_whose_news_were_lost_is_told_without_doing_the_iteration_again(make, folder):
    workers = make(job(stop={"count": 4}))
    workers.begin(start(folder, by=2))
    step(workers)
    step(workers, known=1)
    workers.end("00000", save=True)  # its second row was written, and the runner was killed before it heard of it
    before = rows(folder)
    workers.begin(start(folder, by=2))
    event = step(workers, known=1)
    assert (event.row["iteration"], event.reason) == (2, "count 4 reached 4")
    assert rows(folder) == before
    event = step(workers, known=2)  # it heard of it, and was killed before it said that the trial is over
    assert (event.row["iteration"], event.reason) == (2, "count 4 reached 4")
    workers.end("00000", save=False)


def an_iteration_from_which_on_a_checkpoint_is_wanted_comes_with_one(make, folder):
    workers = make(job())
    workers.begin(start(folder, by=2))
    step(workers, save_at=("count", 3))
    assert checkpoints(folder) == []
    step(workers, known=1, save_at=("count", 3))
    assert checkpoints(folder) == [2]
    workers.end("00000", save=False)


def what_a_trial_raises_is_told_from_its_own_first_line_and_the_place_stays_usable(make, folder):
    workers = make(job(raise_at=2))
    workers.begin(start(folder, by=1))
    assert isinstance(step(workers), Stepped)
    event = step(workers, known=1)
    assert isinstance(event, Failed) and not event.lost
    assert event.problem == "ValueError: counted to 2"
    assert event.traceback.splitlines()[1].endswith("in step")
    assert 'raise ValueError(f"counted to {self.count}")' in event.traceback
    workers.end("00000", save=False)
    workers.begin(start(folder, "00001", by=1))
    assert isinstance(step(workers, "00001"), Stepped)
    workers.end("00001", save=False)


def what_a_trial_raises_at_its_start_is_the_answer_to_its_first_order(make, folder):
    workers = make(job())
    workers.begin(start(folder, by="x"))  # it begins, and fails to add a text to a number
    event = step(workers)
    assert isinstance(event, Failed)
    assert "TypeError" in event.problem
    workers.end("00000", save=False)


def prints_of_a_trial_are_in_its_log(make, folder):
    workers = make(job())
    for name, by in (("00000", 3), ("00001", 4)):
        workers.begin(start(folder, name, by=by))
        step(workers, name)
        workers.end(name, save=False)
    assert (folder / "00000" / "log.txt").read_text() == "set up with 3\n"
    assert (folder / "00001" / "log.txt").read_text() == "set up with 4\n"


def an_interrupted_trial_answers_its_order_and_saves(make, folder):
    workers = make(job())
    workers.begin(start(folder, by=2))
    step(workers)
    workers.order("00000", Order(1))
    workers.interrupt()
    event = event_of(workers)
    assert isinstance(event, Stopped) or event.row["iteration"] == 2  # it may have come through just before
    workers.end("00000", save=True)
    assert checkpoints(folder) == [1 if isinstance(event, Stopped) else 2]


def a_stopped_function_runs_its_finally_clauses(make, folder):
    workers = make(TrainableJob(tidying, {"by": tune.uniform(0, 9)}, {}, 0))
    workers.begin(start(folder, by=1))
    assert step(workers).row["score"] == 1
    workers.end("00000", save=True)
    assert (folder / "00000" / "log.txt").read_text() == "tidied up after TrialStopped\n"


def tidying(config):
    """Reports for ever, and records the reason of its end."""
    try:
        while True:
            try:
                tune.report(config["by"])
            except Exception:  # what stops it is none
                print("never")
    finally:
        print(f"tidied up after {sys.exc_info()[0].__name__}")


CASES = [case for name, case in list(globals().items()) if getattr(case, "__code__", None)
         and case.__code__.co_varnames[:2] == ("make", "folder")]  # fmt: skip
"""All of them, for ``pytest.mark.parametrize``."""
