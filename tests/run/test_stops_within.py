"""A run that stops in the middle of an iteration, also between gradient steps: soon, exactly, and with a note."""

from __future__ import annotations

import contextlib
import signal
import threading
import time

import pytest
from lives import FAST, LIVELY, PRIORITIZED, REPLAYING, TWINS, digest, either, make, rows, weights

from rookery import AWACConfig, Callback, ConfigError, IQLConfig, MultiAgentArena, SACConfig, Trainer
from rookery.algorithms.multi_agent.maddpg import MADDPGConfig
from rookery.core.process.interrupt import TIME_UP, Interrupted
from rookery.report import console
from rookery.run import gradient_steps, watch
from selection import slow_except
from team_envs import Squad

stops = pytest.mark.regression(
    "no end", "A run stops in the middle of an iteration, when its time is up or at Ctrl-C, and loses nothing"
)

MANY = {"train_every": 20, "updates_per_step": 0.5}
"""Several gradient steps in each round."""
SOFT = {"batch_size": 16, "learning_starts": 40, "replay": {"capacity": 300}, "model": {"hidden": (16,)}, **MANY}
LONG = {"config": {"sampling.iteration_steps": 60}}

CASES = {
    "sac": {"env": "Pendulum-v1", "cfg": LIVELY.replace(**MANY, model={"normalize_obs": True}), **LONG},
    "td3": {"env": "Pendulum-v1", "cfg": TWINS.replace(**MANY), **LONG},
    "dqn, prioritized": {"env": "CartPole-v1", "cfg": PRIORITIZED.replace(**MANY), **LONG},
    "iql": {"env": "Pendulum-v1", "cfg": IQLConfig(**SOFT), **LONG},
    "awac": {"env": "CartPole-v1", "cfg": AWACConfig(**SOFT), **LONG},
    "ppo and dqn": {
        "env": MultiAgentArena,
        "policies": {"a": FAST, "b": REPLAYING.replace(**MANY)},
        "policy_mapping": either,
        "env_config": {"max_timesteps": 23},
    },
    "two of them": {
        "env": MultiAgentArena,
        "policies": {"a": REPLAYING.replace(**MANY), "b": PRIORITIZED.replace(**MANY)},
        "policy_mapping": {"agent1": "a", "agent2": "b"},
        "env_config": {"max_timesteps": 23},
        **LONG,
    },
    "maddpg": {
        "env": Squad,
        "teams": {"blue": ("a", "b", "c")},
        "policy_mapping": {"blue": "blue", "guard": "guard"},
        "policies": {"blue": MADDPGConfig(**SOFT), "guard": REPLAYING.replace(**MANY)},
        **LONG,
    },
    "played ahead": {
        "env": "CartPole-v1",
        "cfg": REPLAYING.replace(**MANY),
        "config": {"sampling.staleness": 1, "sampling.iteration_steps": 60},
    },
}
ITERATIONS = 4


def stop_at(trainer, number, asked=signal.SIGINT):
    """Asks a trainer to stop after so many more gradient steps on replay."""
    counted = [0]
    for replay in trainer.replays.values():

        def record(metrics, own=replay.record):
            own(metrics)
            counted[0] += 1
            if counted[0] == number:
                trainer._interrupt.number = asked

        replay.record = record


@stops
@pytest.mark.parametrize("name", slow_except("two of them", of=CASES))
def test_a_run_that_stops_between_two_gradient_steps_is_the_run_that_did_not(name, tmp_path, monkeypatch):
    with make(run_dir=tmp_path / "whole", **CASES[name]) as trainer:
        trainer.train({"iterations": ITERATIONS})
        expected = digest(trainer), weights(trainer), rows(tmp_path / "whole")
    folder, within = tmp_path / "stopped", 0
    for number, chunk in ((3, 1), (1, 1), (11, 4), (8, 10), (None, 10)):
        monkeypatch.setattr(gradient_steps, "CHUNK", chunk)
        begun = (folder / "checkpoints").exists()
        trainer = Trainer.load(folder, resume=True) if begun else make(run_dir=folder, **CASES[name])
        with trainer:
            if number is not None:
                stop_at(trainer, number)
            with contextlib.suppress(Interrupted):
                trainer.train({"iterations": ITERATIONS})
            within += trainer._progress is not None and bool(trainer._progress.round and trainer._progress.round.left)
            if number is None:
                assert (digest(trainer), weights(trainer), rows(folder)) == expected
    assert within >= 2  # more than one stop was in the middle of the steps of a round


@stops
@pytest.mark.slow
def test_a_trainer_that_stopped_between_two_gradient_steps_goes_on_in_the_same_process(tmp_path, monkeypatch):
    monkeypatch.setattr(gradient_steps, "CHUNK", 1)
    with make(run_dir=tmp_path / "whole", **CASES["two of them"]) as trainer:
        trainer.train({"iterations": ITERATIONS})
        expected = digest(trainer), weights(trainer), rows(tmp_path / "whole")
    with make(run_dir=tmp_path / "stopped", **CASES["two of them"]) as trainer:
        stop_at(trainer, 5)
        with pytest.raises(Interrupted):
            trainer.train({"iterations": ITERATIONS})
        assert trainer._progress.round.left
        trainer.train({"iterations": ITERATIONS})
        assert (digest(trainer), weights(trainer), rows(tmp_path / "stopped")) == expected


@stops
def test_a_stop_while_sampling_is_paused_is_between_gradient_steps(tmp_path, monkeypatch):
    monkeypatch.setattr(gradient_steps, "CHUNK", 1)
    found = []
    for stopped in (False, True):
        folder = tmp_path / str(stopped)
        with make(run_dir=folder, env="CartPole-v1", cfg=REPLAYING.replace(updates_per_step=1.0), **LONG) as trainer:
            trainer.train({"iterations": 2})
            trainer.pause_sampling()
            if stopped:
                stop_at(trainer, 25)
                with pytest.raises(Interrupted):
                    trainer.train({"iterations": 4})
                assert trainer._progress.round.left
            else:
                trainer.train({"iterations": 4})
        with Trainer.load(folder, resume=True) as trainer:
            trainer.train({"iterations": 5})
            found.append((digest(trainer), weights(trainer), rows(folder)))
    assert found[0] == found[1]


def slow_learning(seconds):
    """Settings of a learner whose every gradient step takes so long, as seen by `Trainer.learners`."""

    class Slow(Callback):
        def on_train_start(self, trainer):
            for learner in trainer.learners.values():
                if not hasattr(learner, "waits"):
                    own = learner.replay.sample

                    def sample(*arguments, own=own, **options):
                        time.sleep(seconds)
                        return own(*arguments, **options)

                    learner.replay.sample = sample

    return Slow()


SLOW = SACConfig(batch_size=16, learning_starts=100, train_every=1000, model={"hidden": (8,)})


@stops
def test_seconds_end_a_run_whose_iteration_takes_much_longer(tmp_path, capsys):
    arguments = {"env": "Pendulum-v1", "cfg": SLOW, "callbacks": [slow_learning(0.02)], "console": "plain"}
    began = time.monotonic()
    with make(run_dir=tmp_path, **arguments) as trainer:
        result = trainer.train({"seconds": 0.7})
        assert time.monotonic() - began < 4
        assert 0.7 <= result.seconds < 1.7
        assert (result.iteration, result.whole, trainer.iteration) == (0, False, 0)
        assert result.stop_reason.endswith("and seconds=0.7 ends it, in the middle of iteration 1")
        assert 0 < trainer.replays["main"].gradient_steps < 100
        assert trainer._interrupt.number is None  # what was asked is done
    assert not (tmp_path / "metrics.jsonl").exists() or not rows(tmp_path)
    assert "stopped: " in capsys.readouterr().out
    with Trainer.load(tmp_path, resume=True, console="plain") as trainer:
        before = trainer.replays["main"].gradient_steps
        assert trainer.train().stop_reason  # its time is up, so that nothing is to be done
        assert trainer.replays["main"].gradient_steps == before
        assert "nothing to do" in capsys.readouterr().out
        assert trainer.train({"iterations": 1}).whole
        assert trainer.replays["main"].gradient_steps == 1002  # three copies: whole vector steps
    assert [row["iteration"] for row in rows(tmp_path)] == [1]


@stops
@pytest.mark.slow
def test_seconds_end_an_iteration_on_policy_between_two_vector_steps(tmp_path):
    class Slow(Callback):
        def on_episode_step(self, episode):
            time.sleep(0.003)

    cfg = FAST.replace(fragment_length=5000)
    with make("CartPole-v1", tmp_path / "a", cfg=cfg, callbacks=[Slow()]) as trainer:
        result = trainer.train({"seconds": 0.5})
        assert not result.whole and 0.5 <= result.seconds < 1.5
        assert 0 < trainer.env_steps < 5000


@stops
def test_a_time_that_is_up_during_an_evaluation_ends_it_and_it_is_made_again(tmp_path):
    arguments = {"evaluation_every": 1, "evaluation_episodes": 2}
    with make("CartPole-v1", tmp_path / "whole", **arguments) as trainer:
        trainer.train({"iterations": 2})
        expected = rows(tmp_path / "whole")
    with make("CartPole-v1", tmp_path / "stopped", **arguments) as trainer:
        evaluate = trainer.evaluate

        def late():
            trainer._interrupt.time_is_up()
            return evaluate()

        trainer.evaluate = late
        result = trainer.train({"iterations": 2, "seconds": 1000})
        assert not result.whole
    with Trainer.load(tmp_path / "stopped", resume=True) as trainer:
        trainer.train({"iterations": 2})
    assert rows(tmp_path / "stopped") == expected


def test_a_signal_counts_more_than_the_time_and_the_next_training_begins_without_either():
    with make("CartPole-v1") as trainer:
        trainer._interrupt.number = TIME_UP
        with trainer._interrupt.watching():
            trainer._interrupt.time_is_up()
            signal.raise_signal(signal.SIGINT)
            assert trainer._interrupt.number == signal.SIGINT
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
        assert trainer.train({"iterations": 1}).whole
    assert not [thread for thread in threading.enumerate() if thread.name == "rookery-watch"]


@stops
def test_lines_come_in_the_middle_of_an_iteration_and_say_how_long_it_takes(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(console, "SILENCE", 0.2)
    monkeypatch.setattr(watch, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(watch, "MEASURED_SECONDS", 0.1)
    arguments = {"env": "Pendulum-v1", "cfg": SLOW, "callbacks": [slow_learning(0.01)], "console": "plain"}
    with make(**arguments) as trainer:
        trainer.train({"seconds": 1.0})
    shown = capsys.readouterr().out.splitlines()
    lines = [line for line in shown if line.startswith("iteration 1, ")]
    assert len(lines) >= 2
    assert (
        "gradient steps" in lines[-1] and "to make before sampling continues" in lines[-1] and "left of it" in lines[-1]
    )
    (told,) = [line for line in shown if line.startswith("note: an iteration takes about ")]
    assert "--stop seconds=1 ends within it" in told


@pytest.mark.regression("wrong result", "A run on data alone that was stopped has the rows of one that was not")
@pytest.mark.parametrize("call", ["learn", "collect"])
def test_learning_alone_and_playing_alone_have_the_same_rows_stopped_or_not(call, tmp_path, monkeypatch):
    monkeypatch.setattr("rookery.run.learn_or_collect.ITERATION", 60)
    found = []
    for stopped in (False, True):
        folder = tmp_path / str(stopped)
        with make("CartPole-v1", folder, cfg=REPLAYING, **LONG) as trainer:
            trainer.train({"iterations": 2})
            wanted = 150
            if stopped:
                if call == "learn":
                    stop_at(trainer, 75)
                else:
                    own = trainer._pool.sample

                    def sample(budget, own=own, trainer=trainer):
                        if trainer.env_steps >= 195:
                            trainer._interrupt.number = signal.SIGTERM
                        return own(budget)

                    trainer._pool.sample = sample
                before = trainer.replays["main"].gradient_steps, trainer.env_steps
                with pytest.raises(Interrupted):
                    getattr(trainer, call)(wanted)
                made = (
                    trainer.replays["main"].gradient_steps - before[0]
                    if call == "learn"
                    else trainer.env_steps - before[1]
                )
                assert 60 < made < 120
                wanted -= made
                trainer.close()
                trainer = Trainer.load(folder, resume=True)
            with trainer:
                getattr(trainer, call)(wanted)
                found.append((digest(trainer), weights(trainer), rows(folder)))
    assert found[0] == found[1]
    assert len(found[0][2]) == 5


@stops
@pytest.mark.slow
def test_learning_alone_ends_by_seconds_and_by_no_other_criterion(tmp_path):
    with make("CartPole-v1", tmp_path, cfg=REPLAYING, callbacks=[slow_learning(0.01)], **LONG) as trainer:
        trainer.train({"iterations": 2})
        with pytest.raises(ConfigError, match="learn: stop.return_mean: learn ends after"):
            trainer.learn(10, stop={"return_mean": 3})
        result = trainer.learn(5000, stop={"seconds": trainer._seconds + 0.4})
        assert not result.whole and result.stop_reason.endswith("in the middle of iteration 3")
        assert trainer.learn(10, stop={"seconds": 0.001}).stop_reason.startswith("0")  # nothing to do
    assert len(rows(tmp_path)) == 2
