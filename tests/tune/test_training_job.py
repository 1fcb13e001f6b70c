"""A training as a trial: refused before it starts, in the middle of it, lost with its process, and taken up again."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import threading

import gymnasium as gym
import pytest
from worker_cases import checkpoints, event_of, rows, start, step

from rookery import Callback, DQNConfig, PPOConfig, Trainer, tune
from rookery.core.errors import ConfigError
from rookery.core.io.files import list_checkpoints
from rookery.core.settings.layers import Layer
from rookery.run.checkpoint.checkpoint import read_checkpoint
from rookery.tune.executor import Failed, Order, Stepped, Stopped
from rookery.tune.executors.in_process import InProcessExecutor
from rookery.tune.executors.processes import ProcessExecutor
from rookery.tune.jobs.training_job import TrainingJob
from rookery.tune.spec import domains_in, split_layers

TINY = PPOConfig(fragment_length=16, epochs=1, minibatch_size=32, model={"hidden": (8,)})
LR = "algorithm.lr"


def job(*, callbacks=(), stop=None, env="CartPole-v1", algorithm=TINY, preset="none", **values):
    """Tiny trainings, with a domain for the step size unless there are others."""
    usual = {
        "env.name": env,
        "algorithm": algorithm,
        "sampling.num_envs": 2,
        "stop": {"iterations": 6},
        "checkpoint.every": 2,
        "logging.tensorboard": False,
    }
    given = {path.replace("__", "."): value for path, value in values.items()} or {LR: tune.uniform(1e-4, 1e-2)}
    fixed, undecided = split_layers([Layer("code", usual), Layer("more", given)])
    made = TrainingJob(fixed, undecided, preset, callbacks, stop)
    made.space = domains_in(undecided)
    return made


@pytest.fixture
def here():
    """Makes a place in this process."""
    made = []

    def workers(job):
        made.append(InProcessExecutor(job, 1.0, 0.0, None))
        return made[-1]

    yield workers
    for each in made:
        each.close()


def learned(folder, name="00000"):
    """The weights in the last checkpoint of a trial."""
    return read_checkpoint(list_checkpoints(folder / name / "checkpoints")[-1]).state["policies"]


def told(row):
    """A row without what depends on the clock."""
    return {key: value for key, value in row.items() if not key.startswith("time/")}


# --- resuming -------------------------------------------------------------------------------------------------------


class DiesOnce(Callback):
    """Kills the first process after the third iteration, when the checkpoint of the second is the last."""

    def __init__(self, mark):
        self.mark = mark

    def on_iteration(self, trainer, result):
        if result.iteration == 3 and not self.mark.exists():
            self.mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_a_training_whose_process_was_killed_learns_what_an_undisturbed_one_learns(here, tmp_path):
    params = {LR: 1e-3}
    workers = here(job())
    workers.begin(start(tmp_path, "whole", **params))
    known, event = 0, step(workers, "whole")
    while not event.reason:
        known += 1
        event = step(workers, "whole", known)
    workers.end("whole", save=True)

    others = ProcessExecutor(job(callbacks=[DiesOnce(tmp_path / "mark")]), 1.0, 0.0, 1)
    try:
        others.begin(start(tmp_path, "killed", **params))
        assert [type(step(others, "killed", known)) for known in range(2)] == [Stepped, Stepped]
        assert step(others, "killed", known=2).lost
        assert [row["iteration"] for row in rows(tmp_path, "killed")] == [1, 2, 3]
        others.end("killed", save=False)
        others.begin(start(tmp_path, "killed", **params))
        events = [step(others, "killed", known) for known in range(2, 6)]
        others.end("killed", save=True)
    finally:
        others.close()
    assert [event.row["iteration"] for event in events] == [3, 4, 5, 6]
    assert events[-1].reason == "iterations 6 reached 6"
    assert [told(row) for row in rows(tmp_path, "killed")] == [told(row) for row in rows(tmp_path, "whole")]
    assert repr(learned(tmp_path, "killed")) == repr(learned(tmp_path, "whole"))


def test_a_clone_equals_its_donor_until_its_parameters_differ(here, tmp_path):
    workers = here(job())
    workers.begin(start(tmp_path, "donor", **{LR: 1e-3}))
    step(workers, "donor")
    workers.end("donor", save=True)
    for name in ("same", "other"):
        shutil.copytree(tmp_path / "donor" / "checkpoints", start(tmp_path, name).folder / "checkpoints")
    came_to = {}
    for name, lr in (("donor", 1e-3), ("same", 1e-3), ("other", 5e-3)):
        workers.begin(start(tmp_path, name, **{LR: lr}))
        step(workers, name, known=1)
        workers.end(name, save=True)
        came_to[name] = repr(learned(tmp_path, name))
    assert came_to["same"] == came_to["donor"]
    assert came_to["other"] != came_to["donor"]


def test_the_last_iteration_is_told_with_its_reason_when_its_news_were_lost(here, tmp_path):
    workers = here(job(stop=None))
    workers.begin(start(tmp_path, **{LR: 1e-3}))
    for known in range(6):
        step(workers, known=known)
    workers.end("00000", save=True)
    before = rows(tmp_path)
    workers.begin(start(tmp_path, **{LR: 1e-3}))
    event = step(workers, known=5)
    assert (event.row, event.reason) == (before[-1], "iterations 6 reached 6")
    assert rows(tmp_path) == before


def test_a_stop_function_ends_a_trial_and_still_does_when_it_is_taken_up(here, tmp_path):
    workers = here(job(stop=lambda result: result.iteration >= 2))
    workers.begin(start(tmp_path, **{LR: 1e-3}))
    assert [step(workers, known=known).reason for known in range(2)] == ["", "the stop function said so"]
    workers.end("00000", save=True)
    workers.begin(start(tmp_path, **{LR: 1e-3}))
    event = step(workers, known=2)
    assert (event.row["iteration"], event.reason) == (2, "the stop function said so")


def test_an_interrupted_training_stops_within_its_iteration_and_goes_on_exactly(here, tmp_path):
    class Asks(Callback):
        def on_episode_step(self, episode):
            if not asked and workers[0]._trial_worker._work.iteration == 1:
                asked.append(True)
                workers[0].interrupt()

    asked, workers = [], []
    workers.append(here(job(callbacks=lambda: [Asks()])))
    workers[0].begin(start(tmp_path, **{LR: 1e-3}))
    step(workers[0])
    assert step(workers[0], known=1) == Stopped("00000")
    workers[0].end("00000", save=False)
    whole = here(job())
    whole.begin(start(tmp_path, "whole", **{LR: 1e-3}))
    workers[0].begin(start(tmp_path, **{LR: 1e-3}))
    step(whole, "whole")
    for known in range(1, 4):
        assert told(step(workers[0], known=known).row) == told(step(whole, "whole", known).row)


def test_sigterm_reaches_a_training_in_another_process(tmp_path):
    endless = job(env=Slippery, stop__iterations=10**6, sampling__iteration_steps=10**7)
    workers = ProcessExecutor(endless, 1.0, 0.0, 1)
    settings = tmp_path / "00000" / "config.yaml"
    try:
        workers.begin(start(tmp_path))
        workers.order("00000", Order(0))
        while not settings.exists():
            assert workers.wait(0.05) is None
        assert workers.wait(0.5) is None  # an iteration takes minutes
        workers.interrupt()
        assert event_of(workers) == Stopped("00000")
        workers.end("00000", save=False)
    finally:
        workers.close()
    assert checkpoints(tmp_path) == [0]
    assert re.search(r"env_processes: 0 +# measured", settings.read_text())  # its one core is enough to know


def test_a_checkpoint_is_not_written_twice(here, tmp_path):
    workers = here(job())
    workers.begin(start(tmp_path, **{LR: 1e-3}))
    step(workers, save_at=("env_steps", 32))
    assert checkpoints(tmp_path) == [1]
    workers.end("00000", save=True)
    assert checkpoints(tmp_path) == [1]


def test_notes_are_in_the_log_and_the_run_directory_is_an_ordinary_one(here, tmp_path, capsys):
    workers = here(job(preset="auto", stop__iterations=1))
    workers.begin(start(tmp_path))
    step(workers)
    workers.end("00000", save=True)
    assert "note: preset" in (tmp_path / "00000" / "log.txt").read_text()
    assert capsys.readouterr() == ("", "")
    with Trainer.load(tmp_path / "00000") as trainer:
        assert trainer.seed == 11
        assert trainer.iteration == 1


def test_parameters_win_over_everything_else_and_are_noted_as_the_trials(here, tmp_path):
    workers = here(job(algorithm__model__hidden=[tune.choice([8, 16]), 8], seed=tune.grid_search([5, 6])))
    workers.begin(start(tmp_path, **{"algorithm.model.hidden.0": 16, "seed": 6}))
    step(workers)
    workers.end("00000", save=True)
    with Trainer.load(tmp_path / "00000") as trainer:
        assert trainer.seed == 6
        assert trainer.resolved.history["algorithm.model.hidden"][-1] == ("trial 00000", (16, 8))


# --- what is not found by import, what raises -----------------------------------------------------------------------


class Slippery(gym.Wrapper):
    """CartPole, until it slips."""

    def __init__(self, slips_at=10**9):
        super().__init__(gym.make("CartPole-v1"))
        self.left = slips_at

    def step(self, action):
        self.left -= 1
        if self.left < 0:
            raise RuntimeError("slipped")
        return super().step(action)


def test_what_an_environment_raises_is_told_from_its_own_line_and_where(here, tmp_path):
    workers = here(job(env=Slippery, env__config={"slips_at": 20}))
    workers.begin(start(tmp_path))
    event = step(workers, known=0)
    event = event if isinstance(event, Failed) else step(workers, known=1)
    assert 'raise RuntimeError("slipped")' in event.traceback
    assert event.traceback.splitlines()[1].endswith("in step")
    assert "environment 0" in event.problem
    assert "\n" not in event.problem


class Clumsy(Callback):
    """Raises."""

    def on_iteration(self, trainer, result):
        raise KeyError("lost it")


def test_what_a_callback_raises_is_told_from_its_own_line(here, tmp_path):
    workers = here(job(callbacks=[Clumsy()]))
    workers.begin(start(tmp_path, **{LR: 1e-3}))
    event = step(workers)
    assert event.problem == "KeyError: 'lost it'"
    assert event.traceback.splitlines()[1].endswith("in on_iteration")
    assert "trainer.py" not in event.traceback


def test_an_environment_that_no_import_finds_is_given_again_when_a_trial_goes_on(here, tmp_path):
    class Local(Slippery):
        pass

    Local.__qualname__ = "Local"  # as cloudpickle makes it in another process
    workers = here(job(env=Local))
    for known in range(2):
        workers.begin(start(tmp_path, **{LR: 1e-3}))
        assert isinstance(step(workers, known=known), Stepped)
        workers.end("00000", save=True)
    assert [row["iteration"] for row in rows(tmp_path)] == [1, 2]


class Tally(Callback):
    """Counts the iterations it has seen."""

    def __init__(self):
        self.seen = 0

    def on_iteration(self, trainer, result):
        self.seen += 1
        print(f"seen {self.seen}")


@pytest.mark.parametrize("callbacks", [[Tally()], lambda: [Tally()]], ids=["objects", "factory"])
def test_each_trial_has_callbacks_of_its_own(here, tmp_path, callbacks):
    workers = here(job(callbacks=callbacks))
    for name in "ab":
        workers.begin(start(tmp_path, name, **{LR: 1e-3}))
        step(workers, name)
        workers.end(name, save=False)
        assert (tmp_path / name / "log.txt").read_text().endswith("seen 1\n")


def test_callbacks_that_cannot_be_copied_are_asked_for_as_a_function(here, tmp_path):
    callback = Tally()
    callback.lock = threading.Lock()
    with pytest.raises(ConfigError, match="give a function that makes them"):
        job(callbacks=[callback]).check({})


# --- before any trial starts ----------------------------------------------------------------------------------------


def problems(**values):
    made = job(**values)
    with pytest.raises(ConfigError) as caught:
        made.check(made.space)
    return caught.value.problems


def test_a_good_space_is_accepted():
    made = job(
        algorithm__lr=tune.loguniform(1e-5, 1e-2),
        algorithm__model__hidden=tune.grid_search([[8], [16, 16]]),
        sampling__num_envs=tune.qrandint(2, 8, 2),
        algorithm__gamma=tune.sample_from(lambda config: 0.9),
    )
    made.check(made.space)


def test_a_grid_value_of_a_wrong_type_is_named():
    (line,) = problems(algorithm__lr=tune.grid_search([1e-3, "fast"]))
    assert line.startswith("grid_search value 2 of algorithm.lr: algorithm.lr = 'fast': must be a number above 0")


def test_an_end_of_a_domain_that_is_out_of_range_is_named():
    (line,) = problems(algorithm__gamma=tune.uniform(0.9, 1.5))
    assert line.startswith("upper end of algorithm.gamma: algorithm.gamma = 1.5: must be a number from 0 to 1")


def test_an_unknown_path_is_named_once_with_the_nearest():
    (line,) = problems(algorithm__gama=tune.grid_search([0.9, 0.99]))
    assert "algorithm.gama = 0.9: there is no such setting; did you mean 'algorithm.gamma'?" in line


def test_all_mistakes_come_at_once():
    lines = problems(algorithm__lr=tune.choice([-1.0, 1e-3, "x"]), sampling__num_envs=tune.uniform(0, 4))
    assert [line.split(":")[0] for line in lines] == [
        "lower end of sampling.num_envs", "choice value 1 of algorithm.lr", "choice value 3 of algorithm.lr"
    ]  # fmt: skip


def test_what_only_a_trainer_can_refuse_is_refused_too():
    (line,) = problems(env="Pendulum-v1", algorithm=DQNConfig(), algorithm__gamma=tune.uniform(0, 1))
    assert "actions of Box(-2.0, 2.0, (1,), float32) have no table of Q-values" in line
    (line,) = problems(**{"stop.evaluation/return_mean": 3})
    assert "there are no evaluations during training" in line


def test_a_training_that_nothing_ends_is_refused():
    fixed = [Layer("code", {"env.name": "CartPole-v1"})]
    with pytest.raises(ConfigError, match="nothing ends this training"):
        TrainingJob(fixed, {}, "none").check({})


def test_an_environment_that_raises_is_left_to_the_trials():
    made = job(env=Slippery, env__config={"slips_at": -1})
    made.check({})


def test_cores_follow_from_the_settings():
    assert job().cpus == 1.0
    assert job(sampling__helpers=3).cpus == 4.0
    assert job(threads=2).cpus == 2.0


def test_the_description_is_plain_and_repeats_itself():
    made, again = (job(callbacks=[Tally()], env=Slippery, stop=problems) for _ in range(2))
    assert made.describe() == again.describe()
    described = json.loads(json.dumps(made.describe()))
    assert described["settings"]["env"] == {"name": "test_training_job:Slippery"}
    assert described["callbacks"] == ["test_training_job:Tally"]
    assert made.title == "Slippery-ppo"
    assert job(algorithm=DQNConfig()).title == "CartPole-v1-dqn"
