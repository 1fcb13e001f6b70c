"""Tests of the base class of schedulers, FIFO, and the simulated runner of the tests of schedulers."""

import itertools
import math

import numpy as np
import pytest
from simulation import Simulation, hill, on_curve, replay

from rookery import tune
from rookery.core.seeding import Streams
from rookery.core.settings.layers import import_object
from rookery.tune.journal import read
from rookery.tune.names import SCHEDULERS
from rookery.tune.scheduler import FIFO, Action, Exploit, FIFOConfig, Scheduler, SchedulerConfig
from rookery.tune.schedulers.asha import ASHAConfig
from rookery.tune.schedulers.hyperband import HyperBandConfig
from rookery.tune.schedulers.median import MedianConfig
from rookery.tune.trial import Status
from selection import slow_repeats

STREAMS = Streams(0)


class Scripted(Scheduler):
    """Answers as given: {(trial, age): actions}."""

    def __init__(self, answers, at_drain=None, milestones=None):
        super().__init__(FIFOConfig(), {}, STREAMS)
        self.answers = answers
        self.at_drain = at_drain
        self.milestones = milestones or {}

    def milestone(self, trial):
        return self.milestones.get(trial)

    def on_result(self, trial, time, score):
        return self.answers.get((trial, time), {})

    def drained(self, paused):
        return super().drained(paused) if self.at_drain is None else self.at_drain


def simulate(scheduler, number, **keywords):
    keywords = {"ends": lambda trial: trial.age >= 4} | keywords
    suggestions = [{"x": i} for i in range(number)]
    return Simulation(scheduler, suggestions, on_curve(lambda params, age: params["x"] + age), **keywords).run()


def test_fifo_lets_every_trial_run_to_its_end():
    done = simulate(FIFO(FIFOConfig(), {}, STREAMS), 5, places=2)
    assert done.spent == 5 * 4
    assert [trial.reason for trial in done.trials.values()] == ["own end"] * 5
    replay(done, FIFO(FIFOConfig(), {}, STREAMS))


def test_what_is_paused_goes_on_when_nothing_else_is_left():
    done = simulate(Scripted({("00000", 2): {"00000": Action.PAUSE}}), 3, places=1)
    assert [call[1][0] for call in done.calls if call[0] == "on_end"] == ["00001", "00002", "00000"]
    assert [call[:2] for call in done.calls if call[0] == "drained"] == [("drained", (["00000"],))]
    assert done.spent == 3 * 4


def test_who_goes_on_is_before_who_is_new():
    answers = {("00000", 1): {"00000": Action.PAUSE}, ("00001", 2): {"00000": Action.CONTINUE}}
    done = simulate(Scripted(answers), 3, places=1)
    assert [call[1][0] for call in done.calls if call[0] == "on_end"] == ["00001", "00000", "00002"]


def test_a_clone_goes_on_from_its_donors_checkpoint():
    answers = {("00001", 3): {"00001": Exploit("00000", {"x": 7})}}
    states = {}

    def learn(state, params, age):
        state["sum"] = state.get("sum", 0) + params["x"]
        states[params["x"], age] = state["sum"]
        return state["sum"]

    suggestions = [{"x": 10}, {"x": 1}]
    scheduler = Scripted(answers, milestones={"00000": 2, "00001": 2})
    done = Simulation(
        scheduler, suggestions, learn, places=2, start=lambda params: {}, ends=lambda trial: trial.age >= 4
    ).run()
    clone = done.trials["00001"]
    assert clone.parents == [(3, "00000")]
    assert clone.params == {"x": 7}
    assert clone.reports == [(1, 1), (2, 2), (3, 3), (4, 37)], "the donor's state of age 3, 30, and 7 more"
    assert clone.spent == 4
    assert done.trials["00000"].state == {"sum": 40}, "what the clone does leaves its donor alone"


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        ({"00009": Action.STOP}, "nobody knows"),
        ({"00001": Action.STOP}, "which is RUNNING"),
        ({"00000": Exploit("00001", {})}, "no checkpoint"),
        ({"00000": Exploit("00007", {})}, "nobody knows"),
    ],
)
def test_the_simulation_refuses_what_no_runner_could_do(answers, says):
    with pytest.raises(AssertionError, match=says):
        simulate(Scripted({("00000", 2): answers}), 2)


def test_the_simulation_notices_that_nobody_can_go_on():
    with pytest.raises(AssertionError, match="deadlock"):
        simulate(Scripted({("00000", 2): {"00000": Action.PAUSE}}, at_drain={}), 2)


def test_a_trial_that_fails_is_over_and_its_place_is_free():
    done = simulate(Scripted({}), 3, places=1, fails=lambda trial: trial.name == "00001" and trial.age == 2)
    assert [trial.status for trial in done.trials.values()] == [Status.TERMINATED, Status.ERROR, Status.TERMINATED]
    assert done.spent == 4 + 2 + 4


STOPPERS = [
    ASHAConfig(max_time=20, reduction=3, brackets=2),
    ASHAConfig(max_time=30, grace=2.5, reduction=2),
    HyperBandConfig(max_time=27),
    HyperBandConfig(max_time=20, grace=2, reduction=2),
    MedianConfig(),
    MedianConfig(grace=4, hard_stop=False),
]


def made(settings, seed):
    return import_object(settings.scheduler)(settings, {}, Streams(seed))


@pytest.mark.parametrize(("settings", "seed"), slow_repeats(of=itertools.product(STOPPERS, range(12))))
def test_whatever_happens_every_trial_ends_and_a_replay_says_the_same(settings, seed):
    """Trials that are fast or slow, fail, end on their own, take long strides, have no score, or equal ones."""
    rng = np.random.default_rng(seed)
    number = int(rng.integers(1, 60))
    suggestions = [
        {"x": int(rng.integers(5)), "stride": rng.choice([0.5, 1, 1, 3, 11]), "slow": rng.integers(1, 4), "i": i}
        for i in range(number)
    ]
    broken, ending, silent = (set(rng.choice(number, number // 4).tolist()) for _ in range(3))
    done = Simulation(
        made(settings, seed),
        suggestions,
        on_curve(lambda params, age: -math.inf if params["i"] in silent and age < 9 else params["x"]),
        places=int(rng.integers(1, 9)),
        stride=lambda params: params["stride"],
        duration=lambda params: params["slow"],
        fails=lambda trial: trial.params["i"] in broken and trial.age > trial.params["i"] % 7,
        ends=lambda trial: trial.age >= (trial.params["i"] % 9 if trial.params["i"] in ending else 40),
    ).run(limit=number * 100)
    assert len(done.trials) == number
    replay(done, made(settings, seed))


class Climber:
    """`hill` as a trial that can be paused."""

    def setup(self, config):
        self.config, self.age = config, 0

    def step(self):
        self.age += 1
        return {"score": hill(self.config, self.age)}

    def save_checkpoint(self, folder):
        (folder / "age").write_text(str(self.age))

    def load_checkpoint(self, folder):
        self.age = int((folder / "age").read_text())


@pytest.mark.parametrize(
    "settings",
    [ASHAConfig(max_time=27, reduction=3, brackets=2), HyperBandConfig(max_time=9), MedianConfig(hard_stop=False)],
    ids=lambda settings: type(settings).__name__,
)
def test_the_simulation_does_what_the_runner_does(settings, tmp_path):
    """The same parameters, one at a time: each trial comes as far, and ends in the same order."""
    analysis = tune.run(
        trainable=Climber,
        config={"x": tune.uniform(0, 1), "delay": tune.uniform(1, 6)},
        stop={"iteration": 20},
        metric="score",
        num_samples=25,
        scheduler=settings,
        place="here",
        seed=4,
        folder=tmp_path / "experiment",
        console="quiet",
        save_every=0,
    )
    done = Simulation(
        made(settings, 4), [trial.params for trial in analysis.trials], on_curve(hill), places=1,
        ends=lambda trial: trial.age >= 20,
    ).run()  # fmt: skip
    assert [trial.iteration for trial in analysis.trials] == [trial.age for trial in done.trials.values()]
    assert [trial.score for trial in analysis.trials] == [trial.score for trial in done.trials.values()]
    ended = [record["trial"] for record in read(tmp_path / "experiment") if record["kind"] == "end"]
    assert ended == [call[1][0] for call in done.calls if call[0] == "on_end"]


def test_a_replay_notices_another_seed():
    settings = ASHAConfig(max_time=20, reduction=2, brackets=3)
    suggestions = [{"x": i % 7} for i in range(30)]
    done = Simulation(made(settings, 0), suggestions, on_curve(lambda params, age: params["x"])).run()
    replay(done, made(settings, 0))
    with pytest.raises(AssertionError):
        replay(done, made(settings, 1))


@pytest.mark.parametrize("name", SCHEDULERS)
def test_the_table_of_names_leads_to_a_scheduler(name):
    settings = import_object(SCHEDULERS[name])
    assert issubclass(settings, SchedulerConfig)
    scheduler = import_object(settings.scheduler)
    assert issubclass(scheduler, Scheduler)
    assert settings.scheduler == f"{scheduler.__module__}:{scheduler.__qualname__}"
