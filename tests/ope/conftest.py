"""Data and runs for off-policy evaluation: CartPole for a few steps, by policies that have hardly learned."""

from __future__ import annotations

import pytest

from rookery import DQNConfig, ModelConfig, PPOConfig, TD3BCConfig, Trainer, record_replay

TINY = ModelConfig(hidden=(8,))


@pytest.fixture(scope="session")
def poles_run(tmp_path_factory):
    """A run of PPO that was saved before it had learned anything."""
    place = tmp_path_factory.mktemp("judged") / "poles"
    with Trainer("CartPole-v1", PPOConfig(model=TINY), seed=0, run_dir=place, console="quiet") as trainer:
        trainer.save()
    return place


@pytest.fixture(scope="session")
def poles(poles_run, tmp_path_factory):
    """40 episodes of it, of drawn actions."""
    place = tmp_path_factory.mktemp("judged") / "drawn"
    record_replay("CartPole-v1", poles_run, 40, place, deterministic=False, max_episode_steps=20)
    return place


@pytest.fixture(scope="session")
def swings(tmp_path_factory):
    """10 episodes of Pendulum by PPO, of drawn actions; and the run."""
    folder = tmp_path_factory.mktemp("judged")
    with Trainer("Pendulum-v1", PPOConfig(model=TINY), seed=0, run_dir=folder / "run", console="quiet") as trainer:
        trainer.save()
    record_replay("Pendulum-v1", folder / "run", 10, folder / "data", deterministic=False, max_episode_steps=15)
    return folder / "run", folder / "data"


@pytest.fixture(scope="session")
def held(swings, tmp_path_factory):
    """A run of TD3+BC on these, which is deterministic."""
    place = tmp_path_factory.mktemp("judged") / "held"
    settings = TD3BCConfig(model=TINY, batch_size=8)
    with Trainer(None, settings, replay=swings[1], seed=0, run_dir=place, console="quiet") as trainer:
        trainer.learn(2)
    return place


@pytest.fixture(scope="session")
def valued(tmp_path_factory):
    """A run of DQN, whose replay has probabilities of its play."""
    place = tmp_path_factory.mktemp("judged") / "valued"
    settings = DQNConfig(model=TINY, learning_starts=100, batch_size=8)
    with Trainer("CartPole-v1", settings, seed=0, run_dir=place, num_envs=4, console="quiet") as trainer:
        trainer.train({"env_steps": 600})
    return place
