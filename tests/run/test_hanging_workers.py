"""Remote workers that hang, stop in the middle of a round, or are lost: effect on the run and its counts."""

from __future__ import annotations

import hashlib
import signal

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from rookery import A2CConfig, PPOConfig, Trainer
from rookery.core.errors import WorkerLostError
from rookery.core.process.activity import CALL, RESET, STEP, Activity, note_activity, noted_in
from rookery.core.process.interrupt import Interrupted


class Walk(gymnasium.Env):
    """Shows random numbers, and ends now and then; it is stepped one step at a time."""

    observation_space = spaces.Box(-1, 1, (3,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._seen(), {}

    def _seen(self):
        return self.np_random.uniform(-1, 1, 3).astype(np.float32)

    def step(self, action):
        return self._seen(), float(action), bool(self.np_random.random() < 0.1), False, {}


PPO = PPOConfig(fragment_length=32, epochs=2, minibatch_size=48, model={"hidden": (16,)})


def trainer_of(workers=2, lanes=6, algorithm=PPO, sampling=None, **more):
    sampling = {"num_envs": lanes, "workers": workers, "warmup_steps": 0, **(sampling or {})}
    return Trainer(Walk, algorithm, seed=3, sampling=sampling, cluster={"ray": "here"}, **more)


def weights_of(trainer):
    found = hashlib.sha256()
    for tensor in [*trainer.policies["main"].parameters(), *trainer.policies["main"].buffers()]:
        found.update(tensor.detach().numpy().tobytes())
    return found.hexdigest()


class Slow:
    """Stands before the hosts of a trainer: the calls of one worker are not answered while they are held back.

    Args:
        trainer: The trainer.
        share: Whose calls.
    """

    def __init__(self, trainer, share):
        self.hosts, self.share, self.holds, self.hurried = trainer._pool.hosts, share, False, []
        trainer._pool.hosts = self

    def __getattr__(self, name):
        return getattr(self.hosts, name)

    def ready(self, tickets, seconds):
        free = [ticket for ticket in tickets if not self.holds or ticket.share != self.share]
        return self.hosts.ready(free, seconds) if free else []

    def hurry(self, is_stopping):
        self.hurried.append(is_stopping)
        if is_stopping:
            self.when_hurried()

    def when_hurried(self):
        """The worker counts as hung, so its call is over."""
        self.hosts.lose(self.share)
        self.holds = False


def interrupted_when_played(trainer, share, holds):
    """Makes the first Ctrl-C arrive while the worker of a share is called."""
    slow = holds(trainer, share)
    order = trainer._pool._order

    def ordered(one, *given):
        order(one, *given)
        if one.share.number == share and not slow.holds and not slow.hurried:
            slow.holds = True
            signal.raise_signal(signal.SIGINT)

    trainer._pool._order = ordered
    with pytest.raises(Interrupted):
        trainer.train({"iterations": 50})
    return slow


@pytest.mark.regression(
    "no end", "an environment that hung in a worker on Ray stopped the run, and the first Ctrl-C did nothing"
)
@pytest.mark.parametrize("asynchronous", [False, True])
def test_after_a_signal_a_share_that_hangs_begins_anew_in_the_checkpoint(asynchronous, tmp_path):
    sampling = {"asynchronous": asynchronous, "iteration_steps": 240}
    with trainer_of(sampling=sampling, run_dir=tmp_path / "run") as trainer:
        trainer.train_iteration()
        slow = interrupted_when_played(trainer, 1, Slow)
        assert slow.hurried == [True]
        assert trainer._pool.counters()["workers_lost"] == 1
        assert [one.is_absent for one in trainer._pool.standing] == [False, True]
        steps, skipped = trainer.env_steps, trainer._pool.standing[1].share.skipped
    with Trainer.load(tmp_path / "run") as trainer:
        result = trainer.train_iteration()
        assert not result.exact
        assert result.env_steps > steps
        assert trainer._pool.standing[1].share.skipped == skipped
        assert result.counters["workers_lost"] == 1
        trainer.train_iteration()


def test_a_run_goes_on_in_its_process_after_a_share_has_begun_anew(tmp_path):
    with trainer_of(run_dir=tmp_path / "run") as trainer:
        slow = interrupted_when_played(trainer, 0, Slow)
        result = trainer.train({"iterations": 3})
        assert slow.hurried == [True, False]
        assert not any(one.is_absent for one in trainer._pool.standing)
        assert result.iteration == 3


class Stopped(Slow):
    """The worker stops after some of the vector steps that it was asked for."""

    def when_hurried(self):
        worker = self.hosts._workers[self.share]
        worker.interrupt.number, self.holds = int(signal.SIGTERM), False
        (call,) = [call for call in self.hosts._calls if call.share == self.share and call.method == "play"]
        self.hosts._do(call)
        worker.interrupt.number = None


@pytest.mark.parametrize("share", [0, 1])
def test_a_round_that_is_stopped_in_its_middle_comes_to_the_weights_of_one_that_is_not(share, tmp_path):
    with trainer_of() as trainer:
        for _ in range(4):
            trainer.train_iteration()
        expected = weights_of(trainer)
    with trainer_of(run_dir=tmp_path / "run") as trainer:
        trainer.train_iteration()
        interrupted_when_played(trainer, share, Stopped)
        steps = {one.vector_steps for one in trainer._pool.standing}
        assert len(steps) == 2, "one worker has stopped early, the other has not"
    with Trainer.load(tmp_path / "run") as trainer:
        while trainer.iteration < 4:
            result = trainer.train_iteration()
        assert result.exact
        assert weights_of(trainer) == expected


# --- what is lost -----------------------------------------------------------------------------------------------------


@pytest.mark.regression(
    "data lost", "steps that a lost worker had made and not reported were counted nowhere: decisions_lost said 0"
)
@pytest.mark.parametrize("asynchronous", [False, True])
def test_what_lost_workers_had_played_lies_between_the_two_counts(asynchronous):
    sampling = {"asynchronous": asynchronous, "iteration_steps": 240}
    with trainer_of(3, algorithm=A2CConfig(fragment_length=10, rollout_size=66), sampling=sampling) as trainer:
        seen, made, gone, pool = [], {}, 0, trainer._pool
        step = trainer.learners["main"].training_step
        trainer.learners["main"].training_step = lambda rollout: (seen.append(rollout.num_decisions), step(rollout))[1]
        for number in range(12):
            trainer.train_iteration()
            share = number % 3
            if number % 2 and (call := next((c for c in pool.hosts._calls if c.share == share), None)):
                pool.hosts._do(call)  # it has played, and its answer is lost with it
                call.answer, call.error = None, WorkerLostError("its machine is gone")
            if number % 2:
                worker = pool.hosts._workers[share].worker
                made[number] = worker.env_steps - pool.standing[share].vector_steps * worker.env.num_lanes
                gone += sum(pool.standing[share].complete.values()) + made[number]
                pool.hosts.lose(share)
        result = trainer.train_iteration()
    assert result.counters["workers_lost"] >= 6
    assert any(made.values()) == asynchronous
    assert result.counters["decisions_lost"] <= gone <= result.counters["decisions_lost_at_most"]


def test_rows_that_wait_for_what_comes_of_them_are_counted():
    with trainer_of() as trainer:
        trainer.train_iteration()
        before = trainer._pool.counters().get("decisions_lost", 0)
        trainer._pool.standing[0].pending = 3
        trainer._pool.standing[0].complete = {"main": 4}
        trainer._pool.hosts.lose(0)
        trainer.train_iteration()
        assert trainer._pool.counters()["decisions_lost"] - before == 7


# --- activity ---------------------------------------------------------------------------------------------------------


def test_a_worker_notes_its_activity_where_a_process_waits_for_it():
    said = []

    class Listening(Activity):
        __slots__ = ()

        def __setattr__(self, name, value):
            super().__setattr__(name, value)
            if name == "what":
                said.append(value)

    with trainer_of(1, lanes=2) as trainer, noted_in(Listening()):
        trainer.train_iteration()
    assert said[:3] == [CALL, STEP, RESET]
    assert said.count(STEP) >= 32 and said.count(RESET) > 2
    count = len(said)
    note_activity(STEP)
    assert len(said) == count, "nothing waits for this thread any more"


@pytest.mark.regression(
    "no end", "a worker on Ray that was frozen when it began to play was waited for as long as during a reset"
)
def test_a_worker_that_begins_to_play_or_hands_over_is_in_a_step(monkeypatch):
    at, said = Activity(), []
    with trainer_of(1, lanes=2) as trainer:
        trainer.train_iteration()
        worker = trainer._pool.hosts._workers[0]
        set_weights = worker.set_weights
        monkeypatch.setattr(worker, "set_weights", lambda *given: (said.append(at.what), set_weights(*given)))
        with noted_in(at):
            trainer.train_iteration()
        handing = Activity()
        with noted_in(handing):
            worker.take([])
    assert said == [STEP] and handing.what == STEP
