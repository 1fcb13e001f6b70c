"""The time of a training is wall time, and checkpoints follow their schedule."""

from __future__ import annotations

import time

import pytest

from rookery import CheckpointConfig, PPOConfig, Trainer
from rookery.core import timers
from rookery.core.io.files import list_checkpoints
from rookery.core.timers import Clock
from rookery.rollout.hooks import EpisodeListener
from rookery.run.callbacks import Callback
from rookery.run.checkpoint.checkpoint_part import CheckpointPace

TINY = PPOConfig(fragment_length=8, epochs=1)


@pytest.fixture
def now(monkeypatch):
    """The time, in a list."""
    found = [100.0]
    monkeypatch.setattr(timers, "perf_counter", lambda: found[0])
    monkeypatch.setattr(time, "monotonic", lambda: found[0])
    return found


def test_laps_of_a_training_leave_out_only_what_somebody_else_holds(now):
    watch = Clock()
    with watch.running():
        now[0] += 2
        watch.begin()
        now[0] += 3
        assert watch.lap() == 5
        now[0] += 1  # a checkpoint
        with watch.held():
            now[0] += 50
        watch.begin()
        now[0] += 1
        assert watch.lap() == 2
    now[0] += 7
    watch.begin()
    now[0] += 1
    assert watch.lap() == 1


def due(now, cfg, seconds, iteration=1, took=0.0):
    """Returns whether to write a checkpoint a number of seconds after the last one, which took `took` seconds."""
    pace = CheckpointPace(cfg)
    with pace.writing():
        now[0] += took
    now[0] += seconds
    return pace.is_due(iteration)


def test_checkpoints_are_paced_by_iterations_by_seconds_or_by_what_they_cost(now):
    own = CheckpointConfig()
    assert not due(now, own, 4.9, iteration=10) and due(now, own, 5.1)
    assert not due(now, own, 39, took=2.0) and due(now, own, 41, took=2.0)
    exactly = CheckpointConfig(every=3)
    assert due(now, exactly, 0, iteration=6) and not due(now, exactly, 1e6, iteration=7)
    assert not due(now, CheckpointConfig(every=0), 1e6, iteration=10)
    both = CheckpointConfig(every=3, every_seconds=60)
    assert due(now, both, 0, iteration=6) and not due(now, both, 59, iteration=7) and due(now, both, 61, iteration=7)
    timed = CheckpointConfig(every_seconds=0.5)
    assert due(now, timed, 0.6, took=5.0)


class Slow(Callback):
    """Takes its time with every checkpoint."""

    def on_checkpoint(self, trainer, path):
        time.sleep(0.06)


def test_seconds_and_speed_count_the_writing_of_checkpoints(tmp_path):
    assert issubclass(Slow, EpisodeListener)
    with Trainer("CartPole-v1", TINY, num_envs=2, seed=1, run_dir=tmp_path, checkpoint_every=1, callbacks=[Slow()],
                 config={"logging.tensorboard": False}) as trainer:  # fmt: skip
        began = time.perf_counter()
        result = trainer.train({"minutes": 0.15 / 60})
        took = time.perf_counter() - began
    assert result.stop_reason.startswith("minutes ")
    assert result.iteration <= 4  # the third checkpoint passes the time, whatever iterations take beside them
    assert 0.15 <= result.seconds <= took
    assert trainer._seconds >= 0.06 * result.iteration
    assert result.steps_per_second < 16 / 0.06


def test_time_between_two_results_is_nobodys():
    trainer = Trainer("CartPole-v1", TINY, num_envs=2, seed=1)
    for result in trainer.results({"iterations": 3}):
        time.sleep(0.05)
    assert result.seconds < 0.1


def test_by_default_a_fast_run_writes_one_checkpoint(tmp_path):
    with Trainer("CartPole-v1", TINY, num_envs=2, seed=1, run_dir=tmp_path) as trainer:
        trainer.train({"iterations": 25})
    assert [path.name for path in list_checkpoints(tmp_path / "checkpoints")] == ["000025"]
