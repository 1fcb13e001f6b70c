"""Five healthy runs, trained here, go through the rules that play without a warning."""

import pytest

from rookery import DQNConfig, PPOConfig, SACConfig, Trainer
from rookery.doctor.examine_run import examine_run

RUNS = {
    "cartpole-ppo": ("CartPole-v1", PPOConfig(lr=1e-3), 40_000),
    "cartpole-dqn": ("CartPole-v1", DQNConfig(), 50_000),
    "pendulum-sac": ("Pendulum-v1", SACConfig(lr=1e-3), 10_000),
    "frozen-lake-dqn": ("FrozenLake-v1", DQNConfig(), 60_000),
    "arena-ppo": ("MultiAgentArena", PPOConfig(), 60_000),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_a_healthy_run_has_no_warning_by_play(name, tmp_path):
    env, algorithm, steps = RUNS[name]
    with Trainer(env, algorithm, num_envs=8, seed=0, run_dir=tmp_path / "run") as trainer:
        trainer.train(stop={"env_steps": steps})
    diagnosis = examine_run(tmp_path / "run", time_limit=60)
    assert diagnosis.facts
    assert [(one.rule, one.message) for one in diagnosis.findings if one.counts] == []
