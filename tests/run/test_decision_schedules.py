"""Schedules and stop criteria in decisions of a policy instead of env steps."""

from __future__ import annotations

from pathlib import Path

import pytest

import rookery
from rookery.algorithms.on_policy.ppo import PPOConfig
from rookery.core.errors import ConfigError
from rookery.core.schedules import Linear, Piecewise, read_schedule, write_schedule

BY_DECISIONS = {"start": 1e-3, "end": 0.0, "steps": 256, "by": "decisions"}


def made() -> rookery.Trainer:
    settings = PPOConfig(lr=BY_DECISIONS, fragment_length=32, minibatch_size=64, epochs=1)
    return rookery.Trainer("CartPole-v1", settings, seed=1, num_envs=2)


def test_a_schedule_reads_and_writes_what_its_steps_are() -> None:
    for written in (BY_DECISIONS, {"points": [[0, 1.0], [10, 0.5]], "by": "decisions"}):
        assert write_schedule(read_schedule(written)) == written
    assert "by" not in write_schedule(Linear(1.0, 0.0, 10))
    with pytest.raises(ConfigError, match="lacks steps"):
        Linear(1.0, 0.0, by="decisions")
    with pytest.raises(ConfigError, match="did you mean 'decisions'"):
        Piecewise(((0, 1.0),), by="decision")


def test_the_rate_falls_with_what_the_policy_has_learned_from(tmp_path: Path) -> None:
    with made() as trainer:
        learner = trainer.learners["main"]
        for _ in range(2):
            trainer.train_iteration()
            counted = trainer._decisions["main"]
            assert learner.decisions == counted
            assert learner.now().lr == pytest.approx(1e-3 * (1 - counted / 256))
        saved = trainer.save(tmp_path / "saved")
        row = trainer.train_iteration().row()
    with rookery.Trainer.load(saved) as again:
        assert again.learners["main"].decisions == counted
        other = again.train_iteration().row()
    drop = [key for key in row if key.startswith("time/")]
    assert {key: value for key, value in row.items() if key not in drop} == {
        key: value for key, value in other.items() if key not in drop
    }


@pytest.mark.parametrize("name", ["decisions", "policies/main/decisions"])
def test_a_run_stops_by_decisions(name: str) -> None:
    with made() as trainer:
        result = trainer.train(stop={name: 128})
    assert result.policies["main"].decisions >= 128 > result.policies["main"].decisions - 64
    with made() as trainer, pytest.raises(ConfigError, match="above 0"):
        trainer.train(stop={"decisions": 0})
