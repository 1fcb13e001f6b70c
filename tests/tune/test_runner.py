"""Tests of the loop of an experiment: trials, calls of search and scheduler, and kills at any moment."""

from __future__ import annotations

import errno
import itertools
import json
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
from climbing import Careless, Climb, climb, history_of, outcome

from rookery import ConfigError, tune
from rookery.core.io.files import FileError, last_good
from rookery.core.process.interrupt import Interrupted
from rookery.core.seeding import Streams
from rookery.tune.journal import Journal, read
from rookery.tune.scheduler import Action, Exploit, Scheduler, SchedulerConfig
from rookery.tune.trial import Status
from selection import WITHOUT_SLOW, slow, slow_except


@pytest.fixture(autouse=True)
def no_power_cut(monkeypatch):
    """Simulates a kill: written data survives, flushed to the disk or not."""
    monkeypatch.setattr(os, "fsync", lambda file: None)


# --- trials and calls -----------------------------------------------------------------------------------------------


def test_every_trial_runs_to_its_end(tmp_path):
    analysis = climb(tmp_path / "x")
    trials = history_of(tmp_path / "x").trials
    assert list(trials) == ["00000", "00001", "00002", "00003"]
    for trial in trials.values():
        assert trial.status is Status.TERMINATED
        assert trial.reason == "iteration 5 reached 5"
        assert [row["iteration"] for row in trial.rows] == [1, 2, 3, 4, 5]
        assert trial.row["height"] == pytest.approx(5 * (1 - (trial.params["x"] - 0.3) ** 2))
    assert analysis.best().score == max(trial.row["height"] for trial in trials.values())


def test_a_trial_has_a_folder_that_says_what_it_is(tmp_path):
    climb(tmp_path / "x", num_samples=1)
    trial = history_of(tmp_path / "x").trials["00000"]
    about = json.loads((trial.folder / "params.json").read_text())
    assert about == {"trial": "00000", "number": 0, "params": trial.params, "seed": 3}
    assert trial.folder.name.startswith("00000_x=0.")
    assert len((trial.folder / "metrics.jsonl").read_text().splitlines()) == 5


class Noted:
    """A search that records its scores."""

    def __init__(self, *points):
        self.points, self.told = points, []

    def ask(self, number):
        return {"x": self.points[number]} if number < len(self.points) else None

    def tell(self, number, values):
        self.told.append((number, values))


def test_any_object_that_can_be_asked_and_told_is_a_search(tmp_path):
    search = Noted(0.3, 0.8)
    climb(tmp_path / "x", search=search)
    assert search.told == [(0, [5.0]), (1, [pytest.approx(5 * 0.75)])]


def test_repeats_have_the_same_seeds_and_the_search_is_told_their_mean(tmp_path):
    class Seeded(Climb):
        def step(self):
            return {"height": float(self.seed)}

    search = Noted(0.3, 0.8)
    climb(tmp_path / "x", Seeded, search=search, repeats=3)
    trials = list(history_of(tmp_path / "x").trials.values())
    assert [trial.name for trial in trials] == ["00000-0", "00000-1", "00000-2", "00001-0", "00001-1", "00001-2"]
    seeds = [trial.seed for trial in trials]
    assert seeds[:3] == seeds[3:]
    assert len(set(seeds)) == 3
    assert seeds[0] == 3  # that of the user
    assert search.told == [(0, [pytest.approx(sum(seeds[:3]) / 3)]), (1, [pytest.approx(sum(seeds[:3]) / 3)])]


def test_several_metrics_are_told_in_their_order(tmp_path):
    class Two(Climb):
        def step(self):
            return {**super().step(), "cost": self.x}

    search = Noted(0.3)
    climb(tmp_path / "x", Two, search=search, metric=("height", "cost"), mode=("max", "min"))
    assert search.told == [(0, [5.0, 0.3])]


def test_the_scope_says_which_rows_count(tmp_path):
    for scope, score in (("last", 5.0), ("best", 5.0), ("mean", 3.0), ("last-5", 3.0)):
        search = Noted(0.3)
        climb(tmp_path / scope, search=search, scope=scope)
        assert search.told == [(0, [score])]


def test_an_end_without_news_counts_no_row_twice(tmp_path):
    def reports(config):
        for height in (1, 2, 3):
            tune.report({"height": height})

    script = Script({})
    climb(tmp_path / "x", reports, search=Noted(0.3), scheduler=script)
    assert [row["height"] for row in history_of(tmp_path / "x").trials["00000"].rows] == [1, 2, 3]
    assert script.heard == [("00000", 1.0, 1.0), ("00000", 2.0, 2.0), ("00000", 3.0, 3.0)]


def test_a_metric_that_nobody_reports_ends_the_experiment_with_its_first_trial(tmp_path):
    with pytest.raises(ConfigError, match="metric = hight: 00000 is over and has never reported it.*'height'"):
        climb(tmp_path / "x", metric="hight")
    assert len(history_of(tmp_path / "x").trials) == 1


def test_a_function_is_judged_by_its_score(tmp_path):
    analysis = tune.run(trainable=lambda config: config["x"], config={"x": tune.grid_search([1, 3, 2])},
                        folder=tmp_path / "x", place="here", console="quiet")  # fmt: skip
    assert analysis.best().params == {"x": 3}


def test_a_trial_without_a_number_is_told_as_a_failure(tmp_path):
    class Silent(Climb):
        def step(self):
            return {"height": None}

    search = Noted(0.3)
    climb(tmp_path / "x", Silent, search=search)
    assert search.told == [(0, None)]


# --- failures -------------------------------------------------------------------------------------------------------


class Falls(Climb):
    """Raises at its third step where it is steep."""

    def step(self):
        row = super().step()
        if self.x > 0.5 and self.height > 2:
            raise RuntimeError("too steep for me")
        return row


def test_a_trial_that_raises_ends_with_its_traceback_and_others_go_on(tmp_path):
    search = Noted(0.3, 0.8, 0.1)
    climb(tmp_path / "x", Falls, search=search)
    trials = history_of(tmp_path / "x").trials
    assert [trial.status.value for trial in trials.values()] == ["TERMINATED", "ERROR", "TERMINATED"]
    failed = trials["00001"]
    assert failed.reason == "RuntimeError: too steep for me"
    text = (failed.folder / "error.txt").read_text()
    assert 'raise RuntimeError("too steep for me")' in text
    assert "rookery/tune" not in text
    assert search.told[1] == (1, [pytest.approx(1.5)])  # what it had come to


def test_a_trial_that_raises_goes_on_from_its_checkpoint_as_often_as_is_allowed(tmp_path):
    class Twice(Climb):
        falls: ClassVar[int] = 0

        def step(self):
            row = super().step()
            if round(self.height) == 4 and Twice.falls < 2:
                Twice.falls += 1
                raise RuntimeError("slipped")
            return row

    climb(tmp_path / "x", Twice, search=Noted(0.3), save_every=2, max_failures=2)
    trial = history_of(tmp_path / "x").trials["00000"]
    assert (trial.status, trial.failures) == (Status.TERMINATED, 2)
    assert [row["height"] for row in trial.rows] == [1, 2, 3, 4, 5]
    Twice.falls = 0
    climb(tmp_path / "y", Twice, search=Noted(0.3), save_every=2, max_failures=1)
    assert history_of(tmp_path / "y").trials["00000"].status is Status.ERROR


def test_a_class_that_cannot_be_set_up_fails_alone(tmp_path):
    class Shy(Climb):
        def setup(self, config):
            super().setup(config)
            if self.x > 0.5:
                raise ValueError("no")

    climb(tmp_path / "x", Shy, search=Noted(0.8, 0.3))
    assert [t.status.value for t in history_of(tmp_path / "x").trials.values()] == ["ERROR", "TERMINATED"]


def test_a_full_disk_stops_the_experiment_and_no_trial_is_to_blame(tmp_path):
    class Crowded(Climb):
        def save_checkpoint(self, folder):
            if not os.environ.get("ROOM"):
                raise OSError(errno.ENOSPC, "No space left on device")
            super().save_checkpoint(folder)

    with pytest.raises(FileError, match=r"trial 00000: OSError.*No space left.*free some disk space.*tune resume"):
        climb(tmp_path / "x", Crowded)
    assert [record for record in read(tmp_path / "x") if record["kind"] == "failure"] == []
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("ROOM", "1")
        climb(tmp_path / "x", Crowded, resume=True)
    climb(tmp_path / "y")
    assert outcome(tmp_path / "x") == outcome(tmp_path / "y")


def test_a_disk_that_is_full_for_the_runner_is_told_too(tmp_path, monkeypatch):
    def full(self, *arguments, **keywords):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(FileError, match=r"No space left on device; free some disk space"):
        climb(tmp_path / "x")


# --- schedulers -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ScriptConfig(SchedulerConfig):
    """Nothing to set."""


class Script(Scheduler):
    """Returns the given actions when a trial reports an iteration."""

    def __init__(self, lines, drained=None):
        super().__init__(ScriptConfig(), {}, Streams(0))
        self.lines, self.heard, self.when_drained = dict(lines), [], drained or {}

    def milestone(self, trial):
        return 2.0

    def on_result(self, trial, time, score):
        self.heard.append((trial, time, round(score, 6)))
        return self.lines.pop((trial, time), {})

    def drained(self, paused):
        return self.when_drained or super().drained(paused)


def test_a_scheduler_hears_the_age_and_the_score_of_which_more_is_better(tmp_path):
    script = Script({})
    climb(tmp_path / "x", search=Noted(0.3), scheduler=script, mode="min")
    assert script.heard == [("00000", age, -age) for age in (1.0, 2.0, 3.0, 4.0, 5.0)]


def test_what_a_scheduler_says_of_a_trial_that_is_over_does_not_count(tmp_path):
    script = Script({
        ("00000", 2.0): {"00000": Action.PAUSE},
        ("00001", 5.0): {"00001": Action.PAUSE, "00000": Action.CONTINUE},
    })  # fmt: skip
    climb(tmp_path / "x", search=Noted(0.3, 0.3), scheduler=script)
    first, second = history_of(tmp_path / "x").trials.values()
    assert second.reason == "iteration 5 reached 5"
    assert first.iteration == 5


def test_a_stopped_trial_is_saved_and_over(tmp_path):
    script = Script({("00000", 3.0): {"00000": Action.STOP}})
    climb(tmp_path / "x", search=Noted(0.3, 0.3), scheduler=script)
    first, second = history_of(tmp_path / "x").trials.values()
    assert (first.iteration, first.reason) == (3, "stopped by the scheduler")
    assert second.iteration == 5
    assert last_good(first.folder / "checkpoints").name == "000003"


def test_a_paused_trial_gives_its_place_away_and_goes_on_when_it_may(tmp_path):
    script = Script({
        ("00000", 2.0): {"00000": Action.PAUSE},
        ("00001", 3.0): {"00001": Action.PAUSE, "00000": Action.CONTINUE},
        ("00000", 4.0): {"00001": Action.STOP},
    })  # fmt: skip
    climb(tmp_path / "x", search=Noted(0.3, 0.3), scheduler=script)
    order = [(record["trial"], record["iteration"]) for record in read(tmp_path / "x") if record["kind"] == "result"]
    assert order == [("00000", 1), ("00000", 2), ("00001", 1), ("00001", 2), ("00001", 3),
                     ("00000", 3), ("00000", 4), ("00000", 5)]  # fmt: skip
    first, second = history_of(tmp_path / "x").trials.values()
    assert [row["height"] for row in first.rows] == [1, 2, 3, 4, 5]
    assert (second.status, second.iteration) == (Status.TERMINATED, 3)


def test_trials_that_nobody_lets_go_on_are_asked_about(tmp_path):
    script = Script({("00000", 2.0): {"00000": Action.PAUSE}, ("00001", 2.0): {"00001": Action.PAUSE}},
                    drained={"00000": Action.STOP, "00001": Action.CONTINUE})  # fmt: skip
    climb(tmp_path / "x", search=Noted(0.3, 0.3), scheduler=script)
    assert [trial.iteration for trial in history_of(tmp_path / "x").trials.values()] == [2, 5]


def test_a_clone_takes_over_where_its_donor_stands(tmp_path):
    script = Script({
        ("00000", 2.0): {"00000": Action.PAUSE},
        ("00001", 2.0): {"00001": Exploit("00000", {"x": 1.3}), "00000": Action.CONTINUE},
    })  # fmt: skip
    climb(tmp_path / "x", search=Noted(0.3, 0.8), scheduler=script)
    donor, clone = history_of(tmp_path / "x").trials.values()
    assert [row["height"] for row in donor.rows] == [1, 2, 3, 4, 5]
    # two steps of its own at 0.75, then 2.0 of the donor, and no gain with x = 1.3
    assert [row["height"] for row in clone.rows] == pytest.approx([0.75, 1.5, 2.0, 2.0, 2.0])
    assert clone.parents == [(2, "00000")]
    assert clone.params == {"x": 1.3}


def test_cloning_what_cannot_be_saved_says_so(tmp_path):
    script = Script({("00001", 2.0): {"00001": Exploit("00000", {"x": 0.4})}})
    with pytest.raises(FileError, match="00000.*no checkpoint for 00001 to resume from"):
        climb(tmp_path / "x", Careless, search=Noted(0.3, 0.8), scheduler=script)


@pytest.mark.parametrize("name", ["nobody", "00000"])
def test_a_scheduler_that_decides_about_others_than_paused_trials_is_refused(tmp_path, name):
    script = Script({("00001", 2.0): {name: Action.STOP}})  # 00000 is over by then
    with pytest.raises(RuntimeError, match=f"Script decides about {name} after 00001"):
        climb(tmp_path / "x", search=Noted(0.3, 0.3), scheduler=script)


@pytest.mark.regression(
    "wrong result", "With fewer workers than trials, members of a population that does not wait yield to each other"
)
def test_members_that_share_one_worker_get_equally_old_together(tmp_path):
    climb(tmp_path / "x", search=Noted(0.3, 0.4, 0.6, 0.8), **KINDS["yielding"])
    results = [each for each in read(tmp_path / "x") if each["kind"] == "result"]
    began = list(dict.fromkeys(each["trial"] for each in results))
    turns = [trial for trial, _ in itertools.groupby(each["trial"] for each in results)]
    assert turns[:4] == began and len(turns) > 4
    assert any(trial.parents for trial in history_of(tmp_path / "x").trials.values())


# --- killed at any moment -------------------------------------------------------------------------------------------


class Killed(BaseException):
    """As if the process had been killed."""


def kill_at(monkeypatch, number, before):
    """From now on, the journal is killed at its record `number`, before or after it is written."""
    append, count = Journal.append, [0]

    def fatal(self, *records):
        count[0] += 1
        if count[0] == number and before:
            raise Killed
        append(self, *records)
        if count[0] == number:
            raise Killed

    monkeypatch.setattr(Journal, "append", fatal)


KINDS = {
    "random": {"num_samples": 3},
    "repeats": {"num_samples": 2, "repeats": 2},
    "asha": {"scheduler": tune.ASHAConfig(max_time=4, grace=1, reduction=2)},
    "hyperband": {"scheduler": tune.HyperBandConfig(max_time=4, reduction=2)},
    "pbt": {"scheduler": tune.PBTConfig(interval=2, quantile=0.25)},
    "pb2": {"scheduler": tune.PB2Config(interval=2, quantile=0.25)},
    "yielding": {"scheduler": tune.PBTConfig(interval=2, quantile=0.5, synchronous=False)},
}


STRIDE = 2 if WITHOUT_SLOW else 1
"""Between the records of a journal that a kill comes at."""


@pytest.mark.parametrize("before", [slow(True), False], ids=["before", "after"])
@pytest.mark.parametrize("kind", slow_except("hyperband", "yielding", of=KINDS))
def test_killed_at_any_record_it_comes_to_the_same(tmp_path, kind, before):
    climb(tmp_path / "whole", **KINDS[kind])
    wanted = outcome(tmp_path / "whole")
    written = [
        each for each in read(tmp_path / "whole") if not each.get("trial", "").endswith("-1") or each["kind"] != "trial"
    ]
    for record in range(1, len(written) + 1, STRIDE):  # trials that differ in their seed are one write
        folder = tmp_path / str(record)
        with pytest.MonkeyPatch.context() as patched:
            kill_at(patched, record, before)
            with pytest.raises(Killed):
                climb(folder, **KINDS[kind])
        climb(folder, **KINDS[kind], resume=True)
        assert outcome(folder) == wanted, record
        ended = [each["trial"] for each in read(folder) if each["kind"] == "end"]
        assert sorted(ended) == sorted(wanted), record


def test_a_torn_line_is_cut_away(tmp_path):
    climb(tmp_path / "x", num_samples=1)
    path = tmp_path / "x" / "journal.jsonl"
    with path.open("a") as file:
        file.write('{"kind":"trial","tri')
    climb(tmp_path / "x", num_samples=2, resume=True)
    assert [trial.status.value for trial in history_of(tmp_path / "x").trials.values()] == ["TERMINATED"] * 2


def test_a_damaged_journal_says_where(tmp_path):
    climb(tmp_path / "x", num_samples=1)
    path = tmp_path / "x" / "journal.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:2], "{nonsense", *lines[2:]]) + "\n")
    with pytest.raises(FileError, match=r"journal.jsonl:3: the line is not a record"):
        climb(tmp_path / "x", num_samples=1, resume=True)
    climb(tmp_path / "x", num_samples=1, force=True)
    assert len(history_of(tmp_path / "x").trials) == 1


def test_an_experiment_is_replaced_only_by_one_that_can_begin(tmp_path):
    climb(tmp_path / "x", num_samples=1)
    with pytest.raises(ConfigError, match="scheduler"):
        climb(tmp_path / "x", scheduler=tune.PBTConfig(mutations=["y"]), force=True)
    assert history_of(tmp_path / "x").trials["00000"].folder.exists()


# --- stopping and resuming ------------------------------------------------------------------------------------------


def test_ctrl_c_puts_trials_away_and_the_experiment_goes_on_later(tmp_path):
    class Interrupts(Climb):
        def step(self):
            if round(self.height, 6) == 3 and not os.environ.get("CALM"):
                os.kill(os.getpid(), signal.SIGINT)
            return super().step()

    with pytest.raises(Interrupted):
        climb(tmp_path / "x", Interrupts, search=Noted(0.3, 0.3))
    trials = history_of(tmp_path / "x").trials
    assert list(trials) == ["00000"]
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("CALM", "1")
        climb(tmp_path / "x", Interrupts, search=Noted(0.3, 0.3), resume=True)
    for trial in history_of(tmp_path / "x").trials.values():
        assert [row["height"] for row in trial.rows] == [1, 2, 3, 4, 5]


def test_after_its_seconds_an_experiment_puts_its_trials_away(tmp_path, monkeypatch):
    climb(tmp_path / "x", seconds=1e-9)
    assert not history_of(tmp_path / "x").trials
    climb(tmp_path / "x", resume=True)
    assert all(trial.status is Status.TERMINATED for trial in history_of(tmp_path / "x").trials.values())


def test_more_samples_can_be_asked_for_later(tmp_path):
    climb(tmp_path / "x", num_samples=2)
    climb(tmp_path / "x", num_samples=4, resume=True)
    climb(tmp_path / "y", num_samples=4)
    assert outcome(tmp_path / "x") == outcome(tmp_path / "y")


def test_more_samples_change_nothing_that_a_search_said_before(tmp_path, capsys):
    pytest.importorskip("optuna")
    climb(tmp_path / "x", search="optuna", num_samples=8, stop={"iteration": 1})
    climb(tmp_path / "x", search="optuna", num_samples=24, stop={"iteration": 1}, resume=True, console="plain")
    assert len(history_of(tmp_path / "x").trials) == 24
    assert "do not repeat themselves" not in capsys.readouterr().out


def test_a_finished_experiment_has_nothing_left_to_do(tmp_path):
    climb(tmp_path / "x")
    before = len(read(tmp_path / "x"))
    climb(tmp_path / "x", resume=True)
    assert [record["kind"] for record in read(tmp_path / "x")[before:]] == ["resume", "exhausted"]


def test_another_search_space_is_refused(tmp_path):
    climb(tmp_path / "x")
    with pytest.raises(ConfigError, match="search space: x.*uniform.*began with"):
        climb(tmp_path / "x", config={"x": tune.uniform(0.0, 2.0)}, resume=True)
    with pytest.raises(ConfigError, match="section tune: metric = .*began with height"):
        climb(tmp_path / "x", metric="iteration", resume=True)


def test_an_experiment_is_not_overwritten(tmp_path):
    climb(tmp_path / "x", num_samples=1)
    with pytest.raises(ConfigError, match="there is an experiment here already.*rookery tune resume"):
        climb(tmp_path / "x")
    climb(tmp_path / "x", num_samples=2, force=True)
    assert len(history_of(tmp_path / "x").trials) == 2


def test_two_runners_do_not_share_an_experiment(tmp_path):
    journal = Journal(tmp_path / "x")
    with pytest.raises(FileError, match="this experiment is running"):
        climb(tmp_path / "x", resume=True)
    journal.close()
