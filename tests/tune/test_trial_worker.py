"""Tests of the worker of a trial: exceptions of user code, and events of a trial without work."""

from __future__ import annotations

import sys

import pytest
from worker_cases import job, start

from rookery.core.errors import ConfigError, EnvError
from rookery.core.process.interrupt import Interrupted
from rookery.tune.executor import Failed, Order, Stepped, Stopped
from rookery.tune.executors.trial_worker import TrialWorker, failure_of
from rookery.tune.job import Job, Work


class Doing(Job):
    """A job whose work follows a script."""

    title = "doing"

    def __init__(self, act, save=lambda: None):
        self.act, self.save = act, save

    def start(self, start):
        return Done(self)

    def check(self, space):
        pass

    def describe(self):
        return {}


class Done(Work):
    iteration = 0

    def __init__(self, job):
        self.job = job
        self.asked = self.closed = False

    def step(self):
        return self.job.act(), ""

    def save(self):
        self.job.save()

    def interrupt(self):
        self.asked = True

    def close(self):
        self.closed = True


def answer(act, folder, save=lambda: None, **order):
    place = TrialWorker(lambda: Doing(act, save))
    place.begin(start(folder))
    return place.step(Order(0, **order))


def raising(error):
    raise error


def test_an_interrupted_iteration_is_told_as_stopped(tmp_path):
    assert answer(lambda: raising(Interrupted(15)), tmp_path) == Stopped("00000")


def test_sys_exit_ends_the_trial_and_nothing_else(tmp_path):
    event = answer(lambda: sys.exit(3), tmp_path)
    assert event.problem == "SystemExit: 3"


def test_a_second_ctrl_c_passes(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        answer(lambda: raising(KeyboardInterrupt()), tmp_path)


def test_a_checkpoint_that_cannot_be_written_fails_the_trial(tmp_path):
    event = answer(lambda: {"age": 3}, tmp_path, lambda: raising(OSError("disk full")), save_at=("age", 2))
    assert event.problem == "OSError: disk full"


def test_end_tells_what_went_wrong_and_closes_all_the_same(tmp_path):
    work = []
    job = Doing(dict, lambda: raising(OSError("disk full")))
    job.start = lambda start: work.append(Done(job)) or work[-1]
    place = TrialWorker(lambda: job)
    place.begin(start(tmp_path))
    assert place.end(save=True) == "OSError: disk full"
    assert work[0].closed


def test_an_interrupt_reaches_the_work_and_no_further_iteration_is_begun(tmp_path):
    work, done, saved = [], [], []
    job = Doing(lambda: done.append(1), lambda: saved.append(1))
    job.start = lambda start: work.append(Done(job)) or work[-1]
    place = TrialWorker(lambda: job)
    place.begin(start(tmp_path))
    place.interrupt()
    assert work[0].asked
    assert place.step(Order(0)) == Stopped("00000")
    assert (done, saved) == ([], [1])
    place.end(save=False)
    place.begin(start(tmp_path))
    assert isinstance(place.step(Order(0)), Stepped)


def test_a_job_that_cannot_be_loaded_is_the_answer_to_each_trial(tmp_path):
    place = TrialWorker(lambda: raising(ModuleNotFoundError("no module called mine")))
    for _ in range(2):
        place.begin(start(tmp_path))
        event = place.step(Order(0))
        assert isinstance(event, Failed)
        assert event.problem == "ModuleNotFoundError: no module called mine"
        place.end(save=False)


def test_of_an_environments_error_its_own_traceback_is_told_and_where_it_was():
    def theirs():
        raise ZeroDivisionError("division by nothing")

    try:
        try:
            theirs()
        except ZeroDivisionError as error:
            raise EnvError("environment 3,\n episode 2") from error
    except EnvError as error:
        event = failure_of("7", error)
    assert event.problem == "environment 3, episode 2"
    assert 'raise ZeroDivisionError("division by nothing")' in event.traceback
    assert event.traceback.endswith("environment 3,\n episode 2\n")


def test_an_error_of_ours_that_met_no_other_code_needs_no_traceback(tmp_path):
    place = TrialWorker(lambda: job(stop={"cuont": 3}))
    place.begin(start(tmp_path, by=1))
    event = place.step(Order(0))
    assert event.traceback == ""
    assert "stop.cuont: the trials report no such number" in event.problem
    assert "did you mean 'count'?" in event.problem
    assert isinstance(failure_of("0", ConfigError("one", "two")), Failed)
