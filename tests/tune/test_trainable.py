"""Classes and functions as trials: what they report, how they end, and how they resume."""

from __future__ import annotations

import json
import math
import random
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from worker_cases import Counting, checkpoints, rows, start, step

from rookery import tune
from rookery.core.errors import ConfigError, RookeryError
from rookery.tune.executor import Failed
from rookery.tune.executors.in_process import InProcessExecutor
from rookery.tune.jobs import trainable
from rookery.tune.jobs.rows import flatten, number_of, reached_criterion
from rookery.tune.jobs.trainable import Trainable, TrainableJob


@pytest.fixture
def begin(tmp_path):
    """Begins a trial of something here, and gives what orders an iteration of it."""
    made = []

    def begun(trainable, config=None, stop=None, save_every=0, params=None):
        job = TrainableJob(trainable, config or {}, stop or {}, save_every)
        made.append(InProcessExecutor(job, 1.0, 0.0, None))
        made[-1].begin(start(tmp_path, **(params or {})))
        return lambda known=0: step(made[-1], known=known)

    begun.end = lambda save=True: made[-1].end("00000", save)
    yield begun
    for each in made:
        each.close()


# --- rows -----------------------------------------------------------------------------------------------------------


def test_what_is_reported_becomes_a_flat_row_of_plain_numbers():
    reported = {
        "a": {"b": np.float32(0.5), "c": {"d": 1}},
        "tensor": torch.tensor([2.0], requires_grad=True),
        "array": np.array(3),
        "yes": np.bool_(True),
        "text": "words",
        "nothing": None,
        "nan": math.nan,
        "infinite": torch.tensor(math.inf),
    }
    row = flatten(reported)
    assert row == {"a/b": 0.5, "a/c/d": 1, "tensor": 2.0, "array": 3, "yes": True, "text": "words", "nothing": None,
                   "nan": None, "infinite": None}  # fmt: skip
    assert json.loads(json.dumps(row)) == row


@pytest.mark.parametrize(
    ("value", "what"), [(np.zeros((2, 3)), r"ndarray of shape \(2, 3\)"), ([1, 2], "list"), (object(), "object")]
)
def test_what_is_no_number_is_refused_with_its_name(value, what):
    with pytest.raises(ConfigError, match=rf"reported: loss/each is a {what}.*such as its mean"):
        flatten({"loss": {"each": value}})


def test_criteria_are_met_by_any_column_however_it_is_written():
    row = {"iteration": 3, "time/seconds": 2.5, "loss/actor": 1.0, "score": None}
    assert reached_criterion({"score": 0, "loss.actor": 2}, row) == ""
    assert reached_criterion({"loss.actor": 1}, row) == "loss.actor 1 reached 1"
    assert reached_criterion({"iterations": 3}, row) == "iterations 3 reached 3"
    assert reached_criterion({"seconds": 2}, row) == "seconds 2.5 reached 2"
    assert number_of(row, "loss/actor") == 1.0


# --- functions ------------------------------------------------------------------------------------------------------


def test_a_function_reports_its_config_filled_in_and_waits_between_two_reports(begin):
    reached = []

    def objective(config):
        for i in range(10):
            reached.append(i)
            tune.report({"x": config["deep"]["x"] * i})

    order = begin(objective, {"deep": {"x": tune.uniform(0, 9)}}, params={"deep.x": 3.0})
    assert [order(known).row["x"] for known in range(3)] == [0.0, 3.0, 6.0]
    assert reached == [0, 1, 2]


def test_a_function_that_has_returned_says_so_with_its_last_row(begin):
    def objective(config):
        tune.report(1.5)

    order = begin(objective)
    first, last = order(), order(1)
    assert (first.row["score"], first.reason) == (1.5, "")
    assert (last.row, last.reason) == (first.row, "the function has returned")


@pytest.mark.parametrize("value", [0.25, {"score": np.float64(0.25)}])
def test_what_a_function_returns_is_its_only_row(begin, tmp_path, value):
    event = begin(lambda config: value)()
    assert (event.row["score"], event.row["iteration"], event.reason) == (0.25, 1, "the function has returned")
    assert rows(tmp_path) == [event.row]


def test_a_generator_yields_rows_and_is_closed(begin, tmp_path):
    ended = []

    def objective(config):
        try:
            yield 1
            yield {"score": 2}
            yield 3
        finally:
            ended.append(True)

    order = begin(objective, stop={"score": 2})
    assert [order(known).row["score"] for known in range(2)] == [1, 2]
    assert not ended
    begin.end()
    assert ended


def test_a_function_that_says_nothing_fails_and_is_told_how_to_speak(begin):
    def silent(config):
        pass

    assert "silent returned nothing and reported nothing: return or yield a number" in begin(silent)().problem


def test_an_exception_of_a_function_is_told_from_its_own_line(begin):
    def objective(config):
        tune.report(1)
        raise LookupError("no such thing")

    order = begin(objective)
    order()
    event = order(1)
    assert isinstance(event, Failed)
    assert event.problem == "LookupError: no such thing"
    assert event.traceback.splitlines()[1].endswith("in objective")


def test_a_function_goes_on_from_the_folder_it_reported(begin, tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()

    def objective(config):
        restored = tune.checkpoint()
        at = 0 if restored is None else int((restored / "deep" / "at").read_text())
        while True:
            at += 1
            (folder / "deep").mkdir(exist_ok=True)
            (folder / "deep" / "at").write_text(str(at))
            tune.report(at, checkpoint=folder if at != 3 else None)

    order = begin(objective)
    assert [order(known).row["score"] for known in range(3)] == [1, 2, 3]
    begin.end()
    assert checkpoints(tmp_path) == [1, 2]
    order = begin(objective)
    assert order(3).row["score"] == 3  # once more: there is no checkpoint of the third
    assert [row["iteration"] for row in rows(tmp_path)] == [1, 2, 3]
    begin.end()
    assert not list((tmp_path / "00000").glob(".tmp*"))


def test_the_last_three_checkpoints_stay(begin, tmp_path):
    def objective(config):
        while True:
            tune.report(1, checkpoint=tmp_path / "work")

    (tmp_path / "work").mkdir()
    order = begin(objective)
    for known in range(5):
        order(known)
    assert checkpoints(tmp_path) == [3, 4, 5]


def test_a_broken_checkpoint_is_passed_over_for_the_one_before(begin, tmp_path):
    order = begin(Counting, {"by": 2}, save_every=1)
    for known in range(3):
        order(known)
    begin.end()
    (file,) = (tmp_path / "00000" / "checkpoints" / "000003").glob("content*")
    file.write_text("7")
    order = begin(Counting, {"by": 2}, save_every=1)
    assert order(2).row["count"] == 6
    assert [row["count"] for row in rows(tmp_path)] == [2, 4, 6]


def test_without_a_checkpoint_a_trial_begins_anew_and_keeps_what_is_not_its_own(begin, tmp_path):
    order = begin(Counting, {"by": 2})
    order()
    begin.end(save=False)
    (tmp_path / "00000" / "params.json").write_text("{}")
    order = begin(Counting, {"by": 2})
    order()
    assert [row["count"] for row in rows(tmp_path)] == [2]
    assert (tmp_path / "00000" / "params.json").exists()
    assert (tmp_path / "00000" / "log.txt").read_text() == "set up with 2\n" * 2


def test_report_outside_of_a_trial_says_where_it_belongs(begin):
    for call in (lambda: tune.report(1), tune.checkpoint, tune.seed):
        with pytest.raises(RookeryError, match="called outside of a trial"):
            call()

    class Mistaken:
        def step(self):
            tune.report(1)

    assert "its method step returns the row" in begin(Mistaken)().problem


def test_a_function_that_does_not_end_is_told_of(tmp_path, monkeypatch):
    monkeypatch.setattr(trainable, "CLOSE_SECONDS", 0.05)
    end = threading.Event()

    def stubborn(config):
        try:
            tune.report(1)
        finally:
            end.wait()

    workers = InProcessExecutor(TrainableJob(stubborn, {}, {}, 0), 1.0, 0.0, None)
    workers.begin(start(tmp_path))
    step(workers)
    workers.end("00000", save=False)
    end.set()
    assert "00000: the function did not end within 0.05 s" in workers.notes[0]


# --- classes --------------------------------------------------------------------------------------------------------


class Walking(Trainable):
    """Walks at random; saves all it needs."""

    def setup(self, config):
        self.rng, self.place = random.Random(self.seed), 0.0

    def step(self):
        self.place += self.rng.gauss(0, 1)
        return {"place": self.place}

    def save_checkpoint(self, folder):
        (folder / "state.json").write_text(json.dumps([self.place, self.rng.getstate()]))

    def load_checkpoint(self, folder):
        self.place, state = json.loads((folder / "state.json").read_text())
        self.rng.setstate((state[0], tuple(state[1]), state[2]))


def test_a_class_that_is_taken_up_again_goes_on_as_if_it_had_not_stopped(begin, tmp_path):
    order = begin(Walking)
    whole = [order(known).row["place"] for known in range(6)]
    again = InProcessExecutor(TrainableJob(Walking, {}, {}, 0), 1.0, 0.0, None)
    again.begin(start(tmp_path, "00002"))
    for known in range(3):
        step(again, "00002", known)
    again.end("00002", save=True)
    again.begin(start(tmp_path, "00002"))
    for known in range(3, 6):
        step(again, "00002", known)
    again.close()
    assert [row["place"] for row in rows(tmp_path, "00002")] == whole


def test_a_class_with_nothing_but_step_will_do(begin, tmp_path):
    class Bare:
        def step(self):
            return {"seed": tune.seed()}

    event = begin(Bare, stop={"iterations": 1})()
    assert (event.row["seed"], event.reason) == (11, "iterations 1 reached 1")
    begin.end()
    assert checkpoints(tmp_path) == []


def test_cleanup_is_called_when_a_trial_ends(begin):
    ended = []

    class Tidy:
        def step(self):
            return {}

        def cleanup(self):
            ended.append(True)

    begin(Tidy)()
    assert not ended
    begin.end()
    assert ended == [True]


def test_a_stop_function_sees_each_row(begin):
    order = begin(Counting, {"by": 2}, stop=lambda row: row["count"] > 3)
    assert [order(known).reason for known in range(2)] == ["", "the stop function said so"]


def test_checkpoints_come_every_so_many_iterations_and_at_the_end(begin, tmp_path):
    order = begin(Counting, {"by": 1}, stop={"count": 5}, save_every=2)
    seen = []
    for known in range(5):
        order(known)
        seen.append(checkpoints(tmp_path))
    assert seen == [[], [2], [2], [2, 4], [2, 4, 5]]


@pytest.mark.parametrize(
    ("trainable", "stop", "told"),
    [
        (3, {}, "must be a class with a method step, or a function"),
        (type("Lame", (), {}), {}, "Lame: the class has no method step"),
        (
            type("Half", (), {"step": print, "save_checkpoint": print}),
            {},
            "Half: the class has save_.* but no load",
        ),
        (
            type("Greedy", (), {"step": print, "__init__": lambda self, config: None}),
            {},
            "Greedy: the constructor must not require",
        ),
        (lambda: 3, {}, "must take one argument"),
        (lambda x, y: 3, {}, "must take one argument"),
        (print, {"score": "high"}, "stop.score = 'high': must be"),
    ],
)
def test_what_cannot_be_tried_is_refused_before_anything_starts(trainable, stop, told):
    with pytest.raises(ConfigError, match=told):
        TrainableJob(trainable, {}, stop, 0)


def test_a_step_that_returns_no_row_is_told(begin):
    class Wrong:
        def step(self):
            return 3

    assert begin(Wrong)().problem.startswith("Wrong.step returned 3: return a mapping")


def test_the_description_is_that_of_the_fixed_part(begin):
    config = {"x": tune.uniform(0, 1), "path": Path, "n": 3}
    described = TrainableJob(Counting, config, {"count": 3}, 5).describe()
    assert described == {
        "kind": "trainable",
        "trainable": "worker_cases:Counting",
        "config": {"path": f"{Path.__module__}:Path", "n": 3},
        "stop": {"count": 3},
    }
    assert json.loads(json.dumps(described)) == described


def test_no_module_hides_a_name_that_users_call():
    # Importing rookery.tune.report would make tune.report that module.
    modules = {path.stem for path in Path(tune.__file__).parent.glob("*.py")}
    assert modules & set(tune.__all__) == set()
